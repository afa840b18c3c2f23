# SPDX-License-Identifier: Apache-2.0
"""Jobs: programs beside a session's interpreter, and what is typed to one."""

import os
import shutil
import subprocess
import tempfile
import threading
import time

from common import *
from processes import BWRAP
from starts import warm_up

PROCESS = "[limits]\nallow_process = yes\n[template raw]\nbackend = process\n"
KINDS = (("machine", ""), ("process", PROCESS))
RUNTIMES = ("crun", "runc")


def job(path, config, start=True):
    """Return the directory of a new job."""
    at = tempfile.mkdtemp(prefix="j", dir=f"{path}/jobs")
    write(f"{at}/config", config)
    if start:
        write(f"{at}/ctl", "start\n")
    return at


def true_once(path):
    begin = time.perf_counter_ns()
    at = job(path, "argv = true\n")
    good = read(f"{at}/exit_code") == b"0\n"
    took = time.perf_counter_ns() - begin
    os.rmdir(at)
    return took if good else None


def fork_exec(argv):
    begin = time.perf_counter_ns()
    good = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    return time.perf_counter_ns() - begin if good else None


def container(runtime):
    """A container of this runtime that stands by, with the host's root; return its bundle and id, or None."""
    bundle, name = tempfile.mkdtemp(), f"xsbx-bench-{os.getpid()}"
    subprocess.run([runtime, "spec"], cwd=bundle, check=True)
    with open(f"{bundle}/config.json") as file:
        spec = json.load(file)
    os.mkdir(f"{bundle}/root")  # nobody can change to a root that is his own
    if subprocess.run(["mount", "--bind", "/", f"{bundle}/root"], stderr=subprocess.DEVNULL).returncode:
        return bundle, None
    spec["root"] = {"path": "root", "readonly": True}
    spec["mounts"] = [mount for mount in spec["mounts"] if mount["type"] != "cgroup"]  # which not every host has
    spec["process"].update({"terminal": False, "args": ["sleep", "1000"]})
    write(f"{bundle}/config.json", json.dumps(spec))
    done = subprocess.run([runtime, "run", "-d", "-b", bundle, name], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL)
    return (bundle, name) if done.returncode == 0 else (bundle, None)


def exec_in_container(runtime, n):
    bundle, name = container(runtime)
    if not name:
        print(f"({runtime} left out: it cannot run a container here)")
    else:
        series = Series(f"{runtime} exec: true", "fork .. wait")
        for _ in range(n):
            series.add(fork_exec([runtime, "exec", name, "true"]))
        show(series)
        subprocess.run([runtime, "delete", "-f", name], stderr=subprocess.DEVNULL)
    subprocess.run(["umount", f"{bundle}/root"], stderr=subprocess.DEVNULL)
    # Never what may still be mounted there.
    if os.path.isdir(f"{bundle}/root"):
        os.rmdir(f"{bundle}/root")
    shutil.rmtree(bundle)


def starts(bench, path, what, n):
    series = Series(f"{what}: true", "mkdir .. end of read(exit_code)")
    for _ in range(n):
        series.add(true_once(path))
    show(series)


def echoes(bench, path, what, n):
    """A key is echoed by the terminal in the sandbox."""
    at = job(path, "tty = yes\ntimeout_s = 0\nargv = sh -c 'stty -icanon; echo up; exec cat >/dev/null'\n", start=False)
    fd = os.open(f"{at}/tty", os.O_RDWR)
    write(f"{at}/ctl", "start\n")
    shown = b""
    while b"up\r\n" not in shown:
        shown += os.read(fd, 100)
    series = Series(f"{what}: keystroke to echo", "write .. read(tty)", target=5 if what == "process" else None)
    for _ in range(n):
        begin = time.perf_counter_ns()
        os.write(fd, b"x")
        good = os.read(fd, 100) == b"x"
        series.add(time.perf_counter_ns() - begin if good else None)
    show(series)
    os.close(fd)
    os.rmdir(at)


def input_rate(bench, path, what):
    """A stream of zeroes into a program that throws it away."""
    size = (64 if bench.quick else 512) * MIB
    at = job(path, "timeout_s = 0\nargv = sh -c 'cat >/dev/null'\n", start=False)
    fd = os.open(f"{at}/stdin", os.O_WRONLY)
    write(f"{at}/ctl", "start\n")
    block, begin = bytes(MIB), time.perf_counter_ns()
    for _ in range(size // MIB):
        view = memoryview(block)
        while view:
            view = view[os.write(fd, view):]
    os.close(fd)
    good = read(f"{at}/exit_code") == b"0\n"
    took = time.perf_counter_ns() - begin
    series = Series(f"{what}: {size // MIB} MiB of input", "first write .. end of read(exit_code)")
    series.add(took if good else None)
    show(series)
    print(f"    {size / MIB / (took / 1e9):.0f} MiB a second", flush=True)
    os.rmdir(at)


def at_once(bench, path, what):
    """As many as there may be, started together."""
    series = Series(f"{what}: 63 at once, true", "first mkdir .. last read(exit_code)")
    for _ in range(2 if bench.quick else 5):
        begin, good = time.perf_counter_ns(), []
        jobs = [job(path, "argv = true\n") for _ in range(63)]
        readers = [threading.Thread(target=lambda at=at: good.append(read(f"{at}/exit_code") == b"0\n")) for at in jobs]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        series.add(time.perf_counter_ns() - begin if all(good) else None)
        for at in jobs:
            os.rmdir(at)
    show(series)


def jobs(bench):
    heading("Jobs in a session that is up",
            "Clock: from before mkdir jobs/NAME to its exit code; of others from before fork to the end.",
            "The client is Python: its own share is in (fork and exec).")
    n = 30 if bench.quick else 200
    for what, conf in KINDS:
        with bench.mount(conf) as mount:
            warm_up(mount, "raw")
            path = mount.session("raw", "jobs")
            run(path, ":")
            starts(bench, path, what, n)
            echoes(bench, path, what, n)
            input_rate(bench, path, what)
            at_once(bench, path, what)
    series = Series("(fork and exec): true", "fork .. wait")
    for _ in range(n):
        series.add(fork_exec(["true"]))
    show(series)
    if shutil.which("bwrap"):
        series = Series("(bwrap): true", "fork .. wait")
        for _ in range(n):
            series.add(fork_exec([*BWRAP, "true"]))
        show(series)
    for runtime in RUNTIMES:
        if shutil.which(runtime):
            exec_in_container(runtime, n)
        else:
            print(f"({runtime} left out: apt-get install {runtime})")
