#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs: programs beside a session's interpreter, each with its own output."""
# backends: local process vm
# night: vm
import json
import time

from xsbx import *


class Job:
    def __init__(self, session, name, config=None):
        self.dir = session / f"jobs/{name}"
        os.mkdir(self.dir)
        if config:
            write(self / "config", config)

    def __truediv__(self, name):
        return f"{self.dir}/{name}"

    def start(self, code=None):
        if code is None:
            write(self / "ctl", "start\n")
        else:
            write(self / "in", code)
        return self

    def result(self):
        return Result(read(self / "stdout"), read(self / "stderr"), int(read(self / "exit_code")))

    def run(self, code=None):
        return self.start(code).result()

    def text(self, node):
        return read(self / node, "r")

    def word(self, node="state"):
        return self.text(node).strip()

    def remove(self):
        os.rmdir(self.dir)


BEAT = "while :; do date +%s%N >beat.$1; sleep 0.05; done\n"


def beats(s, *names):
    """Which of these beat? In a jail, programs may not look at each other."""
    def beat(name):
        try:
            return read(s / f"files/beat.{name}")
        except FileNotFoundError:
            return b""

    first = {name: beat(name) for name in names}
    wait_for(lambda: all(beat(name) != first[name] for name in names), 1)
    return [name for name in names if beat(name) != first[name]]


def one():
    s = Session("one")
    j = Job(s, "build")
    same("nothing is started yet", (s.word(), j.word()), ("new", "new"))
    got = j.run("echo out; echo err >&2; exit 3\n")
    same("its result", (got.stdout, got.stderr, got.code), (b"out\n", b"err\n", 3))
    has("its summary", j.text("summary"), "job build: exit 3 in ")
    same("in order", read(j / "output"), b"out\nerr\n")
    same("the session has run nothing", s.runs(), [])
    with raises("it is started once", errno.EBUSY):
        write(j / "in", "echo again\n")
    has("and says so", j.text("error"), "code: busy")
    same("files are shared", Job(s, "w").run("echo data >from_job\n").code, 0)
    same("with the session", s.run("cat from_job\n").out, "data\n")
    same("interpreters are not", (s.run("x=1\n").code, Job(s, "x").run("echo \"[$x]\"\n").out), (0, "[]\n"))
    same("exits by signals", Job(s, "k").run("kill -KILL $$\n").code, 137)


def editors():
    """Who writes a file beside `config` or `in`, and renames it over that."""
    s = Session("editors")
    j = Job(s, "a", "cwd = /tmp\nenv.A = 1\n")
    same("sed -i", shell(f"sed -i 's/A = .*/A = 2/' {j / 'config'}")[0], 0)
    has("changes settings", j.text("config"), "env.A = '2'")
    write(j / ".in.tmp", "echo $A; pwd\n")
    has("a file beside", os.listdir(j.dir), ".in.tmp")
    os.replace(j / ".in.tmp", j / "in")
    same("is its code then", j.result().out, "2\n/tmp\n")
    same("and its name is gone", ".in.tmp" in os.listdir(j.dir), False)
    j = Job(s, "b")
    write(f"{SCRATCH}/code", "cat\n")
    write(f"{SCRATCH}/input", "given\n")
    same("cp", shell(f"cp {SCRATCH}/input {j / 'stdin'}; cp {SCRATCH}/code {j / 'in'}")[0], 0)
    same("its result", j.result().out, "given\n")
    shell(f"rm -r {j.dir}")
    same("rm -r", os.path.exists(j.dir), False)


def many_writers():
    """Two who write at once never see each other's results."""
    s = Session("writers")
    s.run("true\n")

    def writer(i):
        for n in range(5):
            got = Job(s, f"w{i}.{n}").run(f"echo {i}.{n}; sleep 0.0{i % 3}; exit {i}\n")
            same("its own", (got.out, got.code), (f"{i}.{n}\n", i))

    with together(writer, 8, 120) as problems:
        pass
    same("no errors", problems, [])


def named_runs():
    """The same for the interpreter: 50 writers, each reads what is its own."""
    s = Session("named")
    s.run("total=0\n")

    def writer(i):
        r = s / f"runs/w{i}"
        os.mkdir(r)
        while True:
            try:
                write(f"{r}/in", f"total=$((total + 1)); echo {i}\n")
                break
            except OSError as e:
                if e.errno != errno.EBUSY:
                    raise
                time.sleep(0.05)
        same("its own", (read(f"{r}/stdout"), read(f"{r}/exit_code")), (f"{i}\n".encode(), b"0\n"))

    with together(writer, 50, 120) as problems:
        pass
    same("no errors", problems, [])
    same("in one interpreter", s.run("echo $total\n").out, "50\n")
    r = s / "runs/late"
    os.mkdir(r)
    write(f"{r}/config", "timeout_s = 1\n")
    write(f"{r}/in", "read -r x < <(sleep 60)\n")
    same("a time limit of its own", read(f"{r}/exit_code"), b"124\n")


