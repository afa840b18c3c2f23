#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The audit log: who has done what; each line once, over deaths, rotation and a disk that is full."""
# backends: local
# mount: none
# timeout: 120
# log-allow: the daemon died
# log-allow: audit_file: No space left on device
# log-allow: audit_file: Too many levels of symbolic links
import ctypes
import hashlib
import re

from deaths import *
from hosts import *

ROOT = not os.getuid()


class Audited:
    """A mount with an audit log in a directory of its own."""

    def __init__(self, name, *lines, where=None):
        self.mnt, self.dir = f"{SCRATCH}/{name}.mnt", where or f"{SCRATCH}/{name}.log"
        self.file = f"{self.dir}/audit.jsonl"
        os.mkdir(self.mnt)
        os.makedirs(self.dir, exist_ok=True)
        self.conf = f"{SCRATCH}/{name}.conf"
        write(self.conf, "".join(f"{x}\n" for x in (f"audit_file = {self.file}", *lines)) + read(os.environ["CONF"], "r"))
        self.start()

    def start(self):
        self.daemon = start_daemon(self.mnt, *(["allow_other"] if ROOT else []), conf=self.conf)

    def stop(self):
        self.daemon.terminate()
        same("it ends", self.daemon.wait(SOON), 0)

    def session(self, name, **how):
        return Session(name, mnt=self.mnt, **how)

    def lines(self, *files):
        text = b"".join(read(f) for f in files or [self.file])
        ok("whole lines", text.endswith(b"\n"), text[-100:])
        return [json.loads(line) for line in text.splitlines()]


def of(lines, action, **fields):
    return [x for x in lines if x["action"] == action and all(x.get(k) == v for k, v in fields.items())]


def in_order(lines, first=1):
    """Numbers, one after the other; a line that tells of lost ones has the number of the last of them."""
    for x in lines:
        first += x["lines"] - 1 if x["action"] == "audit" else 0
        if not same("no line is missing, none is there twice", x["seq"], first):
            return
        first += 1


def me():
    return {"uid": os.getuid(), "pid": os.getpid(), "program": read("/proc/self/comm", "r").strip()}


