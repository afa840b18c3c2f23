# SPDX-License-Identifier: Apache-2.0
"""Reads that wait: what a thousand of them cost, and whether they cost others anything."""

import threading

from common import *

SESSIONS = 1000
CONF = f"[xsbxfs]\nmax_sessions = {SESSIONS + 100}\n[limits]\nallow_process = yes\n[template raw]\nbackend = process\n"


def daemon_kib(mount):
    """Private memory of the daemon."""
    with open(f"/proc/{mount.server}/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private"))


class Reader(threading.Thread):
    """Reads what there is, and waits for more, once."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.fd = os.open(path, os.O_RDONLY)
        os.set_blocking(self.fd, False)
        try:
            while os.read(self.fd, 1 << 16):
                pass
        except BlockingIOError:
            pass
        os.set_blocking(self.fd, True)

    def run(self):
        try:
            os.read(self.fd, 1 << 16)
        except OSError:
            pass
        os.close(self.fd)


def round_trips(path, name, n):
    series = Series(name, "write(in) .. end of read(exit_code)")
    for _ in range(n):
        begin = time.perf_counter_ns()
        write(f"{path}/in", ":\n")
        good = read(f"{path}/exit_code") == b"0\n"
        series.add(time.perf_counter_ns() - begin if good else None)
    show(series)


def wakes(path, name, n):
    """One reader of this session's events, woken by the start of its run."""
    series = Series(name, "write(in) .. first read(events)")
    for _ in range(n):
        reader = Reader(f"{path}/events")
        reader.start()
        time.sleep(0.01)
        begin = time.perf_counter_ns()
        write(f"{path}/in", ":\n")
        reader.join()
        series.add(time.perf_counter_ns() - begin)
        read(f"{path}/exit_code")
    show(series)


def readers(bench):
    heading("Reads that wait",
            f"{SESSIONS} sessions, in each of which a reader waits for `events`; what the daemon's private memory grows by when they",
            "do, and what that makes of runs, and of one reader, in a session beside them.")
    threading.stack_size(64 << 10)
    n = 50 if bench.quick else 300
    with bench.mount(CONF) as mount:
        path = mount.session("raw", "busy")
        run(path, ":")
        round_trips(path, "a run, nobody else waits", n)
        wakes(path, "a reader is woken, nobody else waits", n)
        others = [mount.session("raw", f"s{i}") for i in range(SESSIONS)]
        before = daemon_kib(mount)
        waiting = [Reader(f"{other}/events") for other in others]
        opened = daemon_kib(mount)
        for reader in waiting:
            reader.start()
        time.sleep(2)
        after = daemon_kib(mount)
        show_kib("memory of open files", opened - before, None)
        show_kib("memory of reads that wait", after - opened, 1)
        round_trips(path, f"a run, {SESSIONS} others wait", n)
        wakes(path, f"a reader is woken, {SESSIONS} others wait", n)
        for other in others:
            os.rmdir(other)
        for reader in waiting:
            reader.join()


def show_kib(name, kib, target):
    series = Series(f"{name}: {SESSIONS}", "private memory of the daemon", target)
    series.add(kib * 1024)
    show(series, "MiB", MIB)
