#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes that /proc hides belong to the job that has started them, and to nothing else."""
# backends: process
from xsbx import *

# Undumpable, and its first thread has ended.
HIDES = """
import ctypes, os, threading, time
libc = ctypes.CDLL(None)
def beat():
    n = 0
    while True:
        n += 1
        with open("beat", "w") as f: f.write(str(n))
        time.sleep(0.05)
threading.Thread(target=beat).start()
libc.prctl(4, 0, 0, 0, 0)
libc.syscall(60 if os.uname().machine == "x86_64" else 93, 0)
"""


def beats(s):
    def beat():
        try:
            return read(s / "files/beat")
        except FileNotFoundError:
            return b""

    first = beat()
    return wait_for(lambda: beat() != first, 0.5)


def of_a_job():
    s = Session("hidden", "python", config="timeout_s = 2\n")
    s.run("pass\n")
    os.mkdir(s / "jobs/a")
    write(s / "jobs/a/config", "language = python\ntimeout_s = 0\n")
    write(s / "jobs/a/in", HIDES)
    ok("it goes on", wait_for(lambda: beats(s), 20))
    same("a run that is killed", s.run("while True: pass\n").code, 124)
    same("and the next one", s.run("print(1)\n").out, "1\n")
    ok("leave it alone", beats(s))
    os.rmdir(s / "jobs/a")
    ok("it goes with its job", wait_for(lambda: not beats(s), 20))
    same("the session does not", s.run("print(2)\n").out, "2\n")


main(of_a_job)
