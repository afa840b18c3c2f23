# SPDX-License-Identifier: Apache-2.0
"""Packages: the first session that asks for pandas, and the next ones, beside those without."""

import contextlib
import json
import os
import shutil
import time

from common import *
from starts import new_series, show_new, start_new

PANDAS = "packages = pandas==2.3.3"
WARM = f"{PANDAS}\nwarmup = import pandas as pd"
KINDS = {"no packages": "", "pandas, off": f"{PANDAS}\nwarmup = off", "pandas": PANDAS, "pandas, code": WARM}
GAP = 12  # seconds, after which a second session comes
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


def time_import(mount, name, series):
    """A session with packages of its own, whose first run imports them."""
    path = mount.session("python", name)
    write(f"{path}/config", PANDAS)
    begin = time.monotonic_ns()
    out = run(path, "import pandas; print(1)")
    series.add(time.monotonic_ns() - begin if out == b"1\n" else None)
    os.rmdir(path)


def own(bench, cache, n):
    """Sessions that name packages, one after the other, with nothing there but the layer."""
    names = {name: Series(f"python: own pandas, {name}", "close(in) .. end of read(stdout)")
             for name in ("first", f"second, {GAP} s later", "from the pool")}
    first, second, pooled = names.values()
    for _ in range(max(2, n // 8)):
        shutil.rmtree(f"{cache}/snapshots", ignore_errors=True)
        with kind_of_mount(bench, "", cache, 1) as mount:
            time_import(mount, "first", first)
            time.sleep(GAP)
            time_import(mount, "second", second)

            def there():
                return [s for s in mount.status()["snapshots"] if s["packages"] and s["pool"]["ready"]]
            for i in range(3):
                if mount.wait(there, 400):
                    time.sleep(0.5)
                    time_import(mount, f"pool{i}", pooled)
    for series in names.values():
        show(series)


def packages(bench):
    if "python" not in bench.templates:
        return
    n = 5 if bench.quick else 40
    heading("Packages: pandas 2.3.3 and what it needs, 512 MiB, beside the same without packages",
            "First session: nothing is there but the images; it installs and boots.",
            "Then sessions from the pool, and from the snapshot (pool = 0); clocks as in `hit`.",
            "`import pandas`: in a session that has run print(1); with warmup = off, auto and a line of code.",
            f"Own pandas: a session that names it, whose first run imports it; a second one {GAP} s after the end",
            "of the first; others from the pool.")
    with empty_cache() as cache:
        if not first(bench, cache):
            return
        own(bench, cache, n)
        again(bench, cache, 1, n)
        again(bench, cache, 0, n)
