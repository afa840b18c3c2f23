# SPDX-License-Identifier: Apache-2.0
"""The process backend: starts and runs, beside the same interpreter without a sandbox and in others'."""

import importlib.util
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time

from common import *
from runs import following
from starts import new_series, show_new, start_new, warm_up

CONF = "backend = process\n[limits]\nallow_process = yes\n"

HERE = os.path.dirname(os.path.abspath(__file__))

# As inside a sandbox; what a version manager puts before them starts slowly.
PATH = "/usr/local/bin:/usr/bin:/bin"

CROWD = 20

# Close of `in` to the last byte, in milliseconds: from the pool, the next run, without a pool.
TARGETS = {"python": (1.5, 0.7, 30), "raw": (1.5, 0.7, 3)}

# About the view that a sandbox of ours has: all namespaces, /usr read-only, memory to write to.
BWRAP = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr",
         "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64",
         "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/home/user",
         "--chdir", "/home/user"]


def command(template):
    """The same program, as a command of this host."""
    program = PROGRAMS[template]["hello"]
    argv = {"python": ["python3", "-c", program], "raw": ["bash", "-c", program],
            "javascript": ["bun", "-e", program]}[template]
    return [shutil.which(argv[0], path=PATH), *argv[1:]]


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


def next_runs(mount, template, target, n):
    path = mount.session(template, "next")
    for _ in range(5):
        run(path, PROGRAMS[template]["hello"])
    following(path, template, target, n)
    os.rmdir(path)


def unpooled(mount, template, target, n):
    names = new_series(template, "pool empty")
    for i in range(n):
        start_new(names, mount, template, f"cold{i}")
    if "cold-in" in names:
        names["cold-in"].target = target
    for series in names.values():
        show_new(series)


def others(template, n):
    argv = command(template)
    plain = Series(f"({template}: fork and exec)", "fork+exec .. end of its stdout")
    clock({"spawn": plain}, "spawn", n, *argv)
    show(plain)
    if shutil.which("bwrap"):
        series = Series(f"({template}: bwrap)", "fork+exec .. end of its stdout")
        clock({"spawn": series}, "spawn", n, shutil.which("bwrap"), *BWRAP[1:], *argv)
        show(series)
    else:
        print("(bwrap left out: apt-get install bubblewrap)")
    if importlib.util.find_spec("sandlock"):
        series = Series(f"({template}: sandlock)", "run() .. its return")
        clock({"spawn": series}, f"{HERE}/others.py", n, *argv, program=sys.executable)
        show(series)
    else:
        print("(sandlock left out: pip install sandlock, and run the bench with that Python)")


def jail(bench):
    heading("The jail around QEMU: the same command with and without it, in turn",
            "Clock `exec`: from before the request to the spawner until it has told that the program",
            "runs, and, of a jail, that it looked from outside and all walls stand.",
            "Clock `greeting`: from the same moment to the first byte of QMP's greeting.",
            "`added`: the difference of two starts in turn. The microVM is not run.")
    if not shutil.which("qemu-system-x86_64"):
        print("(left out: there is no QEMU)")
        return
    names = {name: Series(name.replace("-", ": "), "request .. " + name.split("-")[1])
             for name in ("plain-exec", "jailed-exec", "plain-greeting", "jailed-greeting")}
    clock(names, "qemu-system-x86_64", 20 if bench.quick else 100, program=f"{BUILD}/bench/jail")
    for series in names.values():
        show(series)
    for what, target in (("exec", None), ("greeting", 2)):
        added = Series(f"added: {what}", "jailed less plain", target)
        for with_it, without in zip(names[f"jailed-{what}"].times, names[f"plain-{what}"].times):
            added.add(with_it - without)
        show(added)


def processes_of(mount, names):
    """Their first processes, as descriptors that tell when they end."""
    pids = [json.loads(read(f"{mount.path}/raw/{name}/status.json"))["sandbox"]["pid"]
            for name in names]
    return [os.pidfd_open(pid) for pid in pids]


def all_gone(descriptors):
    """Wait for the end of all processes; nanoseconds of the clock."""
    for fd in descriptors:
        select.select([fd], [], [], 60)
        os.close(fd)
    return time.monotonic_ns()


