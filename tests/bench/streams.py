# SPDX-License-Identifier: Apache-2.0
"""Sessions one after another, as a client makes them all day: each removed when it has answered."""

import collections
import json
import multiprocessing
import os
import shutil
import time

from common import *
from peers import plain
from processes import BWRAP, command
from starts import warm_up

GAPS_S = (0, 0.1, 0.2)
PROCESS = "[limits]\nallow_process = yes\n[template {t}]\nbackend = process\n"


def busy_s():
    """Processor time that everything on this host has used."""
    with open("/proc/stat") as file:
        user, nice, system = (int(x) for x in file.readline().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def once(mount, template, name):
    """Return nanoseconds, or None, and how the sandbox was started."""
    begin = time.perf_counter_ns()
    path = mount.session(template, name)
    good = run(path, PROGRAMS[template]["hello"]) == b"1\n"
    took = time.perf_counter_ns() - begin
    sandbox = json.loads(read(f"{path}/status.json")).get("sandbox") or {}
    os.rmdir(path)
    return took if good else None, sandbox.get("start", "none")


def stream(mount, template, what, gap_s, n):
    series = Series(f"{template}{what}: {gap_s:g} s between", "mkdir .. end of read(stdout)")
    starts = collections.Counter()
    begin, used = time.monotonic(), busy_s()
    for i in range(n):
        took, how = once(mount, template, f"{int(gap_s * 1000)}-{i}")
        series.add(took)
        starts[how] += 1
        time.sleep(gap_s)
    seconds = time.monotonic() - begin
    # What is done behind the sessions' backs is paid by them as well.
    mount.wait_pool(template)
    time.sleep(1.5)
    show(series)
    print(f"    {n / seconds:.1f} a second; {(busy_s() - used) / n * 1000:.0f} ms of processors each; "
          + ", ".join(f"{count} {how}" for how, count in starts.most_common()), flush=True)


def client(end, one, name, times):
    i = 0
    while time.monotonic() < end:
        times.put(one(f"{name}-{i}"))
        i += 1
    times.put("over")


def throughput(what, one, clients, seconds):
    """As many as there can be, by clients that wait for nothing but their answers."""
    series = Series(f"{what}: {clients} client{'s' if clients > 1 else ''}", "mkdir, or fork, .. last byte")
    times, used = multiprocessing.Queue(), busy_s()
    for n in range(clients):
        multiprocessing.Process(target=client, args=(time.monotonic() + seconds, one, f"c{n}", times)).start()
    running = clients
    while running:
        took = times.get()
        if took == "over":
            running -= 1
        else:
            series.add(took)
    time.sleep(1.5)
    show(series)
    print(f"    {len(series.times) / seconds:.1f} a second; "
          f"{(busy_s() - used) / max(1, series.tried) * 1000:.0f} ms of processors each", flush=True)


def clients(bench):
    heading("Clients that make new sessions without a pause, each removed when it has answered",
            "Clock: from before mkdir (or fork) to the last byte. Sessions a second: rmdir included.",
            "Processor time: all that the host has used until a second after the last one.")
    seconds = 3 if bench.quick else 8
    for what, conf in (("machine", ""), ("process", PROCESS.format(t="python"))):
        with bench.mount(conf) as mount:
            warm_up(mount, "python")
            for n in (1, 4):
                throughput(what, lambda name: once(mount, "python", f"{n}-{name}")[0], n, seconds)
    for what, argv in (("bwrap", [*BWRAP, *command("python")]), ("no sandbox", command("python"))):
        if not shutil.which(argv[0]):
            print(f"({what} left out: apt-get install bubblewrap)")
            continue
        for n in (1, 4):
            throughput(f"({what})", plain(argv), n, seconds)


def streams(bench):
    heading("Streams: new sessions, one after another, each removed when it has answered",
            "Clock: from before mkdir to the last byte of stdout. The pool has its default size when each",
            "stream begins. Processor time is all that the host has used until a second after the last one,",
            "when the pool is filled again: it is true on a quiet host only.")
    n = 15 if bench.quick else 40
    for template in ("python",):
        for what, conf in (("", ""), (", process", PROCESS.format(t=template))):
            with bench.mount(conf) as mount:
                warm_up(mount, template)
                for gap_s in GAPS_S:
                    time.sleep(1)
                    stream(mount, template, what, gap_s, n)
