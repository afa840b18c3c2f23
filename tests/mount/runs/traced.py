#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Code that has its parent trace it, which is the agent, is not taken for ended when it stops: it goes on untraced."""
# backends: local process vm
# timeout: 120
from xsbx import *

# In a jail it is refused; what follows is the same then.
TRACED = "import ctypes, os, signal; x = 5; ctypes.CDLL(None).ptrace(0, 0, 0, 0)\n"
CASES = (
    ("a signal with a handler", "signal.signal(signal.SIGUSR1, lambda *_: print('heard', flush=True))\n"
     "os.kill(os.getpid(), signal.SIGUSR1)\nprint('after')\n", "heard\nafter\n", 0, "5\n"),
    ("a signal that is ignored", "signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"
     "os.kill(os.getpid(), signal.SIGUSR1)\nprint('after')\n", "after\n", 0, "5\n"),
    ("a signal that ends it", "os.kill(os.getpid(), signal.SIGUSR1)\n", "", 128 + signal.SIGUSR1, "None\n"),
    ("another program", "os.execv('/bin/sh', ['sh', '-c', 'echo there; exit 3'])\n", "there\n", 3, "None\n"),
)


def main_test():
    for name, code, out, status, kept in CASES:
        s = Session("traced", "python")
        result = s.run(TRACED + code)
        same(name, (result.out, result.code), (out, status))
        same(f"{name}: what is left", s.run("print(globals().get('x'))\n").out, kept)
        s.remove()


main(main_test)
