#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program that stops all others as often as it can: what it keeps from starting ends in time, and so does the
sandbox's patience, not the sandbox."""
# backends: process
import re
import time

from xsbx import *

STOPS = """
import os, time
until = time.time() + 8
while time.time() < until:
    try:
        os.kill(-1, 19)
    except ProcessLookupError:
        pass
"""


def stopped():
    s = Session("stopped", "python", config="timeout_s = 2\ngrace_s = 0\n")
    s.run("pass\n")
    os.mkdir(s / "jobs/stops")
    write(s / "jobs/stops/config", "language = python\ntimeout_s = 20\n")
    write(s / "jobs/stops/in", STOPS)
    time.sleep(0.5)
    began = time.monotonic()
    for i in range(8):
        os.mkdir(s / f"jobs/{i}")
        write(s / f"jobs/{i}/config", "argv = sleep 100\ntimeout_s = 1\n")
        write(s / f"jobs/{i}/ctl", "start\n")
    write(s / "in", "while True: pass\n")
    codes = [int(read(s / f"jobs/{i}/exit_code")) for i in range(8)]
    same("all end for their time", codes, [124] * 8)
    took = time.monotonic() - began
    ok("in their time", took < 7 * slack(), took)
    try:
        same("the run as well", int(read(s / "exit_code")), 124)
    except OSError:
        ok("or it was refused", s.word() == "failed", s.word())
    # Where a sandbox has a single id, who watches the program was stopped as well.
    ok("the one that stopped them ends", read(s / "jobs/stops/exit_code") in (b"0\n", b"124\n"))
    ok("the sandbox is there", wait_for(lambda: s.run("print(1)\n").out == "1\n", 20 * slack()), s.text("error"))
    os.mkdir(s / "jobs/after")
    write(s / "jobs/after/in", "echo after\n")
    same("and takes jobs", read(s / "jobs/after/stdout"), b"after\n")


def numbers():
    """Where a jail has numbers of processes of its own, they are few enough to be tried one by one."""
    s = Session("numbers")
    release = [int(n) for n in re.match(r"(\d+)\.(\d+)", os.uname().release).groups()]
    if release < [6, 14]:
        print("numbers of processes are the host's on this kernel")
        return
    same("how many there are", s.run("cat /proc/sys/kernel/pid_max\n").out, "32768\n")


main(stopped, numbers)
