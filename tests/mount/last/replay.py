#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`echo replay N > ctl` executes a run once more, in a copy of what it began with, and runs/N/replay says whether all bytes are the same.
Nothing of it stays; it goes on when the daemon dies, and is no secret when it ended for nothing."""
# backends: local process vm
# night: vm
# timeout: 300
# log-allow: the daemon died|ending: |was killed by signal
import re
import select

from deaths import *
from kept import *

CONFIG = "checkpoint_runs = 20\n"
FIXED = CONFIG + "seed = 9\n"


def begin(name, config=FIXED, template="raw"):
    return Session(name, template, config)


def run(s, code):
    """... and what is behind it is saved."""
    r = s.run(code)
    last = s.runs()[-1]
    ok("it is saved", wait_for(lambda: os.path.exists(s / f"checkpoints/run-{last}"), 20))
    read(s / f"checkpoints/run-{last}/wait")
    return r


def replay(s, n):
    s.ctl(f"replay {n}")
    return read(s / f"runs/{n}/replay").decode()


def begins_at(what, text, byte):
    """The number that is printed there may begin with the same digits."""
    m = re.search(r"stdout: differs from byte (\d+) on \(", text)
    ok(what, m and byte <= int(m[1]) < byte + 11, text)


def alone(s):
    """Nothing is left of them."""
    folder, name = os.path.split(s.path)
    ok("no session stays", wait_for(lambda: [x for x in os.listdir(folder) if x.startswith(f"{name}-replay")] == [], 10), os.listdir(folder))


def the_same():
    s = begin("same")
    write(s / "stdin", "from outside\n")
    run(s, "read x; echo $x $RANDOM; mktemp -u; hostname; echo a > f; mkdir -p d; ln -s f l; echo error >&2; exit 3\n")
    run(s, "cat f; head -c 9 /dev/urandom > d/g; cat d/g | od -An -tx1\n")
    has("before one is asked for", s.text("runs/1/replay"), "none\n")
    has("... it says how", s.text("runs/1/replay"), "echo 'replay 1' > ctl")
    for n in 1, 2:
        text = replay(s, n)
        same(f"run {n}: the first line", text.split("\n")[0], "same")
        for part in ("stdout: same", "stderr: same", "exit status: same", "files: same"):
            has(f"run {n}", text, part)
        same(f"run {n}: its size", os.stat(s / f"runs/{n}/replay").st_size, len(text))
        same(f"run {n}: read again", s.text(f"runs/{n}/replay"), text)
    alone(s)
    same("the session has its runs", s.runs(), [1, 2])
    same("... and its state", s.run("cat f\n").out, "a\n")
    has("it is told", s.text("events"), "run 1: same")
    s.remove()


def other():
    """Control: without a seed, and with the time, it differs, and it is said where."""
    s = begin("other", CONFIG)
    run(s, "echo abc $SRANDOM; date +%N > t; echo same > f; echo $SRANDOM > n$SRANDOM\n")
    text = replay(s, 1)
    same("the first line", text.split("\n")[0], "differs")
    begins_at("where", text, 4)
    has("the bytes", text, "  run:    ")
    has("a file that both have", text, "\n  t: differs from byte ")
    has("one that only one has", text, ": only behind the run\n")
    has("one that only the other has", text, ": only in the replay\n")
    ok("not what is the same", "\n  f:" not in text, text)
    has("what it may be", text, "usual causes: random numbers")
    alone(s)
    s.remove()
    s = begin("ends", CONFIG)
    run(s, "exit $((SRANDOM % 199 + 1))\n")
    ok("an end that differs", any("exit status: differs: " in replay(s, 1) for _ in range(3)))
    s.remove()


def variables():
    """A machine's memory is part of what a run begins with; of processes only files are, and that is said."""
    s = begin("variables")
    run(s, "x=kept\n")
    run(s, "echo $x\n")
    text = replay(s, 2)
    same("the first line", text.split("\n")[0], "same" if VM else "differs")
    if not VM:
        has("why", text, "note: of what the run began with only files were saved")
    s.remove()


def what_is_lacking():
    s = begin("lacking", None)
    s.run("echo 1 > f\n")
    text = replay(s, 1)
    same("no checkpoint behind it", text.split("\n")[0], "same, but for files, which were not compared")
    has("... in words", text, "checkpoint_runs keeps them")
    s.run("echo 2\n")
    with raises("a run whose beginning was not saved", errno.ENOENT):
        s.ctl("replay 2")
    has("... in words", s.text("error"), "was not saved")
    for n, number in (7, errno.EINVAL), (0, errno.EINVAL), ("x", errno.EINVAL), ("", errno.EINVAL):
        with raises(f"replay {n}", number):
            s.ctl(f"replay {n}")
    os.mkdir(s / "checkpoints/mine")
    read(s / "checkpoints/mine/wait")
    write(s / "files/from-outside", "x")
    s.run("ls\n")
    text = replay(s, 3)
    has("from one's own checkpoint", text, "stdout: differs")
    has("files from outside", text, "note: between what was saved and the run, files were changed from outside")
    os.rmdir(s / "checkpoints/mine")
    with raises("it is gone", errno.ENOENT):
        s.ctl("replay 3")
    write(s / "stdin", b"y" * 100000)
    s.run("wc -c\n")
    with raises("more input than is kept", errno.EOPNOTSUPP, errno.ENOENT):
        s.ctl("replay 4")


