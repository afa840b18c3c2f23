# SPDX-License-Identifier: Apache-2.0
"""The daemon is killed at named points of whatever is done, and another one goes on: no client sees an error, and no byte is lost
or there twice.

XSBX_SEED chooses what is done and where the daemon dies; it is printed. XSBX_ROUNDS is how many deaths there are."""
import random

import xsbx
from aim import *
from deaths import Mortal

SEED = int(os.environ.get("XSBX_SEED") or random.randrange(1 << 32))
draw = random.Random(SEED)

# Of each turn, and of all that is asked by the kernel.
ALWAYS = ("request: begun", "request: handled", "turn: written", "turn: committed", "turn: answered")
SAID = ("turn: sent", "turn: consumed")
RUN = ("received, ", "sends the code", "first output", "the run has ended", "its result can be read")
START = ("asks for a sandbox", "has a place", "greets the agent", "the agent has answered", "asks for an interpreter",
         "the interpreter is ready", "is up", "is ready")
SAVE = ("stood still", "is copied") if VM else ("asks for all files", "has all files")
RESTORE = () if VM else ("gets files",)
AGAIN = ("tells the agent that it goes on", "the agent goes on")


class Scene:
    """A mount, and what is to be in its sessions."""

    def __init__(self, name):
        self.aim, self.mnt = Aim(f"{name}.aim"), f"{SCRATCH}/{name}"
        self.options = ("max_deaths=1000000", "keep=yes", f"state_dir={SCRATCH}/{name}.state", "boot_timeout_s=240")
        self.guard = self.aim.start(self.mnt, *self.options)
        self.daemon = Mortal(self.guard.pid)
        self.n = self.names = self.wrote = 0
        self.log = self.host = self.x = ""
        self.s = self.session("subject")
        self.witness = self.session("witness")
        same("the witness", self.witness.run("seen=0").code, 0)
        self.run()

    def session(self, name, config=""):
        return Session(name, mnt=self.mnt, config="idle_timeout_s = 0\n" + config)

    def name(self, what):
        self.names += 1
        return f"{what}{self.names}"

    def run(self):
        """Each is made once, and each byte of it is there."""
        self.n += 1
        n = self.x = self.n
        got = self.s.run(f"echo {n} >>log; x={n}; seq {n} {n + 3000}; echo err {n} >&2; (exit {n % 7})")
        self.log += f"{n}\n"
        want = ("".join(f"{i}\n" for i in range(n, n + 3001)), f"err {n}\n", n % 7)
        same("a run", (got.out, got.err, got.code), want) or print(self.s.word(), self.s.text("error"), flush=True)
        self.look()

    def look(self):
        same("what runs have written", read(self.s / "files/log", "r"), self.log)

    def remembers(self):
        same("what it remembers", self.s.run("echo x$x").out, f"x{self.x}\n")

    # ---- what is done ----

    def follow(self):
        """A long output, read as it comes."""
        self.s.submit("seq 1 9000; sleep 0.02; seq 9001 20000; sleep 0.02; seq 20001 30000")
        same("a long output", read(self.s / "stdout"), "".join(f"{i}\n" for i in range(1, 30001)).encode())
        same("its end", read(self.s / "exit_code"), b"0\n")

    def job(self):
        j = self.s / f"jobs/{self.name('j')}"
        os.mkdir(j)
        feeder = os.open(f"{j}/stdin", os.O_WRONLY)
        write(f"{j}/in", "#!/bin/sh\nwhile read -r line; do echo got $line; done; exit 3\n")
        for i in range(20):
            os.write(feeder, f"line {i}\n".encode())
        os.close(feeder)
        same("a job", (read(f"{j}/stdout"), read(f"{j}/exit_code")), ("".join(f"got line {i}\n" for i in range(20)).encode(), b"3\n"))
        os.rmdir(j)

    def files(self):
        """Each change is made once, and what is there then is seen from both sides."""
        top = self.s / "files"
        fd = os.open(f"{top}/host", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        for _ in range(8):
            self.wrote += 1
            self.host += f"{self.wrote}\n"
            os.write(fd, f"{self.wrote}\n".encode())
        os.close(fd)
        os.mkdir(f"{top}/dir")
        data = bytes(draw.randrange(256) for _ in range(997)) * 300
        write(f"{top}/dir/new", data)
        os.rename(f"{top}/dir/new", f"{top}/dir/there")
        os.symlink("there", f"{top}/dir/link")
        same("a file", read(f"{top}/dir/link"), data)
        os.truncate(f"{top}/dir/there", 100)
        same("cut", read(f"{top}/dir/there"), data[:100])
        same("its names", sorted(os.listdir(f"{top}/dir")), ["link", "there"])
        for name in ("link", "there"):
            os.unlink(f"{top}/dir/{name}")
        os.rmdir(f"{top}/dir")
        same("each line once", read(f"{top}/host", "r"), self.host)
        same("and seen inside", self.s.run("cat host; ls -d dir 2>/dev/null").out, self.host)

    def fork(self):
        copy = self.session(self.name("copy"), "from = subject\n")
        same("a copy", copy.run("cat log; echo copied >>log").out, self.log)
        same("of its own", read(copy / "files/log", "r"), self.log + "copied\n")
        copy.remove()
        self.look()

    def checkpoint(self):
        point = self.s / f"checkpoints/{self.name('c')}"
        os.mkdir(point)
        same("a checkpoint", read(f"{point}/wait"), b"whole\n")
        same("has what there was", read(f"{point}/files/log", "r"), self.log)
        os.rmdir(point)
        self.run()

    def restore(self):
        name = self.name("back")
        os.mkdir(self.s / f"checkpoints/{name}")
        same("a place to go back to", read(self.s / f"checkpoints/{name}/wait"), b"whole\n")
        self.s.run("echo in vain >>log")
        self.s.ctl(f"restore {name}")
        self.look()
        os.rmdir(self.s / f"checkpoints/{name}")
        self.run()

    def sleep(self):
        self.s.ctl("sleep")
        ok("it sleeps", self.s.wait_state("asleep", 60), (self.s.word(), self.s.text("error")))
        self.look()
        self.x = self.x if VM else ""
        same("and wakes", self.s.run("cat log").out, self.log)
        self.remembers()

    def reset(self):
        self.s.run("x=before; sleep 1000 &")
        self.s.ctl("reset")
        self.x = ""
        self.remembers()
        self.look()
        self.run()

    def pause(self):
        self.s.ctl("pause")
        ok("it is paused", self.s.wait_state("paused", 20), (self.s.word(), self.s.text("error")))
        self.s.ctl("resume")
        ok("it goes on", self.s.wait_state("idle", 20), (self.s.word(), self.s.text("error")))
        self.remembers()

    def start(self):
        """One that comes, does something, and is removed while it runs."""
        name = self.name("one")
        s = self.session(name, "env.WORD = hello\n")
        same("a new one", s.run("echo $WORD").out, "hello\n")
        s.submit("sleep 1000")
        pid = s.pid()
        s.remove()
        ok("it is gone", name not in os.listdir(f"{self.mnt}/raw"))
        ok("and all of it", wait_for(lambda: not pid or not alive(pid), 20))

    # ---- deaths ----

    def round(self, only=None):
        """Return: what was done and where, and how many have died of it."""
        action, points = draw.choice([a for a in ACTIONS if not only or only in a[1]])
        point = only or draw.choice(points)
        passes = draw.choice((0, 0, 1, 2, 4, 8, 16)) if point in ALWAYS + SAID else 0
        times = draw.choice((1, 1, 2))
        if point in AGAIN:  # which a daemon says that comes after another one
            os.kill(self.daemon.now(), signal.SIGKILL)
        self.aim.at(point, passes=passes, times=times)
        getattr(self, action)()
        ended = self.aim.rest()
        self.seen()
        return action, point, ended

    def seen(self):
        """Another session, which nothing was asked of meanwhile."""
        same("another one goes on", self.witness.run("seen=$((seen + 1)); echo on").out, "on\n")

    def end(self, point=None, times=1):
        """... and all is there the next time; so if daemons are killed while they end. Return: how many were."""
        what = f"the end, {point}"
        if point:
            self.aim.at(point, times=times)
        self.guard.terminate()
        ok(f"{what}: it ends", wait_for(lambda: self.guard.poll() is not None, 60))
        same(f"{what}: as it should", self.guard.returncode, 0)
        ended = self.aim.rest()
        ok(f"{what}: the mount is gone", not mounted(self.mnt))
        self.guard = self.aim.start(self.mnt, *self.options)
        same(f"{what}: it sleeps", self.s.word(), "asleep")
        self.look()
        same(f"{what}: and goes on", self.s.run("cat log").out, self.log)
        self.seen()
        self.x = self.x if VM else ""
        self.remembers()
        self.guard.terminate()
        ok(f"{what}: and ends", wait_for(lambda: self.guard.poll() is not None, 60))
        return ended


ACTIONS = (
    ("run", ALWAYS + SAID + RUN), ("run", ALWAYS + SAID + RUN + AGAIN), ("follow", ALWAYS + SAID + RUN),
    ("job", ALWAYS + SAID + ("sends job", "job ")), ("files", ALWAYS + SAID + AGAIN), ("files", ALWAYS + SAID),
    ("fork", ALWAYS + SAID + SAVE + RESTORE + START), ("checkpoint", ALWAYS + SAID + SAVE),
    ("restore", ALWAYS + SAID + SAVE + RESTORE + START), ("sleep", ALWAYS + SAID + SAVE + RESTORE + START),
    ("reset", ALWAYS + SAID + AGAIN), ("pause", ALWAYS + SAID),
    ("start", ALWAYS + SAID + START + RUN + ("ends: ",)),
)


def deaths(most):
    """So many, and each point was reached."""
    scene = Scene("aimed")
    at = {point: 0 for _, points in ACTIONS for point in points}
    total = rounds = 0
    while total < most and rounds < 4 * most + 50:
        action, point, ended = scene.round()
        rounds += 1
        total += ended
        at[point] += ended
        if xsbx.failures:
            print(f"in round {rounds}: {action}, {point}, {ended} deaths", flush=True)
            break
    # What was drawn at random may have left some out.
    for point in [point for point, n in at.items() if not n and most >= 300 and not xsbx.failures]:
        for _ in range(20):
            at[point] += 0 if at[point] else scene.round(point)[2]
    print(f"{total} deaths in {rounds} rounds:", json.dumps(at), flush=True)
    ok("there were as many deaths", total >= most, (total, rounds))
    same("and at each point, where there were enough", [point for point, n in at.items() if not n and most >= 300], [])
    scene.end()


def removal():
    """A session is removed by a daemon that has begun where another one died of that; and the next one finds nothing of it."""
    scene = Scene("removal")
    s = scene.session("gone")
    same("it runs", s.run("true").code, 0)
    s.submit("sleep 1000")
    scene.aim.at("ends: ")
    s.remove()
    same("one has died of it", scene.aim.rest(), 1)
    scene.seen()
    scene.daemon.die()
    scene.seen()
    scene.end()


def ends(most):
    points = ("turn: written", "turn: committed", "ends: ") + (() if VM else SAVE)
    total = sum(Scene(f"end{n}").end(points[n % len(points)], draw.choice((1, 1, 2))) for n in range(most))
    ok("daemons have died of it", total >= most, total)


def matrix(most):
    most = int(os.environ.get("XSBX_ROUNDS", "0")) or most
    print(f"XSBX_SEED={SEED}", flush=True)
    main(removal, lambda: ends(max(1, most // 20)), lambda: deaths(most))


__all__ = ["matrix"]
