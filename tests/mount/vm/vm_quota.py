#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What machines take of processors is what their QEMU takes: from when they are somebody's on, and to their end."""
# backends: vm
# timeout: 240
# log-allow: snapshot of
# conf: [quota]
# conf: cpu_s_day = 1000
# conf: [template raw]
# conf: pool = 1
from xsbx import *

BURN = "end=$(($(date +%s) + {})); while [ $(date +%s) -lt $end ]; do :; done; times | tail -n 1\n"


def used():
    line = next(line for line in read(f"{MNT}/quota", "r").splitlines() if line.startswith("cpu_s_day: "))
    return float(line.split()[1])


def qemu(s):
    """Seconds that its QEMU has used, as the kernel says."""
    words = read(f"/proc/{s.pid()}/stat", "r").rsplit(")", 1)[1].split()
    return sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")


def settled(want):
    """As soon as it was looked at."""
    return wait_for(lambda: used() >= want, 20 * slack())


def is_qemus():
    first = Session("first")
    first.run("true\n")
    ready = wait_for(lambda: any(k["pool"]["ready"] for k in json.loads(read(f"{MNT}/status.json"))["snapshots"]), 120 * slack())
    ok("there is one in the pool", ready)
    first.remove()
    time.sleep(2)
    before = used()
    s = Session("s")
    s.run("true\n")
    same("it is the pool's", s.json()["sandbox"]["start"], "warm")
    at, total = used() - before, qemu(s)
    ok("what it did before it was anybody's is not the user's", at < total, (at, total))
    s.run(BURN.format(2))
    more, now = used() - before - at, qemu(s) - total
    ok("what the host says counts", more > 0.3 and abs(more - now) < 0.5 + now / 10, (more, now))


def to_the_end():
    before = used()
    s = Session("e", config="fresh = yes\n")
    s.run(BURN.format(2))
    ok("of one that is gone", settled(before + 0.3), (before, used()))
    at = used()
    gone = Session("gone", config="timeout_s = 0\n")
    gone.submit("while :; do :; done\n")
    gone.wait_state("running", 30 * slack())
    time.sleep(2)
    gone.remove()
    ok("of one that was removed as it ran", settled(at + 0.3), (at, used()))
    copy = Session("copy", config="from = s\n")
    at = used()
    copy.run(BURN.format(2))
    ok("of a copy", settled(at + 0.3), (at, used()))


main(is_qemus, to_the_end)
