#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A session that is paused, though a timer has woken something in it, is paused behind a checkpoint as before."""
# backends: local process vm
# night: vm
# timeout: 120
import time

from xsbx import *

need_language("python")
BEAT = """
import time
while True:
    with open("beat", "a") as f:
        f.write("x")
    time.sleep(.02)
"""
WOKEN = """
import ctypes, signal, time
class Event(ctypes.Structure):
    _fields_ = [('value', ctypes.c_void_p), ('number', ctypes.c_int), ('how', ctypes.c_int), ('pad', ctypes.c_byte * 48)]
libc, timer = ctypes.CDLL(None), ctypes.c_void_p()
make = getattr(libc, 'timer_create', None) or ctypes.CDLL('librt.so.1').timer_create
arm = getattr(libc, 'timer_settime', None) or ctypes.CDLL('librt.so.1').timer_settime
assert make(1, ctypes.byref(Event(None, signal.SIGCONT, 0)), ctypes.byref(timer)) == 0
assert arm(timer, 0, (ctypes.c_long * 4)(0, EVERY * 1000000, 1, 0), None) == 0
while True:
    with open("woken", "a") as f:
        f.write("x")
    time.sleep(.02)
"""
BEGIN = """
import subprocess, sys
def begin(code):
    null = subprocess.DEVNULL
    return subprocess.Popen([sys.executable, "-c", code], stdin=null, stdout=null, stderr=null)
"""


def size(s, name):
    try:
        return os.stat(s / f"files/{name}").st_size
    except FileNotFoundError:
        return 0


def grows(s, name, seconds=10):
    was = size(s, name)
    return wait_for(lambda: size(s, name) > was, seconds)


def scene(name, every):
    """Paused, and one of its two programs runs."""
    s = Session(name, "python", "timeout_s = 60\n")
    s.run(BEGIN + f"begin({BEAT!r}); begin({WOKEN.replace('EVERY', str(every))!r})\n")
    ok("control: both run", grows(s, "beat") and grows(s, "woken"))
    s.ctl("pause")
    ok("it is paused", wait_for(lambda: s.word() == "paused"))
    ok("control: one is woken", grows(s, "woken"))
    return s


def is_paused(s):
    same("it is paused", s.word(), "paused")
    same("and nothing is said", s.text("error"), "")
    was = size(s, "beat")
    time.sleep(1)
    same("the other one has not run", size(s, "beat"), was)


def once():
    s = scene("once", 0)
    is_paused(s)
    os.mkdir(s / "checkpoints/a")
    same("it is saved", read(s / "checkpoints/a/wait"), b"whole\n")
    is_paused(s)
    was = size(s, "woken")
    time.sleep(0.5)
    same("nor has that one", size(s, "woken"), was)
    s.ctl("resume")
    ok("all goes on", grows(s, "beat") and grows(s, "woken"))


def again_and_again():
    """It may be saved, or not, and what can't be stopped any more is not paused: what `state` says is so."""
    for every in (20, 1):
        s = scene(f"every{every}", every)
        os.mkdir(s / "checkpoints/a")
        try:
            read(s / "checkpoints/a/wait")
        except OSError as e:
            same("it is not saved", e.errno, errno.EIO)
            has("and why", s.json("checkpoints/a/status.json")["problem"]["cause"], "stopped")
        if s.word() == "paused":
            was = size(s, "beat")
            time.sleep(1)
            same("the other one has not run", size(s, "beat"), was)
            s.ctl("resume")
        else:
            same("it is idle", s.word(), "idle")
            has("that is said", s.text("error"), "stopped")
        ok("all goes on", grows(s, "beat"))


main(once, again_and_again)
