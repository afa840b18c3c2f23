# SPDX-License-Identifier: Apache-2.0
"""Sessions that last: checkpoints, copies, sleep; what each takes, of time and of memory.

One function for each thing that is measured, in PARTS at the end; each gets a `Place`."""

import re

import idle
import memory
from common import *

CONF = ("max_vms = 64\nmemory_overcommit = 400\ncpu_overcommit = 10000\n[template {template}]\npool = 0\npool_max = 0\n"
        "pool_low = 0\n")
RATIO = 1.15  # of an ordinary clone, at p50
PAUSE_MS, WAKE_MS = 15, 300
STOOD = re.compile(rb"stood still for (\d+) us")
TOGETHER = 10


class Place:
    """A mount whose template has a snapshot, and no pool: what starts there is cloned when it is asked for."""

    def __init__(self, mount, template, n):
        self.mount, self.template, self.n = mount, template, n
        self.path = f"{mount.path}/{template}"
        self.log = f"{os.path.dirname(mount.path)}/log"
        self.source = self.session("source")

    def session(self, name, config=""):
        """A session that has run something."""
        path = self.mount.session(self.template, name)
        if config:
            write(f"{path}/config", config)
        run(path, PROGRAMS[self.template]["hello"])
        return path

    def series(self, name, clock, target=None):
        return Series(f"{self.template}: {name}", clock, target)

    def answer(self, path):
        """A run from before open(in) until stdout and exit_code have been read. Return: ns; None if that is not right."""
        return idle.one_run(path, self.template)

    def checkpoint(self, path, name):
        """Return: ns, and what its status.json says."""
        begin = time.perf_counter_ns()
        os.mkdir(f"{path}/checkpoints/{name}")
        read(f"{path}/checkpoints/{name}/wait")
        took = time.perf_counter_ns() - begin
        status = json.loads(read(f"{path}/checkpoints/{name}/status.json"))
        return took if status["state"] == "whole" and status["memory"] else None, status


def status_of(path):
    return json.loads(read(f"{path}/status.json"))


def pauses(place):
    """Of a source that is a clone itself, and of one that was booted, all of whose memory has to be copied."""
    for how, config in (("cloned", ""), ("booted", "memory_mb = 200\n")):
        path = place.source if how == "cloned" else place.session("booted", config)
        start = status_of(path)["sandbox"].get("start")
        pause = place.series(f"pause, {start}", "QMP stop .. answer to cont, by the daemon's trace", PAUSE_MS)
        whole = place.series(f"checkpoint, {start}", "mkdir(checkpoints/x) .. end of read(wait)")
        size = place.series(f"  its memory, {start}", "memory_bytes of its status.json")
        write(f"{place.mount.path}/ctl", "debug\n")
        for i in range(place.n):
            at = os.path.getsize(place.log)
            took, status = place.checkpoint(path, f"c{i}")
            whole.add(took)
            with open(place.log, "rb") as log:
                log.seek(at)
                found = STOOD.search(log.read())
            pause.add(int(found[1]) * 1000 if found else None)
            size.add(status["memory_bytes"] if took else None)
            os.rmdir(f"{path}/checkpoints/c{i}")
            place.answer(path)
        write(f"{place.mount.path}/ctl", "info\n")
        show(pause)
        show(whole)
        show(size, "MiB", MIB)
        if path != place.source:
            os.rmdir(path)


def copies(place):
    """Beside ordinary clones in turn, so that a busy moment hits both."""
    clone = place.series("ordinary clone", "open(in) .. end of read(exit_code)")
    copy = place.series("copy of a checkpoint", clone.clock)
    live = place.series("copy of what runs", clone.clock)
    place.checkpoint(place.source, "base")
    for i in range(place.n):
        for series, name, config in ((clone, "o", ""), (copy, "c", "from = source@base\n"), (live, "l", "from = source\n")):
            path = place.mount.session(place.template, f"{name}{i}")
            if config:
                write(f"{path}/config", config)
            took = place.answer(path)
            kept = not config or status_of(path)["state_kept"]
            series.add(took if kept else None)
            os.rmdir(path)
    copy.target = live.target = round(RATIO * clone.percentile(50) / 1e6)
    for series in (clone, copy, live):
        show(series)
    print(f"{'':44} {copy.percentile(50) / clone.percentile(50):9.2f} of an ordinary clone at p50 (wanted: {RATIO})")


