#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Standard input that lives: what is written while a program runs reaches it, by the rule of FIFOs."""
# backends: local process vm
import hashlib
import signal
import subprocess

from xsbx import *

MIB = 1 << 20


def open_input(path, flags=0):
    return os.open(path, os.O_WRONLY | flags)


def new_job(s, name, code, config=None):
    os.mkdir(s / f"jobs/{name}")
    if config:
        write(s / f"jobs/{name}/config", config)
    fd = open_input(s / f"jobs/{name}/stdin")
    write(s / f"jobs/{name}/in", code)
    return s / f"jobs/{name}", fd


def line_of(fd):
    """The next line of an open output; waits for it."""
    got = b""
    while not got.endswith(b"\n"):
        more = os.read(fd, 1)
        if not more:
            break
        got += more
    return got


def a_job():
    s = Session("job")
    j, fd = new_job(s, "sh", "cat -n\n")
    out = os.open(f"{j}/stdout", os.O_RDONLY)
    for i in range(1, 4):
        os.write(fd, f"line {i}\n".encode())
        same("it answers at once", line_of(out).split(), [str(i).encode(), b"line", str(i).encode()])
    os.close(fd)
    same("the end of file comes with the last writer", (os.read(out, 10), read(f"{j}/exit_code")), (b"", b"0\n"))
    os.close(out)


def a_session():
    s = Session("session", "python")
    fd = open_input(s / "stdin")
    write(s / "in", "for i in range(2): print('got', input(), flush=True)\n")
    out = os.open(s / "stdout", os.O_RDONLY)
    os.write(fd, b"one\n")
    same("the first", line_of(out), b"got one\n")
    write(s / "in", "print('next', input())\n")
    os.write(fd, b"two\n")
    same("the second", (line_of(out), os.read(out, 10)), (b"got two\n", b""))
    os.close(out)
    out = os.open(s / "stdout", os.O_RDONLY)
    s.wait_run(2, "running", 20)
    os.write(fd, b"three\n")
    same("the next run has the writer that is still there", line_of(out), b"next three\n")
    same("and ends", s.result().code, 0)
    os.close(out)
    with raises("then there is nobody to write to", errno.EPIPE):
        os.write(fd, b"four\n")
    os.close(fd)
    write(s / "stdin", "before\n")
    same("what was written and closed before is read, then the end", s.run("import sys\nprint(sys.stdin.read())\n").out,
         "before\n\n")
    same("without any it is at its end", s.run("print(repr(sys.stdin.read()))\n").out, "''\n")


def bytes_as_they_are():
    s = Session("bytes")
    j, fd = new_job(s, "sum", "sha256sum\n")
    whole = hashlib.sha256()
    block = bytes(range(256)) * 4096
    for _ in range(64):
        piece = os.urandom(1000) + block
        whole.update(piece)
        view = memoryview(piece)
        while view:
            view = view[os.write(fd, view):]
    os.close(fd)
    same("64 MiB of all bytes", read(f"{j}/stdout").split()[0].decode(), whole.hexdigest())


def back_pressure():
    s = Session("slow")
    j, fd = new_job(s, "slow", "sleep 1000\n", "timeout_s = 600\n")
    wait_for(lambda: read(f"{j}/state") == b"running\n", 60)
    os.set_blocking(fd, False)
    sent = 0
    with raises("it is full some time", errno.EAGAIN):
        while sent < 64 * MIB:
            sent += os.write(fd, bytes(128 << 10))
    ok("not before 512 KiB", sent >= 512 << 10, sent)
    ok("and not much after", sent <= 4 * MIB, sent)
    write(f"{j}/ctl", "kill\n")
    same("it can be killed", read(f"{j}/exit_code"), b"137\n")
    with raises("nobody reads it any more", errno.EPIPE):
        os.write(fd, b"x")
    os.close(fd)


