# SPDX-License-Identifier: Apache-2.0
"""How sessions start: from the pool, from a snapshot, by booting; one, many, all at once."""

import json
import os
import shutil
import time

from common import *


def warm_up(mount, template, pooled=1):
    """Until there is a snapshot, and a pool of this size."""
    path = mount.session(template, "first")
    run(path, PROGRAMS[template]["hello"])
    os.rmdir(path)
    good = mount.wait_pool(template, pooled) if pooled else mount.wait_snapshot(template)
    if not good:
        print(f"({template}: no snapshot, or no pool: {mount.snapshot(template)})")


def new_series(template, what, target=None):
    """Series for the lines of the C program: `PATH-whole`, `PATH-in`, `down`, `total`."""
    def make(name):
        path, _, which = name.rpartition("-")
        if which == "in":
            return Series(f"{template}: {what}, {path}, in", "close(in) .. end of read(stdout)",
                          target if path == "warm" else None)
        if which == "whole":
            return Series(f"{template}: {what}, {path}", "mkdir .. end of read(stdout)")
        return Series(f"{template}: {what}, {name}", {
            "down": "rmdir .. the sandbox's process has ended",
            "total": "first mkdir .. last end of read(stdout)"}[name])
    return Names(make)


def start_new(names, mount, template, name, program="hello", n=1, every_us=0):
    with program_file(template, program) as code:
        clock(names, "new", f"{mount.path}/{template}", name, code, n, every_us)


def floor(template):
    """The interpreter of this host as a plain process."""
    argv = {"python": ["python3", "-c", "print(1)"], "raw": ["bash", "-c", "echo 1"],
            "javascript": ["bun", "-e", "console.log(1)"]}[template]
    if not shutil.which(argv[0]):
        return
    series = Series(f"(this host's {argv[0]}, no sandbox)", "fork+exec .. end of its stdout")
    clock({"spawn": series}, "spawn", 50, *argv)
    show(series)


def hit(bench):
    heading("Pool hit: a new session that gets an idle clone",
            "Clock `in`: from before close(in), of a session just made, to the last byte of stdout.",
            "Clock without `in`: the same, from before mkdir. No config is written.",
            "Before each, off the clock, until the pool has a clone. `json, re, hashlib`:",
            "a program that imports and uses these. `down`: rmdir until the machine's process is gone.")
    n = 5 if bench.quick else 40
    for template in bench.templates:
        with bench.mount() as mount:
            warm_up(mount, template)
            for program in ("hello", "modules"):
                if program not in PROGRAMS[template]:
                    continue
                modules = program == "modules"
                names = new_series(template, "json, re, hashlib" if modules else "print(1)",
                                   bench.target(50, 5) if modules else bench.target(6, 1.5))
                for i in range(n):
                    mount.wait_pool(template)
                    time.sleep(0.05)
                    start_new(names, mount, template, f"{program}{i}", program)
                for series in names.values():
                    show_new(series)
        floor(template)


def show_new(series):
    if series.name.endswith("total"):
        return
    show(series)


