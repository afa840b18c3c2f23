# SPDX-License-Identifier: Apache-2.0
"""Packages: the first session that asks for pandas, and the next ones, beside those without."""

import contextlib
import json
import os
import time

from common import *
from starts import new_series, show_new, start_new

PANDAS = "packages = pandas==2.3.3"
WARM = f"{PANDAS}\nwarmup = import pandas as pd"
KINDS = {"no packages": "", "pandas": PANDAS, "pandas, warmup": WARM}
IMPORT = "import pandas as pd; print(pd.DataFrame({'a': [1, 2]}).a.sum())"


@contextlib.contextmanager
def kind_of_mount(bench, settings, cache, pool):
    with bench.mount(f"[xsbxfs]\ncache_dir = {cache}\n[template python]\nmemory_mb = 512\n"
                     f"timeout_s = 300\npool = {pool}\n{settings}\n") as mount:
        mount.wait_probed()
        yield mount


def first(bench, cache):
    """The first session: it installs. Return: whether it could."""
    with kind_of_mount(bench, PANDAS, cache, 0) as mount:
        begin = time.monotonic_ns()
        path = mount.session("python", "first")
        out = run(path, "print(1)")
        whole = Series("python: first session with pandas", "mkdir .. end of read(stdout)")
        whole.add(time.monotonic_ns() - begin if out == b"1\n" else None)
        show(whole)
        if out != b"1\n":
            print(f"(not installed: {read(f'{path}/error').decode().strip()})")
            return False
        # Events tell when the layer was there.
        print("  " + read(f"{path}/console").decode(errors="replace").strip().splitlines()[-1][:100])
        os.rmdir(path)
        return True


def settle(mount, pool):
    path = mount.session("python", "settle")
    run(path, "print(1)")
    os.rmdir(path)
    return mount.wait(lambda: mount.snapshot("python")["state"] == "ready" and
                      mount.snapshot("python")["pool"]["ready"] >= pool, 400)


def again(bench, cache, pool, n):
    for label, settings in KINDS.items():
        with kind_of_mount(bench, settings, cache, pool) as mount:
            if not settle(mount, pool):
                print(f"({label}: no snapshot: {json.dumps(mount.snapshot('python'))[:300]})")
                continue
            names = new_series("python", label)
            for i in range(n):
                if pool:
                    mount.wait_pool("python")
                    time.sleep(0.05)
                start_new(names, mount, "python", f"s{i}")
            for series in names.values():
                show_new(series)
            if settings:
                importing = Series(f"python: {label}, import pandas", "write .. end of read(stdout)")
                for i in range(max(2, n // 8)):
                    path = mount.session("python", f"i{i}")
                    run(path, "print(1)")
                    begin = time.monotonic_ns()
                    out = run(path, IMPORT)
                    importing.add(time.monotonic_ns() - begin if out == b"3\n" else None)
                    os.rmdir(path)
                show(importing)


def packages(bench):
    if "python" not in bench.templates:
        return
    n = 5 if bench.quick else 40
    heading("Packages: pandas 2.3.3 and what it needs, 512 MiB, beside the same without packages",
            "First session: nothing is there but the images; it installs and boots.",
            "Then sessions from the pool, and from the snapshot (pool = 0); clocks as in `hit`.",
            "`import pandas`: in a session that has run print(1), with and without a warmup of it.")
    with empty_cache() as cache:
        if not first(bench, cache):
            return
        again(bench, cache, 1, n)
        again(bench, cache, 0, n)
