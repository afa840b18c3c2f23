#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the daemon keeps of files/ while nothing in the sandbox runs is never seen when it is not true any more: after
runs, beside what they leave behind, and beside other programs on this side."""
# timeout: 120
# backends: local vm
# night: vm
import fcntl
import mmap
import stat
from pathlib import Path

from xsbx import *


def quiet(s):
    """Requests, after which there is a lease, if there can be one."""
    for _ in range(8):
        os.statvfs(s / "files")
    os.listdir(s / "files")


def known(s, *names):
    """All that can be known of these is known now, and was asked for more than once."""
    for _ in range(2):
        for name in names:
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                os.stat(s / f"files/{name}")
                read(s / f"files/{name}")


def by_a_run():
    s = Session("run")
    s.run("mkdir d; echo one > d/a; echo two > b; ln b c; ln -s b l\n")
    quiet(s)
    known(s, "d/a", "b", "c", "none", "d/none")
    folder = os.open(s / "files/d", os.O_RDONLY)
    fd = os.open(s / "files/b", os.O_RDONLY)
    s.run("echo three! > b; chmod 600 c; echo x > d/none; mv d/a d/b; rm l; ln -s d l; echo new > none\n")
    same("content", read(s / "files/b"), b"three!\n")
    same("on an open descriptor", (os.pread(fd, 100, 0), os.fstat(fd).st_size), (b"three!\n", 7))
    same("mode and links", (oct(os.stat(s / "files/b").st_mode & 0o777), os.stat(s / "files/b").st_nlink),
         ("0o600", 2))
    same("names that were not there", (read(s / "files/none"), read(s / "files/d/none")), (b"new\n", b"x\n"))
    ok("a name that was", not os.path.exists(s / "files/d/a"))
    same("below an open directory", os.stat("b", dir_fd=folder).st_size, 4)
    same("link", os.readlink(s / "files/l"), "d")
    for i in range(20):
        quiet(s)
        known(s, "n", "d/n")
        s.run(f"echo {i} > n; rm -f d/n; [ {i % 2} = 0 ] || echo {i} > d/n\n")
        same("again", read(s / "files/n"), b"%d\n" % i)
        same("there and gone", os.path.exists(s / "files/d/n"), i % 2 == 1)
    os.close(fd)
    os.close(folder)


def right_before_a_run():
    """What the kernel was told a moment ago is not true any more for open descriptors either."""
    s = Session("moment")
    s.run("mkdir d; : > d/f\n")
    quiet(s)
    fd = os.open(s / "files/d/f", os.O_RDONLY)
    folder = os.open(s / "files/d", os.O_RDONLY)
    for i in range(1, 31):
        for _ in range(3):
            os.stat(s / "files/d/f")
            os.fstat(fd)
            os.fstat(folder)
        s.run(f"echo x >> d/f; mkdir d/{i}; chmod 6{i % 8}0 d/f\n")
        st = os.fstat(fd)
        same("size", st.st_size, 2 * i)
        same("mode", stat.S_IMODE(st.st_mode), 0o600 + 8 * (i % 8))
        same("links", os.fstat(folder).st_nlink, i + 2)
        if i % 10 == 0:
            quiet(s)
    os.fstat(fd)
    s.ctl("close")
    s.wait_state("closed")
    with raises("gone", errno.ESTALE):
        os.fstat(fd)
    for f in fd, folder:
        with contextlib.suppress(OSError):
            os.close(f)


def files_itself():
    """What stat(2) says of files/ is as true as what it says of the directories in it."""
    s = Session("itself")
    files = Path(s / "files")
    os.stat(files)
    s.run("mkdir first\n")
    same("of the first run", os.stat(files).st_nlink, 3)
    fd = os.open(files, os.O_RDONLY)
    for i in range(20):
        os.stat(files)
        before = os.stat(files)
        s.run(f"mkdir {i}\n")
        after = os.stat(files)
        same("links", (after.st_nlink, os.fstat(fd).st_nlink), (before.st_nlink + 1, ) * 2)
        ok("time", after.st_mtime_ns > before.st_mtime_ns)
        if i % 5 == 0:
            quiet(s)
    os.close(fd)
    s.run("(while [ ! -e end ]; do [ ! -e go ] || { rmdir go; mkdir came; }; done) >/dev/null 2>&1 &\n")
    links = os.stat(files).st_nlink
    os.mkdir(files / "go")
    os.stat(files)
    ok("a background process", wait_for(lambda: os.path.exists(files / "came")))
    same("links, and nothing ran", os.stat(files).st_nlink, links + 1)
    write(files / "end", "")


def open_before_a_run():
    """What was opened before a run stays open, whatever that makes of its name, its mode and its content."""
    s = Session("opened")
    s.run("mkdir d\n")
    f = Path(s / "files")
    quiet(s)
    for i in range(20):
        for name in "abcd":
            write(f / f"d/{name}", f"{name}{i}")
        known(s, *(f"d/{name}" for name in "abcd"))
        fds = [os.open(f / f"d/{name}", os.O_RDONLY) for name in "abcd"]
        same("before", [os.pread(fd, 10, 0) for fd in fds[:2]], [b"a%d" % i, b"b%d" % i])
        same("it runs", s.run("rm d/a; chmod 0 d/b; echo more >> d/c; mv d/d d/e; echo other > d/d\n").code, 0)
        same("after", [os.pread(fd, 10, 0) for fd in fds],
             [b"a%d" % i, b"b%d" % i, b"c%dmore\n" % i, b"d%d" % i])
        same("links", [os.fstat(fd).st_nlink for fd in fds], [0, 1, 1, 1])
        os.fsync(fds[1])
        fcntl.lockf(fds[2], fcntl.LOCK_SH)
        for fd in fds:
            os.close(fd)
        if BACKEND != "local":
            with raises("its mode", errno.EACCES):
                os.open(f / "d/b", os.O_RDONLY)
        same("the new one", read(f / "d/d"), b"other\n")
        s.run("rm d/*\n")
        quiet(s)


def open_and_changed_here():
    s = Session("here")
    s.run("true\n")
    f = Path(s / "files")
    quiet(s)
    for i in range(20):
        path = f / str(i)
        write(path, "x" * i)
        known(s, i)
        fds = [os.open(path, os.O_RDONLY) for _ in range(3)]
        os.chmod(path, 0)
        same("without a mode", os.pread(fds[0], 100, 0), b"x" * i)
        if BACKEND != "local":
            with raises("not again", errno.EACCES):
                os.open(path, os.O_RDONLY)
        os.chmod(path, 0o600)
        with open(path, "wb") as file:
            file.write(b"other")
        same("written", os.pread(fds[1], 100, 0), b"other")
        os.unlink(path)
        same("without a name", os.pread(fds[2], 100, 0), b"other")
        for fd in fds:
            os.close(fd)
    write(f / "log", "one\n")
    known(s, "log")
    fd = os.open(f / "log", os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"two\n")
    same("appended", read(f / "log"), b"one\ntwo\n")
    os.pwrite(fd, b"three\n", 0)  # goes to the end: O_APPEND
    same("appended again", read(f / "log"), b"one\ntwo\nthree\n")
    os.close(fd)


def while_it_runs():
    """A run that goes on is seen at work, although everything was known before it."""
    s = Session("while")
    s.run("echo 0 > n; mkdir d\n")
    quiet(s)
    known(s, "n", "d/x")
    s.submit("i=0; until [ -e stop ]; do i=$((i + 1)); echo $i > n.tmp; mv n.tmp n; echo $i; done\n")
    s.wait_state("running")
    seen = set()

    def look():
        quiet(s)
        seen.add(read(s / "files/n"))
        return len(seen) > 5

    ok("it counts", wait_for(look, 30), seen)
    write(s / "files/stop", "")
    last = s.result().out.split()[-1]
    same("and the last is there", read(s / "files/n"), last.encode() + b"\n")


def left_behind(name, template, code, config=""):
    """A process or thread of a run that has ended changes files."""
    s = Session(name, template, config=config)
    s.run("0\n" if template == "javascript" else "pass\n" if template == "python" else "true\n")
    quiet(s)
    known(s, "go", "n", "d")
    same("it begins", s.run(code).code, 0)
    write(s / "files/go", "")
    for n in range(1, 6):
        # As often as it takes to be sure that there would be a lease.
        for _ in range(20):
            quiet(s)
            known(s, "n")
        want = b"%d\n" % n
        ok(f"{name}: {n} is seen", wait_for(lambda: os.path.exists(s / "files/n") and read(s / "files/n") == want),
           os.path.exists(s / "files/n") and read(s / "files/n"))
        write(s / "files/next", str(n))
    ok(f"{name}: the end is seen", wait_for(lambda: os.path.exists(s / "files/end")))


SHELL = ("until [ -e go ]; do sleep 0.02; done; for n in 1 2 3 4 5; do echo $n > n.tmp; mv n.tmp n; "
         "until [ \"$(cat next 2>/dev/null)\" = $n ]; do sleep 0.02; done; done; : > end")


def job():
    left_behind("job", "raw", f"( {SHELL} ) > /dev/null 2>&1 &\n")


def daemon():
    left_behind("daemon", "raw", f"( setsid bash -c '{SHELL}' < /dev/null > /dev/null 2>&1 & )\n")


PYTHON = """import os, signal, threading, time
def work():
    while not os.path.exists('go'): time.sleep(0.02)
    for n in range(1, 6):
        with open('n.tmp', 'w') as f: print(n, file=f)
        os.rename('n.tmp', 'n')
        while not os.path.exists('next') or open('next').read() != str(n): time.sleep(0.02)
    open('end', 'w').close()
