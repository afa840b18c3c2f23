# SPDX-License-Identifier: Apache-2.0
"""The table of steady use: what people do all day, in machines and in processes, beside other programs. What stands in
one row was measured in turn, one time of each after the other, so that a busy moment hits all of them."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time

import peers
from common import *
from files import sshfs
from memory import maps_of
from processes import at_once
from starts import warm_up
from streams import busy_s, once

CONF = ("max_vms = 64\nmemory_overcommit = 400\ncpu_overcommit = 10000\n[limits]\nallow_process = yes\n")
PROCESS = CONF + "".join(f"[template {t}]\nbackend = process\n" for t in ("python", "raw"))

# exec-sandbox with its memory snapshots and a pool of one, QEMU 11, under emulation, on a machine like this one: it is
# not run here.
QUOTED = "2026-11-22"
QUOTES = {"new session, from the pool": 165, "next run": 49, "next run, 60 ms of thinking": 49,
          "new session each 0.1 s": 136, "pool empty, a snapshot is there": 230, "cold": 9170,
          "20 at once, until the last": 2917, "1000 files of 1 KiB, up": 5795, "1000 files of 1 KiB, down": 7567,
          "100 MiB, up": 11219, "100 MiB, down": 11895, "memory of an idle one, MiB": 30.2,
          "processor of an idle one, %": 0.49}

# Where it is a matter of the accelerator: under emulation.
TARGETS = {
    "next run, 60 ms of thinking": {"machine": 4, "process": 0.8},
    "new session each 0.1 s": {"machine": 20},
    "pool empty, a snapshot is there": {"machine": 110},
    "50 MiB of output": {"machine": 800},
    "memory of an idle one, MiB": {"machine": 24, "process": 8},
}
# As a multiple of another one's p50 in the same row.
RELATIVE = {
    "20 at once, until the last": {"process": (1.1, "bwrap")},
    "processor time of a session of one run": {"process": (1.3, "bwrap")},
    "1000 files of 1 KiB, up": {"process": (1.0, "sshfs")},
    "1000 files of 1 KiB, down": {"process": (1.0, "sshfs")},
    "100 MiB, up": {"process": (1.3, "passthrough")},
    "100 MiB, down": {"process": (1.3, "passthrough")},
}


class Table:
    """Rows of series by column."""

    def __init__(self):
        self.rows = {}

    def add(self, row, column, value, scale=1e6):
        """In the unit that is shown times @scale; None is a failure."""
        cells = self.rows.setdefault(row, {})
        if column not in cells:
            cells[column] = Series(f"{row}: {column}", "see the heading")
        cells[column].scale = scale
        cells[column].add(value)

    def wanted(self, row, column):
        target = TARGETS.get(row, {}).get(column)
        factor, other = RELATIVE.get(row, {}).get(column, (None, None))
        if factor and other in self.rows[row]:
            beside = self.rows[row][other]
            return f"{factor * beside.percentile(50) / beside.scale:.4g} ({factor:g}x {other})"
        return f"{target:g}" if target is not None else ""

    def show(self, row):
        for column, series in self.rows.get(row, {}).items():
            p50, p95, p99 = (series.percentile(p) / series.scale for p in (50, 95, 99))
            good = 100 * len(series.times) / max(1, series.tried)
            print(f"{row[:40]:41}{column:14}{p50:10.2f}{p95:10.2f}{p99:10.2f}{series.tried:5}{good:6.0f} %"
                  f"  {self.wanted(row, column)}".rstrip(), flush=True)
        if row in QUOTES:
            print(f"{row[:40]:41}{'exec-sandbox':14}{QUOTES[row]:10.2f}  (quoted, {QUOTED})", flush=True)


def in_turn(table, row, functions, n, pause_s=0.02):
    for i in range(n):
        for column, function in functions.items():
            time.sleep(pause_s)
            table.add(row, column, function(i))
    table.show(row)


# ---- sessions ----

def pooled(mount, label):
    def one(i):
        mount.wait_pool("python")
        time.sleep(0.05)
        return once(mount, "python", f"{label}{i}")[0]
    return one


def kept_session(mount, name):
    path = mount.session("python", name)
    for _ in range(5):
        run(path, "print(1)")

    def one(*_):
        begin = time.perf_counter_ns()
        good = run(path, "print(1)") == b"1\n"
        return time.perf_counter_ns() - begin if good else None
    return path, one


def sessions(table, vm, proc, few):
    with peers.sandlock() as sandlock:
        others = {name: peers.plain(argv) for name, argv in peers.commands().items()}
        if sandlock:
            others["sandlock"] = sandlock
        in_turn(table, "new session, from the pool",
                {"machine": pooled(vm, "p"), "process": pooled(proc, "p"), **others}, 10 if few else 40)


def next_runs(table, vm, proc, few):
    paths, functions = [], {}
    for column, mount in (("machine", vm), ("process", proc)):
        path, functions[column] = kept_session(mount, "kept")
        paths.append(path)
    kept = peers.Kept() if shutil.which("bwrap") else None
    if kept:
        functions["pipe to bwrap"] = kept.one
    for row, think_s in (("next run", 0), ("next run, 60 ms of thinking", 0.06)):
        for column, function in functions.items():
            for i in range(30 if few else 200):
                time.sleep(think_s)
                table.add(row, column, function(i))
        table.show(row)
    if kept:
        kept.close()
    for path in paths:
        os.rmdir(path)


def each(mount, gap_s, n, label):
    """A stream: times, how many came from the pool, sessions a second."""
    mount.wait_pool("python")
    time.sleep(1)
    begin, times, warm = time.monotonic(), [], 0
    for i in range(n):
        took, how = once(mount, "python", f"{label}{i}")
        times.append(took)
        warm += how == "warm"
        time.sleep(gap_s)
    return times, warm, n / (time.monotonic() - begin)


def streams(table, vm, proc, few):
    n, notes = 15 if few else 40, []
    for gap_s in (0, 0.1):
        row = f"new session each {gap_s:g} s" if gap_s else "new session, no pause"
        for column, mount in (("machine", vm), ("process", proc)):
            times, warm, rate = each(mount, gap_s, n, f"each{gap_s}")
            for took in times:
                table.add(row, column, took)
            notes.append(f"  {row}, {column}: {warm} of {n} from the pool, {rate:.1f} a second")
        table.show(row)
    print("\n".join(notes))


def processor_time(table, few):
    """All that the host uses for sessions one after another and in the seconds behind them, less what it uses when
    nothing happens. The host counts by ticks, so it takes many of them."""
    row, n, others = "processor time of a session of one run", 40 if few else 150, list(peers.commands().items())

    def spent(column, one, settle):
        idle, begin = busy_s(), time.monotonic()
        time.sleep(3)
        idle = (busy_s() - idle) / (time.monotonic() - begin)
        used, begin = busy_s(), time.monotonic()
        for i in range(n):
            one(i)
        settle()
        time.sleep(1.5)
        table.add(row, column, (busy_s() - used - idle * (time.monotonic() - begin)) / n * 1e9)

    for _ in range(2):
        for column, conf in (("machine", CONF), ("process", PROCESS)):
            with mounted(f"{BUILD}/xsbxfs", conf) as mount:
                warm_up(mount, "python")
                time.sleep(2)
                spent(column, lambda i, m=mount: once(m, "python", f"cpu{i}"), lambda m=mount: m.wait_pool("python"))
        for name, argv in others:
            spent(name, lambda _, argv=argv: peers.plain(argv)(), lambda: None)
    table.show(row)


def starts(table, few):
    """Without a pool; and without anything that was kept from earlier."""
    for column, conf in (("machine", CONF), ("process", PROCESS)):
        with mounted(f"{BUILD}/xsbxfs", conf + "[template python]\npool = 0\n") as mount:
            run(mount.session("python", "first"), "print(1)")
            if column == "machine":
                mount.wait_snapshot("python")
            for i in range(8 if few else 30):
                time.sleep(1)
                table.add("pool empty, a snapshot is there", column, once(mount, "python", f"e{i}")[0])
    table.show("pool empty, a snapshot is there")
    for _ in range(1 if few else 3):
        with empty_cache() as cache, mounted(f"{BUILD}/xsbxfs", f"cache_dir = {cache}\n{CONF}") as mount:
            mount.wait_probed()
            table.add("cold", "machine", once(mount, "python", "cold")[0])
    table.show("cold")


def many(table, vm, proc, few):
    def of(mount, label):
        def one(i):
            mount.wait_pool("python")
            time.sleep(1)
            return at_once(lambda n: once(mount, "python", f"{label}{i}-{n}")[0], 20)
        return one
    functions = {"machine": of(vm, "m"), "process": of(proc, "m")}
    for name, argv in peers.commands().items():
        functions[name] = lambda _, argv=argv: at_once(peers.plain(argv), 20)
    in_turn(table, "20 at once, until the last", functions, 3 if few else 7)


# ---- files ----

def copying(source, folder, up):
    def one(i):
        there = f"{folder}/copy{i}"
        back = tempfile.mkdtemp(prefix="xsbx-bench.", dir="/dev/shm")
        try:
            begin = time.perf_counter_ns()
            done = subprocess.run(["cp", "-r", source, there] if up else ["cp", "-r", f"{folder}/data", f"{back}/d"],
                                  check=False).returncode == 0
            took = time.perf_counter_ns() - begin
            same = subprocess.run(["diff", "-rq", source, there if up else f"{back}/d"], check=False,
                                  stdout=subprocess.DEVNULL).returncode == 0
            return took if done and same else None
        finally:
            shutil.rmtree(back)
            subprocess.run(["rm", "-rf", there], check=False)
    return one


@contextlib.contextmanager
def source_of(files, size):
    with tempfile.TemporaryDirectory(prefix="xsbx-bench.", dir="/dev/shm") as base:
        os.mkdir(f"{base}/data")
        for i in range(files):
            with open(f"{base}/data/f{i}", "wb") as file:
                file.write(os.urandom(size))
        yield f"{base}/data"


def copies(table, vm, proc, few):
    with contextlib.ExitStack() as stack:
        folders = {}
        for column, mount in (("machine", vm), ("process", proc)):
            path = mount.session("raw", "files")
            write(f"{path}/config", "memory_mb = 1024\n")
            run(path, ":")
            folders[column] = f"{path}/files"
        # A snapshot for so much memory is made some seconds later, which would be in their midst.
        vm.wait(lambda: all(s["state"] == "ready" and not s["pool"]["filling"] for s in vm.status()["snapshots"]))
        for column, options in (("sshfs", []), ("sshfs nocache", [
                "-o", "dir_cache=no,attr_timeout=0,entry_timeout=0,ac_attr_timeout=0"])):
            folders[column] = stack.enter_context(sshfs(options))
        folders["passthrough"] = stack.enter_context(peers.passthrough())
        folders = {k: v for k, v in folders.items() if v}
        for row, files, size in (("1000 files of 1 KiB", 1000, 1024), ("100 MiB", 1, 100 * MIB)):
            with source_of(files, size) as source:
                in_turn(table, f"{row}, up", {k: copying(source, v, True) for k, v in folders.items()},
                        2 if few else 5)
                for folder in folders.values():
                    subprocess.run(["cp", "-r", source, f"{folder}/data"], check=True)
                in_turn(table, f"{row}, down", {k: copying(source, v, False) for k, v in folders.items()},
                        2 if few else 5)
                for folder in folders.values():
                    subprocess.run(["rm", "-rf", f"{folder}/data"], check=True)


# ---- output ----

def output(table, vm, proc, few):
    paths = {}
    for column, mount in (("machine", vm), ("process", proc)):
        paths[column] = mount.session("python", "output")
        run(paths[column], "print(1)")
    programs = {
        "40,000 lines on two streams": (
            "import sys\nfor i in range(40000): print(i, file=(sys.stdout, sys.stderr)[i % 2], flush=True)",
            sum(len(f"{i}\n") for i in range(40000))),
        "50 MiB of output": ("import sys\nfor _ in range(50): sys.stdout.write('x' * (1 << 20))", 50 * MIB)}
    for row, (program, size) in programs.items():
        def ours(path):
            def one(_):
                begin = time.perf_counter_ns()
                write(f"{path}/in", program + "\n")
                good = len(read(f"{path}/output")) == size
                return time.perf_counter_ns() - begin if good else None
            return one

        def host(_):
            begin = time.perf_counter_ns()
            done = subprocess.run([peers.command("python")[0], "-c", program], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, check=False)
            return time.perf_counter_ns() - begin if len(done.stdout) == size else None
        in_turn(table, row, {**{k: ours(p) for k, p in paths.items()}, "no sandbox": host}, 1 if few else 3)
    for path in paths.values():
        os.rmdir(path)


# ---- idle ----

def tree_of(pid):
    """It and all that descend from it."""
    found = [pid]
    for pid in found:
        for task in os.listdir(f"/proc/{pid}/task"):
            found += map(int, read(f"/proc/{pid}/task/{task}/children").split())
    return found


def pss_of(pid):
    return sum(maps_of(p)["all"][0] for p in tree_of(pid))


def wakes_of(pid):
    """How often its threads have slept and were woken, and its processor time in ns."""
    wakes = ns = 0
    for p in tree_of(pid):
        for task in os.listdir(f"/proc/{p}/task"):
            for line in read(f"/proc/{p}/task/{task}/status").splitlines():
                if line.startswith(b"voluntary_ctxt"):
                    wakes += int(line.split()[1])
            ns += int(read(f"/proc/{p}/task/{task}/schedstat").split()[0])
    return wakes, ns


def idle(table, few):
    """Sessions that have run once and then nothing; each a tree of processes, and the daemon with what it grew by."""
    n, seconds = 10, 10 if few else 30
    for column, conf in (("machine", CONF), ("process", PROCESS)):
        with mounted(f"{BUILD}/xsbxfs", conf) as mount:
            sums = []
            for half in range(2):
                for i in range(n):
                    run(mount.session("python", f"idle{half}-{i}"), "print(1)")
                time.sleep(35 if not few else 5)
                sums.append(pss_of(mount.pid))
            table.add("memory of an idle one, MiB", column, (sums[1] - sums[0]) / n, MIB)
            before = wakes_of(mount.pid)
            time.sleep(seconds)
            wakes, ns = (now - then for now, then in zip(wakes_of(mount.pid), before))
            table.add("wakes a minute of an idle one", column, wakes / seconds * 60 / (2 * n), 1)
            table.add("processor of an idle one, %", column, ns / seconds / 1e9 * 100 / (2 * n), 1)
            for i in range(5 if few else 10):
                table.add("new session while 20 are kept", column, pooled(mount, "kept")(i))
    for row in ("memory of an idle one, MiB", "wakes a minute of an idle one", "processor of an idle one, %",
                "new session while 20 are kept"):
        table.show(row)


def steady(bench):
    print("\nSteady use: what people do all day, beside other programs, in one run. Milliseconds, unless the row says so.\n"
          "  Sessions: from before mkdir, or from before fork, to the last byte of stdout; of sandlock from before run()\n"
          "  to its return. next run: from before open(in). cold: with images, without a snapshot. Files: cp -r, checked\n"
          "  by diff off the clock. Output: from before open(in) to the last byte of `output`. An idle one: a session that\n"
          "  has run once, with its share of the daemon. processor time: all that this host uses until 1.5 s after\n"
          "  the last of many, less what it uses when nothing happens; n says how many measurements.\n"
          f"  Interpreter of this host: {peers.command('python')[0]}; load when this began: {os.getloadavg()[0]:.1f}.\n")
    print(f"{'':41}{'':14}{'p50':>10}{'p95':>10}{'p99':>10}{'n':>5}{'good':>8}  target")
    table, few = Table(), bench.quick
    with mounted(f"{BUILD}/xsbxfs", CONF) as vm, mounted(f"{BUILD}/xsbxfs", PROCESS) as proc:
        for mount in (vm, proc):
            run(mount.session("python", "first"), "print(1)")
            os.rmdir(f"{mount.path}/python/first")
            mount.wait_pool("python")
        sessions(table, vm, proc, few)
        next_runs(table, vm, proc, few)
        streams(table, vm, proc, few)
        many(table, vm, proc, few)
        copies(table, vm, proc, few)
        output(table, vm, proc, few)
    processor_time(table, few)
    starts(table, few)
    idle(table, few)
