#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A disk that hangs while a checkpoint is read from it does not hold up the end, which is as good as any other. Whoever reads what
is saved waits for us, by fanotify(7)."""
# mount: none
# timeout: 120
import ctypes
import select

from kept import *

FAN_CLASS_CONTENT, FAN_MARK_ADD, FAN_ACCESS_PERM = 4, 1, 0x20000
if os.getuid():
    skip("it takes root to have readers of a file wait")


class Hanging:
    """All who read these files wait, but for us."""

    def __init__(self, paths):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.fanotify_init(FAN_CLASS_CONTENT, os.O_RDONLY)
        if self.fd < 0:
            skip(f"no fanotify: {os.strerror(ctypes.get_errno())}")
        for path in paths:
            if libc.fanotify_mark(self.fd, FAN_MARK_ADD, ctypes.c_uint64(FAN_ACCESS_PERM), -100, path.encode()) < 0:
                skip(f"no readers can be held up: {os.strerror(ctypes.get_errno())}")

    def wait(self):
        """Until there is one."""
        ok("somebody reads", select.select([self.fd], [], [], SOON)[0])

    def close(self):
        os.close(self.fd)


def main_test():
    k = Kept("hangs")
    s = k.make("a")
    s.run("head -c 300000 /dev/urandom >f\n")
    kept = read(s / "files/f")
    s.ctl("checkpoint c")
    same("it is saved", read(s / "checkpoints/c/wait"), b"whole\n")
    k.again()
    s.ctl("wake")
    ok("it is awake", wait_for(lambda: s.word() == "idle"))
    disk = Hanging([f"{top}/{name}" for top, _, names in os.walk(f"{k.state}/saved") for name in names])
    writer = subprocess.Popen(["sh", "-c", f"echo restore c >{s / 'ctl'}"], stderr=subprocess.DEVNULL)
    disk.wait()
    k.daemon.terminate()
    same("the end is no failure", k.daemon.wait(SOON), 0)
    disk.close()
    writer.wait()
    ok("who asked is told", writer.returncode)
    k.begin()
    same("nothing is lost", read(s / "files/f"), kept)
    k.end()


main(main_test)
