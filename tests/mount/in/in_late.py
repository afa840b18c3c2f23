#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Code and input that come late: what was taken becomes a run, or one that was refused; nobody gets the run before."""
# timeout: 60
from xsbx import *


def begin(s, code):
    fd = os.open(s / "in", os.O_WRONLY | os.O_TRUNC)
    os.write(fd, code.encode())
    return fd


def refused(what, s, number, word):
    with raises(f"{what}: no exit status is shown", errno.EIO):
        s.text("exit_code")
    same(f"{what}: nor the output of the run before", s.text("stdout"), "")
    same(f"{what}: it is a run that was refused", s.state_of(number), "refused")
    same(f"{what}: which says why", s.json(f"runs/{number}/status.json")["problem"]["code"], word)
    same(f"{what}: as the session does", s.json()["error"]["code"], word)


def written_slowly():
    s = Session("slowly", config="idle_timeout_s = 3\n")
    s.run("echo old\n")
    fd = begin(s, "echo new\n")
    for _ in range(4):
        time.sleep(1.2)
        os.write(fd, b"# more\n")
    os.close(fd)
    same("a session in which code is being written is in use", s.text("stdout"), "new\n")


def closed_meanwhile():
    s = Session("closed")
    s.run("echo old\n")
    fd = begin(s, "echo new\n")
    s.ctl("close")
    os.close(fd)
    refused("closed", s, 2, "closed")


def full_meanwhile():
    s = Session("full", config="timeout_s = 60\n")
    s.submit("sleep 60\n")
    s.wait_state("running")
    for _ in range(63):
        s.submit("echo queued\n")
    first, second = begin(s, "echo first\n"), begin(s, "echo second\n")
    os.close(first)
    os.close(second)
    same("the first has the last place", s.state_of(65), "queued")
    same("the other none", (s.state_of(66), s.json("runs/66/status.json")["problem"]["code"]), ("refused", "queue-full"))
    s.ctl("close")


def repeated():
    s = Session("repeated")
    s.run("echo old\n")
    fd = begin(s, "echo new #")
    with raises("a piece that is too long", errno.EFBIG):
        os.pwrite(fd, b"x", 1 << 20)
    with raises("what follows is no whole program", errno.EFBIG):
        os.write(fd, b"\necho more\n")
    same("it says why", s.json()["error"]["code"], "code-too-long")
    os.ftruncate(fd, 0)
    os.lseek(fd, 0, os.SEEK_SET)
    os.write(fd, b"echo again\n")
    os.close(fd)
    same("unless it begins anew", s.text("stdout"), "again\n")
    s = Session("busy", config="timeout_s = 60\n")
    s.submit("sleep 60\n")
    s.wait_state("running")
    fd = os.open(s / "in", os.O_WRONLY | os.O_TRUNC)
    for _ in range(64):
        s.submit("echo queued\n")
    with raises("a full queue", errno.EBUSY):
        os.write(fd, b"echo one\n")
    s.ctl("kill")
    wait_for(lambda: s.state_of(1) == "killed", 5)
    with raises("which is no longer full", errno.EBUSY):
        os.write(fd, b"echo two\n")
    same("it says what to do", s.json()["error"]["code"], "write-refused")
    os.close(fd)
    s.ctl("close")


def standard_input():
    s = Session("stdin")
    fd = os.open(s / "stdin", os.O_WRONLY)
    os.write(fd, b"one\n")
    same("the first run's", s.run("read line; echo $line\n").out, "one\n")
    with raises("between two runs the descriptor that stayed open has no reader", errno.EPIPE):
        os.write(fd, b"two\n")
    os.close(fd)
    fd = os.open(s / "stdin", os.O_WRONLY)
    os.write(fd, b"two\n")
    os.write(fd, b"three\n")
    os.close(fd)
    same("what a later one writes is the next run's", s.run("cat\n").out, "two\nthree\n")


def removed():
    s = Session("removed")
    s.run("echo old\n")
    fd = begin(s, "echo new\n")
    reader, state = os.open(s / "stdout", os.O_RDONLY), os.open(s / "runs/1/stdout", os.O_RDONLY)
    os.rmdir(s.path)
    with raises("what was not decided never will be", errno.ESTALE):
        os.read(reader, 100)
    same("what was, can be read", os.read(state, 100), b"old\n")
    for each in fd, reader, state:
        os.close(each)


def other_run():
    s = Session("other")
    s.run("echo old\n")
    fd = begin(s, "echo new\n")
    same("a run of the history doesn't wait for what is being written", s.text("runs/1/wait"), "0\n")
    os.close(fd)


def settings():
    s = Session("settings")
    fd = os.open(s / "config", os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"timeout_s = 11\n")
    write(s / "config", "timeout_s = 12\n")
    os.write(fd, b"idle_timeout_s = 61\n")
    os.close(fd)
    found = dict(line.split("#")[0].split()[::2] for line in s.text("config").splitlines()
                 if line.split("#")[0].count("=") == 1 and len(line.split("#")[0].split()) == 3)
    same("what was added once is not added again", (found["timeout_s"], found["idle_timeout_s"]), ("12", "61"))


def moved_away():
    s = Session("moved")
    s.run("echo code\n")
    for i in range(64):
        write(s / f"x{i}", f"{i}")
    fd = os.open(s / "x0", os.O_RDONLY)
    with raises("no room for one more", errno.EDQUOT):
        os.rename(s / "in", s / "x0")
    same("what was to be replaced is still there", s.text("x0"), "0")
    os.close(fd)


main(written_slowly, closed_meanwhile, full_meanwhile, repeated, standard_input, removed, other_run, settings,
     moved_away)
