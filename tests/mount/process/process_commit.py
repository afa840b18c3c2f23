#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a commit makes on the host is what was read in files.changes, whatever goes on in the sandbox."""
# backends: process
# timeout: 180
# mount: none
import time

from hosts import *

TEMPLATE = "[template shown]\nlanguage = raw\nwork = {}\n"


def scene(name):
    top = folder(name)
    write(f"{top}/text", "hello\n")
    host = Host(f"{name}.daemon", TEMPLATE.format(top))
    return top, host, host.session("one")


def commit(s):
    """Whether it was made; waits until that is known."""
    fd = os.open(s / "files.changes", os.O_RDONLY)
    try:
        s.ctl("commit")
        os.read(fd, 1)  # a list, which waits for the commit
    finally:
        os.close(fd)
    return "code: changed" not in s.text("error")


def changed_since():
    """A process in the background changes a file after its list was read. (Control: commit 7b8c989 put EVIL
    on the host.)"""
    top, host, s = scene("since")
    s.run("echo good > script; (until [ -e files-were-read ]; do sleep .05; done; echo EVIL > script; : > done) &\n")
    has("the list", s.text("files.changes"), "A script\n")
    write(s / "files/files-were-read", "")
    ok("it was changed", wait_for(lambda: os.path.exists(s / "files/done")))
    same("refused", commit(s), False)
    has("in words", s.text("error"), "A script")
    same("nothing was made", os.listdir(top), ["text"])
    has("once read, ", s.text("files.changes"), "A script\n")
    same("it can be", commit(s), True)
    same("what was read last", read(f"{top}/script"), b"EVIL\n")
    host.close()


def each_kind():
    """Content, mode, kind, target, what came and what went: each is another version; none other is."""
    top, host, s = scene("kinds")
    s.run("echo a > a; ln -s a link; mkdir d; rm text; truncate -s 1M holes\n")
    for what in ("echo b > a", "chmod 700 a", "ln -sfn d link", "rm a; mkdir a", "rmdir a",
                 "chmod 700 d", ": > text", "rm text", "printf x | dd of=holes bs=1 seek=9000 conv=notrunc",
                 ": > new"):
        s.text("files.changes")
        s.run(what + "\n")
        same(f"{what}: refused", commit(s), False)
        same(f"{what}: nothing was made", os.listdir(top), ["text"])
    s.text("files.changes")
    s.run("touch new; cat a holes > /dev/null\n")
    same("times and readers make no difference", commit(s), True)
    ok("made", os.path.exists(f"{top}/new") and not os.path.exists(f"{top}/text"))
    s.run("echo more > more\n")
    same("what was not read since is not made", commit(s), False)
    same("not there", os.path.exists(f"{top}/more"), False)
    host.close()


def never_read():
    top, host, s = scene("blind")
    s.run("echo x > x\n")
    s.ctl("commit")
    ok("without a list, what is there is made", wait_for(lambda: os.path.exists(f"{top}/x")))
    host.close()


def marks():
    """What programs of the host run by themselves is marked."""
    _, host, s = scene("marks")
    s.run("mkdir -p .git/hooks a/.VSCode; echo x > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit\n"
          "echo > a/.envrc; echo > a/envrc; cp /bin/true suid; chmod 4755 suid; cp /bin/true plain; echo > x.pth\n")
    same("the list", s.text("files.changes"),
         "A! .git\nA! .git/hooks\nA! .git/hooks/pre-commit\nA a\nA! a/.VSCode\nA! a/.envrc\nA a/envrc\n"
         "A plain\nA! suid\nA! x.pth\n")
    host.close()


FLIP = "(while :; do echo A > flip; n=$((n+1)); echo $n > count; echo B > flip; done) &\n"


def count(s):
    return read(s / "files/count")


def states_under(pid):
    return [read(f"/proc/{p}/stat", "r").rsplit(")", 1)[1].split()[0] for p in children_of(pid) if alive(p)]