def restore(bench):
    heading("Restore: a new session while the pool is empty (pool = 0)",
            "Clock `in`: from before close(in) to the last byte of stdout; nothing of the machine is",
            "there before that. Clock without `in`: from before mkdir. The snapshot is in memory.",
            "`boot`, `setup`: from status.json, spawn of QEMU to the agent's hello, hello to ready.")
    n = 8 if bench.quick else 40
    for template in bench.templates:
        with bench.mount(f"[template {template}]\npool = 0\n") as mount:
            warm_up(mount, template, 0)
            names = new_series(template, "restore")
            for i in range(n):
                start_new(names, mount, template, f"r{i}")
            series = names.get("snapshot-in")
            if series:
                series.target = bench.target(150, 40)
            for series in names.values():
                show_new(series)
            parts = {k: Series(f"{template}:   of that, {k}", f"{k}_ms of status.json")
                     for k in ("boot", "setup")}
            for i in range(max(3, n // 4)):
                path = mount.session(template, f"s{i}")
                run(path, PROGRAMS[template]["hello"])
                sandbox = json.loads(read(f"{path}/status.json")).get("sandbox") or {}
                for k, series in parts.items():
                    series.add(int(sandbox.get(f"{k}_ms", 0) * 1e6))
                os.rmdir(path)
            for series in parts.values():
                show(series)


def one_start(mount, template, label, n, every_us, target=None):
    names = new_series(template, label)
    start_new(names, mount, template, "s", "hello", n, every_us)
    for series in names.values():
        show_new(series)
    good = sum(len(s.times) for k, s in names.items() if k.endswith("-whole"))
    seconds = names["total"].times[0] / 1e9 if names["total"].times else float("nan")
    cores = os.cpu_count()
    wanted = f", target {target:g} s" if target else ""
    print(f"  {template}: {label}: {good} of {n} good in {seconds:.1f} s{wanted}; "
          f"{good / seconds:.1f} VMs/s, {good / seconds / cores:.1f} per core; by start: " + ", ".join(
              f"{k[:-6]} {len(s.times)}" for k, s in names.items() if k.endswith("-whole")),
          flush=True)
    if good < n:
        print(f"  {n - good} FAILED; in the log and events of the mount is why", flush=True)


def starts(bench):
    heading("Starts: create, print, result, remove",
            "Clock: from before mkdir to the last byte of stdout, each by how its sandbox started",
            "(`start` in status.json). Clock `in`: the same, from before close(in).",
            "sequential: one after the other. staggered: a new one each so many ms, whatever the",
            "others do. Removing is not on the clock, but takes its part of the machine; `down`: rmdir",
            "until the machine's process is gone.")
    few = bench.quick
    for template in bench.templates[:1] if few else bench.templates:
        with bench.mount() as mount:
            warm_up(mount, template)
            for label, n, every in (("sequential", 10 if few else 50, -1),
                                    ("staggered, each 300 ms", 10 if few else 30, 300000),
                                    ("staggered, each 100 ms", 10 if few else 60, 100000)):
                one_start(mount, template, label, n, every)
                mount.wait_pool(template)


def burst(bench):
    heading("Burst: 100 new sessions at once, each create, print, result, remove",
            "Clocks as in `starts`. Each has a thread of its own, and all begin in the same moment. The total:",
            "from the first mkdir to the last end of stdout, teardown of the others included.")
    for template in bench.templates[:1] if bench.quick else bench.templates:
        with bench.mount() as mount:
            warm_up(mount, template)
            one_start(mount, template, "burst of 100", 100, 0, bench.target(15, 3))


def cold(bench):
    heading("Cold start to the first result, with no snapshot there",
            "Clock: from before mkdir of a session until stdout of its first program has been read.",
            "Each in a mount of its own, just made, with an empty cache of snapshots.",
            "`boot`, `setup`: from status.json, spawn to the agent's hello, hello to ready.",
            "Teardown, counted apart: rmdir of the session until its process is gone.")
    for template in bench.templates:
        start = Series(f"{template}: first result", "mkdir .. end of read(stdout)")
        boot = Series(f"{template}:   of that, boot", "boot_ms of status.json")
        setup = Series(f"{template}:   of that, interpreter", "setup_ms of status.json")
        down = Series(f"{template}: teardown", "rmdir .. process gone")
        for i in range(1 if bench.quick else 5):
            with empty_cache() as cache, bench.mount(f"cache_dir = {cache}\n") as mount:
                mount.wait_probed()
                begin = time.monotonic_ns()
                path = mount.session(template, f"cold{i}")
                out = run(path, PROGRAMS[template]["hello"])
                start.add(time.monotonic_ns() - begin if out == b"1\n" else None)
                sandbox = json.loads(read(f"{path}/status.json")).get("sandbox") or {}
                boot.add(int(sandbox.get("boot_ms", 0) * 1e6))
                setup.add(int(sandbox.get("setup_ms", 0) * 1e6))
                begin = time.monotonic_ns()
                os.rmdir(path)
                while not gone(sandbox.get("pid")):
                    time.sleep(0.001)
                down.add(time.monotonic_ns() - begin)
        for series in (start, boot, setup, down):
            show(series)