"""


def thread():
    if has_language("python"):
        left_behind("thread", "python", PYTHON + "threading.Thread(target=work).start()\n")


def forked():
    if has_language("python"):
        left_behind("forked", "python", PYTHON + "if os.fork() == 0:\n    os.setsid(); work(); os._exit(0)\n")


def alarm():
    """No thread and no process: a signal handler, in the interpreter that waits for its next run."""
    if not has_language("python"):
        return
    s = Session("alarm", "python")
    s.run("import signal\nopen('n', 'w').write('0')\n")
    quiet(s)
    known(s, "n")
    s.run("n = 0\ndef tick(*_):\n    global n\n    n += 1\n    with open('n', 'w') as f: f.write(str(n))\n"
          "signal.signal(signal.SIGALRM, tick); signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)\n")
    seen = set()

    def look():
        quiet(s)
        seen.add(read(s / "files/n"))
        return len(seen) > 4

    ok("it ticks", wait_for(look, 30), seen)


def event_loop():
    if has_language("javascript"):
        left_behind("events", "javascript", """
const fs = require('fs'); let n = 0
const timer = setInterval(() => {
    if (n === 0 ? !fs.existsSync('go') : !fs.existsSync('next') || fs.readFileSync('next', 'utf8') !== String(n)) return
    if (++n === 6) { fs.writeFileSync('end', ''); clearInterval(timer); return }
    fs.writeFileSync('n.tmp', n + '\\n'); fs.renameSync('n.tmp', 'n')
}, 20)
0
""")


def this_side():
    """Many names, descriptors and programs on this side, and no run: one sees at once what the other did."""
    s = Session("side")
    s.run("true\n")
    f = Path(s / "files")
    os.mkdir(f / "d")
    quiet(s)
    for i in range(100):
        path = f / f"d/{i}"
        ok("not there yet", not os.path.exists(path)) if i % 10 == 0 else None
        write(path, "x" * i)
        same("its size", os.stat(path).st_size, i)
        same("its content", read(path), b"x" * i)
        reader = os.open(path, os.O_RDONLY)
        with open(path, "ab") as file:
            file.write(b"more")
        same("a descriptor from before", os.pread(reader, 200, 0), b"x" * i + b"more")
        same("its size, too", os.fstat(reader).st_size, i + 4)
        os.truncate(path, 2)
        same("cut", (os.pread(reader, 200, 0), os.stat(path).st_size), ((b"x" * i + b"more")[:2], 2))
        os.close(reader)
        os.rename(path, f / f"d/{i}.new")
        ok("moved", not os.path.exists(path) and os.path.exists(f / f"d/{i}.new"))
        os.link(f / f"d/{i}.new", path)
        same("links", (os.stat(path).st_nlink, os.stat(f / f"d/{i}.new").st_nlink), (2, 2))
        os.unlink(path)
        same("one less", os.stat(f / f"d/{i}.new").st_nlink, 1)
        os.chmod(f / f"d/{i}.new", 0o600)
        same("mode", stat.S_IMODE(os.stat(f / f"d/{i}.new").st_mode), 0o600)
    same("all", len(os.listdir(f / "d")), 100)
    before = os.stat(f / "d").st_mtime_ns
    time.sleep(0.05)  # a kernel's clock of files has ticks
    os.mkdir(f / "d/sub")
    ok("a directory's time", os.stat(f / "d").st_mtime_ns > before)
    same("and links", os.stat(f / "d").st_nlink, 3)
    os.rmdir(f / "d/sub")
    same("again", os.stat(f / "d").st_nlink, 2)
    os.utime(f / "d/1.new", (1000, 2000))
    same("times", (os.stat(f / "d/1.new").st_atime, os.stat(f / "d/1.new").st_mtime), (1000, 2000))
    read(f / "d/1.new")
    ok("it was read", os.stat(f / "d/1.new").st_atime > 2000)
    same("the sandbox sees it all", s.run("ls d | wc -l; cat d/9.new; stat -c %a d/1.new\n").out, "100\nxx600\n")


def last_access():
    """It is when somebody has read the file, not when it was opened, whoever the file belongs to; a program that runs
    right afterwards sees it."""
    s = Session("touch")
    s.run("echo inside > inside; : > empty; echo more > more\n")
    f = Path(s / "files")
    quiet(s)
    write(f / "outside", "outside")
    time.sleep(0.02)  # the kernel's clock for files is a coarse one
    os.chmod(f / "more", 0o640)
    quiet(s)
    for name in "inside", "outside", "empty", "more":
        for _ in range(2):
            before = os.stat(f / name)
            fd = os.open(f / name, os.O_RDONLY)
            same("opened", (os.fstat(fd).st_atime_ns, os.stat(f / name).st_atime_ns), (before.st_atime_ns,) * 2)
            quiet(s)
            same("and closed", os.stat(f / name).st_atime_ns, before.st_atime_ns)
            os.close(fd)
        content = read(f / name)
        inside = s.run(f"stat -c %.9X {name}\n").out
        quiet(s)
        after = os.stat(f / name)
        ok(f"{name} was read", after.st_atime_ns > before.st_atime_ns)
        same("not changed", (after.st_mtime_ns, after.st_ctime_ns), (before.st_mtime_ns, before.st_ctime_ns))
        same("the sandbox saw it", inside, f"{after.st_atime_ns // 10**9}.{after.st_atime_ns % 10**9:09}\n")
        same("again", (read(f / name), os.stat(f / name).st_atime_ns), (content, after.st_atime_ns))


def removed_and_open():
    s = Session("open")
    s.run("true\n")
    f = Path(s / "files")
    quiet(s)
    write(f / "a", "first")
    fd = os.open(f / "a", os.O_RDWR)
    os.unlink(f / "a")
    write(f / "a", "second")
    same("the old one", (os.pread(fd, 10, 0), os.fstat(fd).st_nlink), (b"first", 0))
    os.pwrite(fd, b"FIRST", 0)
    same("is another file", (os.pread(fd, 10, 0), read(f / "a")), (b"FIRST", b"second"))
    os.close(fd)
    os.mkdir(f / "d")
    write(f / "d/a", "x")
    os.unlink(f / "d/a")
    os.rmdir(f / "d")
    ok("gone", not os.path.exists(f / "d/a") and not os.path.exists(f / "d"))
    s.run("mkdir d; echo y > d/a\n")
    same("and made again inside", read(f / "d/a"), b"y\n")


def exchanged():
    s = Session("exchange")
    s.run("true\n")
    f = Path(s / "files")
    quiet(s)
    os.mkdir(f / "d")
    write(f / "d/a", "a")
    write(f / "d/b", "b")
    known(s, "d/a", "d/b")
    same("mv --exchange, by hand", shell(f"cd {f}/d && mv a t && mv b a && mv t b")[0], 0)
    same("swapped", (read(f / "d/a"), read(f / "d/b")), (b"b", b"a"))
    os.link(f / "d/a", f / "d/c")
    os.rename(f / "d/a", f / "d/c")  # two names of one file: nothing happens
    same("both stay", (os.path.exists(f / "d/a"), os.path.exists(f / "d/c")), (True, True))
    os.replace(f / "d/b", f / "d/a")
    same("replaced", (read(f / "d/a"), read(f / "d/c"), os.path.exists(f / "d/b"), os.stat(f / "d/c").st_nlink),
         (b"a", b"b", False, 1))


def both_append():
    s = Session("append")
    s.run("true\n")
    f = Path(s / "files")
    quiet(s)
    for i in range(10):
        fd = os.open(f / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, b"out\n")
        os.close(fd)
        s.run("echo in >> log\n")
        quiet(s)
        known(s, "log")
    same("one after the other", read(f / "log"), b"out\nin\n" * 10)
    fd = os.open(f / "log", os.O_RDONLY)
    with mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ) as view:
        same("mapped", view[:7], b"out\nin\n")
    os.close(fd)


def no_access():
    """What the sandbox's user may not search is not shown from memory."""
    if BACKEND == "local":
        return  # he may search everything
    s = Session("access")
    s.run("true\n")
    f = Path(s / "files")
    quiet(s)
    os.mkdir(f / "d")
    write(f / "d/a", "a")
    known(s, "d/a", "d/b")
    os.chmod(f / "d", 0)
    with raises("searched", errno.EACCES):
        os.stat(f / "d/a")
    with raises("a name that is not there", errno.EACCES):
        os.stat(f / "d/b")
    os.chmod(f / "d", 0o700)
    same("again", read(f / "d/a"), b"a")


