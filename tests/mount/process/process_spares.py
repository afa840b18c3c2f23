#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Process sandboxes have one interpreter, and others in reserve only when it had to be replaced once."""
# backends: process
# timeout: 60
from xsbx import *


def interpreters(s):
    """How many there are in this sandbox, as the host sees it."""
    agent = s.json()["sandbox"]["pid"]
    children = read(f"/proc/{agent}/task/{agent}/children").decode().split()
    return len(children)


def one(s, what):
    """Longer than it takes to make others."""
    time.sleep(2)
    same(what, interpreters(s), 1)


def python():
    s = Session("python", "python")
    same("a run", s.run("print(1)\n").out, "1\n")
    one(s, "one interpreter")
    s.ctl("reset")
    same("after a reset", s.run("print(2)\n").out, "2\n")
    ok("others are kept", wait_for(lambda: interpreters(s) == 3, 20), interpreters(s))
    s.ctl("reset")
    same("and one of them takes over", s.run("print(3)\n").out, "3\n")
    ok("... whose place is filled", wait_for(lambda: interpreters(s) == 3, 20), interpreters(s))


def pooled():
    """What comes from the pool was exercised, and is no different."""
    s = Session("first", "python")
    same("a run", s.run("print(1)\n").out, "1\n")
    ok("there is a pool", wait_for(lambda: any(x["pool"]["ready"] for x in json.loads(read(f"{MNT}/status.json"))["snapshots"]), 20))
    s = Session("second", "python")
    same("a run in one of it", s.run("print(1)\n").out, "1\n")
    same("it is of the pool", s.json()["sandbox"]["start"], "warm")
    one(s, "one interpreter there")


def killed():
    """Whose interpreter is killed with a run gets another one, and a reserve from then on."""
    s = Session("killed", "python", config="timeout_s = 1\n")
    same("a run that takes too long", s.run("while True: pass\n").code, 124)
    same("the next", s.run("print(4)\n").out, "4\n")
    ok("others are kept then", wait_for(lambda: interpreters(s) == 3, 20), interpreters(s))


main(python, pooled, killed)
