#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""In the foreground: under a terminal's Ctrl-C, and under an init system that tells all processes of a service at once to end. The
process that was started stays, whoever serves, and its status is that of the end; what runs has the time that it needs."""
# mount: none
# backends: local process
# timeout: 120
# log-allow: the daemon died
import pty

from deaths import *


class Foreground:
    """A mount whose process has a terminal of its own."""

    def __init__(self, name):
        self.mnt, self.state = f"{SCRATCH}/{name}", f"{SCRATCH}/{name}.state"
        os.makedirs(self.mnt, exist_ok=True)
        options = ",".join([*OPTIONS, "keep=yes", f"state_dir={self.state}"])
        self.pid, self.terminal = pty.fork()
        if not self.pid:
            program = os.environ["XSBXFS"]
            os.execv(program, [program, "-f", "-c", os.environ["CONF"], "-o", options, self.mnt])
        threading.Thread(target=self.drain, daemon=True).start()
        ok("it is mounted", wait_for(lambda: mounted(self.mnt), 20))

    def drain(self):
        with contextlib.suppress(OSError):
            while os.read(self.terminal, 4096):
                pass

    def ended(self):
        """Return its status, or None."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None


def interrupt(m):
    os.write(m.terminal, b"\x03")


def stop_service(m):
    """As systemd does by itself: KillMode=control-group. Sandboxes are in groups of their own."""
    spawner, daemon = kin_of(m.pid)
    for pid in (m.pid, spawner, daemon, *[p for p in children_of(spawner) if name_of(p) == "xsbxfs-holder"]):
        os.kill(pid, signal.SIGTERM)


def ends():
    for how, deaths in ((interrupt, 0), (interrupt, 1), (stop_service, 0), (stop_service, 2)):
        what = f"{how.__name__} after {deaths} deaths"
        m = Foreground(f"{how.__name__}{deaths}")
        s = Session("s", mnt=m.mnt, config="timeout_s = 0\n")
        same(f"{what}: a run", s.run("x=1").code, 0)
        for _ in range(deaths):
            Mortal(m.pid).die()
            ok(f"{what}: another one serves", "s" in os.listdir(f"{m.mnt}/raw"))
        s.submit("trap '' INT; echo begun; sleep 3; echo done > f; echo done")
        ok(f"{what}: it runs", s.wait_run(2, "running", 20))
        ok(f"{what}: it has begun", wait_for(lambda p=s: read_ready(p / "stdout"), 20))
        how(m)
        found = []
        ok(f"{what}: it ends", wait_for(lambda p=m: found.append(p.ended()) or found[-1] is not None, 30))
        same(f"{what}: its status", found[-1], 0)
        ok(f"{what}: the mount is gone", not mounted(m.mnt))
        again = start_daemon(m.mnt, "keep=yes", f"state_dir={m.state}")
        same(f"{what}: what ran had its time", (s.state_of(2), read(s / "runs/2/stdout")), ("done", b"begun\ndone\n"))
        same(f"{what}: it is asleep", (s.word(), read(s / "files/f")), ("asleep", b"done\n"))
        again.terminate()
        ok(f"{what}: and that ends", wait_for(lambda p=again: p.poll() is not None, 30))


main(ends)
