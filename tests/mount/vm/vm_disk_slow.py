#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The disk below a machine is slow, and very much of it is asked for at once: QEMU then has as many threads as
it ever makes, and is to be allowed them. The disk is slowed down for the machine alone, by a control group."""
# backends: vm
from xsbx import *

vm_only()
need_language("python")
if os.getuid():
    skip("it takes root to slow a disk down")

WORKERS = 64  # thread-pool-max of QEMU's
READERS = 120

FILES = """
import os, random, threading
paths = [f'{d}/{f}' for d, _, files in os.walk('/usr/lib') for f in files]
paths = [p for p in paths if os.path.isfile(p) and os.path.getsize(p) > 20000]
print(len(paths) > 300)
"""
# Until a file named "enough" appears.
READ = f"""
def reader(i):
    choice = random.Random(i)
    while not os.path.exists('enough'):
        path = choice.choice(paths)
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(fd, 1, choice.randrange(os.path.getsize(path)))
        os.close(fd)
threads = [threading.Thread(target=reader, args=(i,)) for i in range({READERS})]
for thread in threads:
    thread.start()
open('reading', 'w').close()
for thread in threads:
    thread.join()
print('all', kept)
"""


class Slow:
    """A group whose processes read from a disk eight times a second; version 1 or 2."""

    def __init__(self, disk):
        self.disk = disk
        old = "/sys/fs/cgroup/blkio"
        if os.path.isdir(old):
            self.place, self.file = f"{old}/xsbx-slow.{os.getpid()}", "blkio.throttle.read_iops_device"
        else:
            self.place, self.file = f"/sys/fs/cgroup/xsbx-slow.{os.getpid()}", "io.max"
        try:
            if self.file == "io.max":
                write("/sys/fs/cgroup/cgroup.subtree_control", "+io")
            os.mkdir(self.place)
            self.limit(True)
        except OSError as error:
            self.close()
            skip(f"reads from the disk {disk} can't be limited: {error}")

    def limit(self, slow):
        if self.file == "io.max":
            write(f"{self.place}/io.max", f"{self.disk} riops={8 if slow else 'max'}\n")
        else:
            write(f"{self.place}/{self.file}", f"{self.disk} {8 if slow else 0}\n")

    def take(self, pid):
        write(f"{self.place}/cgroup.procs", f"{pid}\n")

    def close(self):
        if os.path.isdir(self.place):
            wait_for(lambda: not read(f"{self.place}/cgroup.procs"), 20)
            os.rmdir(self.place)


def whole_disk(path):
    """The disk that a file is on, as major:minor."""
    number = os.stat(path).st_dev
    place = os.path.realpath(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if os.path.exists(f"{place}/partition"):
        place = os.path.dirname(place)
    if not os.path.exists(f"{place}/dev"):
        skip(f"{path} is not on a disk of its own: {os.major(number)}:{os.minor(number)}")
    return read(f"{place}/dev", "r").strip()


def rootfs_of(pid):
    paths = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    return next(p for p in paths if p.endswith(".erofs"))


def forget(path):
    """Nothing of a file is left in the host's memory."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def most_threads(pid, path):
    """How many QEMU has at most, until they are all that it can have, or it is gone."""
    most, end = 0, time.monotonic() + 2 * SOON
    while most < WORKERS and time.monotonic() < end and alive(pid):
        forget(path)
        most = max(most, len(os.listdir(f"/proc/{pid}/task")))
        time.sleep(0.1)
    return most


def main_test():
    s = Session("slow", "python", config="timeout_s = 200\n")
    same("there is something to read", s.run(FILES + "kept = 'kept'\n").out, "True\n")
    pid = s.pid()
    path = rootfs_of(pid)
    slow = Slow(whole_disk(path))
    try:
        slow.take(pid)
        s.submit(READ)
        ok("it reads", wait_for(lambda: os.path.exists(s / "files/reading"), 60))
        most = most_threads(pid, path)
        ok("QEMU made all the threads that it can make", most >= WORKERS, most)
        time.sleep(3)
        if not ok("and lives", alive(pid), s.text("error")):
            return
        write(s / "files/enough", "")
        slow.limit(False)
        same("all is read, and nothing forgotten", s.result().out, "all kept\n")
    finally:
        s.remove()
        slow.close()


main(main_test)
