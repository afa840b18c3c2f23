#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fresh = yes: every run in a new sandbox, which is destroyed after it."""
# backends: local vm
from xsbx import *


def fresh():
    s = Session("fresh", config="fresh = yes\n")
    same("a run", s.run("echo x > left; y=1; ls\n").stdout, b"left\n")
    same("leaves nothing to the next", s.run("ls; echo ${y:-none}\n").stdout, b"none\n")
    same("statuses as ever", s.run("exit 7\n").code, 7)
    same("all of them are there", s.runs(), [1, 2, 3])
    same("and readable", s.text("runs/1/stdout"), "left\n")


def processes():
    s = Session("processes", config="fresh = yes\n")
    s.submit("echo running; read -r x < <(sleep 600)\n")
    wait_for(lambda: os.path.exists(s / "runs/1") and s.text("runs/1/stdout"), 10)
    pid = s.pid()
    ok("there is a process while it runs", pid and alive(pid))
    s.ctl("kill")
    s.result()
    ok("and none afterwards", wait_for(lambda: not alive(pid)))


def queued():
    s = Session("queued", config="fresh = yes\n")
    for i in range(4):
        s.submit(f"ls; echo {i} > f{i}; echo {i}\n")
    s.result()
    same("in order, each on its own", [s.text(f"runs/{i}/stdout") for i in range(1, 5)],
         [f"{i}\n" for i in range(4)])


def files_before():
    """What the user put into files/ for a run must not be thrown away before it."""
    s = Session("files", config="fresh = yes\n")
    try:
        write(s / "files/input", b"data\n")
    except OSError as error:
        ok("or files/ says no", error.errno in (errno.EROFS, errno.EPERM, errno.EACCES,
                                                errno.EOPNOTSUPP), error)
        return
    same("the run sees it", s.run("cat input\n").stdout, b"data\n")


main(fresh, processes, queued, files_before)
