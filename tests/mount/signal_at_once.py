#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill, reset and interrupt that arrive while a run is only just beginning do what they always do."""
# backends: local vm
# timeout: 240
from xsbx import *

ROUNDS = 60


def at_once(verb, status, kept):
    s = Session(verb.replace("\n", "-"), config="timeout_s = 10\n")
    wrong = []
    for _ in range(ROUNDS):
        s.run("x=1\n")
        n = s.runs()[-1] + 1
        s.submit("read -r line < <(sleep 600)\n")
        s.wait_run(n, "running")
        s.ctl(verb)
        got = (s.text(f"runs/{n}/wait").strip(), s.run("echo ${x:-none}\n").out.strip())
        if got != (status, "1" if kept else "none"):
            wrong.append(got)
    same(f"{verb!r}: all of {ROUNDS}", wrong, [])


def kill():
    at_once("kill", "137", False)


def kill_and_reset():
    at_once("kill\nreset", "137", False)


def reset():
    at_once("reset", "137", False)


def interrupt():
    at_once("interrupt", "130", True)


main(kill, kill_and_reset, reset, interrupt)
