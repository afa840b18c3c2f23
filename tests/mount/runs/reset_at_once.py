#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A reset that arrives while a run is only just beginning ends it, and resets."""
from xsbx import *

ROUNDS = 60


def at_once(verb):
    s = Session(verb.replace("\n", "-"), config="timeout_s = 60\n")
    wrong = []
    for _ in range(ROUNDS):
        s.run("x=1\n")
        n = s.runs()[-1] + 1
        s.submit("read -r line < <(sleep 600)\n")
        s.wait_run(n, "running")
        s.ctl(verb)
        got = (s.text(f"runs/{n}/wait").strip(), s.run("echo ${x:-none}\n").out.strip())
        if got != ("137", "none"):
            wrong.append(got)
    same(f"{verb!r}: all of {ROUNDS}", wrong, [])


def kill_and_reset():
    at_once("kill\nreset")


def reset():
    at_once("reset")


main(kill_and_reset, reset)
