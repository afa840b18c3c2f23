#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""More runs that compute than the processors can bear: each has its time limit for itself, because
it begins when its turn comes; and runs that only sleep keep nobody waiting."""
# backends: vm
# night: vm
# timeout: 200
# alone: it measures what the processors can bear, and then asks for that
# conf: [template raw]
# conf: timeout_s = 60
from xsbx import *

vm_only()

# What a run computes takes this long alone, about. All together would be far past the time limit.
ALONE = 2.0
LOOP = "i=0; while ((i < {n})); do ((i++)); done; echo done\n"


def status():
    return json.loads(read(f"{MNT}/status.json"))["admission"]["processors"]


def sessions(names, config=None):
    found = [Session(n, config=config) for n in names]
    for s in found:
        s.submit("true\n")
    for s in found:
        same(f"{s.path} is up", s.result().code, 0)
    return found


def measure():
    """How far to count for ALONE seconds, while every processor counts: two may be one core's."""
    crowd = sessions([f"alone{i}" for i in range(os.cpu_count())])
    count = 20000
    while True:
        for s in crowd:
            s.submit(LOOP.format(n=count))
        ms = max(s.result() and s.json()["latest"]["wall_ms"] for s in crowd)
        if ms > 1000 * ALONE / 4:
            break
        count *= 4
    for s in crowd:
        s.remove()
    return int(count * 1000 * ALONE / ms)


def computing():
    count, cpus = measure(), os.cpu_count()
    n = 12 * cpus
    # Sharing at four a processor takes 4 * ALONE each, all at once 12 * ALONE.
    crowd = sessions([f"c{i}" for i in range(n)], f"timeout_s = {int(9 * ALONE)}\n")
    for s in crowd:
        s.submit(LOOP.format(n=count))
    waits = [s.json()["waiting"] for s in crowd]
    ok("some wait for a processor", any(w and w["for"] == "processor" for w in waits), waits)
    ok("and are queued", sum(s.state_of(2) == "queued" for s in crowd) > 0)
    most = 0
    while any(s.state_of(2) in ("queued", "running") for s in crowd):
        now = status()
        most = max(most, now["used"])
        time.sleep(0.3)
    states = [s.state_of(2) for s in crowd]
    same("all end in time", [w for w in states if w != "done"], [])
    # A run that seemed to sleep, and whose place went to another, may compute again.
    ok("never much more than the most", most <= 1.5 * now["most"], (most, now))
    ok("but more than without waiting", most > 1, most)
    walls = sorted(s.json()["latest"]["wall_ms"] for s in crowd)
    print(f"{n} runs of {ALONE} s: {walls[0]:.0f} to {walls[-1]:.0f} ms, at most {most} processors")
    for s in crowd:
        s.remove()


def sleeping():
    """As many as the processors could not bear, if they computed."""
    n = 4 * os.cpu_count() + 2
    crowd = sessions([f"s{i}" for i in range(n)], "timeout_s = 600\n")
    for s in crowd:
        s.submit("echo asleep; sleep 500\n")
    ok("all get their turn", wait_for(lambda: all(s.text("runs/2/stdout") for s in crowd), 8))
    s = sessions(["late"])[0]
    same("and one more", s.run("echo late\n").stdout, b"late\n")
    same("while they sleep", [c.state_of(2) for c in crowd], ["running"] * n)


main(computing, sleeping)
