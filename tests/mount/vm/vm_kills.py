#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever is killed while a machine is copied, kept, read, cloned or handed over: new sessions
work, no snapshot is used that is not whole, and nothing is left behind.

XSBX_SEED chooses the moments (it is printed), XSBX_ROUNDS how many are drawn at random."""
# mount: none
# backends: vm
# night: vm
# timeout: 400
# log-allow: snapshot of
# log-allow: no snapshots of
# log-allow: a clone of
# log-allow: the daemon died
import random

from xsbx import *

vm_only()

SEED = int(os.environ.get("XSBX_SEED") or random.randrange(1 << 32))
ROUNDS = int(os.environ.get("XSBX_ROUNDS", "2"))
LOG = f"{SCRATCH}/log"
RUN = os.environ["XDG_RUNTIME_DIR"]
draw = random.Random(SEED)
scenes = 0


class Scene:
    """A mount with a cache of its own, which another scene may inherit."""

    def __init__(self, cache=None, mnt=None, conf="", survive="no"):
        global scenes
        scenes += 1
        self.mnt = mnt or f"{SCRATCH}/m{scenes}"
        self.cache = cache or f"{SCRATCH}/c{scenes}"
        os.makedirs(self.mnt, exist_ok=True)
        if not cache:
            os.makedirs(self.cache)
        if not os.path.exists(f"{self.cache}/images"):
            link_images(self.cache)
        # A busy host is no reason to fail.
        write(f"{SCRATCH}/conf{scenes}", f"boot_timeout_s = 240\n{conf}")
        self.count, self.seen, self.groups = 0, set(), set()
        self.daemon = start_daemon(self.mnt, f"cache_dir={self.cache}", f"survive={survive}",
                                   conf=f"{SCRATCH}/conf{scenes}", log=LOG)
        self.kin = kin_of(self.daemon.pid)

    @property
    def spawner(self):
        return self.kin[0]

    def one(self, victim):
        return {"spawner": self.kin[0], "daemon": self.kin[1], "guard": self.daemon.pid}[victim]

    @property
    def top(self):
        return f"{self.cache}/snapshots"

    def hidden(self):
        """What is not, or not any more, a snapshot."""
        return [n for n in names_in(self.top) if n.startswith(".")
                and n not in (".contents", ".contents.lock")]  # checksums of images

    def kept(self):
        return [n for n in names_in(self.top) if not n.startswith(".")]

    def snapshot(self):
        found = [s for s in json.loads(read(f"{self.mnt}/status.json"))["snapshots"]
                 if s["image"] == "raw" and s["memory_mb"] == 192]
        return found[0] if found else {"state": "none", "pool": {"ready": 0, "filling": 0}}

    def machines(self):
        return [p for p in children_of(self.spawner) if b"qemu" in arguments(p).split(b"\0")[0]]

    def look(self, *pids):
        """Remembers what there is now and must be gone in the end."""
        for pid in {*children_of(self.daemon.pid), *children_of(self.spawner), *pids}:
            self.seen.add(pid)
            self.groups |= groups_of(pid) - groups_of("self")

    def submit(self, code="echo $((6 * 7))\n"):
        self.count += 1
        s = Session(f"s{self.count}", mnt=self.mnt)
        s.submit(code)
        return s

    def works(self, what):
        """A session made now does what it should. Return: how its sandbox started."""
        s = self.submit()
        got = s.result()
        same(f"{what}: a new session", (got.stdout, got.code), (b"42\n", 0))
        start = (s.json()["sandbox"] or {}).get("start")
        s.remove()
        return start

    def wait_pool(self, what):
        ok(f"{what}: a snapshot and a clone in the end",
           wait_for(lambda: self.snapshot()["pool"]["ready"], 30), self.snapshot())

    def wait_kept(self):
        wait_for(lambda: self.kept() and not self.hidden(), 30)

    def end(self, what, how="unmount"):
        """However the daemon ends or ended, it leaves nothing but whole snapshots."""
        self.look()
        if how == "unmount":
            shell(f"fusermount3 -u {self.mnt}")
        try:
            self.daemon.wait(SOON)
        except subprocess.TimeoutExpired:
            fail(f"{what}: the daemon does not end")
            self.daemon.kill()
            self.daemon.wait()
        wait_for(lambda: not [p for p in self.seen if alive(p)], 3)
        same(f"{what}: processes", [arguments(p)[:80] for p in self.seen if alive(p)], [])
        wait_for(lambda: not any(map(os.path.isdir, self.groups)), 2)
        same(f"{what}: control groups", [*filter(os.path.isdir, self.groups)], [])
        wait_for(lambda: not mounted(self.mnt), 2)
        ok(f"{what}: the mount is gone", not mounted(self.mnt))
        # What a spawner removes after its daemon's death takes a moment.
        wait_for(lambda: not files_below(RUN), 2)
        same(f"{what}: files of the daemon", files_below(RUN), [])
        if how == "unmount":
            same(f"{what}: nothing half-made", self.hidden(), [])


def names_in(path):
    try:
        return os.listdir(path)
    except FileNotFoundError:
        return []


def files_below(path):
    return [os.path.join(f, n) for f, _, names in os.walk(path) for n in names]


def arguments(pid):
    try:
        return read(f"/proc/{pid}/cmdline")
    except OSError:
        return b""


def groups_of(pid):
    """The directories of a process's control groups, wherever they may be mounted."""
    try:
        lines = read(f"/proc/{pid}/cgroup", "r").splitlines()
    except OSError:
        return set()
    found = set()
    for line in lines:
        _, names, path = line.split(":", 2)
        for top in ("", "/unified", f"/{names.removeprefix('name=')}"):
            if path.strip("/"):
                found.add(f"/sys/fs/cgroup{top}{path}")
    return found


