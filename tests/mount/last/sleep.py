#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sleep: a session without a sandbox, which is read as it was, and wakes when it is used."""
# backends: local process vm
# timeout: 120
import stat

from clocks import *
from xsbx import *


def sleeping(name, template="raw", code="true\n", config=None):
    s = Session(name, template, config)
    same(f"{name}: made", s.run(code).code, 0)
    pid = s.pid()
    s.ctl("sleep")
    ok(f"{name}: asleep", s.wait_state("asleep"), s.text("error"))
    ok(f"{name}: its process is gone", not pid or wait_for(lambda: not alive(pid)))
    return s


def code_wakes():
    s = sleeping("code", "python", "import os, json; x = [1]; open('f', 'w').write('one'); print('before')")
    same("its results can be read", (s.text("stdout"), s.text("exit_code"), s.word()), ("before\n", "0\n", "asleep"))
    has("status.json says since when", s.json()["asleep"], "since")
    time.sleep(REST_S)
    if VM:
        same("it goes on", s.run("x.append(2); print(x, json.dumps(x), open('f').read())").out, "[1, 2] [1, 2] one\n")
    else:
        same("its files are there", s.run("print(open('f').read(), 'x' in globals())").out, "one False\n")
    info = s.json()
    same("its state", (info["state_kept"], s.word()), (VM, "idle"))
    ok("how long it slept", info["woken"]["asleep_ms"] >= 1000 * REST_S, info["woken"])
    has("in words", json.dumps(lines(s)), "awake in")
    off = drift("python", s)
    ok("its clock is right", off < OFF, off)
    s.ctl("sleep")
    ok("again", s.wait_state("asleep"), s.text("error"))
    same("and again", s.run("print(open('f').read())").out, "one\n")


def killed():
    """A machine, behind a wake: its death is told, and nothing that QEMU says of each that is restored."""
    if not VM:
        return
    s = sleeping("killed")
    s.run("true\n")
    os.kill(s.pid(), signal.SIGKILL)
    ok("it is gone", s.wait_state("closed", 20), s.word())
    words = s.text("error")
    has("by what", words, "signal 9")
    ok("and nothing of its beginning", "it said" not in words, words)
    s.remove()


def lines(s):
    return [json.loads(line) for line in read_ready(s / "events").splitlines()]


def background():
    """What runs in the background of a machine goes on where it was."""
    s = sleeping("background", code="(while :; do echo tick >> ticks; sleep 0.2; done) &\n")
    size = os.stat(s / "files/ticks").st_size if os.path.exists(s / "files/ticks") else 0
    time.sleep(1.5)
    now = os.stat(s / "files/ticks").st_size if os.path.exists(s / "files/ticks") else 0
    same("nothing runs", now, size)
    s.ctl("wake")
    ok("awake", s.wait_state("idle", 30), s.text("error"))
    if VM:
        ok("it goes on", wait_for(lambda: os.stat(s / "files/ticks").st_size > size + 10))


def job_wakes():
    s = sleeping("job", code="echo x > f\n")
    os.mkdir(s / "jobs/j")
    same("a name alone wakes nothing", s.word(), "asleep")
    write(s / "jobs/j/in", "cat f; exit 3\n")
    same("a job", (read(s / "jobs/j/stdout"), read(s / "jobs/j/exit_code")), (b"x\n", b"3\n"))


def reading():
    s = sleeping("reading", code="mkdir -p d/e; echo hello > a; ln -s ../a d/l; echo b > d/e/b; chmod 600 a\n")
    top = s / "files"
    same("ls", sorted(os.listdir(top)), ["a", "d"])
    same("cat", read(f"{top}/d/e/b"), b"b\n")
    same("a link", (os.readlink(f"{top}/d/l"), read(f"{top}/d/l")), ("../a", b"hello\n"))
    st = os.stat(f"{top}/a")
    same("stat", (st.st_mode & 0o777, st.st_size), (0o600, 6))
    same("cp -a", shell(f"cp -a {top} {SCRATCH}/reading && diff -r {top} {SCRATCH}/reading")[:2], (0, b""))
    same("grep -r", shell(f"grep -rl hello {top} | wc -l")[1].strip(), b"1")
    with raises("what is not there", errno.ENOENT):
        os.stat(f"{top}/none")
    os.statvfs(top)
    for node in ("summary", "state", "status.json", "config", "error", "stdout", "exit_code", "console", "ports"):
        read(s / node)
    same("nothing of that wakes it", s.word(), "asleep")