def other_sandboxes():
    """A lease ends with its sandbox."""
    s = Session("reset")
    s.run("echo old > a; mkdir d\n")
    quiet(s)
    known(s, "a", "d", "b")
    s.ctl("reset")
    same("a new interpreter, the same files", s.run("cat a; echo newer > a\n").out, "old\n")
    same("newer", read(s / "files/a"), b"newer\n")
    known(s, "a")
    s.ctl("close")
    s.wait_state("closed")
    s.ctl("reset")
    same("a new sandbox", s.run("ls\n").out, "")
    ok("gone", not os.path.exists(s / "files/a") and os.listdir(s / "files") == [])
    s.run("echo new > b\n")
    same("new", read(s / "files/b"), b"new\n")
    quiet(s)
    known(s, "b")
    s.ctl("pause")
    same("paused", read(s / "files/b"), b"new\n")
    s.ctl("resume")
    s.run("echo newer > b\n")
    same("resumed", read(s / "files/b"), b"newer\n")


def interpreter_ends():
    s = Session("exit")
    s.run("echo 1 > a\n")
    quiet(s)
    known(s, "a")
    s.run("trap 'echo 2 > a' EXIT; exit 3\n")
    same("what it did at its end", read(s / "files/a"), b"2\n")
    same("and the next", s.run("cat a; echo 3 > a\n").out, "2\n")
    same("are seen", read(s / "files/a"), b"3\n")


main(by_a_run, right_before_a_run, files_itself, open_before_a_run, open_and_changed_here, while_it_runs, job, daemon,
     thread, forked, alarm, event_loop, this_side, last_access, removed_and_open, exchanged, both_append, no_access,
     other_sandboxes, interpreter_ends)
