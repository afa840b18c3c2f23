#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many requests of the kernel a run takes, and that what the kernel keeps is still true."""
# backends: local
import re

from xsbx import *

RUNS = 20


def requests():
    return int(re.search(r"^xsbxfs_fuse_requests_total (\d+)", read(f"{MNT}/metrics").decode(),
                         re.M).group(1))


def a_run():
    s = Session("counted")
    s.run("echo first\n")
    before = requests()
    to_ask = requests() - before
    for _ in range(RUNS):
        fd = os.open(s / "in", os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b"echo 1\n")
        os.close(fd)
        fd = os.open(s / "stdout", os.O_RDONLY)
        same("stdout", os.read(fd, 100), b"1\n")
        os.close(fd)
    each = (requests() - before - 2 * to_ask) / RUNS
    # in: LOOKUP, OPEN, GETXATTR (of capabilities: since there are attributes, the kernel asks for them before it writes), WRITE,
    # FLUSH, RELEASE; stdout: GETATTR, OPEN, READ, RELEASE
    ok(f"{each} requests for each run", each <= 10.5)


def names_are_still_true():
    s = Session("true")
    same("a run", s.run("echo one\n").stdout, b"one\n")
    same("size", os.stat(s / "stdout").st_size, 4)
    same("another", s.run("echo and two\n").stdout, b"and two\n")
    same("its size", os.stat(s / "stdout").st_size, 8)
    os.unlink(s / "stdout")  # which does nothing, as with all nodes
    same("it is there again", read(s / "stdout"), b"and two\n")
    write(s / "draft", "echo renamed\n")
    os.rename(s / "draft", s / "in")
    same("a program by another name", read(s / "stdout"), b"renamed\n")
    same("size of in", os.stat(s / "in").st_size, len("echo renamed\n"))
    os.rename(s / "in", s / "in~")  # as editors do that keep a backup
    ok("in is gone", not os.path.exists(s / "in"))
    same("the backup", read(s / "in~"), b"echo renamed\n")
    write(s / "settings", "timeout_s = 7\n")
    os.rename(s / "settings", s / "config")
    ok("settings", b"timeout_s = 7\n" in read(s / "config"))
    s.remove()
    s = Session("true")
    same("of a session of the same name", s.run("echo new\n").stdout, b"new\n")
    same("its size", os.stat(s / "stdout").st_size, 4)


def sizes_of_in():
    s = Session("sizes")
    for text in "a=1\n", "a=12\n", "a=3\n":
        write(s / "in", text)
        same("size", os.stat(s / "in").st_size, len(text))
    fd = os.open(s / "in", os.O_WRONLY | os.O_TRUNC)
    os.write(fd, b"a=1234\n")
    same("while it is written", os.stat(s / "in").st_size, 7)
    os.ftruncate(fd, 0)
    os.close(fd)
    same("taken back", os.stat(s / "in").st_size, 4)


main(a_run, names_are_still_true, sizes_of_in)
