#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`clock`: a machine's time begins when it is told to, runs on through sleep, or begins anew with each run; nobody sets it right.
With `seed` beside it, a run is the same in another machine; without, it is not."""
# backends: vm
# timeout: 240
from xsbx import *

FIRST = 1767225600  # 2026-01-01T00:00:00
NOW = "date +%s.%N\n"


def now(s):
    return float(s.run(NOW).out)


def running():
    s = Session("running", config="clock = 2026-01-01T00:00:00\n")
    before = time.monotonic()
    t = now(s)
    ok("it begins then", FIRST <= t < FIRST + 60, t - FIRST)
    time.sleep(1.5)
    later = now(s)
    ok("it runs", t < later <= t + time.monotonic() - before + 0.5, (later - t))
    s.run("touch x\n")
    ok("files have its time", FIRST <= os.stat(s / "files/x").st_mtime < FIRST + 120, os.stat(s / "files/x").st_mtime)
    s.ctl("sleep")
    s.wait_state("asleep", 60)
    woken = now(s)
    ok("it goes on where it was", later <= woken < later + 60, woken - later)
    os.mkdir(s / "checkpoints/a")
    read(s / "checkpoints/a/wait")
    copy = Session("copy")
    write(copy / "config", "from = running@a\n")
    ok("so it does in a copy", woken <= now(copy) < woken + 60)


def right():
    """Control: nobody has set this one."""
    s = Session("right")
    before = time.time()
    t = now(s)
    ok("the host's time", before - 1 < t < time.time() + 1, t - before)


def fixed():
    s = Session("fixed", config="clock = 2026-01-01T00:00:00Z fixed\nseed = 1\n")
    for i in range(3):
        t = now(s)
        ok(f"run {i} begins then", FIRST <= t < FIRST + 20, t - FIRST)
    ok("a run sees it go on", float(s.run("date +%s.%N > x; sleep 1.2; date +%s.%N\n").out) > FIRST + 1.2)
    code = "date +%F-%H; echo $RANDOM; od -An -tx1 -N8 /dev/urandom; mktemp -u; echo $$\n"
    one, other = Session("one", config="clock = 2026-01-01T00:00:00 fixed\nseed = 5\n"), Session("other", config="clock = 2026-01-01T00:00:00 fixed\nseed = 5\n")
    none = Session("none", config="clock = 2026-01-01T00:00:00 fixed\n")
    outs = [[s.run(code).out for _ in range(2)] for s in (one, other, none)]
    same("two machines", outs[0], outs[1])
    ok("no seed", outs[0][0].split("\n")[1:4] != outs[2][0].split("\n")[1:4] and outs[2][0].startswith("2026-01-01-00"), outs)


def words():
    s = Session("words")
    for text in ("2026-02-30T00:00:00", "yesterday", "2026-01-01T00:00:00 standing"):
        with raises(text, errno.EINVAL):
            write(s / "config", f"clock = {text}\n")
        has("... in words", s.text("error"), "2026-01-01T00:00:00")
    with raises("a process has none", errno.EINVAL):
        write(s / "config", "clock = 2026-01-01T00:00:00\nbackend = process\n")


main(running, right, fixed, words)
