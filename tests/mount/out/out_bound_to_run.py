#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An open descriptor stays bound to the run it was opened for."""
from xsbx import *


def bound():
    s = Session("bound")
    s.run("echo first\n")
    fd = os.open(s / "stdout", os.O_RDONLY)
    code = os.open(s / "exit_code", os.O_RDONLY)
    latest = os.open(s / "runs/latest/stdout", os.O_RDONLY)
    s.run("echo the second run; exit 2\n")
    same("stdout", os.read(fd, 100), b"first\n")
    same("and its end", os.read(fd, 100), b"")
    same("exit_code", os.read(code, 100), b"0\n")
    same("through latest", os.read(latest, 100), b"first\n")
    same("a new open sees the new run", s.result().stdout, b"the second run\n")
    same("latest", os.readlink(s / "runs/latest").rstrip("/").split("/")[-1], "2")
    for f in (fd, code, latest):
        os.close(f)


def rendered_once():
    """A text node is rendered at open: what was sized is what is read, in pieces too."""
    s = Session("rendered")
    for node in (s / "status.json", f"{MNT}/status.json", f"{MNT}/metrics", f"{MNT}/README.md"):
        fd = os.open(node, os.O_RDONLY)
        first = os.read(fd, 20)
        extra = Session("extra")
        extra.run("true\n")
        extra.remove()
        rest = b""
        while piece := os.read(fd, 50):
            rest += piece
        whole = os.pread(fd, 1 << 20, 0)
        same(f"{node}: the same text all along", first + rest, whole)
        os.close(fd)
    json.loads(read(s / "status.json"))


def removed():
    """A session that is removed leaves open descriptors something to say."""
    s = Session("removed")
    s.run("echo before\n")
    fd = os.open(s / "stdout", os.O_RDONLY)
    s.remove()
    try:
        ok("what it said, or an error", os.read(fd, 100) in (b"before\n", b""))
    except OSError as error:
        ok("a fitting error", error.errno in (errno.ESTALE, errno.ENOENT, errno.EIO), error)
    os.close(fd)
    again = Session("removed")
    same("the name can be used again, for a new session", again.runs(), [])
    same("which is another one", again.run("echo after\n").stdout, b"after\n")


main(bound, rendered_once, removed)
