# SPDX-License-Identifier: Apache-2.0
"""Sessions that last: checkpoints, copies, sleep; what each takes, of time and of memory.

One function for each thing that is measured, in PARTS at the end; each gets a `Place`."""

import re
import shutil
import tempfile

import idle
import memory
from common import *

CONF = ("max_vms = 64\nmemory_overcommit = 400\ncpu_overcommit = 10000\n[template {template}]\npool = 0\npool_max = 0\n"
        "pool_low = 0\n")
RATIO = 1.15  # of an ordinary clone, at p50
PAUSE_MS, PAUSE_P95_MS, WAKE_MS = 15, 30, 300
# Its code, from before it is asked to stand still until it is told to go on; and of that time QEMU, from `stop` to `cont`.
STOOD = {"its code": re.compile(rb"its code stood still for about (\d+) us"),
         "QEMU": re.compile(rb"backend: stood still for (\d+) us")}
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


def stood(log, at):
    """Return: ns by what has stood still, of what the daemon has logged from there on; None where it says nothing."""
    with open(log, "rb") as file:
        file.seek(at)
        text = file.read()
    found = {what: pattern.search(text) for what, pattern in STOOD.items()}
    return {what: int(m[1]) * 1000 if m else None for what, m in found.items()}


def pauses_of(place, path, how):
    pause = {"its code": place.series(f"pause, {how}", "asked to stand still .. told to go on, by the daemon's trace", PAUSE_MS),
             "QEMU": place.series(f"  of it QEMU, {how}", "QMP stop .. answer to cont, by the daemon's trace")}
    pause["its code"].wanted = {95: PAUSE_P95_MS}
    whole = place.series(f"checkpoint, {how}", "mkdir(checkpoints/x) .. end of read(wait)")
    size = place.series(f"  its memory, {how}", "memory_bytes of its status.json")
    write(f"{place.mount.path}/ctl", "debug\n")
    for i in range(place.n):
        at = os.path.getsize(place.log)
        took, status = place.checkpoint(path, f"c{i}")
        whole.add(took)
        for what, ns in stood(place.log, at).items():
            pause[what].add(ns)
        size.add(status["memory_bytes"] if took else None)
        os.rmdir(f"{path}/checkpoints/c{i}")
        place.answer(path)
    write(f"{place.mount.path}/ctl", "info\n")
    for series in (*pause.values(), whole):
        show(series)
    show(size, "MiB", MIB)


def pauses(place):
    """Of a source that is a clone itself, of one that has much of its own, and of one that was booted, all of whose memory has
    to be copied."""
    pauses_of(place, place.source, "clone")
    for how, config, program in (("with data", "", "data"), ("booted", "memory_mb = 200\n", "hello")):
        path = place.session(how.replace(" ", "-"), config)
        run(path, PROGRAMS[place.template][program])
        pauses_of(place, path, how)
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
    machines, daemon = idle.idle_time(place.mount, [idle.sandbox(path)["pid"] for path in paths], seconds)
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


# What a reader sees while another daemon takes the mount over: heirs.py. Ten thousand that are kept: kept.py.
PARTS = (pauses, copies, together, sleeps)


def ready(mount, template):
    """Has it a snapshot, so that what begins is a clone?"""
    mount.wait_probed()
    path = mount.session(template, "first")
    run(path, PROGRAMS[template]["hello"])
    os.rmdir(path)
    good = mount.wait_snapshot(template)
    if not good:
        print(f"({template} left out: no snapshot)")
    return good


def woken_from_disk(bench, template, conf, state, n):
    """Each has its own mount: of the one that was there before nothing is in memory. What they take is beside what one session
    has left, with what all of them have in common."""
    for what, program in (("", "hello"), (" with data", "data")):
        before = bytes_below(state)
        with bench.mount(conf) as mount:
            if not ready(mount, template):
                return
            place = Place(mount, template, n)
            for i in range(n):
                run(place.session(f"d{i}"), PROGRAMS[template][program])
            pauses_of(place, f"{place.path}/d0", f"kept{what}")
            os.rmdir(f"{place.path}/source")
        size = Series(f"{template}: on disk{what}", "bytes of state_dir, more than before, by the number of sessions")
        size.add((bytes_below(state) - before) / n)
        wake = Series(f"{template}: wake from disk{what}", "open(in) .. end of read(exit_code), after a new mount", WAKE_MS)
        with bench.mount(conf) as mount:
            mount.wait_probed()
            for i in range(n):
                path = f"{mount.path}/{template}/d{i}"
                took = idle.one_run(path, template)
                wake.add(took if status_of(path)["state_kept"] else None)
                os.rmdir(path)
        show(size, "MiB", MIB)
        show(wake)


def disk(bench, template):
    n = 4 if bench.quick else 20
    state = tempfile.mkdtemp(prefix="xsbx-bench.")
    conf = f"keep = yes\nstate_dir = {state}\n{CONF.format(template=template)}"
    try:
        with bench.mount(conf) as mount:
            if not ready(mount, template):
                return
            run(mount.session(template, "common"), PROGRAMS[template]["hello"])
        common = Series(f"{template}: on disk, of one and in common", "bytes of state_dir")
        common.add(bytes_below(state))
        show(common, "MiB", MIB)
        woken_from_disk(bench, template, conf, state, n)
    finally:
        shutil.rmtree(state, ignore_errors=True)


def lasting(bench):
    heading("Sessions that last: checkpoints, copies, sleep",
            "pause: all code of the session stands still, by the daemon's trace: from before it is asked until it is told to go on;",
            "of it QEMU: the machine as well. `clone`: the source is one itself, and has nothing; `with data`: it has some 30 MiB;",
            "`booted`: all memory is its own; `kept`: keep = yes. checkpoint: mkdir until `wait` is read. Copies, and waking: from",
            "before open(in) of a session that begins there, until stdout and exit_code are read; ordinary clones (no pool) beside",
            "them in turn. `good`: printed what it should, status 0, with its state. memory: what of the machine was saved, as it",
            "lies in memory. on disk: what the state directory takes more with each session; wake from disk: of these,",
            "in the next mount (files that were just written are in the host's memory). Machines that only stand still: BENCH=idle.")
    for template in bench.templates:
        with bench.mount(CONF.format(template=template)) as mount:
            if not ready(mount, template):
                continue
            place = Place(mount, template, 6 if bench.quick else 40)
            for part in PARTS:
                part(place)
        disk(bench, template)
