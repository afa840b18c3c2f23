#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Code in a sandbox can't use up what the kernel counts for the one who made the sandbox: the same
attempt, made here, gets further, and still does while the sandbox has all that it can get."""
# backends: process
# timeout: 60
from xsbx import *

MOST = 2000

# Takes as many as it can get, says how many, and keeps them.
INOTIFY = f"""
import ctypes
libc = ctypes.CDLL(None)
n = 0
while n < {MOST} and libc.inotify_init1(0) >= 0:
    n += 1
print(n, flush=True)
"""
TIMERS = f"""
import ctypes
libc = ctypes.CDLL(None)
n, timer = 0, ctypes.c_long()
while n < {MOST} and libc.timer_create(1, None, ctypes.byref(timer)) == 0:
    n += 1
print(n, flush=True)
"""


def outside(code):
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return int(done.stdout)


def counters():
    for what, code, most in (("inotify", INOTIFY, 16), ("timers", TIMERS, 1024)):
        before = outside(code)
        ok(f"control: {what}: there are more outside", before > most, before)
        s = Session(what, "python")
        n = int(s.run(code).out)
        ok(f"{what}: a sandbox gets some, and has a limit", most // 2 < n <= most, n)
        ok(f"{what}: those outside have theirs", outside(code) > most, (before, n))


def no_ipv6():
    s = Session("network", config="network = yes\n")
    has("control: there is a card", s.run("cat /proc/net/dev\n").out, "eth0:")
    same("no card has IPv6", "eth0" in s.run("cat /proc/net/if_inet6\n").out, False)


main(counters, no_ipv6)
