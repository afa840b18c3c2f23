# SPDX-License-Identifier: Apache-2.0
"""A mount that is used by many at once, who know what they have to be answered: for tests of what must not be seen."""

import fcntl
import multiprocessing

from xsbx import *

stop = multiprocessing.Event()
up = multiprocessing.Semaphore(0)  # for each session that has a sandbox


def runs():
    """A session's runs, one after the other, each with what it remembers of the one before."""
    s = Session("runs", config="timeout_s = 0\n")
    n = 0
    s.run("n=0")
    up.release()
    while not stop.is_set():
        n += 1
        got = s.run("n=$((n + 1)); echo run $n; echo err >&2; (exit $((n % 7)))")
        if (got.out, got.err, got.code) != (f"run {n}\n", "err\n", n % 7):
            return f"run {n}: {got}, error {s.text('error')}"
    return n


def output():
    """A long output, read as it comes."""
    s = Session("output", config="timeout_s = 0\n")
    s.run("true")
    up.release()
    n = 0
    while not stop.is_set():
        n += 1
        s.submit("seq 1 20000; sleep 0.05; seq 20001 30000")
        if read(s / "stdout") != "".join(f"{i}\n" for i in range(1, 30001)).encode():
            return f"output {n} is another"
    return n


def files():
    """Files are written, read, renamed and removed."""
    s = Session("files")
    s.run("true")
    up.release()
    n = 0
    while not stop.is_set():
        n += 1
        data = (f"{n} " * 5000).encode()
        with open(s / "files/new", "wb") as file:
            for at in range(0, len(data), 3000):
                file.write(data[at:at + 3000])
        os.rename(s / "files/new", s / f"files/f{n % 20}")
        if read(s / f"files/f{n % 20}") != data:
            return f"file {n} is another"
        if n % 20 == 0 and (len(os.listdir(s / "files")) != 20):
            return f"{os.listdir(s / 'files')}"
    return n


def counter(path):
    """One of several who count under a lock."""
    n = 0
    while not stop.is_set():
        fd = os.open(path, os.O_RDWR)
        fcntl.lockf(fd, fcntl.LOCK_EX)
        value = int(os.pread(fd, 20, 0))
        os.pwrite(fd, str(value + 1).encode(), 0)
        fcntl.lockf(fd, fcntl.LOCK_UN)
        os.close(fd)
        n += 1
    return n


def jobs():
    """Jobs that are typed to."""
    s = Session("jobs", config="timeout_s = 0\n")
    s.run("true")
    up.release()
    n = 0
    while not stop.is_set():
        n += 1
        os.mkdir(s / f"jobs/j{n}")
        feeder = os.open(s / f"jobs/j{n}/stdin", os.O_WRONLY)
        write(s / f"jobs/j{n}/in", "#!/bin/sh\nwhile read -r line; do echo got $line; done; exit 3\n")
        for i in range(10):
            os.write(feeder, f"line {i}\n".encode())
            time.sleep(0.02)
        os.close(feeder)
        got = (read(s / f"jobs/j{n}/stdout"), read(s / f"jobs/j{n}/exit_code"))
        if got != ("".join(f"got line {i}\n" for i in range(10)).encode(), b"3\n"):
            return f"job {n}: {got}"
        os.rmdir(s / f"jobs/j{n}")
    return n


def sessions():
    """They come and go."""
    n = 0
    while not stop.is_set():
        n += 1
        s = Session(f"one{n}", config=f"env.N = {n}\n")
        if f"env.N = {n}\n" not in s.text("config"):
            return f"session {n} has another configuration"
        s.remove()
    return n


def events():
    """The log, from its oldest line on, of which none is missing or cut."""
    fd = os.open(f"{MNT}/events", os.O_RDONLY)
    n, rest = 0, b""
    while not stop.is_set():
        piece = os.read(fd, 65536)
        *found, rest = (rest + piece).split(b"\n")
        for line in found:
            json.loads(line)
            n += 1
    return n


def gaps():
    """How long it takes to be answered."""
    slowest = []
    while not stop.is_set():
        began = time.monotonic()
        os.listdir(MNT)
        slowest.append(time.monotonic() - began)
        time.sleep(0.001)
    slowest.sort()
    return [f"{1000 * t:.1f}" for t in slowest[-20:]]


class Busy:
    """All of them at work."""

    def __init__(self, *more):
        self.counting = Session("counting")
        self.counting.run("echo -n 0 > n")
        self.at_work = [aside(action) for action in (runs, output, files, jobs, sessions, gaps, *more)]
        self.at_work += [aside(counter, self.counting / "files/n") for _ in range(3)]
        self.at_work.append(aside(events))
        for _ in range(4):
            ok("a sandbox is up", up.acquire(timeout=SOON))

    def end(self):
        """They stop; each says what it has done, or seen."""
        stop.set()
        Session("last")
        counted = 0
        for name, process, pipe in self.at_work:
            got = pipe.recv() if pipe.poll(SOON) else "it hangs"
            if name == "gaps":
                print("milliseconds that the slowest took:", *got)
                continue
            ok(name, isinstance(got, int) and got > 0, got)
            print(name, got)
            counted += got if name == "counter" and isinstance(got, int) else 0
            process.join(SOON)
        same("none was counted twice, or not at all", int(read(self.counting / "files/n")), counted)


__all__ = [name for name in dir() if not name.startswith("_")]
