#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""keep = yes: a disk of the state directory that is full, or lets nothing be written any more, is told of once, and tried again."""
# backends: local process vm
# timeout: 200
# log-allow: can't be written
import errno

from kept import *


def full_disk():
    if os.geteuid() != 0:
        skip("needs root, to mount a small disk")
    state = f"{SCRATCH}/full.state"
    os.makedirs(state, 0o700)
    if shell(f"mount -t tmpfs -o size={128 if VM else 2}m,mode=700 none {state}")[0]:
        skip("no file system could be mounted")
    k = Kept("full", state=state)
    s = k.make("demo")
    s.run("echo x > f\n")
    k.written("demo")
    write(f"{state}/filler", b"x" * (1 << 20))
    with contextlib.suppress(OSError), open(f"{state}/filler", "ab", buffering=0) as file:
        while True:
            file.write(b"x" * 65536)
    with contextlib.suppress(OSError), open(f"{state}/filler", "ab", buffering=0) as file:
        while True:
            file.write(b"x" * 64)
    if not VM:
        os.mkdir(s / "checkpoints/c")
        is_not_kept(s)
        same("with what there was", read(s / "checkpoints/c/files/f"), b"x\n")
    s.run(LONG)
    ok("it is said", wait_for(lambda: "not-kept" in s.text("error"), 10), s.text("error"))
    has("in the root too", read(f"{k.mnt}/error", "r"), "not-kept")
    same("it goes on", s.run("cat f\n").out, "x\n")
    os.unlink(f"{state}/filler")
    ok("that is told", wait_for(lambda: "can be written to state_dir again" in read(k.log, "r"), 20))
    if not VM:
        ok("it is kept then", wait_for(lambda: not s.text("checkpoints/c/error"), 20), s.text("checkpoints/c/error"))
        same("which is waited for", read(s / "checkpoints/c/wait"), b"whole\n")
        same("and it has no problem", s.json("checkpoints/c/status.json")["problem"], None)
    same("once, and the end of it", (read(k.log, "r").count("can't be written"), read(k.log, "r").count("again")), (1, 1))
    ok("its problem is gone", wait_for(lambda: "not-kept" not in s.text("error"), 20), s.text("error"))
    ok("that of the root too", "not-kept" not in read(f"{k.mnt}/error", "r"), read(f"{k.mnt}/error", "r"))
    k.again()
    s = k.there("demo")
    same("and it is there", (s.word(), s.runs()), ("asleep", [1, 2, 3]))
    ok("without what was so then", "not-kept" not in s.text("error"), s.text("error"))
    if not VM:
        same("so is the checkpoint", s.json("checkpoints/c/status.json")["state"], "whole")
        s.run("echo y > f\n")
        s.ctl("restore c")
        same("to go back to", s.run("cat f\n").out, "x\n")
    k.end()
    shell(f"umount {state}")


def is_not_kept(s):
    """A checkpoint that is whole, and not on the disk: whoever waits for that is told so, and what there is can be used."""
    with raises("whoever waits is told", errno.ENOSPC, errno.EROFS, errno.EIO):
        read(s / "checkpoints/c/wait")
    has("why not", s.text("checkpoints/c/error"), "not-kept")
    status = s.json("checkpoints/c/status.json")
    same("it is whole, with a problem", (status["state"], status["problem"]["code"]), ("whole", "not-kept"))
    has("and so is the session", s.text("error"), "not-kept")


def may_write(path):
    try:
        write(path, "x")
    except OSError:
        return False
    return True


def read_only():
    """As ext4 becomes when its disk fails."""
    state, image = f"{SCRATCH}/ro.state", f"{SCRATCH}/ro.image"
    os.makedirs(state, 0o700)
    made = f"truncate -s 16M {image} && mkfs.ext4 -q -O ^has_journal {image} && mount -o loop {image} {state}"
    if os.geteuid() or shell(made)[0]:
        print("(no file system that becomes read-only could be mounted)")
        return
    os.chmod(state, 0o700)
    k = Kept("ro", state=state)
    s = k.make("demo")
    s.run("echo x > f\n")
    k.written("demo")
    # Who has it open to write is not asked. That fails, for it is read-only then.
    shell(f"mount -o remount,abort {state}")
    if may_write(f"{state}/trial"):
        print("(it could not be made read-only)")
    else:
        os.mkdir(s / "checkpoints/c")
        is_not_kept(s)
        same("with what there was", read(s / "checkpoints/c/files/f"), b"x\n")
        s.run("echo y > f\n")
        s.ctl("restore c")
        same("to go back to", s.run("cat f\n").out, "x\n")
        has("in the root too", read(f"{k.mnt}/error", "r"), "not-kept")
    k.end()
    shell(f"umount {state}")


main(full_disk, *(() if VM else (read_only,)))