def parts(path):
    """Where the data of a file begins and ends, as lseek(2) tells, up to the hole at its end."""
    found, at = [], 0
    with open(path, "rb", buffering=0) as file:
        while len(found) < 100:
            try:
                data = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError as error:
                same(f"{path}: no more data", error.errno, errno.ENXIO)
                break
            at = os.lseek(file.fileno(), data, os.SEEK_HOLE)
            found.append((data, at))
        with raises(f"{path}: behind its end", errno.ENXIO):
            os.lseek(file.fileno(), os.fstat(file.fileno()).st_size, os.SEEK_HOLE)
    return found


def holes():
    """What packs or copies a file that is nearly all hole does not read that."""
    s = Session("holes")
    same("made", s.run("truncate -s 100G f; for at in 1 60; do printf island | "
                       "dd of=f bs=1 seek=${at}G conv=notrunc 2> /dev/null; done\n").code, 0)
    awake = parts(s / "files/f")
    same("awake", [data for data, _ in awake], [1 << 30, 60 << 30])
    os.mkdir(s / "checkpoints/a")
    same("saved", read(s / "checkpoints/a/wait"), b"whole\n")
    s.ctl("sleep")
    ok("asleep", s.wait_state("asleep"), s.text("error"))
    for what in ("checkpoints/a/files", "files"):
        seen = parts(s / f"{what}/f")
        same(f"{what}: the same holes", seen, awake)
        if seen != awake:
            continue  # a hundred gigabytes would be read
        status, out, err = shell(f"tar -S -C {s / what} -cf - f | tar -C {SCRATCH} -xf -")
        same(f"{what}: tar -S", (status, out, err), (0, b"", b""))
        copy = os.stat(f"{SCRATCH}/f")
        ok(f"{what}: and back", (copy.st_size, copy.st_blocks < 1000) == (100 << 30, True), copy)
        os.unlink(f"{SCRATCH}/f")
        same(f"{what}: cp", shell(f"cp --sparse=always {s / what}/f {SCRATCH}/f")[::2], (0, b""))
        with open(f"{SCRATCH}/f", "rb") as file:
            same(f"{what}: an island", os.pread(file.fileno(), 8, (60 << 30) - 1), b"\0island\0")
        os.unlink(f"{SCRATCH}/f")
    same("asleep all the while", s.word(), "asleep")


def looks():
    """What files look like does not tell whether the session is asleep."""
    s = Session("looks", "raw")
    s.run("mkdir -p d/e empty; echo x > d/a; ln d/a d/h; ln -s a d/l; chmod 750 d; touch -d '2001-02-03 UTC' d/a empty; "
          "touch -d '2002-03-04 05:06:07.89 UTC' d; for i in $(seq 30); do echo $i > d/e/f$i; done; rm d/e/f7\n")

    def look():
        shown = {}
        for path in ("", "d", "d/a", "d/h", "d/l", "d/e", "d/e/f3", "empty"):
            st = os.lstat(s / f"files/{path}")
            shown[path] = (st.st_mode, st.st_nlink, st.st_uid, st.st_gid, st.st_mtime_ns,
                           # Without a jail, its directories are of a file system of this host's.
                           st.st_size if BACKEND != "local" or not stat.S_ISDIR(st.st_mode) else None)
        return shown

    before = look()
    s.ctl("sleep")
    ok("asleep", s.wait_state("asleep"), s.text("error"))
    asleep = look()
    same("asleep", asleep, before)
    s.ctl("wake")
    ok("awake", s.wait_state("idle", 30), s.text("error"))
    same("and awake again", look(), before)


