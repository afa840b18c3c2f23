#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many sandboxes end at once, however their daemon ends, and nothing of them is left: no process,
mount, control group, socket or file, and no user code that tried to outlive its session."""
# backends: process
# mount: none
# timeout: 240
from xsbx import *

MANY = int(os.environ.get("XSBX_MANY", "100"))
LOG = f"{SCRATCH}/log"

# User code that does what it can to live on: a session of its own, a parent that is gone, signals
# that are ignored, and children made all the time.
CLINGING = """
trap '' TERM HUP INT QUIT
setsid -f bash -c "trap '' TERM HUP INT; while :; do sleep 7001; done"
(setsid bash -c 'sleep 7002 & sleep 7003' &)
sleep 0.05
"""


def name_of(pid):
    try:
        return read(f"/proc/{pid}/comm", "r").strip()
    except OSError:
        return ""


def command(pid):
    try:
        return read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace")[:80]
    except OSError:
        return ""


def groups_of(pid):
    """The directories of a process's control groups, wherever they may be mounted."""
    found = set()
    try:
        lines = read(f"/proc/{pid}/cgroup", "r").splitlines()
    except OSError:
        return found
    for line in lines:
        _, names, path = line.split(":", 2)
        for top in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup", f"/sys/fs/cgroup/{names}"):
            directory = f"{top}{path}"
            if "xsbxfs-" in path and os.path.isdir(directory):
                found.add(directory)
    return found


def files_of(top):
    return [os.path.join(f, n) for f, _, names in os.walk(top) for n in names]


def bound_sockets():
    return [line.split()[-1] for line in read("/proc/net/unix", "r").splitlines()
            if SCRATCH in line or "xsbx" in line]


class Scene:
    """A mount with many sandboxes."""

    def __init__(self, name, count):
        self.name, self.mnt = name, f"{SCRATCH}/{name}"
        os.mkdir(self.mnt)
        self.sockets = bound_sockets()
        options = ["max_vms=400", "max_vms_user=400", "max_sessions=400", "memory_overcommit=1000",
                   "cpu_overcommit=1000"]
        self.daemon = start_daemon(self.mnt, *options, log=LOG)
        self.sessions = [Session(f"s{i}", mnt=self.mnt) for i in range(count)]
        for s in self.sessions:
            s.submit(CLINGING)
        for s in self.sessions:
            if s.result().code != 0:
                fail(f"{name}: a session does not run", s.text("error"))
        # Some are busy when the end comes.
        for s in self.sessions[::4]:
            s.submit("trap '' TERM; while :; do :; done\n")
        for s in self.sessions[::4]:
            s.wait_run(2, "running")
        self.pids = children_of(self.daemon.pid)
        self.groups = set().union(*map(groups_of, self.pids)) - groups_of("self")
        self.namespaces = {os.readlink(f"/proc/{pid}/ns/mnt") for pid in self.pids
                           if os.path.exists(f"/proc/{pid}/ns/mnt")}
        ok(f"{name}: there are as many sandboxes", len(self.namespaces) >= count,
           (len(self.namespaces), count))
        ok(f"{name}: and programs that cling", sum(command(p).startswith("sleep 700")
                                                  for p in self.pids) >= 2 * count)

    def helper(self, which):
        [pid] = [p for p in self.pids if name_of(p) == f"xsbxfs-{which}"]
        return pid

    def left(self):
        return [pid for pid in self.pids if alive(pid)]

    def ended(self, begin, seconds=30):
        """Nothing is left; tells how long that took."""
        try:
            self.daemon.wait(seconds)
        except subprocess.TimeoutExpired:
            fail(f"{self.name}: the daemon does not end")
            self.daemon.kill()
            self.daemon.wait()
        gone = time.monotonic() - begin
        wait_for(lambda: not self.left(), seconds)
        took = time.monotonic() - begin
        same(f"{self.name}: processes", [(p, command(p)) for p in self.left()], [])
        ok(f"{self.name}: the mount is gone", wait_for(lambda: not mounted(self.mnt)))
        wait_for(lambda: not any(map(os.path.isdir, self.groups)))
        same(f"{self.name}: control groups", [*filter(os.path.isdir, self.groups)][:5], [])
        for top in ("XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "TMPDIR"):
            wait_for(lambda: not files_of(os.environ[top]))
            same(f"{self.name}: files in {top}", files_of(os.environ[top]), [])
        same(f"{self.name}: sockets", [s for s in bound_sockets() if s not in self.sockets], [])
        print(f"# {self.name}: {len(self.sessions)} sandboxes, {len(self.pids)} processes: the last "
              f"gone after {took * 1000:.0f} ms, the daemon after {gone * 1000:.0f} ms, all of it "
              f"after {(time.monotonic() - begin) * 1000:.0f} ms", flush=True)


def unmounted():
    scene = Scene("unmounted", MANY)
    begin = time.monotonic()
    same("unmount", shell(f"fusermount3 -u {scene.mnt}")[0], 0)
    scene.ended(begin)
    same("its exit status", scene.daemon.returncode, 0)


def by_signal():
    for number in (signal.SIGTERM, signal.SIGKILL):
        scene = Scene(number.name, MANY if number == signal.SIGTERM else MANY // 2)
        begin = time.monotonic()
        scene.daemon.send_signal(number)
        scene.ended(begin)


main(unmounted, by_signal)
