#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file that is open when its session wakes is that file afterwards, whatever has its name by then, and so are its locks; who
reads while it wakes notices nothing."""
# backends: local process vm
# night: vm
# timeout: 240
import fcntl
import time

from xsbx import *

WHEN = (1000000000, 1000000000)


def session(name, **files):
    s = Session(name)
    same(f"{name}: made", s.run("true").code, 0)
    for file, text in files.items():
        write(s / f"files/{file}", text)
        os.utime(s / f"files/{file}", WHEN)
    return s


def asleep(s):
    s.ctl("sleep")
    ok(f"{s.path}: it sleeps", s.wait_state("asleep"), s.text("error"))
    return s


def awake(s):
    s.ctl("wake")
    ok(f"{s.path}: it is awake", s.wait_state("idle", 30), s.text("error"))


def opened(s, name, flags=os.O_RDONLY):
    return os.open(s / f"files/{name}", flags)


def by_path():
    """Whoever changes a file by its path meets no stale node, also while its session falls asleep: the kernel looks once more for
    it, but not twice. (One that is open then is another matter.)"""
    s = session("path", a="A" * 10)
    for wait in (None, 0, .002, .005, .01, .03):
        for change in (lambda: os.close(opened(s, "a", os.O_RDWR)), lambda: os.truncate(s / "files/a", 10)):
            awake(s)
            os.stat(s / "files/a")
            s.ctl("sleep")
            if wait is None:
                ok("it sleeps", s.wait_state("asleep"), s.text("error"))
            else:
                time.sleep(wait)
            try:
                change()
            except OSError as e:
                ok(f"changed {wait} s behind `sleep`", False, e)


def moved_by_the_host():
    s = asleep(session("host", a="A" * 200000, b="B" * 200000))
    f = opened(s, "a")
    same("half", set(os.read(f, 100000)), {ord("A")})
    os.rename(s / "files/b", s / "files/a")
    same("the rest is of the same file", os.read(f, 200000), b"A" * 100000)
    same("and not of that which has its name", read(s / "files/a")[:3], b"BBB")
    os.close(f)


def moved_by_code():
    """The handle is nobody's concern until the code has ended: and yet it is that file's."""
    s = asleep(session("code", a="old!" * 1000, b="new!" * 1000))
    f = opened(s, "a")
    same("half", os.read(f, 2000), b"old!" * 500)
    same("code", s.run("mv b a && cat a | head -c 4").out, "new!")
    same("the rest is of the same file", os.read(f, 4000), b"old!" * 500)
    os.close(f)
    asleep(s)
    f = opened(s, "a")
    same("code", s.run("echo longer >> a").code, 0)
    same("what is written to it later is there", os.pread(f, 9, 4000), b"longer\n")
    os.close(f)


def restored():
    s = session("back", a="one!" * 1000)
    os.mkdir(s / "checkpoints/one")
    same("whole", s.word("checkpoints/one/wait"), "whole")
    write(s / "files/a", "two!" * 1000)
    os.utime(s / "files/a", WHEN)
    asleep(s)
    f = opened(s, "a")
    same("half", os.read(f, 2000), b"two!" * 500)
    s.ctl("restore one")
    with raises("there is no such file any more", errno.ESTALE):
        os.read(f, 8)
    awake(s)
    with raises("nor now", errno.ESTALE):
        os.read(f, 8)
    with raises("nor can it be locked", errno.ESTALE):
        fcntl.flock(f, fcntl.LOCK_SH)
    os.close(f)


def can_lock(path, how, flags=os.O_RDWR, lock=fcntl.flock):
    f = os.open(path, flags)
    try:
        lock(f, how | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(f)


def locks():
    s = asleep(session("locks", l="x" * 8000))
    path = s / "files/l"
    f = opened(s, "l")
    fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    same("nobody else has it, asleep", can_lock(path, fcntl.LOCK_EX, os.O_RDONLY), False)
    same("which has not woken it", s.word(), "asleep")
    awake(s)
    same("nobody else has it, awake", can_lock(path, fcntl.LOCK_EX), False)
    same("nor has code", s.run("flock -n l true && echo got").out, "")
    same("it is read", len(os.read(f, 9)), 9)
    same("and still nobody else has it", can_lock(path, fcntl.LOCK_EX), False)
    fcntl.flock(f, fcntl.LOCK_UN)
    same("it is given back", can_lock(path, fcntl.LOCK_EX), True)
    os.close(f)


def ranges():
    s = asleep(session("ranges", l="x" * 8000))
    path = s / "files/l"
    f = opened(s, "l")
    fcntl.lockf(f, fcntl.LOCK_SH | fcntl.LOCK_NB, 100, 50)

    def other(start):
        return aside(lambda: can_lock(path, fcntl.LOCK_EX, lock=lambda f, how: fcntl.lockf(f, how, 10, start)))[2].recv()

    same("another process, whose open wakes it", (other(55), other(200)), (False, True))
    same("and once more", other(145), False)
    os.close(opened(s, "l"))  # takes all that the process has
    same("when it was given back", other(55), True)
    os.close(f)


def names():
    """Asleep each name is a node of its own, but a lock is one of the file."""
    s = session("names", l="x" * 8000)
    os.link(s / "files/l", s / "files/m")
    asleep(s)
    f, g = opened(s, "l"), opened(s, "m")
    fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    same("nobody has it by the other name, asleep", can_lock(s / "files/m", fcntl.LOCK_EX, os.O_RDONLY), False)
    awake(s)
    same("both are read", (len(os.read(f, 9)), len(os.read(g, 9))), (9, 9))
    same("nor awake", can_lock(s / "files/m", fcntl.LOCK_EX), False)
    fcntl.flock(f, fcntl.LOCK_UN)
    fcntl.flock(g, fcntl.LOCK_EX | fcntl.LOCK_NB)
    same("and the other way round", can_lock(s / "files/l", fcntl.LOCK_EX), False)
    os.close(f)
    os.close(g)


def waits():
    s = asleep(session("waits", l="x" * 8000))
    f = opened(s, "l")
    g = opened(s, "l")
    fcntl.flock(f, fcntl.LOCK_EX)
    waiter = Later(lambda: fcntl.flock(g, fcntl.LOCK_EX) or "got it")
    ok("he waits", waiter.waits())
    awake(s)
    ok("he waits", waiter.waits())
    os.read(f, 9)
    ok("he waits", waiter.waits())
    fcntl.flock(f, fcntl.LOCK_UN)
    same("in the end", waiter.get(), "got it")
    same("and he alone", can_lock(s / "files/l", fcntl.LOCK_EX), False)
    os.close(g)
    same("until he closes it", can_lock(s / "files/l", fcntl.LOCK_EX), True)
    os.close(f)


def attributes():
    s = asleep(session("attributes", a="hello"))
    f = opened(s, "a")
    awake(s)
    same("fstat", os.fstat(f).st_size, 5)
    same("lseek", os.lseek(f, 0, os.SEEK_END), 5)
    os.fchmod(f, 0o600)
    same("fchmod", s.run("stat -c %a a").out, "600\n")
    os.close(f)
    asleep(s)
    f = opened(s, "a")
    os.fchmod(f, 0o644)  # wakes it
    same("fchmod", (s.run("stat -c %a a").out, os.read(f, 9)), ("644\n", b"hello"))
    os.close(f)


def read_all_along():
    """Readers notice nothing of a session that wakes."""
    s = session("along", a="")
    text = os.urandom(1 << 20)
    write(s / "files/a", text)
    for n in range(4 if VM else 10):
        asleep(s)
        done = []

        def look():
            rounds = 0
            f = opened(s, "a")
            while not done or rounds < 3:
                if read(s / "files/a") != text or os.pread(f, 65536, 1000) != text[1000:66536]:
                    return "other bytes"
                if os.fstat(f).st_size != len(text):
                    return "another size"
                rounds += 1
            os.close(f)
            return "all right"

        readers = [Later(look) for _ in range(4)]
        time.sleep(0.1)
        write(s / f"files/w{n}", "x")
        ok("awake", s.wait_state("idle", 30), s.text("error"))
        time.sleep(0.1)
        done.append(1)
        for r in readers:
            same("a reader", r.get(), "all right")


def many():
    """More than are opened at once; and in directories. What is not opened within 20 s is given up, which 300 would be where a
    machine is emulated twice over."""
    count = 300 if not VM else 100
    s = session("many")
    same("code", s.run(f"mkdir -p d/e; for i in $(seq {count}); do echo $i > d/e/$i; done; rm -f d/e/7").code, 0)
    asleep(s)
    all = {n: opened(s, f"d/e/{n}") for n in range(1, count + 1) if n != 7}
    same("code", s.run("mv d elsewhere; echo gone > elsewhere/e/1").code, 0)
    same("all of them", [n for n, f in all.items() if n > 1 and os.read(f, 9) != f"{n}\n".encode()], [])
    for f in all.values():
        os.close(f)


main(by_path, moved_by_the_host, moved_by_code, restored, locks, ranges, names, waits, attributes, read_all_along, many)