def writing():
    """Each kind of change, by a path, to files and below directories that were read while it slept."""
    actions = {
        "create": ("echo new > new", "cat new", b"new\n"),
        "create below": ("echo new > d/new", "cat d/new", b"new\n"),
        "append": ("echo more >> a", "cat a", b"hello\nmore\n"),
        "overwrite": ("echo other > d/b", "cat d/b", b"other\n"),
        "mkdir": ("mkdir d/n", "ls d", b"b\nn\n"),
        "rm": ("rm a", "ls", b"d\n"),
        "mv": ("mv a d/c", "cat d/c", b"hello\n"),
        "chmod": ("chmod 600 d/b", "stat -c %a d/b", b"600\n"),
        "truncate": ("truncate -s 2 a", "cat a", b"he"),
        "ln -s": ("ln -s b d/l", "readlink d/l", b"b\n"),
        "ln": ("ln a d/h", "cat d/h", b"hello\n"),
        "touch": ("touch -d '2001-02-03 UTC' a", "date -u -r a +%F", b"2001-02-03\n"),
        "rmdir": ("rm d/b; rmdir d", "ls", b"a\n"),
    }
    s = Session("writing")
    for what, (change, look, want) in actions.items():
        s.run("rm -rf -- * && mkdir d && echo hello > a && echo b > d/b\n")
        s.ctl("sleep")
        ok(f"{what}: asleep", s.wait_state("asleep"), s.text("error"))
        read(s / "files/d/b")
        same(f"{what}: it works", shell(f"cd {s / 'files'} && {change}")[::2], (0, b""))
        same(f"{what}: it is awake", s.word(), "idle")
        same(f"{what}: this side", shell(f"cd {s / 'files'} && {look}")[1], want)
        same(f"{what}: the other side", s.run(look + "\n").stdout, want)


def open_files():
    s = Session("open", config="idle_timeout_s = 2\nidle = hibernate\n")
    s.run("echo hello > a\n")
    with open(s / "files/a", "rb") as file:
        time.sleep(4)
        same("an open file keeps it awake", s.word(), "idle")
        file.read()
    ok("and nobody else", s.wait_state("asleep", 10), (s.word(), s.text("error")))
    file = os.open(s / "files/a", os.O_RDONLY)
    same("it can be opened", os.read(file, 3), b"hel")
    s.run("true\n")
    same("what was open when it woke is read on", os.read(file, 3), b"lo\n")
    same("and is the sandbox's now", (s.run("echo more >> a\n").code, os.read(file, 9)), (0, b"more\n"))
    os.close(file)
    s.ctl("sleep")
    ok("it sleeps", s.wait_state("asleep", 10), s.text("error"))
    file = os.open(s / "files/a", os.O_RDONLY)
    s.run("echo other > a\n")
    same("what has changed before it was read again is read as it is", os.read(file, 9), b"other\n")
    os.close(file)


def idle():
    s = Session("idle", config="idle_timeout_s = 2\nidle = hibernate\n")
    s.run("echo x > f\n")
    ok("it falls asleep", s.wait_state("asleep", 10), s.text("error"))
    same("and wakes", s.run("cat f\n").out, "x\n")
    ok("and falls asleep again", s.wait_state("asleep", 10), s.text("error"))
    c = Session("closes", config="idle_timeout_s = 2\nidle = close\n")
    c.run("true\n")
    ok("or it is closed", c.wait_state("closed", 10))


def verbs():
    s = Session("verbs", config="timeout_s = 0\n")
    with raises("nothing to save", errno.EBUSY):
        s.ctl("sleep")
    with raises("nothing to wake", errno.EBUSY):
        s.ctl("wake")
    s.submit("sleep 600\n")
    ok("it runs", s.wait_run(1, "running"))
    with raises("it runs", errno.EBUSY):
        s.ctl("sleep")
    has("in words", s.text("error"), "when = idle")
    s.ctl("interrupt")
    s.result()
    s.run("echo x > f; x=1\n")
    s.ctl("sleep")
    ok("asleep", s.wait_state("asleep"), s.text("error"))
    with raises("pause", errno.EBUSY):
        s.ctl("pause")
    has("in words", s.text("error"), "wake")
    s.ctl("sleep")
    with raises("frozen", errno.EBUSY):
        write(s / "config", "memory_mb = 512\n")
    s.ctl("reset")
    same("a reset keeps files, and nothing else", s.run("cat f; echo ${x:-none}\n").out, "x\nnone\n")
    s.ctl("sleep")
    ok("asleep", s.wait_state("asleep"), s.text("error"))
    s.ctl("close")
    with raises("closed", errno.ESTALE):
        s.submit("true\n")
    s.ctl("reset")
    same("then it begins anew", s.run("cat f 2> /dev/null || echo none\n").out, "none\n")
    s.ctl("sleep")
    ok("asleep", s.wait_state("asleep"), s.text("error"))
    s.remove()
    f = Session("fresh", config="fresh = yes\n")
    f.run("true\n")
    with raises("fresh", errno.EOPNOTSUPP, errno.EBUSY):
        f.ctl("sleep")


main(code_wakes, killed, background, job_wakes, reading, holes, looks, writing, open_files, idle, verbs)