def teardown(bench):
    heading("Teardown of 100 process sandboxes, each with a program that runs",
            "Clock `unmount`: from before fusermount3 -u; `killed`: from before SIGKILL of the process that was started, which",
            "another daemon does not survive; `daemon killed`: of the daemon itself, with `survive = no`.",
            "`gone`: until the first process of each sandbox has ended, and with it all it started;",
            "`daemon`: until the daemon has ended too.")
    names = [f"s{i}" for i in range(100)]
    conf = (f"max_vms = 150\nmemory_overcommit = 1000\ncpu_overcommit = 10000\n{CONF}"
            "[template raw]\nmemory_mb = 128\npool = 0\n")
    series = {name: Series(name, "end asked for .. ended", target) for name, target in
              (("unmount: gone", 1000), ("unmount: daemon", None), ("killed: gone", 1000), ("daemon killed: gone", 1000))}
    for how in ("unmount", "killed", "daemon killed") * (1 if bench.quick else 3):
        with mounted(bench.program, ("survive = no\n" if how == "daemon killed" else "") + conf) as mount:
            for name in names:
                write(f"{mount.session('raw', name)}/in", "echo on; sleep 600 & sleep 600\n")
            for name in names:
                with open(f"{mount.path}/raw/{name}/stdout", "rb") as file:
                    file.readline()
            descriptors = processes_of(mount, names)
            daemon = os.pidfd_open(mount.pid)
            begin = time.monotonic_ns()
            if how == "unmount":
                subprocess.run(["fusermount3", "-u", mount.path], check=True)
            else:
                os.kill(mount.server if how == "daemon killed" else mount.pid, signal.SIGKILL)
            series[f"{how}: gone"].add(all_gone(descriptors) - begin)
            end = all_gone([daemon])
            if how == "unmount":
                series["unmount: daemon"].add(end - begin)
    for one in series.values():
        show(one)


def at_once(one, n):
    """Nanoseconds from the moment in which all begin until the last has its answer, or None."""
    barrier, good = threading.Barrier(n + 1), []

    def wait_and_do(i):
        barrier.wait()
        good.append(one(i))

    threads = [threading.Thread(target=wait_and_do, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    barrier.wait()
    begin = time.perf_counter_ns()
    for thread in threads:
        thread.join()
    return time.perf_counter_ns() - begin if all(good) else None


def crowd(bench):
    heading(f"{CROWD} new process sandboxes at once, until the last has answered",
            "Clock: from the moment in which all threads begin, each with mkdir (or fork), to the last byte of",
            "the last one. They are removed, and the pool is full again, before the next series of them.",
            "`without pool`: nothing is there but one jail, with an agent alone.")
    n = 5 if bench.quick else 20
    for template in ("python", "raw"):
        for what, pool in (("", ""), (", without pool", "pool = 0\n")):
            with mounted(bench.program, f"{CONF}[template {template}]\n{pool}") as mount:
                if not pool:
                    warm_up(mount, template)
                series = Series(f"{template}: {CROWD} at once{what}", "all begin .. end of the last read(stdout)")
                for i in range(n):
                    paths = [f"{mount.path}/{template}/{i}-{k}" for k in range(CROWD)]

                    def one(k):
                        os.mkdir(paths[k])
                        return run(paths[k], PROGRAMS[template]["hello"]) == b"1\n"

                    series.add(at_once(one, CROWD))
                    for path in paths:
                        os.rmdir(path)
                    time.sleep(1)
                show(series)
        for what, before in (("bwrap", BWRAP), ("no sandbox", [])):
            if before and not shutil.which(before[0]):
                continue
            argv = [*before, *command(template)]
            series = Series(f"({template}: {what}, {CROWD} at once)", "all begin .. end of the last one's stdout")
            for _ in range(n):
                series.add(at_once(lambda _: subprocess.run(argv, stdout=subprocess.PIPE).stdout == b"1\n", CROWD))
                time.sleep(0.2)
            show(series)


def process(bench):
    heading("Process backend",
            "Clock `in`: from before close(in), of a session just made, to the last byte of stdout.",
            "Clock without `in`: the same, from before mkdir, or from before open(in) of a next run.",
            "`down`: rmdir until the sandbox's first process is gone. In brackets: the same program of",
            "this host without a sandbox and in others', from before fork to the last byte of stdout;",
            "of sandlock its Python package, from before run() to its return.")
    n = 20 if bench.quick else 100
    with mounted(bench.program, CONF) as mount:
        there = list(templates(mount))
    for template in there:
        hit, following_one, empty = TARGETS.get(template, (None, None, None))
        with mounted(bench.program, CONF) as mount:
            pooled(mount, template, hit, n)
            next_runs(mount, template, following_one, 5 * n)
        with mounted(bench.program, f"{CONF}[template {template}]\npool = 0\n") as mount:
            unpooled(mount, template, empty, n)
        others(template, n)
