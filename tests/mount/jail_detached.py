#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A sandbox keeps nothing of the host alive that it can't see: a file system that was mounted before it
began, and is unmounted while it runs, is gone, and whoever serves it is told."""
# backends: process
# timeout: 60
import ctypes

from xsbx import *

libc = ctypes.CDLL(None, use_errno=True)


class Fuse:
    """A FUSE file system that nobody looks at, so that nothing has to be answered."""

    def __init__(self, name):
        self.dir = f"{SCRATCH}/{name}"
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
        """Unmounts it. Return: was that its end?"""
        libc.umount2(self.dir.encode(), 8)  # UMOUNT_NOFOLLOW: nobody has to answer
        ended = wait_for(self.gone, 5)
        os.close(self.device)
        return ended


def detached():
    if os.geteuid():
        skip("only root can mount for itself")
    same("control: nothing began meanwhile", Fuse("control").unmount(), True)
    fuse = Fuse("meanwhile")
    same("control: it is there", fuse.gone(), False)
    s = Session("begun")
    same("a sandbox runs", s.run("sleep 600 & echo on\n").stdout, b"on\n")
    time.sleep(1)  # those that are kept in reserve begin, too
    same("what was mounted before goes", fuse.unmount(), True)
    same("the sandbox still runs", s.run("echo on\n").stdout, b"on\n")


main(detached)
