# SPDX-License-Identifier: Apache-2.0
"""Whatever is killed while a session is saved, copied, put to sleep or woken: what is whole has all that was there, what is not
says why, nobody waits for ever, others go on, and nothing is left behind.

XSBX_SEED chooses the moments; it is printed. XSBX_ROUNDS is how many there are."""
import random

import xsbx
from xsbx import *

SEED = int(os.environ.get("XSBX_SEED") or random.randrange(1 << 32))
LOG = f"{SCRATCH}/log"
WORDS = ("idle", "asleep", "closed", "failed")
# How long it takes until it is over, about; kills are drawn from that time.
TAKES = {"checkpoint": 0.05, "copy": 0.1, "sleep": 0.05, "wake": 0.1}
draw = random.Random(SEED)


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def tasks(spawner):
    """What the spawner does itself, in processes of its own: copying the memory of a machine is one of those things."""
    return [p for p in children_of(spawner) if name_of(p) == "xsbxfs-spawner"]


class Scene:
    count = 0

    def __init__(self, *options):
        Scene.count += 1
        self.mnt = f"{SCRATCH}/m{Scene.count}"
        os.mkdir(self.mnt)
        self.daemon = start_daemon(self.mnt, *options, log=LOG)
        self.spawner, self.server = kin_of(self.daemon.pid)
        self.n = self.names = 0
        self.s = self.witness = None
        self.reader = None

    def session(self, name):
        return Session(name, mnt=self.mnt, config="idle_timeout_s = 0\n")

    def fresh_name(self, what):
        self.names += 1
        return f"{what}{self.names}"

    def prepare(self):
        """A session that is idle, with something of its own in it."""
        self.n += 1
        if not self.s:
            self.s = self.session("subject")
        elif self.s.word() == "closed":
            self.s.ctl("reset")
        r = self.s.run(f"echo {self.n} > f\n")
        ok("it has a value", r.code == 0, (r, self.s.text("error")))

    def value_of(self, s, what):
        """Of the session that something was killed of: its interpreter may be gone, or its sandbox end in this moment, which
        is said."""
        for _ in range(5):
            try:
                r = s.run("cat f\n")
            except OSError as error:
                same(what + ": it has ended", (error.errno, s.word()), (errno.ESTALE, "closed"))
                return
            if r.code not in ("EIO", 137) or s is not self.s:
                break
            if r.code == "EIO":
                has(what + ": why not", s.text("error"), "code: ")
            if s.word() == "closed":
                return
        same(what, (r.out, r.code), (f"{self.n}\n", 0)) or print(s.word(), s.text("error"), flush=True)

    # ---- what is done, and what is true afterwards ----

    def checkpoint(self):
        name = self.fresh_name("c")
        os.mkdir(self.s / f"checkpoints/{name}")
        self.reader = subprocess.Popen(["cat", self.s / f"checkpoints/{name}/wait"], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
        return lambda: self.check_checkpoint(name)

    def check_checkpoint(self, name):
        def state():
            return self.s.json(f"checkpoints/{name}/status.json")["state"]

        ok("a checkpoint is whole, or it has failed", wait_for(lambda: state() != "saving", 30), self.s.word())
        info = self.s.json(f"checkpoints/{name}/status.json")
        if info["state"] == "whole":
            same("it has what there was", read(self.s / f"checkpoints/{name}/files/f"), f"{self.n}\n".encode())
            if draw.random() < 0.3:
                copy = self.session(self.fresh_name("of"))
                write(copy / "config", f"from = subject@{name}\n")
                self.value_of(copy, "a copy of it")
                copy.remove()
        else:
            ok("why not", info["problem"] and info["problem"]["cause"], info)
        os.rmdir(self.s / f"checkpoints/{name}")

    def copy(self):
        copy = self.session(self.fresh_name("copy"))
        write(copy / "config", "from = subject\n")
        if draw.random() < 0.5:
            copy.ctl("wake")
        return lambda: self.check_copy(copy)

    def check_copy(self, copy):
        def there():
            now = copy.json()
            return now["asleep"]["saved"] if now["state"] == "asleep" else now["state"] in WORDS

        ok("a copy is there, or it is closed", wait_for(there, 30), copy.json())
        if copy.word() == "closed":
            has("why", copy.text("error"), "code: ")
        else:
            self.value_of(copy, "the value of a copy")
        copy.remove()

    def sleep(self):
        self.s.ctl("sleep")
        return lambda: None

    def wake(self):
        self.s.ctl("sleep")
        ok("it sleeps", self.s.wait_state("asleep", 30), (self.s.word(), self.s.text("error")))
        how = draw.choice(("verb", "run", "file"))
        if how == "verb":
            self.s.ctl("wake")
        elif how == "file":
            self.reader = subprocess.Popen(["touch", self.s / "files/g"], stderr=subprocess.DEVNULL)
        else:
            self.s.submit("cat f\n")
            self.reader = subprocess.Popen(["cat", self.s / "exit_code"], stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL)
            return self.check_run
        return lambda: None

    def check_run(self):
        last = self.s.json()["runs"]["submitted"]
        ok("a run has ended", wait_for(lambda: self.s.state_of(last) not in ("queued", "running"), 30), self.s.json())
        if self.s.state_of(last) == "done":
            # What it started may have been killed, and it tells.
            if self.s.text(f"runs/{last}/exit_code") == "0\n":
                same("it saw the value", self.s.text(f"runs/{last}/stdout"), f"{self.n}\n")
        else:
            ok("why not", self.s.json(f"runs/{last}/status.json")["problem"], self.s.state_of(last))

    def check_files(self):
        """Of one that sleeps. What is open when it wakes is stale: what it was woken by may have come later than the kill."""
        try:
            same("files of one that sleeps", read(self.s / "files/f"), f"{self.n}\n".encode())
        except OSError as error:
            same("why not", error.errno, errno.ESTALE)
            ok("it was woken", self.s.word() != "asleep", self.s.word())

    def check(self):
        """The session, and another one."""
        def rests():
            now = self.s.json()
            return now["state"] in WORDS and not now["saving"]

        ok("it comes to rest", wait_for(rests, 30), (self.s.word(), self.s.text("error")))
        if self.s.word() == "asleep":
            self.check_files()
        if self.s.word() in ("closed", "failed"):
            has("why it is closed", self.s.text("error"), "code: ")
        else:
            self.value_of(self.s, "its value")
        if self.reader:
            try:
                self.reader.wait(SOON)
            except subprocess.TimeoutExpired:
                fail("a reader hangs", self.s.json())
                self.reader.kill()
        self.reader = None
        same("another one goes on", self.witness.run("echo on\n").out, "on\n")

    # ---- kills ----

    def moment(self, action):
        """Waits for one: drawn from the time that it takes, or aimed at what can be seen."""
        aimed = draw.choice((None, None, "saving", "starting", "copier"))
        end = time.monotonic() + draw.random() * TAKES[action] * (8 if VM else 1)
        while time.monotonic() < end:
            if aimed == "copier" and tasks(self.spawner):
                return
            if aimed == "saving" and self.s.json()["saving"] or aimed == self.s.word():
                return

    def victim(self):
        """Of a sandbox: its first process or one in it; or what copies it."""
        pid = self.s.pid()
        copiers = tasks(self.spawner)
        if copiers and draw.random() < 0.7:
            return draw.choice(copiers), "copier"
        if not pid:
            return None, "nothing"
        inside = [pid, *children_of(pid)]
        # Without a jail, what is killed beside its agent is the user's business.
        return (pid if BACKEND == "local" or draw.random() < 0.6 else draw.choice(inside)), "sandbox"

    def round(self, action):
        self.prepare()
        check = getattr(self, action)()
        self.moment(action)
        pid, what = self.victim()
        if pid:
            kill(pid)
        check()
        self.check()
        return f"{action}: {what}", bool(pid)

    def end(self, action, how):
        """Everything ends at some moment of it."""
        self.prepare()
        getattr(self, action)()
        self.moment(action)
        pids = children_of(self.daemon.pid)
        if how in ("guard", "daemon"):
            kill(self.daemon.pid if how == "guard" else self.server)
        elif how == "term":
            self.daemon.send_signal(signal.SIGTERM)
        else:
            shell(f"fusermount3 {how} {self.mnt}")
        if self.reader:
            try:
                self.reader.wait(SOON)
            except subprocess.TimeoutExpired:
                fail(f"{action}, {how}: a reader hangs")
                self.reader.kill()
        if how == "-u" and mounted(self.mnt):  # it was in use at that moment
            wait_for(lambda: shell(f"fusermount3 -u {self.mnt}")[0] == 0)
        self.nothing_left(f"{action}, {how}", pids)
        return f"{action}: {how}"

    def nothing_left(self, what, pids):
        try:
            self.daemon.wait(SOON)
        except subprocess.TimeoutExpired:
            fail(f"{what}: the daemon does not end")
            self.daemon.kill()
        wait_for(lambda: not any(alive(p) for p in pids), 10)
        same(f"{what}: processes", [(p, command_of(p)) for p in pids if alive(p)], [])
        ok(f"{what}: the mount is gone", wait_for(lambda: not mounted(self.mnt)))
        run = os.environ["XDG_RUNTIME_DIR"]
        same(f"{what}: files of the daemon", [os.path.join(f, n) for f, _, names in os.walk(run) for n in names], [])

    def held(self):
        """Descriptors of the daemon and of the spawner, without what belongs to sandboxes that there are, about."""
        return [len(os.listdir(f"/proc/{p}/fd")) for p in (self.server, self.spawner)]


def sandboxes_killed(rounds):
    scene = Scene()
    try:
        rounds_of(scene, rounds)
    finally:
        pids = children_of(scene.daemon.pid)
        shell(f"fusermount3 -u {scene.mnt} || fusermount3 -uz {scene.mnt}")
        scene.nothing_left("at the end", pids)


def rounds_of(scene, rounds):
    seen = {}
    scene.witness = scene.session("witness")
    scene.witness.run("true\n")
    scene.prepare()
    before = scene.held()
    kills = n = 0
    # In some there is nothing at that moment that could be killed.
    while kills < rounds and n < 4 * rounds:
        what, killed = scene.round(draw.choice(list(TAKES)))
        n, kills = n + 1, kills + killed
        seen[what] = seen.get(what, 0) + 1
        if xsbx.failures:
            print(f"after round {n}: {what}", flush=True)
            break
    print(f"{kills} kills:", json.dumps(seen), flush=True)
    ok("so many were killed", kills >= rounds, (kills, rounds))
    ok("nothing is held any more", wait_for(lambda: all(a <= b + 40 for a, b in zip(scene.held(), before)), 10),
       (before, scene.held()))


def daemons_killed(rounds):
    """That of a daemon is the mount's end here; lib/aimed.py has those that another one follows."""
    seen = {}
    for _ in range(rounds):
        what = Scene("survive=no").end(draw.choice(list(TAKES)), draw.choice(("guard", "daemon", "term", "-u", "-uz")))
        seen[what] = seen.get(what, 0) + 1
    print(json.dumps(seen), flush=True)


def matrix(sandboxes, daemons):
    rounds = int(os.environ.get("XSBX_ROUNDS", "0"))
    print(f"XSBX_SEED={SEED}", flush=True)
    main(lambda: sandboxes_killed(rounds or sandboxes), lambda: daemons_killed(rounds // 10 or daemons))