def hurt(pid, stop_first=False):
    """SIGKILL, or stopped first for a while, as a debugger or a freezer does."""
    try:
        if stop_first:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(draw.uniform(0.05, 0.6))
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


# ---- moments ----

def when_booting(scene):
    """The machine to be copied is on its way up, or being set up, or copied."""
    wait_for(lambda: scene.snapshot()["state"] in ("building", "ready"), 20)
    time.sleep(draw.uniform(0, 4))


def when_storing(scene):
    wait_for(lambda: scene.hidden() or scene.kept(), 20)
    time.sleep(draw.choice((0, draw.uniform(0, 0.3))))


def when_filling(scene):
    wait_for(lambda: scene.snapshot()["pool"]["filling"] or scene.snapshot()["pool"]["ready"], 20)
    time.sleep(draw.choice((0, draw.uniform(0, 0.5))))


def when_pooled(scene):
    wait_for(lambda: scene.snapshot()["pool"]["ready"], 30)


def at_hand_over(scene):
    """A session takes the clone, or has taken it."""
    when_pooled(scene)
    scene.submit()
    time.sleep(draw.choice((0, draw.uniform(0, 0.02))))


MOMENTS = {"booting": when_booting, "storing": when_storing, "filling": when_filling,
           "pooled": when_pooled, "hand-over": at_hand_over}


# ---- tests ----

def machines():
    """QEMU is killed: the mount hardly notices."""
    scene = Scene()
    scene.works("first")
    for moment in ("booting", "filling", "pooled", "hand-over", "filling"):
        MOMENTS[moment](scene)
        # There is none between the end of the machine that was copied and the first clone.
        if moment in ("booting", "pooled", "hand-over"):
            ok(f"machines killed, {moment}: there are some", wait_for(scene.machines, 20))
        victims = scene.machines()
        scene.look(*victims)
        for pid in victims:
            hurt(pid, draw.random() < 0.5)
        # A clone that is dying is still handed out; what becomes of its run is for taken(). It has gone,
        # and its sockets with it, when it is out of /proc: a zombie may have threads on their way out.
        wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in victims), 5)
        scene.works(f"machines killed, {moment}")
    scene.wait_pool("machines killed")
    same("machines killed: from the pool", scene.works("machines killed, then"), "warm")
    scene.end("machines killed")


