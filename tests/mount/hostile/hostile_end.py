#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many sandboxes end at once, however their daemon ends, and nothing of them is left: no process,
mount, control group, socket or file, and no user code that tried to outlive its session."""
# backends: process
# night: process
# mount: none
# timeout: 240
from xsbx import *

MANY = int(os.environ.get("XSBX_MANY", "100"))
FEW = min(20, MANY)
NEIGHBOURS = {"idle", "other"}
LOG = f"{SCRATCH}/log"

# User code that does what it can to live on: a session of its own, a parent that is gone, signals
# that are ignored, and children made all the time.
CLINGING = """
trap '' TERM HUP INT QUIT
setsid -f bash -c "trap '' TERM HUP INT; while :; do sleep 7001; done"
(setsid bash -c 'sleep 7002 & sleep 7003' &)
sleep 0.05
"""


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
            if "xsbxfs_" in path and os.path.isdir(directory):
                found |= {directory, os.path.dirname(directory)}
    return {directory for directory in found if "xsbxfs_" in directory}


def bound_sockets():
    return [line.split()[-1] for line in read("/proc/net/unix", "r").splitlines()
            if SCRATCH in line or "xsbx" in line]


class Scene:
    """A mount with many sandboxes."""

    def __init__(self, name, count, mnt=None, survive="yes"):
        self.name, self.mnt = name, mnt or f"{SCRATCH}/{name}"
        os.makedirs(self.mnt, exist_ok=True)
        self.sockets = bound_sockets()
        options = ["max_vms=400", "max_vms_user=400", "max_sessions=400", "memory_overcommit=1000",
                   "cpu_overcommit=1000", f"survive={survive}"]
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
        self.pids, self.groups = [], set()
        self.look()
        self.namespaces = {os.readlink(f"/proc/{pid}/ns/mnt") for pid in self.pids
                           if os.path.exists(f"/proc/{pid}/ns/mnt")}
        ok(f"{name}: control groups, if there can be any", self.groups or
           "limit.pro" not in "".join(self.sessions[0].json()["sandbox"]["isolation"]) or
           self.sessions[0].json()["sandbox"]["isolation"]["limit.processes"].startswith("none"))
        ok(f"{name}: there are as many sandboxes", len(self.namespaces) >= count,
           (len(self.namespaces), count))
        ok(f"{name}: and programs that cling", wait_for(lambda: self.clinging() >= 2 * count, 20),
           self.clinging())

    def clinging(self):
        self.look()
        return sum(command_of(pid).startswith("sleep 700") for pid in self.pids)

    def look(self):
        """Remembers what there is, and must be gone in the end."""
        self.pids = [*{*self.pids, *children_of(self.daemon.pid)}]
        for pid in [p for p in self.pids if name_of(p) == "xsbxfs-spawner"]:
            self.pids = [*{*self.pids, *children_of(pid)}]
        self.groups |= set().union(*map(groups_of, self.pids)) - groups_of("self")

    def helper(self, which):
        [pid] = [p for p in self.pids if name_of(p) == f"xsbxfs-{which}"]
        return pid

    def files(self, top):
        """But for those of another mount that is there at the same time."""
        return [os.path.join(f, n) for f, _, names in os.walk(top) for n in names
                if not any(f.endswith(f"-{other}") for other in NEIGHBOURS - {self.name})]

    def left(self):
        return [pid for pid in self.pids if alive(pid)]

    def ended(self, begin, seconds=30):
        """Nothing is left; tells how long that took."""
        try:
            self.daemon.wait(seconds * slack())
        except subprocess.TimeoutExpired:
            fail(f"{self.name}: the daemon does not end")
            self.daemon.kill()
            self.daemon.wait()
        gone = time.monotonic() - begin
        wait_for(lambda: not self.left(), seconds)
        took = time.monotonic() - begin
        same(f"{self.name}: processes", [(p, command_of(p)) for p in self.left()], [])
        ok(f"{self.name}: the mount is gone", wait_for(lambda: not mounted(self.mnt)))
        wait_for(lambda: not any(map(os.path.isdir, self.groups)))
        same(f"{self.name}: control groups", [*filter(os.path.isdir, self.groups)][:5], [])
        for top in ("XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "TMPDIR"):
            wait_for(lambda: not self.files(os.environ[top]))
            same(f"{self.name}: files in {top}", self.files(os.environ[top]), [])
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
        scene = Scene(number.name, MANY // 2)
        begin = time.monotonic()
        scene.daemon.send_signal(number)
        scene.ended(begin)


def daemon_killed():
    """Its guard and its spawner live on, and put all in order."""
    scene = Scene("killed", FEW, survive="no")
    begin = time.monotonic()
    os.kill(scene.helper("daemon"), signal.SIGKILL)
    scene.ended(begin)
    same("its end is told", scene.daemon.returncode, -signal.SIGKILL)


def daemon_followed():
    """Another daemon goes on with all of them, and its end is theirs."""
    scene = Scene("followed", FEW)
    os.kill(scene.helper("daemon"), signal.SIGKILL)
    same("those that run", [s.state_of(2) for s in scene.sessions[::4]], ["running"] * len(scene.sessions[::4]))
    same("those that rest", [s.run("echo on\n").out for s in scene.sessions[1::4]], ["on\n"] * len(scene.sessions[1::4]))
    ok("and what clings", scene.clinging() >= 2 * FEW, scene.clinging())
    begin = time.monotonic()
    same("unmount", shell(f"fusermount3 -u {scene.mnt}")[0], 0)
    scene.ended(begin)
    same("its exit status", scene.daemon.returncode, 0)


def spawner_killed():
    """All sandboxes die with it, at once; the rest when the daemon ends."""
    scene = Scene("spawner", FEW)
    helpers = {scene.helper("daemon"), scene.helper("spawner")}
    begin = time.monotonic()
    os.kill(scene.helper("spawner"), signal.SIGKILL)
    wait_for(lambda: not set(scene.left()) - helpers, 30)
    same("spawner: no sandbox survives it", [command_of(p) for p in set(scene.left()) - helpers], [])
    if scene.daemon.poll() is None:
        scene.daemon.terminate()
    scene.ended(begin)


def all_killed():
    """The daemon, its spawner and the guard: what they leave, the next one removes."""
    scene = Scene("all", FEW)
    for pid in (scene.helper("spawner"), scene.daemon.pid, scene.helper("daemon")):
        os.kill(pid, signal.SIGKILL)
    scene.daemon.wait()
    wait_for(lambda: not scene.left(), 30)
    same("all: no sandbox survives them", [command_of(p) for p in scene.left()], [])
    shell(f"umount -l {scene.mnt}")
    again = Scene("again", 1, scene.mnt)
    same("all: control groups of the dead are removed by the next daemon",
         [*filter(os.path.isdir, scene.groups)][:5], [])
    begin = time.monotonic()
    shell(f"fusermount3 -u {again.mnt}")
    again.ended(begin)


def neighbours():
    """A daemon beside it, with no sandbox at the moment, keeps its groups."""
    idle = Scene("idle", 1)
    idle.sessions[0].remove()
    other = Scene("other", 1)
    s = Session("later", mnt=idle.mnt)
    same("neighbours: it goes on", s.run("echo on\n").stdout, b"on\n")
    said = s.json()["sandbox"]["isolation"]["limit.processes"]
    same("neighbours: with its limits", said, other.sessions[0].json()["sandbox"]["isolation"][
        "limit.processes"])
    for scene in (idle, other):
        begin = time.monotonic()
        scene.daemon.terminate()
        scene.ended(begin)


def starting():
    """Killed while sandboxes are being made."""
    for i in range(3):
        scene = Scene(f"starting{i}", 1)
        for n in range(20):
            Session(f"more{n}", mnt=scene.mnt).submit(CLINGING)
        time.sleep(0.02 * i)
        scene.look()
        begin = time.monotonic()
        scene.daemon.kill()
        scene.ended(begin)


main(unmounted, by_signal, daemon_killed, daemon_followed, spawner_killed, all_killed, neighbours, starting)
