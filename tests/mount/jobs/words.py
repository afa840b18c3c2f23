#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `error` says in the directories of jobs and named runs: what it is about, and what can be done."""
# backends: local process
import json

from xsbx import *


def make(s, name, config=None):
    d = s / name
    os.mkdir(d)
    if config:
        write(f"{d}/config", config)
    return d


def told(d, *parts):
    """The parts are in its error, and nothing of another noun."""
    text = read(f"{d}/error", "r")
    for part in parts:
        has(os.path.basename(d), text, part)
    return text


def refused(what, path, data, d, *parts):
    with raises(what, errno.EINVAL, errno.EBUSY, errno.ESRCH, errno.EPIPE, errno.EOPNOTSUPP, errno.EPERM):
        write(path, data)
    return told(d, *parts)


def settings():
    s = Session("settings")
    a = make(s, "jobs/a")
    for key, example in (("timeout_s", 60), ("rows", 24), ("cols", 80), ("nice", 5)):
        refused(key, f"{a}/config", f"{key} = 1h\n", a, f"e.g. {key} = {example}.")
    refused("language", f"{a}/config", "language = perl\n", a, "there is no perl here", "language = shell or raw;")
    if BACKEND == "process":
        refused("root", f"{a}/config", "user = root\n", a, "machines only", "backend = microvm")
    refused("a long word", f"{a}/config", f"argv = printf {'x' * 131072}\n", a, "a word of 131072 bytes")
    write(f"{a}/config", f"argv = printf %s {'x' * 131071}\n")
    write(f"{a}/ctl", "start\n")
    same("the longest word", len(read(f"{a}/stdout")), 131071)


def named_runs():
    """They are runs, and take what a run takes."""
    s = Session("named")
    s.submit("sleep 1000\n")
    s.wait_run(1, "running", 20)
    a = make(s, "runs/a")
    refused("no code", f"{a}/ctl", "kill\n", a, "the run has no code yet", "`in`")
    refused("no such verb", f"{a}/ctl", "nonsense\n", a, "The verbs are interrupt, kill and eof")
    refused("start", f"{a}/ctl", "start\n", a, "Write code to `in`")
    refused("signal", f"{a}/ctl", "signal TERM\n", a, "interrupt and kill only")
    refused("no such key", f"{a}/config", "nonsense = 1\n", a, "The keys of a named run are timeout_s, stdin, cwd and env.NAME.")
    write(f"{a}/in", "echo x\n")
    refused("queued", f"{a}/ctl", "interrupt\n", a, "the run is queued", "kill > ctl")
    refused("code, again", f"{a}/in", "echo y\n", a, "a named run takes code once", "mkdir runs/NAME")
    refused("frozen", f"{a}/config", "timeout_s = 5\n", a, "once the run has its code", "mkdir runs/NAME")
    s.ctl("kill")
    same("its turn", read(f"{a}/stdout"), b"x\n")
    refused("ended", f"{a}/ctl", "kill\n", a, "the run has ended")
    refused("nobody reads", f"{a}/stdin", "x\n", a, "the run has ended")
    r = make(s, "runs/r")
    write(f"{r}/in", "sleep 1000\n")
    wait_for(lambda: read(f"{r}/state") == b"running\n", 20)
    s.ctl("reset")
    same("a reset ends it", read(f"{r}/exit_code"), b"137\n")
    told(r, "code: reset", "the session was reset", "mkdir runs/NAME")
    g = make(s, "runs/g")
    refused("no text", f"{g}/in", b"echo a\0b", g, "code: nul-byte")
    write(f"{g}/in", "echo good\n")
    same("then it has some", read(f"{g}/stdout"), b"good\n")
    same("and nothing is wrong any more", read(f"{g}/error"), b"")
    t = make(s, "runs/t", "timeout_s = 1\n")
    write(f"{t}/in", "sleep 100\n")
    same("too long", read(f"{t}/exit_code"), b"124\n")
    told(t, "Make another run", "'timeout_s = 4' >> its config before you write code to it")


