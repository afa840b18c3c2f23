# SPDX-License-Identifier: Apache-2.0
"""The distribution's kernel in the guest against our own."""

import json
import os
import time

from common import *
from memory import clone_of, maps_of
from starts import new_series, show_new, start_new, warm_up

KERNELS = ("stock", "own")


def there(bench, kernel):
    with bench.mount(f"kernel = {kernel}\n") as mount:
        mount.wait_probed()
        line = [x for x in read(f"{mount.path}/doctor").decode().splitlines() if " kernel: " in x]
        print(f"({line[0].strip() if line else f'doctor does not tell of a {kernel} kernel'})")
        return bool(line) and line[0].startswith("ok")


def boots(bench, kernel, template, n):
    boot = Series(f"{kernel}: {template}: boot", "boot_ms of status.json")
    first = Series(f"{kernel}: {template}: first result", "mkdir .. end of read(stdout)")
    for i in range(n):
        with empty_cache() as cache, \
                bench.mount(f"cache_dir = {cache}\nkernel = {kernel}\n") as mount:
            mount.wait_probed()
            begin = time.monotonic_ns()
            path = mount.session(template, f"cold{i}")
            out = run(path, PROGRAMS[template]["hello"])
            first.add(time.monotonic_ns() - begin if out == b"1\n" else None)
            sandbox = json.loads(read(f"{path}/status.json")).get("sandbox") or {}
            boot.add(int(sandbox.get("boot_ms", 0) * 1e6))
            os.rmdir(path)
    return [boot, first]


def guest_memory(mount, kernel):
    """What a guest without any program has of its 192 MiB, and what of that is free."""
    path = mount.session("raw", "meminfo")
    text = run(path, "cat /proc/meminfo").decode()
    found = {line.split(":")[0]: int(line.split()[1]) << 10 for line in text.splitlines()}
    series = []
    for key in ("MemTotal", "MemAvailable"):
        series.append(Series(f"{kernel}: raw: {key}", "bytes, /proc/meminfo in the guest"))
        series[-1].add(found.get(key))
    os.rmdir(path)
    return series


def one_kernel(bench, kernel, template):
    for series in boots(bench, kernel, template, 2 if bench.quick else 7):
        show(series)
    with bench.mount(f"kernel = {kernel}\n[template {template}]\npool = 0\n") as mount:
        warm_up(mount, template, 0)
        names = new_series(f"{kernel}: {template}", "restore")
        for i in range(5 if bench.quick else 25):
            start_new(names, mount, template, f"r{i}")
        for series in names.values():
            show_new(series)
        for series in guest_memory(mount, kernel):
            show(series, "MiB", MIB)
        pids = [clone_of(mount, template, f"memory{i}")[0] for i in range(4 if bench.quick else 12)]
        time.sleep(2)
        for i, what in enumerate(("PSS", "private")):
            series = Series(f"{kernel}: {template}: {what} of a clone", "bytes, idle")
            for pid in pids:
                series.add(maps_of(pid)["all"][i])
            show(series, "MiB", MIB)
        size = Series(f"{kernel}: {template}: snapshot", "bytes of status.json")
        size.add(mount.snapshot(template)["bytes"])
        show(size, "MiB", MIB)
        path = mount.session(template, "next")
        total = Series(f"{kernel}: {template}: next run", "open(in) .. end of read(exit_code)")
        with program_file(template, "hello") as code:
            clock({"run": total}, "run", path, code, 50 if bench.quick else 400)
        show(total)


def kernels(bench):
    heading("The kernel in the guest: the distribution's (stock) and our own",
            "boot: spawn of QEMU to the agent's hello. first result: mkdir to the end of stdout, with no",
            "snapshot there. restore: a new session out of a snapshot, no pool; `in` is from close(in).",
            "PSS and private: of idle clones of one snapshot. next run: in a session that lives.")
    for kernel in KERNELS:
        if not there(bench, kernel):
            print(f"({kernel} left out: it is not built; scripts/images --kernel own)")
            continue
        for template in bench.templates[:1]:
            one_kernel(bench, kernel, template)
