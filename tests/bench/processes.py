# SPDX-License-Identifier: Apache-2.0
"""The process backend: starts and runs, beside the same interpreter without a sandbox and in others'."""

import os
import shutil

from common import *
from starts import new_series, show_new, start_new, warm_up

CONF = "backend = process\n[limits]\nallow_process = yes\n"

# As inside a sandbox; what a version manager puts before them starts slowly.
PATH = "/usr/local/bin:/usr/bin:/bin"

# Close of `in` to the last byte, in milliseconds: from the pool, the next run, without a pool.
TARGETS = {"python": (1.5, 0.7, 30), "raw": (1.5, 0.7, 3)}

# About the view that a sandbox of ours has: all namespaces, /usr read-only, memory to write to.
BWRAP = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr",
         "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64",
         "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/home/user",
         "--chdir", "/home/user"]
SANDLOCK = ["sandlock", "run", "-r", "/usr", "-r", "/lib", "-r", "/lib64", "-r", "/bin", "-r", "/etc",
            "-r", "/proc", "-w", "/tmp", "--"]
OTHERS = {"fork and exec": [], "bwrap": BWRAP, "sandlock": SANDLOCK}


def commands(template):
    """The same program as a command, by what runs it; only what is there."""
    program = PROGRAMS[template]["hello"]
    argv = {"python": ["python3", "-c", program], "raw": ["bash", "-c", program],
            "javascript": ["bun", "-e", program]}[template]
    for name, before in OTHERS.items():
        if before and not shutil.which(before[0]):
            print(f"({name} left out: it is not installed)")
            continue
        full = [shutil.which(argv[0], path=PATH), *argv[1:]]
        yield name, [shutil.which(before[0]), *before[1:], *full] if before else full


def templates(mount):
    """Those that run here: the interpreters are this host's."""
    for template in PROGRAMS:
        path = mount.session(template, "probe")
        good = run(path, PROGRAMS[template]["hello"]) == b"1\n"
        if not good:
            print(f"({template} left out: {read(f'{path}/error').decode().strip()})")
        os.rmdir(path)
        if good:
            yield template


def pooled(mount, template, target, n):
    warm_up(mount, template)
    names = new_series(template, "pool hit", target)
    for i in range(n):
        mount.wait_pool(template)
        time.sleep(0.02)
        start_new(names, mount, template, f"hit{i}")
    for series in names.values():
        show_new(series)


def following(mount, template, target, n):
    path = mount.session(template, "next")
    for _ in range(5):
        run(path, PROGRAMS[template]["hello"])
    whole = Series(f"{template}: next run, whole", "open(in) .. end of read(stdout)")
    inside = Series(f"{template}: next run, in", "close(in) .. end of read(stdout)", target)
    with program_file(template, "hello") as code:
        clock({"whole": whole, "in": inside}, "next", path, code, n)
    os.rmdir(path)
    show(inside)
    show(whole)


def unpooled(mount, template, target, n):
    names = new_series(template, "pool empty")
    for i in range(n):
        start_new(names, mount, template, f"cold{i}")
    if "cold-in" in names:
        names["cold-in"].target = target
    for series in names.values():
        show_new(series)


def others(template, n):
    for name, argv in commands(template):
        series = Series(f"({template}: {name})", "fork+exec .. end of its stdout")
        clock({"spawn": series}, "spawn", n, *argv)
        show(series)


def process(bench):
    heading("Process backend",
            "Clock `in`: from before close(in), of a session just made, to the last byte of stdout.",
            "Clock without `in`: the same, from before mkdir, or from before open(in) of a next run.",
            "`down`: rmdir until the sandbox's first process is gone. In brackets: the same program of",
            "this host without a sandbox and in others', from before fork to the last byte of stdout.")
    n = 20 if bench.quick else 100
    with mounted(bench.program, CONF) as mount:
        there = list(templates(mount))
    for template in there:
        hit, following_one, empty = TARGETS.get(template, (None, None, None))
        with mounted(bench.program, CONF) as mount:
            pooled(mount, template, hit, n)
            following(mount, template, following_one, 5 * n)
        with mounted(bench.program, f"{CONF}[template {template}]\npool = 0\n") as mount:
            unpooled(mount, template, empty, n)
        others(template, n)