def names():
    s = Session("names")
    for where, noun in ("jobs", "job"), ("runs", "run"):
        with raises(f"{where}/.x", errno.EINVAL):
            os.mkdir(s / f"{where}/.x")
        for error in s.text("error"), read(f"{MNT}/error", "r"):
            has(where, error, f'".x" can\'t be the name of a {noun}')
            has(where, error, "code: bad-name")
            has(where, error, "begin with neither a dot nor a dash")
        os.mkdir(s / f"{where}/_x")
    with raises("a number", errno.EINVAL):
        os.mkdir(s / "runs/5")
    for error in s.text("error"), read(f"{MNT}/error", "r"):
        has("a number", error, "numbers are those that the session gives to its runs")
        has("a number", error, "mkdir runs/NAME")
    has("the root names the session", read(f"{MNT}/error", "r"), "cause: raw/names: ")


def two_writers():
    s = Session("two")
    for name, words in ("jobs/a", "a job is started once"), ("runs/a", "a named run takes code once"):
        d = make(s, name)
        first, second = (open(f"{d}/in", "w", encoding="ascii") for _ in range(2))
        for file, code in (second, "echo second\n"), (first, "echo first\n"):
            file.write(code)
            file.flush()
        first.close()
        second.close()
        same("who closes first", (read(f"{d}/stdout"), read(f"{d}/exit_code")), (b"first\n", b"0\n"))
        told(d, "code: dropped", words, "another writer of `in` was first", "Make another one: mkdir " + name[:4])


def jobs():
    s = Session("jobs")
    a = make(s, "jobs/a")
    refused("not started", f"{a}/ctl", "interrupt\n", a, "the job was not started", "Write a program to `in`")
    write(f"{a}/config", "argv = true\ntty = yes\n")
    refused("not started", f"{a}/ctl", "kill\n", a, "echo start > ctl")
    write(f"{a}/ctl", "start\n")
    read(f"{a}/exit_code")
    for node in "stdin", "tty":
        text = refused(node, f"{a}/{node}", "x", a, "the job has ended")
        ok("and is told nothing of what could have been", "fix" not in text, text)
    b = make(s, "jobs/b")
    write(f"{b}/in", "sleep 1000\n")
    refused("goes on", f"{b}/stdin", "x", b, "the job goes on, but its standard input has ended", "`config` of the next one")
    left = make(s, "jobs/left")
    write(f"{left}/in", "sleep 1000 >/dev/null 2>&1 &\n")
    read(f"{left}/exit_code")
    refused("has left something", f"{left}/ctl", "kill\n", left, "the job has ended", "rmdir of its directory kills")
    s.ctl("reset")
    same("a reset ends the others", (read(f"{b}/exit_code"), read(f"{b}/state")), (b"137\n", b"killed\n"))
    told(b, "code: reset", "the session was reset", "mkdir jobs/NAME")
    same("in its status as well", json.loads(read(f"{b}/status.json"))["problem"]["code"], "reset")
    t = make(s, "jobs/t", "timeout_s = 1\n")
    write(f"{t}/in", "sleep 100\n")
    same("too long", read(f"{t}/exit_code"), b"124\n")
    told(t, "Make another job", "'timeout_s = 4' >> its config before you start it")
    k = make(s, "jobs/k")
    write(f"{k}/in", "sleep 1000\n")
    wait_for(lambda: read(f"{k}/state") == b"running\n", 20)
    write(f"{k}/ctl", "kill\n")
    same("killed without a reset", (read(f"{k}/exit_code"), read(f"{k}/error")), (b"137\n", b""))


def not_started():
    s = Session("refused")
    for name, config, code, *words in (
            ("argv", "argv = nosuchprog x\n", None, '"nosuchprog": No such file', "whose argv begins with a program"),
            ("cwd", "cwd = nosuch\n", "true\n", "cwd = nosuch: No such file", "with a cwd that is there"),
            ("line", None, "#!/no/such\ntrue\n", '"#!/no/such": No such file', "a first line #! names one"),
            ("file", "argv = /etc/passwd\n", None, '"/etc/passwd": Permission denied', "whose argv")):
        d = make(s, f"jobs/{name}", config)
        write(f"{d}/{'in' if code else 'ctl'}", code or "start\n")
        with raises(name, errno.EIO):
            read(f"{d}/exit_code")
        told(d, "code: not-started", "the job could not be started: ", "mkdir jobs/NAME", *words)
        has("its summary", read(f"{d}/summary", "r"), words[0])


main(settings, named_runs, names, two_writers, jobs, not_started)