def long_outputs():
    s = begin("long")
    run(s, "seq 100000; seq 20000 >&2; head -c 300000 /dev/urandom > f\n")
    text = replay(s, 1)
    same("same", text.split("\n")[0], "same")
    has("its length", text, "stdout: same, 588895 bytes")
    s = begin("long2", CONFIG)
    run(s, "seq 100000; echo $SRANDOM; seq 100000\n")
    begins_at("far behind", replay(s, 1), 588895)


SLOW_RUN = "for i in 1 2 3 4 5; do sleep 0.3; echo $i; done\n"


def waiting():
    """Who reads waits, and can be interrupted; removing it, or closing the session, ends it."""
    s = begin("waiting")
    run(s, SLOW_RUN)
    s.ctl("replay 1")
    with raises("another one meanwhile", errno.EBUSY):
        s.ctl("replay 1")
    fd = os.open(s / "runs/1/replay", os.O_RDONLY | os.O_NONBLOCK)
    with raises("it waits", errno.EAGAIN):
        os.read(fd, 10)
    p = select.poll()
    p.register(fd, select.POLLIN)
    same("not yet", p.poll(100), [])
    reader = subprocess.Popen(["cat", s / "runs/1/replay"], stdout=subprocess.PIPE)
    time.sleep(0.3)
    reader.send_signal(signal.SIGINT)
    same("a reader is interrupted", reader.wait(SOON), -signal.SIGINT)
    later = Later(lambda: s.text("runs/1/replay"))
    ok("poll tells", p.poll(60000))
    same("it goes on", os.read(fd, 5), b"same\n")
    os.close(fd)
    ok("who waits hears of it", later.get().startswith("same\n"))
    for what, end, words in (("removed", lambda: os.rmdir(f"{s.path}-replay-1"), "was removed"),
                             ("closed", lambda: s.ctl("close"), "the session was closed")):
        s.ctl("replay 1")
        later = Later(lambda: s.text("runs/1/replay"))
        later.waits()
        end()
        text = later.get()
        ok(f"{what}: it has failed", text.startswith("failed\n") and words in text, text)
        alone(s)
    text = replay(s, 1)
    same("a closed session's run", text.split("\n")[0], "same")
    s.ctl("replay 1")
    s.remove()
    alone(s)


def deaths():
    """The daemon dies while one goes on, and while nobody looks."""
    k = Kept("deaths", wait=False)
    k.begin("survive=yes")
    s = k.make("s", FIXED)
    run(s, SLOW_RUN)
    mortal = Mortal(k.daemon.pid)
    s.ctl("replay 1")
    time.sleep(0.5)
    later = Later(lambda: s.text("runs/1/replay"))
    mortal.die()
    text = later.get()
    ok("it has come to its end", text.startswith("same\n"), text)
    same("it is still known", s.text("runs/1/replay"), text)
    mortal.die()
    same("... to the next one", s.text("runs/1/replay"), text)
    run(s, "echo $SRANDOM\n")
    mortal.die()
    ok("what a run began with is known", replay(s, 2).startswith("same\n"))
    alone(s)

    # The end of the mount: what was known is; what went on is not.
    s.ctl("replay 1")
    same("the mount ends", k.end(), 0)
    k.begin()
    s = k.there("s")
    has("it says so", s.text("runs/1/replay"), "failed\ncause: xsbxfs was ended before it was done\n")
    ok("the other is known", s.text("runs/2/replay").startswith("same\n"))
    alone(s)
    ok("it can be asked for again", replay(s, 2).startswith("same"), s.text("runs/2/replay"))
    s.ctl("replay 1")
    time.sleep(0.5)
    k.power_cut()
    if mounted(k.mnt):
        shell(f"fusermount3 -u -z {k.mnt}")
    k.begin()
    s = k.there("s")
    ok("a power cut: it is not under way", s.text("runs/1/replay").split("\n")[0] in ("failed", "none"), s.text("runs/1/replay"))
    alone(s)
    same("the end", k.end(), 0)


# In machines what is different there.
main(the_same, other, variables, *(() if VM else (what_is_lacking, long_outputs, waiting, deaths)))