def together(place):
    """All at once, each with a run; then what they cost."""
    total = place.series(f"{TOGETHER} copies at once", "first open(in) .. last end of read(stdout)")
    paths = [place.mount.session(place.template, f"t{i}") for i in range(TOGETHER)]
    for path in paths:
        write(f"{path}/config", "from = source@base\n")
    begin = time.perf_counter_ns()
    for path in paths:
        write(f"{path}/in", PROGRAMS[place.template]["hello"] + "\n")
    good = all([read(f"{path}/stdout") == b"1\n" for path in paths])
    total.add(time.perf_counter_ns() - begin if good else None)
    show(total)
    clone = place.session("ordinary")
    place.mount.wait(lambda: all(idle.stands(path) for path in [*paths, clone]), 20)
    for i, what in enumerate(("PSS", "private")):
        for kind, which in (("copy", paths), ("ordinary clone", [clone])):
            series = place.series(f"{what}, {kind}", "bytes of QEMU, at rest")
            for path in which:
                series.add(memory.maps_of(idle.sandbox(path)["pid"])["all"][i])
            show(series, "MiB", MIB)
    seconds = 2 if place.n < 10 else 10
    machines, daemon = idle.idle_time(place.mount, paths, seconds)
    print(f"{place.template}: {TOGETHER} copies at rest for {seconds} s: {machines / TOGETHER / seconds / 1e7:.4f} % of a "
          f"processor each (wanted: {idle.TARGET} %); the daemon {daemon / 1e6:.1f} ms", flush=True)
    for path in [*paths, clone]:
        os.rmdir(path)


def sleeps(place):
    falls = place.series("sleep", "write(ctl) .. status.json says asleep")
    wakes = place.series("wake", "open(in) .. end of read(exit_code)", WAKE_MS)
    memory_of = place.series("  memory, asleep", "memory_bytes, of what was saved")
    path = place.session("sleeper")
    for _ in range(place.n):
        begin = time.perf_counter_ns()
        write(f"{path}/ctl", "sleep\n")
        slept = place.mount.wait(lambda: status_of(path)["state"] == "asleep", 20)
        falls.add(time.perf_counter_ns() - begin if slept else None)
        memory_of.add((status_of(path).get("asleep") or {}).get("memory_bytes"))
        took = place.answer(path)
        wakes.add(took if status_of(path)["state_kept"] else None)
    os.rmdir(path)
    show(falls)
    show(wakes)
    show(memory_of, "MiB", MIB)


# What a reader sees while another daemon takes the mount over: heirs.py.
PARTS = (pauses, copies, together, sleeps)


def lasting(bench):
    heading("Sessions that last: checkpoints, copies, sleep",
            "pause: the machine stands still, by the daemon's trace. `snapshot`: the source is a clone itself, `cold`: it",
            "was booted. checkpoint: mkdir until `wait` is read. Copies, and waking: from before open(in) of a session that",
            "begins there, until stdout and exit_code are read; ordinary clones (no pool) beside them in turn. `good`:",
            "printed what it should, status 0, with its state. memory: what of the machine was saved, as it lies in",
            "memory; nothing of it is on disk. The wake of machines that only stand still: BENCH=idle.")
    for template in bench.templates:
        with bench.mount(CONF.format(template=template)) as mount:
            mount.wait_probed()
            path = mount.session(template, "first")
            run(path, PROGRAMS[template]["hello"])
            os.rmdir(path)
            if not mount.wait_snapshot(template):
                print(f"({template} left out: no snapshot)")
                continue
            place = Place(mount, template, 6 if bench.quick else 40)
            for part in PARTS:
                part(place)
