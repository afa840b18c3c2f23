#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon dies while it reads the state directory: that mount comes to nothing, and the next one finds all that there was."""
# mount: none
# backends: local
# timeout: 120
# log-allow: was killed by signal|the daemon died
from aim import *
from kept import Kept

MANY = 6


def begin(k, aim):
    k.daemon = aim.start(k.mnt, "keep=yes", f"state_dir={k.state}", log=k.log)


def all_there(k, what):
    same(f"{what}: all are there", sorted(n for n in os.listdir(f"{k.mnt}/raw") if "." not in n), [f"s{n}" for n in range(MANY)])
    for n in range(MANY):
        s = k.there(f"s{n}")
        same(f"{what}: s{n}", (s.word(), read(s / "files/f", "r"), s.text("runs/1/stdout")), ("asleep", f"{n}\n", f"out {n}\n"))


def while_it_loads():
    k, aim = Kept("load", wait=False), Aim("load.aim")
    begin(k, aim)
    for n in range(MANY):
        same("a run", k.make(f"s{n}").run(f"echo {n} > f; echo out {n}\n").code, 0)
    same("it ends", k.end(), 0)
    for signum in signal.SIGKILL, signal.SIGABRT:
        for passes in 0, MANY // 2, MANY - 1:
            what = f"{signum.name} behind {passes + 1}"
            aim.at("kept: is read, raw/s", signum, passes=passes)
            try:
                begin(k, aim)
            except RuntimeError:
                pass
            else:
                fail(f"{what}: it serves")
                k.end()
            same(f"{what}: one has died", aim.rest(), 1)
            ok(f"{what}: no mount is left", wait_for(lambda: not mounted(k.mnt), 10))
            begin(k, aim)
            all_there(k, what)
            same(f"{what}: the end", k.end(), 0)
    begin(k, aim)
    same("one goes on", k.there("s3").run("cat f\n").out, "3\n")
    same("it ends", k.end(), 0)


main(while_it_loads)