def interrupted():
    s = Session("interrupted")
    j, fd = new_job(s, "full", "sleep 1000\n", "timeout_s = 0\n")
    wait_for(lambda: read(f"{j}/state") == b"running\n", 60)
    for how in (signal.SIGINT, signal.SIGKILL):
        # A writer that waits can be stopped, and others are not kept waiting for it.
        writer = subprocess.Popen(["head", "-c", str(64 * MIB), "/dev/zero"], stdout=open(f"{j}/stdin", "wb"),
                                  stderr=subprocess.DEVNULL)
        ok("it waits", wait_for(lambda: waits_in_write(writer.pid), 20))
        with open(f"{j}/stdin", "wb", buffering=0) as other:
            os.set_blocking(other.fileno(), False)
            ok("another one is told at once that it is full", wait_for(lambda: gets(other.fileno(), errno.EAGAIN), 20))
        writer.send_signal(how)
        same("and ends by the signal", writer.wait(20 * SLOW), -how)
    os.close(fd)
    write(f"{j}/ctl", "kill\n")
    wait_for(lambda: read(f"{j}/state") != b"running\n", 20)
    ok("the job as well", read(f"{j}/state") == b"killed\n", (read(f"{j}/state"), read(f"{j}/error")))


def waits_in_write(pid):
    try:
        return read(f"/proc/{pid}/syscall", "r").split()[0] == "1" and read(f"/proc/{pid}/stat", "r").split()[2] == "S"
    except OSError:
        return False


def two_writers():
    s = Session("two")
    j, fd = new_job(s, "lines", "sort | uniq -c | sort -n | awk '{print $1, $2}'\n")
    other = open_input(f"{j}/stdin")
    for _ in range(100):
        os.write(fd, b"first\n")
        os.write(other, b"second\n" * 2)
    os.close(fd)
    os.write(other, b"second\n")
    os.close(other)
    same("nothing is lost, nothing mixed", read(f"{j}/stdout"), b"100 first\n201 second\n")
    # One that is killed in the middle is one that has closed it.
    j, fd = new_job(s, "killed", "wc -c\n")
    writer = subprocess.Popen(["sh", "-c", "echo 12345; exec sleep 1000"], stdout=fd)
    os.close(fd)
    wait_for(lambda: read(f"/proc/{writer.pid}/comm", "r") == "sleep\n")
    writer.kill()
    writer.wait()
    same("what it had written has arrived", read(f"{j}/stdout"), b"6\n")


def closed_by_the_reader():
    s = Session("deaf")
    j, fd = new_job(s, "head", "head -n 1; exec <&-; echo closed; sleep 1000\n", "timeout_s = 0\n")
    out = os.open(f"{j}/stdout", os.O_RDONLY)
    os.write(fd, b"one\n")
    same("it reads a line", line_of(out), b"one\n")
    same("and closes its end", line_of(out), b"closed\n")
    ok("which the writer is told", wait_for(lambda: gets(fd, errno.EPIPE), 20))
    os.close(fd)
    os.close(out)
    os.rmdir(j)


def gets(fd, error):
    try:
        os.write(fd, b"x")
    except OSError as e:
        return e.errno == error
    return False


def kept_open():
    s = Session("kept")
    os.mkdir(s / "jobs/a")
    write(s / "jobs/a/config", "stdin = open\n")
    write(s / "jobs/a/in", "cat\n")
    out = os.open(s / "jobs/a/stdout", os.O_RDONLY)
    with open(s / "jobs/a/stdin", "wb", buffering=0) as late:
        late.write(b"late\n")
        same("a writer may come after the start", line_of(out), b"late\n")
    same("and the end is his", os.read(out, 10), b"")
    os.close(out)
    os.mkdir(s / "jobs/b")
    write(s / "jobs/b/config", "stdin = open\n")
    write(s / "jobs/b/in", "cat; echo end\n")
    write(s / "jobs/b/ctl", "eof\n")
    same("or comes by ctl", read(s / "jobs/b/stdout"), b"end\n")


main(a_job, a_session, bytes_as_they_are, back_pressure, interrupted, two_writers, closed_by_the_reader, kept_open)
