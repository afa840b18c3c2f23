#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill, reset and interrupt that arrive while a run is only just beginning do what they always do."""
# backends: local vm
# night: vm
# timeout: 240
from xsbx import *

ROUNDS = 60


SHELL = ("raw", "x=1\n", "read -r line < <(sleep 600)\n", "echo ${x:-none}\n")
PYTHON = ("python", "x = 1\n", "import time; time.sleep(600)\n",
          "print(globals().get('x', 'none'))\n")
JAVASCRIPT = ("javascript", "var x = 1\n", "for (;;) {}\n", "console.log(globalThis.x ?? 'none')\n")


def at_once(verb, status, kept, what=SHELL):
    template, before, code, after = what
    s = Session(verb.replace("\n", "-"), template, config="timeout_s = 60\n")
    wrong = []
    for _ in range(ROUNDS):
        s.run(before)
        n = s.runs()[-1] + 1
        s.submit(code)
        s.wait_run(n, "running")
        s.ctl(verb)
        got = (s.text(f"runs/{n}/wait").strip(), s.run(after).out.strip())
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
    # bash 5.2 has a moment, when it begins to wait for a child, in which a SIGINT makes it signal itself
    # for ever: not something to be tested here.
    at_once("interrupt", "130", True, PYTHON)


def interrupt_javascript():
    at_once("interrupt", "130", True, JAVASCRIPT)


SLOW = """import sys, threading, time
class Slow:
    def invalidate_caches(self):
        time.sleep(0.5)
sys.path_importer_cache['/slow'] = Slow()
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
"""


def interrupt_before_it_is_ready():
    """The driver asks what was imported before it runs the code, and that takes long."""
    s = Session("slow", "python", config="timeout_s = 20\n")
    s.run(SLOW)
    s.submit("time.sleep(600)\n")
    s.wait_run(2, "running")
    s.ctl("interrupt")
    same("a run that is interrupted before its driver is ready", s.text("runs/2/wait").strip(), "130")


main(kill, kill_and_reset, reset, interrupt, interrupt_javascript, interrupt_before_it_is_ready)