def places_of_runs():
    """A directory and variables for one run."""
    codes = {
        "raw": 'echo "$PWD|${A-none}|${OWN-none}"; OWN=x\n',
        "python": 'import os; print(os.getcwd(), os.environ.get("A", "none"), globals().get("own", "none"), sep="|"); own = "x"\n',
        "javascript": 'console.log([process.cwd(), process.env.A ?? "none", globalThis.own ?? "none"].join("|")); var own = "x"\n',
    }
    for template, code in codes.items():
        if not has_language(template):
            print(f"{template}: not here")
            continue
        s = Session(f"place-{template}", template)
        home = s.run(code).out.split("|")[0]
        os.mkdir(s / "files/sub")
        os.mkdir(s / "runs/a")
        write(s / "runs/a/config", "cwd = sub\nenv.A = 'x y'\n")
        write(s / "runs/a/in", code)
        same(f"{template}: its own, in the same interpreter", read(s / "runs/a/stdout"), f"{home}/sub|x y|x\n".encode())
        same("and nobody else's", s.run(code).out, f"{home}|none|x\n")
        os.mkdir(s / "runs/b")
        write(s / "runs/b/config", "cwd = none\n")
        write(s / "runs/b/in", code)
        wait_for(lambda: read(s / "runs/b/state") == b"refused\n", 20)
        same("where there is none, it is refused", read(s / "runs/b/state"), b"refused\n")
        has("with the reason", read(s / "runs/b/error", "r"), "cwd: No such file")
        same("and the session goes on", s.run(code).out, f"{home}|none|x\n")


def at_once():
    """63 beside one run."""
    s = Session("many", config="processes = 500\ntimeout_s = 0\n")
    s.submit("read -r x < <(sleep 600)\n")
    s.wait_state("running", 60)
    jobs = [Job(s, f"j{i}").start(f"echo {i}; sleep 1000\n") for i in range(63)]
    os.mkdir(s / "jobs/more")
    with raises("no more", errno.EBUSY):
        write(s / "jobs/more/in", "true\n")
    has("and says so", read(s / "jobs/more/error", "r"), "code: queue-full")
    for i, j in enumerate(jobs):
        wait_for(lambda: read_all(j, "stdout") == f"{i}\n".encode(), 60)
    for j in jobs:
        write(j / "ctl", "kill\n")
    same("killed", {j.text("exit_code") for j in jobs}, {"137\n"})
    s.ctl("kill")
    same("the session's run is another matter", s.result().code, 137)


