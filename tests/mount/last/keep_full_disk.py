#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""keep = yes: a disk of the state directory that is full is told of once, and tried again."""
# backends: local process vm
# timeout: 200
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
    s.run(LONG)
    ok("it is said", wait_for(lambda: "not-kept" in s.text("error"), 10), s.text("error"))
    has("in the root too", read(f"{k.mnt}/error", "r"), "not-kept")
    same("it goes on", s.run("cat f\n").out, "x\n")
    os.unlink(f"{state}/filler")
    wait_for(lambda: "can be written to state_dir again" in read(k.log, "r"), 20)
    same("once, and the end of it", (read(k.log, "r").count("can't be written"), read(k.log, "r").count("again")), (1, 1))
    k.again()
    same("and it is there", (k.there("demo").word(), k.there("demo").runs()), ("asleep", [1, 2, 3]))
    k.end()
    shell(f"umount {state}")


main(full_disk)
