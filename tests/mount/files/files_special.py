#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Device nodes, pipes, sockets and set-id files that user code makes."""
# backends: local vm
import stat

from xsbx import *

s = None


def setup():
    global s
    s = Session("special")
    s.run("mkfifo pipe; echo x > file; chmod 7755 file; mkdir sticky; chmod 3777 sticky; "
          "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\" || true; "
          "perl -e 'use IO::Socket::UNIX; IO::Socket::UNIX->new(Local => \"sock\", Listen => 1)' "
          "2>/dev/null; mknod null c 1 3 2>/dev/null; mknod block b 8 0 2>/dev/null; true\n")


def listed_but_not_opened():
    names = os.listdir(s / "files")
    has("the pipe is listed", names, "pipe")
    for name, kind in (("pipe", stat.S_ISFIFO), ("sock", stat.S_ISSOCK), ("null", stat.S_ISCHR),
                       ("block", stat.S_ISBLK)):
        if name not in names:
            print(f"({name} could not be made)")
            continue
        path = s / f"files/{name}"
        info = os.lstat(path)
        ok(f"{name}: is not taken for a file", not stat.S_ISREG(info.st_mode) or info.st_size == 0,
           info)
        same(f"{name}: no device number", os.major(info.st_rdev), 0)
        for flags in (os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_NONBLOCK):
            try:
                # A pipe that the kernel opened by itself would block here.
                fd = os.open(path, flags | os.O_NONBLOCK)
                os.close(fd)
                fail(f"{name}: could be opened with {flags}")
            except OSError as error:
                ok(f"{name}: refused", error.errno in (errno.EPERM, errno.EACCES, errno.ENXIO,
                                                       errno.EOPNOTSUPP), error)
        same(f"{name}: can be removed", shell(f"rm -f {path}")[0], 0)


def set_id():
    mode = os.stat(s / "files/file").st_mode
    same("set-id bits are dropped", stat.S_IMODE(mode) & 0o6000, 0)
    same("the others are not", stat.S_IMODE(mode) & 0o777, 0o755)
    same("of a directory too", stat.S_IMODE(os.stat(s / "files/sticky").st_mode) & 0o6000, 0)
    os.chmod(s / "files/file", 0o4755)
    same("nor can they be set from here", os.stat(s / "files/file").st_mode & 0o6000, 0)


def from_outside():
    """Making such nodes through the mount."""
    for what, action in {
            "mkfifo": lambda: os.mkfifo(s / "files/p2"),
            "a device": lambda: os.mknod(s / "files/d2", stat.S_IFCHR | 0o666, os.makedev(1, 3)),
            "a socket": lambda: os.mknod(s / "files/s2", stat.S_IFSOCK | 0o666)}.items():
        with raises(what, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            action()
    try:
        os.mknod(s / "files/plain", stat.S_IFREG | 0o644)
        same("mknod of a plain file", os.stat(s / "files/plain").st_size, 0)
    except OSError as error:
        ok("or not", error.errno in (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP), error)


def attributes():
    """Extended attributes are not offered; programs must be told so in the usual way."""
    with raises("setxattr", errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM):
        os.setxattr(s / "files/file", "user.x", b"y")
    with raises("getxattr", errno.EOPNOTSUPP, errno.ENODATA, errno.ENOSYS):
        os.getxattr(s / "files/file", "security.capability")
    same("listxattr", shell(f"python3 -c \"import os\ntry: print(os.listxattr('{s / 'files/file'}'))\n"
                            f"except OSError: print([])\"")[1], b"[]\n")


main(setup, listed_but_not_opened, set_id, from_outside, attributes)
