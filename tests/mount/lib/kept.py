# SPDX-License-Identifier: Apache-2.0
"""For tests of `keep`: mounts that end and begin again with the same state directory."""

from xsbx import *

LONG = "seq 100000; seq 30000 >&2\n"


class Kept:
    """A mount of the test's own that ends and begins again with the same state directory."""

    def __init__(self, name, state=None, conf=None, wait=True):
        self.mnt, self.state = f"{SCRATCH}/{name}.mnt", state or f"{SCRATCH}/{name}.state"
        self.log, self.conf = f"{SCRATCH}/{name}.log", conf
        os.makedirs(self.mnt)
        self.daemon = None
        if wait:
            self.begin()

    def begin(self, *options):
        self.daemon = start_daemon(self.mnt, "keep=yes", f"state_dir={self.state}", *options, log=self.log,
                                   conf=self.conf)

    def end(self, how=None):
        if how:
            self.daemon.send_signal(how)
        else:
            shell(f"fusermount3 -u {self.mnt}")
        return self.daemon.wait(60 * SLOW * slack())

    def again(self, how=None, *options):
        self.end(how)
        self.begin(*options)

    def power_cut(self):
        """Nobody has the time to put anything in order."""
        spawner, daemon = kin_of(self.daemon.pid)
        rest = children_of(daemon) + children_of(spawner)
        for number in signal.SIGSTOP, signal.SIGKILL:  # none is to see another one's end
            for pid in (daemon, self.daemon.pid, spawner, *rest):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        self.daemon.wait(SOON)
        ok("the daemon is gone", wait_for(lambda: not alive(daemon)))

    def make(self, name, config=None, template="raw"):
        return Session(name, template, config, self.mnt)

    def there(self, name, template="raw"):
        s = Session.__new__(Session)
        s.path = f"{self.mnt}/{template}/{name}"
        return s

    def written(self, name, template="raw"):
        """The record is on the disk, and what is saved: nothing is written there any more."""
        path = f"{self.state}/sessions/{template}/{name}.rec"
        ok("it is written", wait_for(lambda: os.path.exists(path), 10 * SLOW), path)
        quiet = 2.5 * slack()
        end, was, since = time.monotonic() + 3 * SLOW + quiet, None, time.monotonic()
        while time.monotonic() < min(end, since + quiet):
            now = self.what_is_there()
            if now != was:
                was, since = now, time.monotonic()
            time.sleep(0.1)
        return path

    def what_is_there(self):
        there = set()
        for folder, _, names in os.walk(self.state):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    st = os.lstat(os.path.join(folder, name))
                    there.add((folder, name, st.st_mtime_ns, st.st_size))
        return there

__all__ = [name for name in dir() if not name.startswith("_")]
