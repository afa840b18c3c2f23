#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names of sessions: 1 to 64 of [A-Za-z0-9._-], not starting with a dot or a dash."""
from xsbx import *

GOOD = ["a", "A", "0", "a.b", "a-b", "a_b", "_a", "x" * 64, "Zz.9-_", "a.", "a-"]
BAD = [".a", "-a", "..a", "a b", "a:b", "ä", "a\nb", "x" * 65, "a*", "a$", "a\\b", "~"]


def names():
    for name in GOOD:
        s = Session(name)
        ok(f"{name[:10]} is listed", name in os.listdir(f"{MNT}/raw"))
        s.remove()
        ok(f"{name[:10]} is gone", name not in os.listdir(f"{MNT}/raw"))
    for name in BAD:
        with raises(f"{name!r}", errno.EINVAL, errno.ENAMETOOLONG, errno.EPERM, errno.EACCES):
            os.mkdir(f"{MNT}/raw/{name}")
    with raises("256 characters", errno.ENAMETOOLONG):
        os.mkdir(f"{MNT}/raw/" + "x" * 256)
    with raises("twice", errno.EEXIST):
        Session("twice")
        Session("twice")
    with raises("the name of a node", errno.EEXIST):
        os.mkdir(f"{MNT}/raw/template.json")
    with raises("an unknown template", errno.EPERM, errno.EACCES, errno.ENOENT, errno.EROFS):
        os.mkdir(f"{MNT}/cobol")
    with raises("a file instead of a directory", errno.EPERM, errno.EACCES, errno.EROFS,
                errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        os.open(f"{MNT}/raw/file", os.O_CREAT | os.O_WRONLY)


def anonymous():
    made = [shell(f"mktemp -d {MNT}/raw/XXXXXXXX")[1].decode().strip() for _ in range(5)]
    same("mktemp -d", len(set(made)), 5)
    for path in made:
        same("mode", os.stat(path).st_mode & 0o777, 0o700)
        write(f"{path}/in", "echo anonymous\n")
        same("runs", read(f"{path}/stdout"), b"anonymous\n")
        os.rmdir(path)


def renaming():
    Session("old")
    with raises("a session is not renamed", errno.EPERM, errno.EACCES, errno.EXDEV, errno.EINVAL,
                errno.EROFS):
        os.rename(f"{MNT}/raw/old", f"{MNT}/raw/new")
    ok("it is where it was", os.path.isdir(f"{MNT}/raw/old"))


def mkdir_p():
    same("mkdir -p", shell(f"mkdir -p {MNT}/raw/p && mkdir -p {MNT}/raw/p")[0], 0)
    same("mkdir -m", shell(f"mkdir -m 700 {MNT}/raw/m")[0], 0)
    same("the same name in two templates", shell(f"mkdir {MNT}/python/p")[0], 0)
    same("two sessions", shell(f"echo 'echo raw' > {MNT}/raw/p/in; cat {MNT}/raw/p/stdout; "
                               f"cat {MNT}/python/p/stdout")[1], b"raw\n")


main(names, anonymous, renaming, mkdir_p)