def taken():
    """A clone is killed with a run in it, or on its way: it is lost, refused, or was done; never made up."""
    scene = Scene()
    scene.works("first")
    for i in range(3):
        when_pooled(scene)
        victims = scene.machines()  # and the one that stands by, whichever is older
        scene.look(*victims)
        if i == 1:  # nobody has noticed yet
            for pid in victims:
                os.kill(pid, signal.SIGSTOP)
        s = scene.submit("echo one; sleep 30; echo two\n" if i else "echo one\n")
        time.sleep(draw.uniform(0, 0.03))
        for pid in victims:
            hurt(pid)
        got, state = s.result(), s.state_of(1)
        if state == "done":
            same("done: what it printed", (got.stdout, got.code), (b"one\n", 0))
        else:
            # Refused: it was not sent yet, which a slow host leaves time for.
            ok("lost: state", state in ("lost", "refused"), state)
            ok("lost: no status", not isinstance(got.code, int), got)
            ok("lost: output is from the start of it", b"one\n".startswith(got.stdout), got)
            ok("refused: it has not run", state == "lost" or not got.stdout, got)
        scene.works(f"killed in the hands of a session, {i}")
    scene.end("taken")


def once(victim, moment, cache=None):
    """A daemon of its own, of which one process is killed at that moment; then the next one."""
    what = f"{victim} killed, {moment}"
    scene = Scene(cache)
    scene.works(f"{what}: before")
    MOMENTS[moment](scene)
    scene.look()
    if victim == "unmount":
        scene.end(what)
    else:
        hurt(scene.one(victim), draw.random() < 0.3)
        scene.end(what, "killed")
    again = Scene(scene.cache, scene.mnt)
    start = again.works(f"{what}: the next mount")
    if moment in ("pooled", "hand-over") and victim == "unmount":
        same(f"{what}: the snapshot was kept", start, "snapshot")
    again.end(f"{what}, then unmounted")
    same(f"{what}: nothing half-made", again.hidden(), [])
    return again.cache


def daemons():
    once("daemon", "booting")
    once("daemon", "storing")
    cache = once("spawner", "filling")
    once("daemon", "hand-over", cache)
    once("unmount", "storing")


def followed():
    """Another daemon follows the one that is killed, and goes on: all that is made is whole, and it is made in the end."""
    for moment in ("booting", "storing", "filling", "hand-over"):
        what = f"daemon followed, {moment}"
        scene = Scene(survive="yes")
        s = scene.submit("echo first\n")
        MOMENTS[moment](scene)
        scene.look()
        hurt(scene.one("daemon"))
        got = s.result()
        same(f"{what}: the session of before", (got.stdout, got.code), (b"first\n", 0))
        s.remove()
        scene.works(what)
        scene.wait_pool(what)
        same(f"{what}: from the pool", scene.works(f"{what}, then"), "warm")
        scene.end(what)


def loading():
    """Killed, or unmounted, while a snapshot is read."""
    scene = Scene()
    scene.works("first")
    when_pooled(scene)
    scene.wait_kept()
    scene.end("before loading")
    for victim in ("daemon", "unmount", "spawner"):
        what = f"{victim}, loading"
        again = Scene(scene.cache)
        again.submit()
        time.sleep(draw.uniform(0, 0.4))
        again.look()
        if victim == "unmount":
            shell(f"fusermount3 -uz {again.mnt}")
        else:
            hurt(again.one(victim))
        again.end(what, "killed")
    last = Scene(scene.cache)
    same("loading: and then it is used", last.works("loading, then"), "snapshot")
    last.end("loading, then")


def at_random():
    for _ in range(ROUNDS):
        once(draw.choice(("daemon", "daemon", "spawner", "guard", "unmount")), draw.choice([*MOMENTS]))


