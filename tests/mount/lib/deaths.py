# SPDX-License-Identifier: Apache-2.0
"""A daemon that is killed, and another one that goes on."""

from xsbx import *


def guard_of(mnt=MNT):
    """The process that was started, of this mount."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = read(f"/proc/{pid}/cmdline").split(b"\0")
            daemons = [p for p in children_of(int(pid)) if name_of(p) == "xsbxfs-daemon"]
        except OSError:
            continue
        if words[-2:-1] == [mnt.encode()] and daemons and b"--takeover" not in words and \
                name_of(daemons[0]) == "xsbxfs-daemon" and parent_of(parent_of(daemons[0])) == int(pid):
            return int(pid)
    raise RuntimeError(f"nobody has mounted {mnt}")


class Mortal:
    """The daemons of a guard, one after the other."""

    def __init__(self, guard):
        self.guard = guard
        self.pid = self.now()

    def now(self, other_than=None):
        """The one that there is, other than this."""
        found = []

        def there():
            try:
                found[:] = [kin_of(self.guard)[1]]
            except (ValueError, OSError, IndexError):
                return False
            return found[0] != other_than
        if not wait_for(there, 30):
            raise RuntimeError("there is no daemon any more")
        return found[0]

    def die(self, signum=signal.SIGKILL):
        """Kill it; wait for the next one, which may not serve yet."""
        self.pid = self.now()
        os.kill(self.pid, signum)
        self.pid = self.now(self.pid)
        return self.pid


__all__ = [name for name in dir() if not name.startswith("_")]
