# SPDX-License-Identifier: Apache-2.0
"""Something has been asked for, and goes on for a while; then another daemon follows."""

import fcntl

from xsbx import *

DELAYS = (0, 0.002, 0.01, 0.04) if not VM else (0, 0.05, 0.4)


class Midway:
    """The tests, each of which asks for something and has `follow` called in the middle of it."""

    def __init__(self, follow):
        self.follow = follow

    def midway(self, what, delay):
        time.sleep(delay)
        self.follow()
        return f"{what}, after {delay * 1000:.0f} ms"

    def begun(self):
        """A session starts, and its run waits."""
        for n, delay in enumerate(DELAYS):
            s = Session(f"begun{n}")
            s.submit("echo $((6 * 7))")
            what = self.midway("a start", delay)
            same(what, read(s / "stdout"), b"42\n")
            same(f"{what}: one run", s.runs(), [1])
            s.remove()

    def reset(self):
        s = Session("reset")
        for delay in DELAYS:
            s.run("x=1; sleep 1000 &")
            s.ctl("reset")
            what = self.midway("a reset", delay)
            same(what, s.run("echo x$x").out, "x\n")
            same(f"{what}: idle", s.word(), "idle")
        s.remove()

    def paused(self):
        s = Session("paused")
        same("it has a sandbox", s.run("(while :; do echo >>beat; sleep 0.01; done) & sleep 0.1").code, 0)
        for delay in DELAYS:
            s.ctl("pause")
            what = self.midway("a pause", delay)
            ok(f"{what}: it is paused", wait_for(lambda: s.word() == "paused", 20), s.text("error"))
            size = len(read(s / "files/beat"))
            time.sleep(0.1)
            same(f"{what}: nothing goes on", len(read(s / "files/beat")), size)
            s.ctl("resume")
            ok(f"{what}: it goes on", wait_for(lambda n=size: len(read(s / "files/beat")) > n, 20))
        s.remove()

    def saved(self):
        """Checkpoints are whole in the end, and what runs goes on."""
        s = Session("saved")
        code = "(while :; do echo >>beat; sleep 0.01; done) & head -c 20000000 /dev/zero | tr '\\0' x >big; x=1"
        same("it has a sandbox", s.run(code).code, 0)
        for n, delay in enumerate(DELAYS):
            os.mkdir(s / f"checkpoints/c{n}")
            what = self.midway("a checkpoint", delay)
            try:
                come = read(s / f"checkpoints/c{n}/wait")
            except OSError:
                come = s.text(f"checkpoints/c{n}/error")
            same(f"{what}: it comes", come, b"whole\n")
            same(f"{what}: its state", s.json(f"checkpoints/c{n}/status.json")["state"], "whole")
            same(f"{what}: its files", os.stat(s / f"checkpoints/c{n}/files/big").st_size, 20000000)
            size = os.stat(s / "files/beat").st_size
            ok(f"{what}: it goes on", wait_for(lambda n=size: os.stat(s / "files/beat").st_size > n, 20))
            same(f"{what}: runs as well", s.run("echo $x").out, "1\n")
            os.rmdir(s / f"checkpoints/c{n}")
        s.remove()

    def asleep(self):
        """A session falls asleep, and is woken, while one daemon follows another."""
        s = Session("asleep")
        s.run("echo kept >file; x=1")
        for delay in DELAYS:
            s.ctl("sleep")
            what = self.midway("a sleep", delay)
            ok(f"{what}: it sleeps", wait_for(lambda: s.word() == "asleep", 60), s.text("error"))
            f = os.open(s / "files/file", os.O_RDONLY)
            same("read, asleep", os.read(f, 2), b"ke")
            fcntl.flock(f, fcntl.LOCK_EX)
            s.submit("cat file; echo $x; flock -n file true || echo locked")
            what = self.midway("a waking up", delay)
            out = read(s / "stdout")
            same(f"{what}: as it was", out, b"kept\n1\nlocked\n" if VM else b"kept\n\nlocked\n")
            same(f"{what}: what was open is read on", os.read(f, 9), b"pt\n")
            os.close(f)
            same(f"{what}: idle", s.word(), "idle")
        s.remove()

    def forked(self):
        """A copy is asked for, and its source is being saved for that."""
        s = Session("source")
        s.run("head -c 10000000 /dev/zero | tr '\\0' x >big; echo mine >whose")
        for n, delay in enumerate(DELAYS):
            copy = Session(f"copy{n}", config="from = source\n")
            copy.submit("wc -c <big; cat whose")
            what = self.midway("a copy", delay)
            same(what, read(copy / "stdout"), b"10000000\nmine\n")
            copy.remove()
        s.remove()

    def ended(self):
        """Its first process is killed, and what becomes of its run is told once, and of what. Where that is the first of a
        namespace, a jail's or QEMU, it is only killed by SIGKILL, which is what a daemon says who knows nothing."""
        signum = signal.SIGABRT if BACKEND == "local" else signal.SIGKILL
        for n, delay in enumerate(DELAYS + DELAYS):
            s = Session(f"ended{n}")
            s.run("true")
            s.submit("sleep 1000")
            ok("it runs", s.wait_run(2, "running", 20))
            os.kill(s.pid(), signum)
            what = self.midway("an end", delay)
            ok(f"{what}: lost", s.wait_run(2, "lost", 20), s.state_of(2))
            ok(f"{what}: closed", s.wait_state("closed", 20), s.text("error"))
            has(f"{what}: of what", s.text("error"), f"signal {int(signum)}")
            s.ctl("reset")
            same(f"{what}: and anew", s.run("echo anew").out, "anew\n")
            s.remove()

    def tests(self):
        return (self.begun, self.reset, self.paused, self.saved, self.asleep, self.forked, self.ended)


__all__ = [name for name in dir() if not name.startswith("_")]
