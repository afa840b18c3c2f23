#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much code is taken: up to 1 MiB, no NUL bytes, 64 runs waiting."""
# backends: local vm
from xsbx import *

MIB = 1 << 20


def size():
    s = Session("size")
    tail = b"\necho end\n"
    code = b"echo start\n" + b"#" * (MIB - len(tail) - 11) + tail
    same("exactly 1 MiB", len(code), MIB)
    same("1 MiB runs", s.run(code).stdout, b"start\nend\n")
    same("and can be read back", read(s / "in"), code)
    same("its size too", os.stat(s / "in").st_size, MIB)

    fd = os.open(s / "in", os.O_WRONLY | os.O_TRUNC)
    os.write(fd, b"#" * MIB)
    with raises("a byte more", errno.EFBIG):
        os.write(fd, b"#")
    os.close(fd)
    fd = os.open(s / "in", os.O_WRONLY)
    with raises("far away", errno.EFBIG):
        os.pwrite(fd, b"x", 1 << 40)
    os.close(fd)
    with raises("truncate to more, which are NULs", errno.EFBIG, errno.EINVAL):
        os.truncate(s / "in", MIB + 1)
    with raises("a temporary file that is too large", errno.EFBIG, errno.ENOSPC):
        write(s / "temp", b"#" * (MIB + 1))
    if os.path.exists(s / "temp"):
        os.unlink(s / "temp")
    same("after all that", s.run("echo fine\n").stdout, b"fine\n")
    same("half a program is not run after an error", s.runs(), [1, 2])


def nul():
    s = Session("nul")
    with raises("a NUL byte", errno.EINVAL):
        write(s / "in", b"echo a\0b\n")
    same("nothing ran", s.runs(), [])
    write(s / "temp", b"echo a\0b\n")
    with raises("a NUL byte by rename", errno.EINVAL):
        os.rename(s / "temp", s / "in")
    same("nothing ran", s.runs(), [])
    fd = os.open(s / "in", os.O_WRONLY | os.O_TRUNC)
    with raises("a hole is NUL bytes", errno.EINVAL):
        os.pwrite(fd, b"echo x\n", 4096)
        os.fsync(fd)
        os.close(fd)
        same("a hole: no run of half a program", s.runs(), [])
        raise OSError(errno.EINVAL, "accepted, and not run")
    same("the text \\x00 is no NUL", s.run("echo '\\x00'\n").stdout, b"\\x00\n")


def queue():
    s = Session("queue")
    s.run("true\n")
    s.submit("read -r line < <(sleep 600)\n")
    s.wait_run(2, "running", 10)
    for i in range(64):
        s.submit(f"echo {i}\n")
    with raises("the 65th in the queue", errno.EBUSY):
        s.submit("echo too many\n")
    same("the first of them waits", s.state_of(3), "queued")
    same("and the last", s.state_of(66), "queued")
    ok("no more were made", not os.path.exists(s / "runs/67"))
    has("error says it", s.text("error"), "cause:")
    s.ctl("kill")
    ok("all of them end", s.wait_run(66, "done", 20), s.state_of(66))
    same("in order", [s.text(f"runs/{n + 3}/stdout") for n in range(64)],
         [f"{n}\n" for n in range(64)])
    same("what was refused is not there", s.run("echo more\n").stdout, b"more\n")


def blank():
    s = Session("blank")
    for what, code in (("white space", "  \n\t\n"), ("a comment", "# nothing\n")):
        result = s.run(code)
        same(what, (result.stdout, result.stderr, result.code), (b"", b"", 0))


main(size, nul, queue, blank)
