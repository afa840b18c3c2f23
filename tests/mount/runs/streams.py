#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions that come faster than the pool is filled: each has a sandbox of its own, wherever it was taken from."""
# backends: local vm
# timeout: 120
# conf: [template raw]
# conf: pool_max = 3
from xsbx import *

N = 12


def pool():
    kinds = json.loads(read(f"{MNT}/status.json"))["snapshots"]
    return next((kind["pool"] for kind in kinds if kind["image"] == "raw"), None)


def one(i):
    """Says what it is told, is called as it is called, and has nothing of another."""
    limit = 512 if not i % 2 else 16384 if i == 1 else 200 + i  # the default; the most that may be asked for, and fewer
    s = Session(f"s{i}", config=f"env.WHO = number {i}\nprocesses = {limit}\n" if i % 2 else None)
    # Without a sandbox there are no limits.
    code = f"echo {limit}" if os.environ["BACKEND"] == "local" else "ulimit -u"
    run = s.run(f"echo \"$WHO\"; {code}; ls; touch mine; echo $((i++))\n")
    same(f"session {i}", (run.out, run.code), (f"number {i}\n{limit}\n0\n" if i % 2 else f"\n{limit}\n0\n", 0))
    if VM:
        has("its name", s.run("cat /proc/sys/kernel/hostname\n").out, f"raw-s{i}")
    return s


def one_after_another():
    one(100)
    ok("there is a pool", not pool() or wait_for(lambda: pool()["ready"], 60), pool())
    starts = set()
    for i in range(N):
        s = one(i)
        starts.add(s.json()["sandbox"]["start"])
        s.remove()
    ok("from the pool, or not", starts <= {"warm", "snapshot", "cold"}, starts)


def at_once():
    """Some get what is ready, some what is being made, some wait for a place."""
    sessions = [Session(f"a{i}", config=f"env.WHO = number {i}\n") for i in range(6)]
    for s in sessions:
        s.submit("echo \"$WHO\"; ls; touch mine\n")
    for i, s in enumerate(sessions):
        run = s.result()
        same(f"session {i}", (run.out, run.code), (f"number {i}\n", 0))
        s.remove()


def taken_and_left():
    """Sessions that are removed before they have their sandbox."""
    for i in range(N):
        s = Session(f"t{i}")
        if i % 3:
            s.submit("sleep 60\n")
        s.remove()
    ok("none is left", wait_for(lambda: sum(json.loads(read(f"{MNT}/status.json"))["sessions"].values()) == 1, 30),
       read(f"{MNT}/status.json"))
    s = one(50)
    s.remove()


def grown():
    """Not beyond what is allowed."""
    found = pool()
    ok("at most three", not found or found["target"] <= 3, found)
    ok("they are there", not found or wait_for(lambda: pool()["ready"] == pool()["target"], 60), pool())


main(one_after_another, at_once, taken_and_left, grown)
