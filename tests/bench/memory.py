# SPDX-License-Identifier: Apache-2.0
"""Memory and processor time of idle clones."""

import json
import os
import time

from common import *

KINDS = ("guest's memory", "translated code", "QEMU's heap", "programs, libraries", "the rest")


def kind_of(fields):
    """What a line of smaps that begins a mapping is about."""
    name = " ".join(fields[5:])
    if "memfd:xsbx-ram" in name:
        return KINDS[0]
    if "x" in fields[1] and "w" in fields[1]:
        return KINDS[1]
    if name == "[heap]":
        return KINDS[2]
    return KINDS[3] if name.startswith("/") else KINDS[4]


def maps_of(pid):
    """A process's memory by kind: name -> [proportional, private] bytes; with 'all' the sums."""
    found = {kind: [0, 0] for kind in (*KINDS, "all")}
    kind = None
    with open(f"/proc/{pid}/smaps", encoding="utf-8") as file:
        for line in file:
            fields = line.split()
            if not fields[0].endswith(":"):
                kind = kind_of(fields)
            elif fields[0] in ("Pss:", "Private_Dirty:", "Private_Clean:"):
                for sums in (found[kind], found["all"]):
                    sums[fields[0] != "Pss:"] += int(fields[1]) << 10
    return found


def ticks_of(pid):
    return sum(map(int, read(f"/proc/{pid}/stat").rsplit(b")", 1)[1].split()[11:13]))


def clone_of(mount, template, name):
    """A session that has run its first program; its QEMU, and how it started."""
    path = mount.session(template, name)
    run(path, PROGRAMS[template]["hello"])
    sandbox = json.loads(read(f"{path}/status.json"))["sandbox"]
    return sandbox["pid"], sandbox.get("start")


def clones(mount, template, quick, target):
    count = 6 if quick else 20
    first = mount.session(template, "memory")
    run(first, PROGRAMS[template]["hello"])
    if not mount.wait_pool(template):
        print(f"({template} left out: no snapshot)")
        return
    size = mount.snapshot(template)["bytes"]
    pids, sums = [], []
    for i in range(count):
        pid, start = clone_of(mount, template, f"memory{i}")
        if start != "cold":
            pids.append(pid)
        if i + 1 in (count // 2, count):
            time.sleep(2 if quick else 4)
            sums.append((len(pids), sum(maps_of(pid)["all"][0] for pid in pids)))
    maps = [maps_of(pid) for pid in pids]
    for kind in ("all", *KINDS):
        for i, what in enumerate(("PSS", "private")):
            series = Series(f"{template}: {what}, {kind}", "bytes, of an idle clone")
            for m in maps:
                series.add(m[kind][i])
            show(series, "MiB", MIB)
    (half, at_half), (full, at_full) = sums
    if full > half:
        print(f"{f'{template}: marginal':44} {(at_full - at_half) / (full - half) / MIB:9.2f}"
              f"{'':21}MiB {full:6} {'':7} {target:>7g}  (the snapshot: {size / MIB:.0f} MiB, once)")
        extra[f"marginal_bytes_{template}"] = (at_full - at_half) / (full - half)
    ticks, begin = [ticks_of(pid) for pid in pids], time.monotonic()
    time.sleep(2 if quick else 10)
    took = (time.monotonic() - begin) * os.sysconf("SC_CLK_TCK")
    series = Series(f"{template}: idle", "processor time by time, in billionths")
    for pid, before in zip(pids, ticks):
        series.add((ticks_of(pid) - before) / took * 1e9)
    show(series, "%", 1e7)


def memory(bench):
    heading("Memory of idle clones",
            "Sessions that have run their first program and then nothing for some seconds. PSS: QEMU's",
            "pages, those shared by n processes as an n-th. private: what would be free without it.",
            "marginal: the sum of the PSS of all, less that of the first half, by the other half.",
            "idle: processor time while nothing happens.")
    for template in bench.templates:
        with bench.mount() as mount:
            clones(mount, template, bench.quick, bench.target(22, 12))
