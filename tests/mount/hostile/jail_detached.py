#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A sandbox keeps nothing of the host alive that it can't see: a file system that was mounted before it
began, and is unmounted while it runs, is gone, and whoever serves it is told. What it sees goes as well, where
the host's mounts are shared, as systemd has them."""
# backends: process vm
# night: vm
# timeout: 60
from hosts import *

MS_REC, MS_PRIVATE, MS_SHARED = 0x4000, 1 << 18, 1 << 20
RESERVED = """[template raw]
language = raw
pool = 1
"""
CONTROL = "import ctypes, time; ctypes.CDLL(None).unshare(0x20000); print(flush=True); time.sleep(600)"


class Fuse:
    """A FUSE file system that nobody looks at, so that nothing has to be answered."""

    def __init__(self, path):
        self.dir = path
        os.mkdir(self.dir)
        self.device = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        options = f"fd={self.device},rootmode=40000,user_id=0,group_id=0".encode()
        if libc.mount(b"test", self.dir.encode(), b"fuse.test", 0, options):
            raise OSError(ctypes.get_errno(), self.dir)

    def gone(self):
        """Of a file system that there is no more, the kernel says ENODEV, else that nothing is there yet."""
        try:
            return not os.read(self.device, 1 << 17)
        except OSError as error:
            return error.errno == errno.ENODEV

    def unmount(self):
        libc.umount2(self.dir.encode(), 8)  # UMOUNT_NOFOLLOW: nobody has to answer

    def close(self):
        os.close(self.device)
        os.rmdir(self.dir)


class Places:
    """Where the host has file systems: beside all that a sandbox sees, and below what it is born with: its
    descriptors lead to /dev."""

    def __init__(self, name, *more):
        paths = [f"{SCRATCH}/{name}", f"/dev/shm/xsbx-{os.getpid()}-{name}", f"/run/xsbx-{os.getpid()}-{name}"]
        self.all = [Fuse(path) for path in (*paths, *more)]

    def unmount(self):
        """Unmounts all. Return: those that are held nevertheless."""
        for fuse in self.all:
            fuse.unmount()
        wait_for(lambda: all(fuse.gone() for fuse in self.all), 1)
        held = [fuse.dir for fuse in self.all if not fuse.gone()]
        for fuse in self.all:
            fuse.close()
        return held


def propagation(kind):
    if libc.mount(None, b"/", None, MS_REC | kind, None):
        raise OSError(ctypes.get_errno(), "propagation")


def control():
    """Both answers of the probe: nobody holds it; somebody does who has a copy of the mounts."""
    if os.geteuid():
        skip("only root can mount for itself")
    same("nothing holds it", Places("alone").unmount(), [])
    places = Places("copied")
    other = subprocess.Popen([sys.executable, "-c", CONTROL], stdout=subprocess.PIPE)
    other.stdout.readline()
    same("a copy of the mounts does", len(places.unmount()), len(places.all))
    other.kill()
    other.wait()


def on(mnt, name, template, config=None):
    """A sandbox that runs, and goes on running. Return: what it says."""
    s = Session(name, template, config, mnt)
    return s.run("sleep 600 & echo on\n").out or s.text("error")


def detached():
    """One with a network has a card, whose descriptor is elsewhere."""
    places = Places("meanwhile")
    same("control: they are there", [fuse.gone() for fuse in places.all], [False] * len(places.all))
    same("a sandbox runs", on(MNT, "begun", "raw"), "on\n")
    same("one with a card", on(MNT, "carded", "raw", "network = on\nallow = example.com\n"), "on\n")
    time.sleep(1)  # those that are kept in reserve begin, too
    same("what was mounted before goes", places.unmount(), [])
    for name in "begun", "carded":
        same("it still runs", on_again(name), "on\n")


def on_again(name):
    write(f"{MNT}/raw/{name}/in", "echo on\n")
    return read(f"{MNT}/raw/{name}/stdout").decode()


def with_paths(name, uid=None, below=False):
    """A mount of somebody's, with paths of the host; file systems are there, also `below` one of them."""
    if VM:
        return
    ro, rw, work = (folder(f"{name}.{part}", uid) for part in ("ro", "rw", "work"))
    conf = f"{RESERVED}[template shown]\nlanguage = raw\npool = 1\nro = {ro}:/ro\nrw = {rw}:/rw\n"
    if uid is None:
        conf += f"[template work]\nlanguage = raw\npool = 1\nwork = {work}\n"
    places = Places(name, *([f"{ro}/below"] if below else []))
    host = Host(name, conf, uid=uid)
    for template in ("raw", "shown", "work")[:2 if uid else 3]:
        same(f"{template} runs", as_user(uid or 0, lambda t=template: on(host.mnt, "a", t)), "on\n")
    time.sleep(1)
    same("what was mounted before goes", places.unmount(), [])
    host.close()


def of_root():
    with_paths("root")


def of_a_user():
    if as_user(MEMBER, lambda: os.access(os.environ["XSBXFS"], os.X_OK)):
        with_paths("user", MEMBER)
    else:
        print("a user's own mount was not tried: the program is in a directory that only root may enter")


def shared():
    """Where mounts are shared, what is unmounted on the host goes in sandboxes, too."""
    propagation(MS_SHARED)
    with_paths("shared", below=True)
    propagation(MS_PRIVATE)


main(control, detached, of_root, of_a_user, shared)
