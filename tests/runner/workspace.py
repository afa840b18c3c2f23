# SPDX-License-Identifier: Apache-2.0
"""The directory, daemon and mount of one test, and the check that it leaves nothing behind."""

import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile

from .host import descendants, force_unmount, kill_all, mounts_below, processes, reap
from .patience import slack, wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SUSPICIOUS = re.compile(r"error|leak|runtime error|Sanitizer|assert|uninit|panic", re.I)
# What the daemon says about a host's KVM is no fault of the daemon.
HARMLESS = re.compile(r"^xsbxfs: accelerator: ")


def ended(child, seconds):
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True

# A build that a mount has begun may have made it before the mount ended; lock files stay, or two could hold one.
BUILD_LOCK = "cache/xsbxfs/images/.lock"


class Workspace:
    """Directories, a daemon and a mount for one test. Runs in its own process."""

    def __init__(self, test, build):
        self.test, self.build = test, build
        self.dir = tempfile.mkdtemp(prefix="xsbx.")
        os.chmod(self.dir, 0o755)
        self.daemon, self.problems = None, []
        for name in ("mnt", "scratch", "home", "run", "cache", "tmp"):
            os.mkdir(f"{self.dir}/{name}")
        os.chmod(f"{self.dir}/scratch", 0o777)
        self.mnt, self.log = f"{self.dir}/mnt", f"{self.dir}/log"
        self.conf = f"{self.dir}/conf"
        open(self.log, "w").close()
        self.env = self.environment()

    def environment(self):
        env = dict(os.environ)
        cache = env.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
        # The system's own programs first: what a version manager puts before them starts slowly.
        system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        tools = f"{cache}/xsbxfs/images/tools"
        env.update(
            MNT=self.mnt, BUILD=self.build, SCRATCH=f"{self.dir}/scratch", BACKEND=self.test.kind,
            CONF=self.conf, LOG=self.log, TEST_DIR=self.dir, HOME=f"{self.dir}/home",
            XDG_RUNTIME_DIR=f"{self.dir}/run", TMPDIR=f"{self.dir}/tmp",
            XSBX_AGENT=f"{self.build}/xsbx-agent", XSBX_DRIVERS=f"{self.build}/drivers",
            PYTHONDONTWRITEBYTECODE="1", CCACHE_DISABLE="1",
            PATH=f"{system}:{env.get('PATH', '')}:{tools}", LC_ALL="C.UTF-8",
            ASAN_OPTIONS=f"detect_leaks=1:exitcode=99:{self.test.asan}:" + env.get("ASAN_OPTIONS", ""),
            UBSAN_OPTIONS="print_stacktrace=1:" + env.get("UBSAN_OPTIONS", ""),
            # What an administrator has put on this host is no part of any test.
            XSBXFS_SHARED="none",
            XSBXFS=self.program(), IMAGES=f"{cache}/xsbxfs", PATIENCE=f"{slack():.0f}",
        )
        env.pop("XDG_CONFIG_HOME", None)
        env["XDG_CACHE_HOME"] = cache if self.test.kind == "vm" else f"{self.dir}/cache"
        return env

    def program(self):
        return f"{self.build}/test/xsbxfs" if self.test.kind == "local" else f"{self.build}/xsbxfs"

    def start(self):
        """Mount, and wait until it is ready."""
        conf = list(self.test.conf)
        # Emulated, beside much else, a boot takes longer than a daemon waits for by itself.
        if self.test.kind == "vm" and not any("boot_timeout_s" in line for line in conf):
            conf.insert(0, f"boot_timeout_s = {min(3600, round(60 * slack()))}")
        with open(self.conf, "w") as file:
            file.write("".join(f"{line}\n" for line in conf))
        if not self.test.mount:
            return True
        fifo = f"{self.dir}/ready"
        os.mkfifo(fifo)
        ready = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        # What a mount makes ready by itself would be in the way of what tests look at.
        options = [f"notify={fifo}", "prepare=no"]
        if self.test.kind == "process":
            options += ["allow_process=yes", "backend=process", "accel=tcg",
                        "image_builder=none"]
        options = ",".join(options + self.test.options)
        with open(self.log, "ab") as log:
            self.daemon = subprocess.Popen(
                [self.program(), "-f", "-c", self.conf, "-o", options, self.mnt],
                env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True)

        def is_ready():
            try:
                return bool(os.read(ready, 1)) or self.daemon.poll() is not None
            except BlockingIOError:
                return False

        ok = wait_until(is_ready, 90) and self.daemon.poll() is None
        os.close(ready)
        os.unlink(fifo)
        if not ok:
            status = self.daemon.poll()
            self.problems.append("the daemon did not start: " + (
                "it hangs" if status is None else f"exit status {status}"))
        return ok

    def run(self):
        """Return (exit status, output)."""
        output = f"{self.dir}/output"
        env = dict(self.env, PYTHONPATH=":".join(
            f"{ROOT}/tests/{part}" for part in ("mount/lib", "unit/fixture", "net", "runner")))
        with open(output, "wb") as file:
            child = subprocess.Popen(
                [self.test.path], cwd=ROOT if self.test.kind == "unit" else self.env["SCRATCH"],
                env=env, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                start_new_session=True)
            if wait_until(lambda: ended(child, 1), self.test.timeout):
                status = child.returncode
            else:
                status = None
                self.problems.append(f"still running after {self.test.timeout} s, on a host that is "
                                     f"{slack():.0f} times slower than a quiet one; hangs in:")
                table = processes()
                for pid in [child.pid] + descendants(child.pid, table):
                    if pid in table:
                        self.problems.append(f"  {pid} {table[pid][1]} {table[pid][2][:120]}")
                os.killpg(child.pid, signal.SIGKILL)
        # What the test started and left is the test's; what the daemon left is looked at later. Both
        # by the same look: the pool may start a sandbox at any time, and that is the daemon's.
        if self.test.mount:
            table, ours = processes(), set()
            if self.daemon:
                ours = {self.daemon.pid, *descendants(self.daemon.pid, table)}
            kill_all(set(descendants(os.getpid(), table)) - ours)
        if status is None and not wait_until(lambda: child.poll() is not None, 5):
            self.problems.append("it does not even die: aborting the connection")
            force_unmount(self.mnt)
            child.wait()
        with open(output, errors="backslashreplace") as file:
            return status, file.read()

    def stop(self):
        """Unmount, and check that nothing is left."""
        if self.daemon:
            if any(point == self.mnt for point, _, _ in mounts_below(self.mnt)):
                done = subprocess.run(["fusermount3", "-u", self.mnt], check=False,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                if done.returncode:
                    self.problems.append(f"unmount failed: {done.stdout.strip()}")
                    force_unmount(self.mnt)
            if not wait_until(lambda: self.daemon.poll() is not None, 30):
                self.problems.append("the daemon did not exit within 30 s of the unmount")
                os.kill(self.daemon.pid, signal.SIGABRT)
                wait_until(lambda: self.daemon.poll() is not None, 5)
            elif self.daemon.returncode:
                self.problems.append(f"the daemon's exit status was {self.daemon.returncode}")
        self.look_for_remains()
        self.scan_log()

    def look_for_remains(self):
        def children():
            reap()
            return [pid for pid, (_, state, _) in processes().items()
                    if pid in descendants(os.getpid()) and state != "Z"]

        if not wait_until(lambda: not children(), 15):
            table = processes()
            for pid in children():
                if pid in table:
                    self.problems.append(f"left behind: process {pid} {table[pid][2][:150]}")
            kill_all(children())
            wait_until(lambda: not children(), 3)
        for point, _, kind in mounts_below(self.dir):
            self.problems.append(f"left behind: {kind} mount {point}")
        force_unmount(self.dir)
        for top in ("run", "cache", "tmp"):
            for folder, _, files in os.walk(f"{self.dir}/{top}"):
                for name in files:
                    path = os.path.join(folder, name)
                    if os.path.relpath(path, self.dir) == BUILD_LOCK:
                        continue
                    kind = "socket" if stat.S_ISSOCK(os.lstat(path).st_mode) else "file"
                    self.problems.append(f"left behind: {kind} {os.path.relpath(path, self.dir)}")
        with open("/proc/net/unix") as file:
            for line in file:
                if self.dir in line:
                    self.problems.append(f"left behind: socket {line.split()[-1]}")

    def scan_log(self):
        with open(self.log, errors="backslashreplace") as file:
            for line in file:
                allowed = any(a.search(line) for a in [HARMLESS, *self.test.allow])
                if SUSPICIOUS.search(line) and not allowed:
                    self.problems.append(f"log: {line.rstrip()}")

    def clean(self, keep):
        if keep:
            return
        shutil.rmtree(self.dir, ignore_errors=True)
        if os.path.exists(self.dir):
            subprocess.run(["chattr", "-R", "-ia", self.dir], stderr=subprocess.DEVNULL,
                           check=False)
            shutil.rmtree(self.dir, ignore_errors=True)