def who_did_what():
    a = Audited("who")
    mode = os.stat(a.file).st_mode
    same("nobody else reads it", oct(mode), "0o100600")
    code = "echo secret-in-code\n"
    s = a.session("mine")
    write(s / "config", "timeout_s = 7\nenv.TOKEN = secret-value\n")
    s.run(code)
    os.mkdir(s / "jobs/build")
    write(s / "jobs/build/in", "exit 3\n")
    read(s / "jobs/build/exit_code")
    with raises("no such verb", errno.EINVAL):
        write(s / "ctl", "dance\n")
    with raises("nothing to interrupt", errno.ESRCH):
        write(s / "ctl", "interrupt\n")
    with raises("no such key", errno.EINVAL):
        write(s / "config", "no_such_key = 1\n")
    write(f"{a.mnt}/ctl", "info\n")
    with raises("no such template", errno.EPERM):
        os.mkdir(f"{a.mnt}/nowhere")
    os.mkdir(s / "jobs/never")
    for job in "build", "never":
        os.rmdir(s / f"jobs/{job}")
    os.rmdir(s / "runs/1")
    s.remove()
    lines = a.lines()
    in_order(lines)
    same("what was never started is not missed", of(lines, "history", what="job never removed"), [])
    for x in lines:
        ok("a time", re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", x["time"]), x)
        same("its mount", x["mount"], a.mnt)
        ok("somebody did it", x.get("by") == "xsbxfs" or {"uid", "gid"} <= set(x), x)
    text = json.dumps(lines)
    ok("neither code nor values of variables", "secret-in-code" not in text and "secret-value" not in text)
    mine = me()
    at = "raw/mine"
    for action, fields in (
            ("mount", {"what": "mounted"}),
            ("session", {"what": "made", "session": at, **mine}),
            ("config", {"session": at, "set": {"timeout_s": "7"}, "env_set": ["TOKEN"], **mine}),
            ("run", {"run": 1, "what": "asked", "code_bytes": len(code), **mine,
                     "code_sha256": hashlib.sha256(code.encode()).hexdigest()}),
            ("run", {"run": 1, "what": "done", "exit_code": 0, "by": "xsbxfs", "owner": os.getuid()}),
            ("job", {"job": "build", "what": "asked", **mine}),
            ("job", {"job": "build", "what": "done", "exit_code": 3}),
            ("history", {"session": at, "what": "job build removed", **mine}),
            ("history", {"session": at, "what": "run 1 removed from the history", **mine}),
            ("ctl", {"session": at, "words": "interrupt", **mine}),
            ("problem", {"session": at, "problem": "unknown-verb", **mine}),
            ("problem", {"session": at, "problem": "not-running", **mine}),
            ("problem", {"session": at, "problem": "unknown-key", **mine}),
            ("ctl", {"words": "info", **mine}),
            ("problem", {"problem": "no-such-template", **mine}),
            ("session", {"what": "removed", "session": at, **mine})):
        same(f"{action} {fields}", len(of(lines, action, **fields)), 1)
    found = of(lines, "session", what="made")[0]
    ours = [x for x in read("/proc/self/cgroup", "r").splitlines() if x.startswith("0::")]
    same("from where", found.get("cgroup"), ours[0][3:] if ours else None)
    has("metrics", read(f"{a.mnt}/metrics", "r"), "xsbxfs_audit_lost_total 0\n")
    if ROOT:
        same("alice makes one", as_user(ALICE, lambda: os.mkdir(f"{a.mnt}/raw/alice")), None)
        same("hers", len(of(a.lines(), "session", session="raw/alice", uid=ALICE, owner=ALICE)), 1)
        same("she can't read it", as_user(ALICE, lambda: read(a.file)), "EACCES")
    a.stop()


def at_the_end():
    """Of checkpoints, and of what goes on when the mount ends."""
    a, mine = Audited("end"), me()
    kept = a.session("kept")
    kept.run("true\n")
    os.mkdir(kept / "checkpoints/c")
    read(kept / "checkpoints/c/wait")
    os.rmdir(kept / "checkpoints/c")
    for what, who in ("c asked", mine), ("c whole", {"by": "xsbxfs"}), ("c removed", mine):
        same(what, len(of(a.lines(), "checkpoint", session="raw/kept", what=what, **who)), 1)
    idle, busy = a.session("idle"), a.session("busy")
    idle.run("true\n")
    os.mkdir(busy / "jobs/long")
    write(busy / "jobs/long/in", "exec sleep 600\n")
    for code in "exec sleep 600\n", "true\n":
        write(busy / "in", code)
    ok("a run goes on", wait_for(lambda: busy.word() == "running" and read(busy / "jobs/long/state", "r") == "running\n"))
    a.stop()
    last = a.lines()
    in_order(last)
    words = "xsbxfs was ended"
    causes = [x["cause"] for x in of(last, "problem", session="raw/busy")]
    same("of what had begun, and of what had not", set(causes), {words, f"{words} before this run began"})
    same("one had not", causes.count(f"{words} before this run began"), 1)
    same("of who had no run", {x["cause"] for x in of(last, "problem", session="raw/idle")}, {words})
    same("the end", [x["what"] for x in of(last, "mount")], ["mounted", "ending", "ended"])
    a.start()
    a.stop()
    in_order(a.lines())


def hostile_names():
    a = Audited("hostile", "audit_code = yes")
    libc.prctl(15, ctypes.c_char_p(b'"\n\xff\\{}\x1b'), 0, 0, 0)
    try:
        s = a.session("x")
        s.run(b"printf '\xff\n\"'\n")
    finally:
        libc.prctl(15, ctypes.c_char_p(b"audit.py"), 0, 0, 0)
    lines = a.lines()
    in_order(lines)
    same("the program", of(lines, "session", what="made")[0]["program"], '"\n\ufffd\\{}\x1b')
    same("the code", of(lines, "run", what="asked")[0]["code"], "printf '\ufffd\n\"'\n")
    a.stop()


def deaths():
    """Whatever was acknowledged has its line, whoever was the daemon then; once."""
    a = Audited("deaths", "survive = yes", "max_deaths = 1000")
    mortal = Mortal(guard_of(a.mnt))
    s = a.session("x")
    made, done = [], threading.Event()

    def work():
        while not done.is_set():
            name = f"s{len(made)}"
            os.mkdir(f"{a.mnt}/raw/{name}")
            made.append(name)
            write(s / "in", "true\n")
            time.sleep(0.002)
    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(6):
        seen = len(made)
        wait_for(lambda n=seen: len(made) > n + 3, 20)
        mortal.die()
    wait_for(lambda: read(f"{a.mnt}/README.md"), 20)
    done.set()
    thread.join(SOON)
    read(s / "exit_code")
    wait_for(lambda: of(a.lines(), "run", run=len(made), what="done"), 20)
    lines = a.lines()
    in_order(lines)
    ok("some", len(made) > 20, len(made))
    for n, name in enumerate(made):
        same(f"{name} once", len(of(lines, "session", session=f"raw/{name}", what="made")), 1)
        same(f"run {n + 1} once", len(of(lines, "run", run=n + 1, what="asked")), 1)
    same("and the deaths", len(of(lines, "daemon")), 6)
    done = subprocess.run([os.environ["XSBXFS"], "--takeover", a.mnt], check=False, timeout=2 * SOON,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    same("another one takes over", (done.returncode, done.stdout.decode()), (0, done.stdout.decode()))
    a.session("after").remove()
    lines = a.lines()
    in_order(lines)
    same("it says so", len(of(lines, "mount", what="taken over")), 1)
    a.stop()
    in_order(a.lines())


def rotation():
    a = Audited("rotation", "audit_rotate_mb = 1", "audit_keep = 2", "audit_code = yes")
    s = a.session("x")
    for n in range(12):
        s.run(f"# {n}\n" + "#" * 300000 + "\n")
    same("so many files", sorted(os.listdir(a.dir)), ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"])
    files = [f"{a.file}.2", f"{a.file}.1", a.file]
    for f in files:
        ok("none is too long", os.stat(f).st_size <= 1 << 20, os.stat(f).st_size)
    lines = a.lines(*files)
    in_order(lines, lines[0]["seq"])
    ok("the oldest are gone", lines[0]["seq"] > 1, lines[0]["seq"])
    # As logrotate does.
    os.rename(a.file, f"{a.dir}/away")
    s.run("true\n")
    both = a.lines(f"{a.dir}/away", a.file)
    in_order(both, both[0]["seq"])
    ok("another one was begun", len(a.lines()) >= 2, len(a.lines()))
    a.stop()


def crowd():
    """Who does nothing thousands of times can't have what he did before rotated away: that is counted."""
    a = Audited("crowd", "audit_rotate_mb = 1", "audit_keep = 1")
    s = a.session("x")
    for _ in range(2000):
        with contextlib.suppress(OSError):
            write(s / "ctl", "nonsense\n")
    s.run("echo on\n")
    a.stop()
    lines = a.lines()
    in_order(lines)
    problems = of(lines, "problem", problem="unknown-verb")
    ok("some have lines", 100 <= len(problems) < 1000, len(problems))
    same("all are counted", len(problems) + sum(x.get("unreported", 0) for x in lines), 2000)
    ok("what was done has its line", of(lines, "run", what="done"), lines[-3:])


def second_mount():
    """Of two that write one file each would cut the other's lines: the second is refused, whoever is the daemon of the first."""
    for rotates in (64, 0):
        a = Audited(f"shared{rotates}", "survive = yes", f"audit_rotate_mb = {rotates}")
        mnt = folder(f"second{rotates}.mnt")

        def refused(path=a.file, conf=a.conf, mnt=mnt):
            done = subprocess.run([os.environ["XSBXFS"], "-f", "-c", conf, "-o", "prepare=no", mnt], check=False,
                                  timeout=SOON, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            same("no second one", done.returncode, 1)
            has("why", done.stdout.decode(), f"audit_file {path}: another mount writes it")
        refused()
        Mortal(guard_of(a.mnt)).die()
        a.session("x").run("true\n")
        refused()
        same("another one takes over", subprocess.run([os.environ["XSBXFS"], "--takeover", a.mnt], check=False,
                                                      timeout=2 * SOON, stdout=subprocess.DEVNULL).returncode, 0)
        a.session("y").run("true\n")
        refused()
        a.stop()
        in_order(a.lines())
        same("none of it is another's", {x["mount"] for x in a.lines()}, {a.mnt})


def heir_without():
    """A daemon that dies while its file can't be had: the next one goes on, and writes again when it can."""
    a = Audited("heir", "survive = yes")
    s = a.session("x")
    os.rename(a.file, f"{a.dir}/away")
    os.symlink("/dev/null", a.file)
    Mortal(guard_of(a.mnt)).die()
    same("it goes on", s.run("echo x\n").out, "x\n")

    def lost():
        return int(re.search(r"audit_lost_total (\d+)", read(f"{a.mnt}/metrics", "r"))[1])

    def come():
        os.rename(f"{a.dir}/away", a.file)
    same("some lines are kept", lost(), 0)
    come()
    same("and again", s.run("echo y\n").out, "y\n")
    lines = a.lines()
    in_order(lines)
    same("none is missing", [x["run"] for x in of(lines, "run", what="done")], [1, 2])
    os.rename(a.file, f"{a.dir}/away")
    os.symlink("/dev/null", a.file)
    Mortal(guard_of(a.mnt)).die()
    for n in range(400):
        write(s / "config", f"timeout_s = {n + 1}\n")
    ok("of many more, some are lost", lost() > 20, lost())
    come()
    s.run("echo z\n")
    lost = lost()
    a.stop()
    lines = a.lines()
    in_order(lines)
    same("that is told", sum(x["lines"] for x in of(lines, "audit")), lost)


def little_room(a):
    """For a line, but not for one with so much code."""
    s = a.session("x")
    same("a short one", s.run("echo fits\n").out, "fits\n")
    for what, code in (("long", "echo never\n#" + 600_000 * "a"), ("six bytes for each", "echo never\n#" + 90_000 * "\x01"),
                       ("three", "echo never\n#" + 180_000 * "\xff")):
        write(s / "in", code.encode("latin-1"))
        same(f"{what}: no output", read(s / "stdout"), b"")
        same(f"{what}: it was not executed", s.state_of(s.runs()[-1]), "refused")
        has(f"{what}: why", s.text("error"), "not-audited")
    for name, argv in ("words", "echo " + "\x02 " * 60_000), ("word", "echo " + 100_000 * "\x01"):
        os.mkdir(s / f"jobs/{name}")
        write(s / f"jobs/{name}/config", f"argv = {argv}\n")
        with raises(f"{name}: no job", errno.ENOSPC):
            write(s / f"jobs/{name}/ctl", "start\n")
    same("a short one again", s.run("echo fits\n").out, "fits\n")
    lines = a.lines()
    in_order(lines)
    same("all that ran has its line", [x["code"] for x in lines if "code" in x], 2 * ["echo fits\n"])
    a.stop()


def found(report):
    """What doctor says of it."""
    return next((line for line in report.splitlines() if " audit log: " in line), "")


def check(path, **who):
    done = subprocess.run([os.environ["XSBXFS"], "--check", "-c", os.environ["CONF"], "-o", f"audit_file={path}"], check=False,
                          timeout=2 * SOON, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", **who)
    line = found(done.stdout)
    ok(f"{path}: a failure is one", line.startswith("ok ") or line.startswith("warn") or done.returncode == 1, done)
    return line


def checked():
    """Whether it can be written is said before a mount needs it; and nothing is made for that."""
    top = folder("checked")
    same("one that will be made", check(f"{top}/x"), f"ok   audit log: {top}/x can be written")
    same("nothing was made", os.listdir(top), [])
    write(f"{top}/x", "")
    same("one that is there", check(f"{top}/x"), f"ok   audit log: {top}/x can be written")
    os.symlink("x", f"{top}/link")
    has("a link", check(f"{top}/link"), "fail audit log: ")
    same("no directory", check(f"{top}/none/x"), f"fail audit log: {top}/none/x: No such file or directory -- no mount begins "
         "without: let whoever mounts write there, or name another file as audit_file")
    same("not asked for", found(subprocess.run([os.environ["XSBXFS"], "--check", "-c", os.environ["CONF"]], check=False,
                                               timeout=2 * SOON, stdout=subprocess.PIPE).stdout.decode()), "")
    if not ROOT:
        return
    who = {"user": MEMBER, "group": MEMBER, "extra_groups": [],
           "env": {**os.environ, "HOME": folder("member", MEMBER), "XDG_RUNTIME_DIR": f"{SCRATCH}/member"}}
    has("another's", check(f"{top}/x", **who), f"fail audit log: {top}/x: Permission denied -- ")
    os.chown(f"{top}/x", MEMBER, MEMBER)
    has("in another's directory", check(f"{top}/x", **who), f"warn audit log: {top}/x can be written, but not rotated: Permission denied")
    a = Audited("doctor")
    ok("of a mount", re.match(f"ok   audit log: {a.file}: \\d+ lines, 0 were lost$", found(read(f"{a.mnt}/doctor", "r"))),
       read(f"{a.mnt}/doctor", "r"))
    a.stop()


def full_disk():
    if not ROOT:
        return
    disk = folder("disk")
    same("a small disk", shell(f"mount -t tmpfs -o size=512k none {disk}")[0], 0)

    def fill():
        with contextlib.suppress(OSError), open(f"{disk}/filler", "wb", buffering=0) as f:
            while f.write(b"x" * 4096):
                pass
    try:
        a = Audited("goes-on", where=f"{disk}/a")
        fill()
        s = a.session("x")
        for _ in range(30):
            same("it goes on", s.run("echo x\n").out, "x\n")
        lost = int(re.search(r"audit_lost_total (\d+)", read(f"{a.mnt}/metrics", "r"))[1])
        ok("some were lost, which is counted", lost > 10, lost)
        has("doctor", found(read(f"{a.mnt}/doctor", "r")), f"fail audit log: {a.file}: ")
        os.unlink(f"{disk}/filler")
        s.run("echo y\n")
        lines = a.lines()
        told = of(lines, "audit", what="lines were lost")
        same("that is told", sum(x["lines"] for x in told), lost)
        in_order(lines)
        ok("doctor", re.match(f"warn audit log: {a.file}: \\d+ lines, {lost} were lost -- ", found(read(f"{a.mnt}/doctor", "r"))),
           found(read(f"{a.mnt}/doctor", "r")))
        a.stop()

        a = Audited("required", "audit_required = yes", where=f"{disk}/b")
        s = a.session("x")
        fill()
        with raises("no session", errno.ENOSPC):
            for n in range(1000):
                a.session(f"n{n}")
        has("the reason", read(f"{a.mnt}/error", "r"), "not-audited")
        with raises("no code", errno.ENOSPC):
            write(s / "in", "echo never\n")
        has("the reason", s.text("error"), "not-audited")
        with raises("no settings", errno.ENOSPC):
            write(s / "config", "timeout_s = 9\n")
        with raises("no verbs", errno.ENOSPC):
            write(s / "ctl", "close\n")
        with raises("nor the mount's", errno.ENOSPC):
            write(f"{a.mnt}/ctl", "debug\n")
        has("the reason", read(f"{a.mnt}/error", "r"), "not-audited")
        same("nothing has run", s.runs(), [])
        os.unlink(f"{disk}/filler")
        same("it goes on", s.run("echo again\n").out, "again\n")
        lines = a.lines()
        in_order(lines)
        same("nothing was lost", of(lines, "audit"), [])
        a.stop()
    finally:
        shell(f"umount -l {disk}")


def long_lines():
    if not ROOT:
        return
    disk = folder("little")
    same("a small disk", shell(f"mount -t tmpfs -o size=512k none {disk}")[0], 0)
    try:
        little_room(Audited("long", "audit_required = yes", "audit_code = yes", where=f"{disk}/a"))
    finally:
        shell(f"umount -l {disk}")


def refused_files():
    os.symlink("/dev/null", f"{SCRATCH}/link")
    for path, words in ((f"{SCRATCH}/link", "symbolic links"), (f"{SCRATCH}/none/x", "No such file"),
                        (SCRATCH, "directory")):
        mnt = f"{SCRATCH}/refused.mnt"
        os.makedirs(mnt, exist_ok=True)
        done = subprocess.run([os.environ["XSBXFS"], "-f", "-c", os.environ["CONF"], "-o",
                               f"prepare=no,audit_file={path}", mnt], check=False, timeout=SOON,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        ok("no mount without", done.returncode != 0, done.returncode)
        has(path, done.stdout.decode(), words)


main(who_did_what, at_the_end, hostile_names, deaths, rotation, crowd, second_mount, heir_without, checked, full_disk, long_lines, refused_files)
