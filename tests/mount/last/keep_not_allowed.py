#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A session that a mount does not allow stays as it is in the state directory, with what was saved of it, until it is removed."""
# backends: local process
# timeout: 400
# log-allow: are not allowed in this mount
import glob
import json
import subprocess

from kept import *

LESS = "max_memory_mb=256"


def saved(k):
    return sorted(os.path.basename(os.path.dirname(p)) for p in glob.glob(f"{k.state}/saved/*/pack"))


def other(k, name):
    """Something else is written, and what nobody has any more is removed."""
    k.make(name)
    k.written(name)


def failed(k, names):
    for name in names:
        s = k.there(name)
        same(f"{name} is not allowed", s.word(), "failed")
        has("... in words", s.text("error"), "until then it stays as it is in state_dir")


def not_had(k, name, checkpoint):
    """The session is there, and goes on; its checkpoint alone is of no use."""
    s = k.there(name)
    same(f"{name} is allowed", s.word(), "asleep")
    status = json.loads(s.text(f"checkpoints/{checkpoint}/status.json"))
    same("its checkpoint is not", status["state"], "failed")
    has("... in words", status["problem"]["cause"], "settings are not allowed in this mount")


def taken_over(k):
    done = subprocess.run([os.environ["XSBXFS"], "--takeover", k.mnt], capture_output=True, stdin=subprocess.DEVNULL)
    same("it is taken over", done.returncode, 0)


def stays():
    """One sleeps, one has a checkpoint, one is a copy of that."""
    k = Kept("stays")
    s = k.make("sleeper", "memory_mb = 300\n")
    s.run("echo asleep > f\n")
    s = k.make("points", "memory_mb = 300\n")
    s.run("echo one > f\n")
    os.mkdir(s / "checkpoints/c")
    same("a checkpoint", read(s / "checkpoints/c/wait"), b"whole\n")
    k.make("copy", "from = points@c\n").run("cat f\n")
    s.ctl("close")
    s.ctl("reset")
    write(s / "config", "memory_mb = 200\n")
    same("it goes on with less", s.run("echo two > g\n").code, 0)
    same("it ends", k.end(), 0)
    there = saved(k)
    same("what was saved", len(there), 4)

    names = ("sleeper", "copy")
    for i in range(2):
        k.begin(LESS)
        failed(k, names)
        not_had(k, "points", "c")
        other(k, f"other{i}")
        same("it is there", saved(k), there)
        same("it ends", k.end(), 0)
        same("it is there still", saved(k), there)

    k.begin(LESS)
    taken_over(k)
    failed(k, names)
    not_had(k, "points", "c")
    other(k, "more")
    same("it is there, behind a takeover", saved(k), there)
    k.there("copy").remove()
    other(k, "again")
    ok("what it had alone goes with it", wait_for(lambda: len(saved(k)) == 3, 10 * SLOW), saved(k))
    same("it ends", k.end(), 0)

    k.begin()
    same("all is as it was", [k.there(n).word() for n in ("sleeper", "points")], ["asleep", "asleep"])
    same("what sleeps", k.there("sleeper").run("cat f\n").out, "asleep\n")
    s = k.there("points")
    same("what was saved last", s.run("cat g\n").out, "two\n")
    s.ctl("restore c")
    same("the checkpoint", s.run("cat f\n").out, "one\n")
    same("it ends", k.end(), 0)


def goes():
    """Removed where it is not allowed."""
    k = Kept("goes")
    s = k.make("demo", "memory_mb = 300\n")
    s.run("echo one > f\n")
    os.mkdir(s / "checkpoints/c")
    same("a checkpoint", read(s / "checkpoints/c/wait"), b"whole\n")
    s.run("echo two > f\n")
    same("it ends", k.end(), 0)
    same("what was saved", len(saved(k)), 2)
    k.begin(LESS)
    failed(k, ["demo"])
    k.there("demo").remove()
    ok("nothing is left", wait_for(lambda: not saved(k) and not glob.glob(f"{k.state}/sessions/raw/*"), 10 * SLOW),
       saved(k))
    same("it ends", k.end(), 0)


main(stays, goes)