def read_all(j, node):
    """What there is, without waiting."""
    fd = os.open(j / node, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(fd, 1 << 16)
    except BlockingIOError:
        return b""
    finally:
        os.close(fd)


def argv_and_place():
    s = Session("argv")
    s.run("mkdir sub\n")
    j = Job(s, "a", "argv = printf '%s|' \"a b\" 'c\n d' ''\ncwd = sub\nenv.WHO = it is me\n")
    same("argv", j.run().out, "a b|c\n d||")
    same("cwd, env", Job(s, "b", "cwd = sub\nenv.WHO = it is me\n").run("echo $WHO; pwd\n").out.split("\n")[0], "it is me")
    has("cwd", Job(s, "c", "cwd = sub\n").run("pwd\n").out, "/sub\n")
    same("timeout", Job(s, "t", "timeout_s = 1\n").run("sleep 60\n").code, 124)
    many = ["x" * 65536] * 16
    same("1 MiB of arguments", Job(s, "l", "argv = printf %s " + " ".join(many) + "\n").run().out, "".join(many))
    got = Job(s, "n", "argv = /no/such/program\n").start()
    with raises("what is not there", errno.EIO):
        read(got / "exit_code")
    same("was refused", got.word(), "refused")
    has("and says why", got.text("error"), "No such file")
    same("a first line is obeyed", Job(s, "s").run("#!/bin/sh\necho $0 | grep -c fd\n").code, 0)


def ends():
    """Removing a job kills all of it, also what has gone away from it, and nothing else."""
    s = Session("ends")
    s.run("true\n")
    write(s / "files/beat.sh", BEAT)
    stays = Job(s, "stays", "timeout_s = 0\n").start("bash beat.sh stays\n")
    j = Job(s, "goes").start("setsid bash beat.sh a & (setsid sh -c 'bash beat.sh b & bash beat.sh c' &) ; bash beat.sh d\n")
    names = ["stays", "a", "b", "c", "d"]
    ok("all go on", wait_for(lambda: beats(s, *names) == names, 20), beats(s, *names))
    j.remove()
    ok("they are gone", wait_for(lambda: beats(s, *names) == ["stays"], 20), beats(s, *names))
    same("the other is not", stays.word(), "running")
    same("nor the session", s.run("echo here\n").out, "here\n")
    left = Job(s, "left").run("bash beat.sh left >/dev/null 2>&1 & echo started\n")
    same("it ends although a child goes on", left.out, "started\n")
    ok("which does", wait_for(lambda: beats(s, "left") == ["left"], 20))
    same("and is said to", json.loads(read(s / "jobs/left/status.json"))["processes_left"], True)
    os.rmdir(s / "jobs/left")
    ok("until it is removed", wait_for(lambda: beats(s, "left") == [], 20))
    t = Job(s, "t").start("trap 'echo term; exit 7' TERM; echo up; while :; do sleep 0.05; done\n")
    wait_for(lambda: read_all(t, "stdout") == b"up\n", 20)
    write(t / "ctl", "signal TERM\n")
    same("a signal by name", (t.text("stdout"), t.text("exit_code")), ("up\nterm\n", "7\n"))
    i = Job(s, "i").start("echo up; sleep 100\n")
    wait_for(lambda: read_all(i, "stdout") == b"up\n", 20)
    write(i / "ctl", "interrupt\n")
    same("an interrupt", i.text("exit_code"), "130\n")


def with_the_session():
    s = Session("closes")
    j = Job(s, "a").start("echo here; sleep 100\n")
    wait_for(lambda: read_all(j, "stdout") == b"here\n", 20)
    s.ctl("close")
    same("closing ends it", (j.word(), j.text("exit_code"), j.text("stdout")), ("killed", "137\n", "here\n"))
    os.mkdir(s / "jobs/b")
    with raises("nothing starts", errno.ESTALE):
        write(s / "jobs/b/in", "true\n")
    s.ctl("reset")
    write(s / "jobs/b/in", "echo back\n")
    same("after a reset it does", read(s / "jobs/b/stdout"), b"back\n")
    f = Session("fresh", config="fresh = yes\n")
    with raises("there is no sandbox to share", errno.EOPNOTSUPP):
        os.mkdir(f / "jobs/x")


def ranks():
    """Jobs give way to the interpreter, as far as they are told to, and what they have moved is counted."""
    s = Session("ranks")
    nice = "read -ra f < /proc/self/stat; echo ${f[18]}\n"
    own = int(s.run(nice).out)
    for name, config, more in ("usual", None, 5), ("none", "nice = 0\n", 0), ("most", "nice = 19\n", 19):
        os.mkdir(s / f"jobs/{name}")
        if config:
            write(s / f"jobs/{name}/config", config)
        write(s / f"jobs/{name}/in", nice)
        same(f"that of a job: {name}", int(read(s / f"jobs/{name}/stdout")), min(own + more, 19))
    os.mkdir(s / "jobs/wrong")
    for value in "20", "-1", "x":
        with raises(f"nice = {value}", errno.EINVAL):
            write(s / "jobs/wrong/config", f"nice = {value}\n")
    with raises("not once it has begun", errno.EBUSY):
        write(s / "jobs/most/config", "nice = 1\n")
    write(s / "jobs/wrong/in", "head -c 3000000 /dev/zero | tee copy | wc -c\n")
    same("it copies", read(s / "jobs/wrong/stdout"), b"3000000\n")
    io = json.loads(read(s / "jobs/wrong/status.json"))["io"]
    if io is None and not os.path.exists("/proc/self/io"):
        print("the kernel does not count what is read and written")
    else:
        ok("what was read", 9000000 <= io["read_bytes"] < 10000000, io)
        ok("what was written", 9000000 <= io["written_bytes"] < 10000000, io)
    os.mkdir(s / "runs/mine")
    with raises("a run is the interpreter's", errno.EINVAL):
        write(s / "runs/mine/config", "nice = 1\n")


def niced():
    """Whoever starts the daemon may have little priority himself."""
    if os.environ["BACKEND"] == "vm":
        return
    mnt = f"{SCRATCH}/niced"
    os.mkdir(mnt)
    daemon = start_daemon(mnt, preexec_fn=lambda: os.nice(10))
    try:
        at = f"{mnt}/shell/s"
        os.mkdir(at)
        write(f"{at}/in", "read -ra f < /proc/self/stat; echo ${f[18]}\n")
        own = int(read(f"{at}/stdout"))
        ok("the interpreter has little as well", own >= 10, own)
        os.mkdir(f"{at}/jobs/a")
        write(f"{at}/jobs/a/in", "read -ra f < /proc/self/stat; echo ${f[18]}\n")
        same("a job less", int(read(f"{at}/jobs/a/stdout")), min(own + 5, 19))
    finally:
        daemon.terminate()
        daemon.wait(SOON)


main(one, editors, many_writers, named_runs, places_of_runs, at_once, argv_and_place, ends, with_the_session, ranks, niced)