def halves():
    """Snapshots of which a part is missing or is another's are made again, never used."""
    scene = Scene()
    scene.works("first")
    when_pooled(scene)
    scene.wait_kept()
    scene.end("whole")
    [key] = scene.kept()
    whole = f"{SCRATCH}/whole"
    os.rename(f"{scene.top}/{key}", whole)

    def no_manifest(path):
        os.unlink(f"{path}/manifest.json")

    def short_manifest(path):
        os.truncate(f"{path}/manifest.json", 40)

    def no_state(path):
        os.unlink(f"{path}/state")

    def short_ram(path):
        os.truncate(f"{path}/ram", os.path.getsize(f"{path}/ram") - 4096)

    def other_state(path):
        with open(f"{path}/state", "r+b") as file:
            file.seek(5000)
            file.write(b"other")

    def other_key(path):
        text = read(f"{path}/manifest.json").replace(key[:8].encode(), b"00000000")
        write(f"{path}/manifest.json", text)

    def empty(path):
        shutil.rmtree(path)
        os.mkdir(path)

    def others(path):
        os.chown(path, 12345, 12345)

    def anybodys(path):
        os.chmod(path, 0o777)

    def fifo(path):
        os.unlink(f"{path}/ram")
        os.mkfifo(f"{path}/ram")

    kinds = [no_manifest, short_manifest, no_state, short_ram, other_state, other_key, empty,
             anybodys, fifo]
    if os.geteuid() == 0:
        kinds.append(others)
    draw.shuffle(kinds)
    for spoil in kinds:
        what = f"a snapshot with {spoil.__name__}"
        shutil.rmtree(f"{scene.top}/{key}", ignore_errors=True)
        shutil.copytree(whole, f"{scene.top}/{key}")
        os.chmod(f"{scene.top}/{key}", 0o700)
        spoil(f"{scene.top}/{key}")
        again = Scene(scene.cache)
        same(what, again.works(what), "cold")
        again.end(what)


def disk():
    """No room, no permission, no directory: snapshots are in memory all the same."""
    if os.geteuid() != 0:
        return
    # A disk that is full.
    cache = f"{SCRATCH}/full"
    os.mkdir(cache)
    shell(f"mount -t tmpfs -o size=8m none {cache}")
    scene = Scene(cache)
    scene.works("full disk")
    scene.wait_pool("full disk")
    ok("full disk: it is told", wait_for(lambda: b"not kept" in read(f"{scene.mnt}/events"), 10))
    same("full disk", scene.works("full disk, then"), "warm")
    same("full disk: nothing of it is left", scene.kept() + scene.hidden(), [])
    # A directory that is removed while in use, and with it what is there.
    shutil.rmtree(scene.top)
    scene.wait_pool("no directory")
    same("no directory", scene.works("no directory"), "warm")
    scene.end("full disk")
    # One that can only be read, with a snapshot to be read.
    shell(f"mount -o remount,size=512m {cache}")
    scene = Scene(cache)
    scene.works("room again")
    when_pooled(scene)
    scene.wait_kept()
    same("room again: kept", len(scene.kept()), 1)
    scene.end("room again")
    shell(f"mount --bind {scene.top} {scene.top} && mount -o remount,bind,ro {scene.top}")
    scene = Scene(cache, conf="[template raw]\npool = 0\n")
    same("read-only", scene.works("read-only"), "snapshot")
    # Removed while it is in use.
    shell(f"umount {scene.top}")
    shutil.rmtree(scene.top)
    same("removed in use", scene.works("removed in use"), "snapshot")
    scene.end("removed in use")
    # A directory of somebody else.
    os.mkdir(scene.top, 0o755)
    os.chown(scene.top, 12345, 12345)
    scene = Scene(cache)
    scene.works("another's directory")
    when_pooled(scene)
    scene.end("another's directory")
    shell(f"umount {cache}")


print(f"XSBX_SEED={SEED}", flush=True)
main(machines, taken, daemons, followed, loading, halves, disk, at_random)
