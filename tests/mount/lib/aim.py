# SPDX-License-Identifier: Apache-2.0
"""A daemon that ends at a point of its code: by the build for tests, see tests/unit/fixture/aim.c."""

import mmap
import struct

from xsbx import *

PROGRAM = f"{BUILD}/test/xsbxfs"
SIZE = 4096
HEAD = struct.Struct("=iiii")  # signal, times it is passed by, daemons that are still to be ended, and that were
POINT = 240


class Aim:
    """What is shared with the daemons of a mount, which begin with `env`."""

    def __init__(self, name="aim"):
        path = f"{SCRATCH}/{name}"
        with open(path, "wb") as file:
            file.truncate(SIZE)
        os.chmod(path, 0o600)
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), SIZE)
        self.env = dict(os.environ, XSBX_AIM=path, **({"XSBX_MACHINES": "yes"} if VM else {}))

    def start(self, mnt, *options, **popen):
        os.makedirs(mnt, exist_ok=True)
        return start_daemon(mnt, "log_level=debug", f"agent={BUILD}/xsbx-agent", *options, program=PROGRAM, env=self.env, **popen)

    def at(self, point, signum=signal.SIGKILL, passes=0, times=1):
        """From now on, so many daemons end at this point, the first when it has been there so often before."""
        self.rest()
        self.memory[HEAD.size:HEAD.size + POINT] = point.encode().ljust(POINT, b"\0")
        HEAD.pack_into(self.memory, 0, 0, passes, times, 0)
        struct.pack_into("=i", self.memory, 0, signum)

    def rest(self):
        """Nobody is ended any more. Return how many were."""
        struct.pack_into("=i", self.memory, 0, 0)
        return self.ended()

    def ended(self):
        return HEAD.unpack_from(self.memory)[3]


__all__ = [name for name in dir() if not name.startswith("_")]
