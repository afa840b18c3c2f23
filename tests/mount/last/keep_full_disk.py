#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""keep = yes: a disk of the state directory that is full, or lets nothing be written any more, is told of once, and tried again; what is
lost by that is said at the next mount."""
# backends: local process vm
# night: local vm
# timeout: 300
# log-allow: can't be written
# log-allow: not all that sessions had
# log-allow: not written to state_dir
# log-allow: was not written
import errno

from kept import *

LARGE = "head -c 400000 /dev/urandom > large\n" # which no reserve is for


def small_disk(name):
    if os.geteuid() != 0:
        skip("needs root, to mount a small disk")
    state = f"{SCRATCH}/{name}.state"
    os.makedirs(state, 0o700)
    if shell(f"mount -t tmpfs -o size={128 if VM else 4}m,mode=700 none {state}")[0]:
        skip("no file system could be mounted")
    return state


def fill(state):
    for size in 1 << 20, 1 << 16, 64:
        with contextlib.suppress(OSError), open(f"{state}/filler", "ab", buffering=0) as file:
            while True:
                file.write(b"x" * size)


def full_disk():
    state = small_disk("full")
    k = Kept("full", state=state)
    s = k.make("demo")
    s.run("echo x > f\n")
    k.written("demo")
    fill(state)
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


def says(what, s, *parts):
    text = s.text("error")
    for part in "not-kept", *parts:
        has(what, text, part)


def slept_and_made(name):
    """One that sleeps, and a new one, on the disk as they are."""
    state = small_disk(name)
    k = Kept(name, state=state)
    slept, made = k.make("slept"), k.make("made")
    slept.run("echo before > f\n")
    slept.ctl("sleep")
    ok("it is asleep", wait_for(lambda: slept.word() == "asleep", 20 * SLOW))
    k.written("slept")
    k.written("made")
    return state, k, slept, made


def lost():
    """What is lost at the end is said at the next mount, for there is room on the disk for that alone; as long as the disk is full
    the root says so, and the end is no success."""
    state, k, slept, made = slept_and_made("lost")
    ok("there is a reserve", os.stat(f"{state}/reserve").st_size > 0)
    fill(state)
    made.run(LARGE)
    slept.run("echo after > f; " + LARGE)
    late = k.make("late")
    late.run(LARGE)
    ok("it is full", wait_for(lambda: "not-kept" in read(f"{k.mnt}/error", "r"), 20 * SLOW), read(f"{k.mnt}/error", "r"))
    k.make("later")
    has("which is so still", read(f"{k.mnt}/error", "r"), "not-kept")
    time.sleep(3)
    same("the end is no success", k.end(), 1)
    has("and says so", read(k.log, "r"), "not all that sessions had is kept")
    ok("and nothing else", "asleep, and written" not in read(k.log, "r"), read(k.log, "r"))
    os.unlink(f"{state}/filler")
    k.begin()
    for name in "made", "late":
        same(f"{name} is closed", k.there(name).word(), "closed")
        says(f"{name} says why", k.there(name), "are lost", os.strerror(errno.ENOSPC))
    slept = k.there("slept")
    same("the other sleeps", (slept.word(), slept.runs()), ("asleep", [1, 2]))
    says("and says since when, and why", slept, "as it was when", os.strerror(errno.ENOSPC))
    same("it is what it was", slept.run("cat f\n").out, "before\n")
    k.end()
    shell(f"umount {state}")


def killed():
    """... also if nobody comes to say it at the end."""
    state, k, slept, made = slept_and_made("killed")
    fill(state)
    made.run("echo precious > f\n")
    slept.run("echo after > f\n")
    k.written("made")
    k.power_cut()
    os.unlink(f"{state}/filler")
    k.begin()
    same("it is closed", k.there("made").word(), "closed")
    says("and says why", k.there("made"), "are lost")
    same("the other sleeps", k.there("slept").word(), "asleep")
    says("and says since when", k.there("slept"), "as it was when")
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


main(full_disk, *(() if VM else (lost, killed, read_only)))