def paused():
    """Between `pause` and `resume` nothing runs: what is looked at is what is committed."""
    top, host, s = scene("paused")
    s.run(FLIP + "(kill -STOP $BASHPID; echo woke > woke) &\n")
    ok("it flips", wait_for(lambda: os.path.exists(s / "files/count")))
    ok("one has stopped itself", wait_for(lambda: "T" in states_under(s.pid())))
    for turn in range(3):
        s.ctl("pause")
        listed = s.text("files.changes")  # waits until all stands still
        same("state", s.word(), "paused")
        same("the list", listed, "A count\nA flip\n" if not turn else listed)
        seen = read(s / "files/flip"), count(s)
        same("nothing goes on", seen, (time.sleep(.1), (read(s / "files/flip"), count(s)))[1])
        same("committed", commit(s), True)
        same("what was seen", (read(f"{top}/flip"), read(f"{top}/count")), seen)
        same("still paused", s.word(), "paused")
        s.ctl("resume")
        same("state", s.word(), "idle")
        ok("it goes on", wait_for(lambda: count(s) not in (b"", seen[1])))
    same("what was stopped before still is", os.path.exists(s / "files/woke"), False)
    same("the interpreter lives", s.run("echo $((6*7))\n").out, "42\n")
    # What grows all the time is not what was read. (What flips may be, again.)
    s.run("(while :; do n=$((n+1)); echo $n >> grows; done) &\n")
    ok("it grows", wait_for(lambda: os.path.exists(s / "files/grows")))
    s.text("files.changes")
    was = os.stat(s / "files/grows").st_size
    ok("it grows on", wait_for(lambda: os.stat(s / "files/grows").st_size > was))
    same("not paused: refused", commit(s), False)
    host.close()


def woken():
    """A timer of the kernel's can wake what was stopped: then nothing is committed. What woke up
    stays on its processor, so that no switch of it has been counted yet."""
    top, host, s = scene("woken")
    write(s / "files/wake.py", """
import ctypes, os, signal, time
c = ctypes.CDLL(None)
event, timer = (ctypes.c_int * 16)(0, 0, signal.SIGCONT, 0), ctypes.c_void_p()
assert c.timer_create(1, event, ctypes.byref(timer)) == 0
assert c.timer_settime(timer, 0, (ctypes.c_long * 4)(0, 300000000, 0, 300000000), None) == 0
n, was = 0, 0
while True:
    now = time.monotonic()
    if now - was > .1:
        n += 1
        open("new", "w").write(str(n))
        os.rename("new", "count")
        was = now
""")
    for turn in range(4):
        s.run("kill $!; rm -f count; python3 wake.py &\n")
        ok("it counts", wait_for(lambda: os.path.exists(s / "files/count")))
        s.ctl("pause")
        s.text("files.changes")
        was = count(s)
        ok("control: it woke up", wait_for(lambda: count(s) not in (b"", was)))
        commit(s)
        has("in words", s.text("error"), "ran although it was paused")
        same("nothing was made", os.listdir(top), ["text"])
        same("not paused any more", s.word(), "idle")
    host.close()


def hidden():
    """What /proc hides can't be seen to stand still: then nobody says that it does."""
    top, host, s = scene("hidden")
    write(s / "files/hide.py", """
import ctypes, os, threading, time
def count():
    for n in range(1 << 30):
        open("new", "w").write(str(n))
        os.rename("new", "count")
        time.sleep(.01)
libc = ctypes.CDLL(None)
libc.prctl(4, 0)  # PR_SET_DUMPABLE
threading.Thread(target=count).start()
libc.syscall(60 if os.uname().machine == "x86_64" else 93, 0)  # exit of this thread
""")
    s.run("python3 hide.py &\n")
    ok("it counts", wait_for(lambda: os.path.exists(s / "files/count")))
    s.ctl("pause")
    ok("decided", wait_for(lambda: s.word() == "paused" or "not-paused" in s.text("error")))
    was = count(s)
    time.sleep(.3)
    if s.word() == "paused":
        same("nothing goes on", count(s), was)
    else:
        has("in words", s.text("error"), "could not be stopped")
    host.close()


def while_paused():
    _, host, s = scene("verbs")
    with raises("not paused", errno.EINVAL):
        s.ctl("resume")
    s.submit("sleep 60\n")
    s.wait_state("running")
    with raises("during a run", errno.EBUSY):
        s.ctl("pause")
    s.ctl("kill")
    s.wait_state("idle")
    s.ctl("pause")
    ok("paused", s.wait_state("paused"))
    write(s / "files/mine", "written")
    same("files/ can be changed", read(s / "files/mine"), b"written")
    s.submit("echo later\n")
    time.sleep(.1)
    same("runs wait", s.word(), "paused")
    s.ctl("resume")
    same("and begin then", s.text("stdout"), "later\n")
    s.ctl("pause")
    ok("paused again", s.wait_state("paused"))
    s.ctl("reset")
    same("reset ends it", s.run("echo fresh\n").out, "fresh\n")
    s.ctl("pause")
    ok("and again", s.wait_state("paused"))
    s.ctl("close")
    same("so does close", s.word(), "closed")
    host.close()


main(changed_since, each_kind, never_read, marks, paused, woken, hidden, while_paused)
