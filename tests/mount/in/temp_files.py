#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that the mount does not know may lie in a session directory: editors need them."""
from xsbx import *

LIMITS = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EPERM, errno.EBUSY)


def ordinary():
    s = Session("ordinary")
    write(s / "notes", b"some\0bytes\n")
    same("can be read back", read(s / "notes"), b"some\0bytes\n")
    ok("is listed", "notes" in os.listdir(s.path))
    with open(s / "notes", "ab") as file:
        file.write(b"more")
    same("appended", read(s / "notes"), b"some\0bytes\nmore")
    with open(s / "notes", "r+b") as file:
        file.seek(5)
        file.write(b"BYTES")
        file.truncate(10)
    same("changed in place", read(s / "notes"), b"some\0BYTES")
    os.rename(s / "notes", s / ".hidden")
    same("renamed", read(s / ".hidden"), b"some\0BYTES")
    os.chmod(s / ".hidden", 0o600)
    same("mode", os.stat(s / ".hidden").st_mode & 0o777, 0o600)
    os.utime(s / ".hidden", (1000, 2000))
    same("times", os.stat(s / ".hidden").st_mtime, 2000)
    fd = os.open(s / ".hidden", os.O_RDWR)
    os.unlink(s / ".hidden")
    same("still there for who has it open", os.read(fd, 100), b"some\0BYTES")
    os.close(fd)
    with raises("gone", errno.ENOENT):
        os.stat(s / ".hidden")
    with raises("O_EXCL", errno.EEXIST):
        write(s / "a", b"")
        os.open(s / "a", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    os.unlink(s / "a")
    same("nothing ran", s.runs(), [])


def limits():
    s = Session("limits")
    block = bytes(1 << 20)
    for i in range(64):
        write(s / f"t{i}", block if i < 4 else b"x")
    with raises("the 65th file", *LIMITS):
        write(s / "t64", b"x")
    os.unlink(s / "t0")
    write(s / "t64", b"x")
    with raises("a byte more than 1 MiB", errno.EFBIG, errno.ENOSPC):
        write(s / "t1", block + b"x")
    same("runs go on", s.run("echo fine\n").stdout, b"fine\n")


def renames():
    s = Session("renames")
    write(s / "a", b"echo a\n")
    write(s / "b", b"echo b\n")
    os.rename(s / "a", s / "b")
    same("one over the other", read(s / "b"), b"echo a\n")
    os.rename(s / "b", s / "in")
    same("over in", s.result().stdout, b"a\n")
    ok("it is gone from its old name", not os.path.exists(s / "b"))
    write(s / "c", b"x")
    for target in ("stdout", "exit_code", "status.json", "config", "runs", "files"):
        with raises(f"over {target}", errno.EPERM, errno.EACCES, errno.EISDIR, errno.EBUSY,
                    errno.ENOTEMPTY, errno.EEXIST, errno.EINVAL):
            os.rename(s / "c", s / target)
    with raises("into files/", errno.EXDEV):
        os.rename(s / "c", s / "files/c")
    other = Session("renames2")
    with raises("into another session", errno.EXDEV, errno.EPERM, errno.EACCES):
        os.rename(s / "c", other / "in")
    same("nothing ran there", other.runs(), [])
    with raises("a name that is too long", errno.ENAMETOOLONG):
        write(s / ("n" * 256), b"")
    # Removing the session removes them.
    os.rmdir(s.path)
    ok("gone with the session", not os.path.exists(s.path))


main(ordinary, limits, renames)
