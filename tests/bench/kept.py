# SPDX-License-Identifier: Apache-2.0
"""Many sessions that are asleep and kept: what they take of memory and of the disk, and how soon a new mount has them."""

import shutil
import tempfile

from common import *

CONF = ("keep = yes\nstate_dir = {state}\nmax_sessions = 0\n[limits]\nallow_process = yes\n[template raw]\n"
        "backend = process\n")
READY_MS = 3000  # with ten thousand of them
MEMORY_KB = 20  # of the daemon, each
STEP = 50  # at once


def state_of(path):
    return read(f"{path}/state").strip().decode()


def fall_asleep(mount, paths):
    """Each has run something of its own, and sleeps with that. Return: how many don't."""
    for path in paths:
        write(f"{path}/in", f"echo {os.path.basename(path)} > own\n")
    for path in paths:
        read(f"{path}/exit_code")
    for path in paths:
        write(f"{path}/ctl", "sleep\n")
    return sum(not mount.wait(lambda path=path: state_of(path) == "asleep", 60) for path in paths)


def memory(name, server, before, n):
    series = Series(f"{name}: memory of the daemon, each", "bytes: RssAnon and RssShmem", MEMORY_KB)
    series.add((memory_of(server) - before) / n)
    show(series, "kB", 1000)


def one(series, begin, good=True):
    series.add(time.perf_counter_ns() - begin if good else None)
    show(series)


def again(bench, conf, name, n, before):
    """The next mount."""
    ready, unmounted = (Series(f"{name}: {what}", clock, target) for what, clock, target in (
        ("until it serves", "start of the program .. it says so", READY_MS if n >= 10000 else None),
        ("until unmounted", "fusermount3 -u .. the daemon has ended", None)))
    with bench.mount(conf) as mount:
        there = set(os.listdir(f"{mount.path}/raw"))
        ready.add(mount.took if there >= {f"s{i}" for i in range(n)} else None)
        show(ready)
        one(Series(f"{name}: state of all", "first open .. last close"), time.perf_counter_ns(),
            all(state_of(f"{mount.path}/raw/s{i}") == "asleep" for i in range(n)))
        memory(f"{name}, then", mount.server, before, n)
        wake = Series(f"{name}: wake from disk", "open(in) .. end of read(exit_code)")
        for i in range(0, n, max(1, n // 50)):
            begin = time.perf_counter_ns()
            write(f"{mount.path}/raw/s{i}/in", "cat own\n")
            right = read(f"{mount.path}/raw/s{i}/stdout") == f"s{i}\n".encode()
            wake.add(time.perf_counter_ns() - begin if right else None)
        show(wake)
        begin = time.perf_counter_ns()
    unmounted.add(time.perf_counter_ns() - begin)
    show(unmounted)


def kept(bench):
    n = 1000 if bench.quick else 10000
    heading("Many sessions that are asleep, and kept",
            "Process sessions, each with a file and a run of its own. memory: of the daemon, also what the next one has if this one",
            "dies. until it serves: a new mount, with all of them. on disk: the state directory by their number.")
    state = tempfile.mkdtemp(prefix="xsbx-bench.")
    conf, name = CONF.format(state=state), f"{n} asleep"
    try:
        with bench.mount(conf) as mount:
            fall_asleep(mount, [mount.session("raw", "first")])
            before, awake, begin = memory_of(mount.server), 0, time.perf_counter_ns()
            for i in range(0, n, STEP):
                awake += fall_asleep(mount, [mount.session("raw", f"s{k}") for k in range(i, min(i + STEP, n))])
            one(Series(f"{name}: made, used, put to sleep", "first mkdir .. last is asleep"), begin, not awake)
            memory(name, mount.server, before, n)
        size = Series(f"{name}: on disk, each", "bytes that the files of state_dir take")
        size.add(bytes_below(state) / n)
        show(size, "kB", 1000)
        again(bench, conf, name, n, before)
    finally:
        shutil.rmtree(state, ignore_errors=True)
