#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon is killed while files below files/ are written, made, moved and locked: each change is made once, and nobody sees an
error."""
# backends: local process vm
# night: vm
# timeout: 300
# conf: max_deaths = 100000
# log-allow: daemon (died|was killed)|another daemon
import random
from calls import *

KILLS = 60 if not VM else 12
WRITERS = 5 if not VM else 2
random.seed(int(os.environ.get("SEED", time.time_ns() % 1000000)))


class Mount:
    def __init__(self, name):
        self.mnt = f"{SCRATCH}/{name}"
        os.mkdir(self.mnt)
        self.guard = start_daemon(self.mnt, "survive=yes")
        self.dead = None

    def daemon(self):
        """The one that lives, and has not been killed before."""
        found = []

        def there():
            try:
                found[:] = [kin_of(self.guard.pid)[1]]
            except (ValueError, OSError):
                return False
            return found[0] != self.dead
        ok("there is a daemon", wait_for(there, SOON))
        return found[0]

    def kill(self):
        self.dead = self.daemon()
        os.kill(self.dead, signal.SIGKILL)

    def end(self):
        self.guard.terminate()
        ok("the mount ends", self.guard.wait(SOON) is not None)


def at_random():
    """Whatever it was doing."""
    mount = Mount("random")
    s = Session("calls", mnt=mount.mnt)
    s.run("true")
    crew = Crew(s, WRITERS)
    for _ in range(KILLS):
        crew.get_on(1 if not VM else 10)
        time.sleep(random.random() * 0.1)
        mount.kill()
    crew.get_on()
    crew.end()
    s.remove()
    mount.end()


def agent_stopped():
    """All that was asked is on its way, and its answers come to another daemon."""
    mount = Mount("stopped")
    s = Session("calls", mnt=mount.mnt)
    s.run("true")
    agent = s.pid()
    crew = Crew(s, WRITERS)
    for n in range(KILLS // 5):
        crew.get_on()
        os.kill(agent, signal.SIGSTOP)
        try:
            crew.rest()
            for _ in range(1 + n % 3):
                mount.kill()
        finally:
            os.kill(agent, signal.SIGCONT)
    crew.end()
    s.remove()
    mount.end()


main(at_random, agent_stopped)
