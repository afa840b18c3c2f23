#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A user may have so many sessions; EDQUOT past that."""
# option: max_sessions=3
from xsbx import *


def quota():
    sessions = [Session(n) for n in ("a", "b", "c")]
    with raises("the fourth", errno.EDQUOT):
        Session("d")
    with raises("of another template too", errno.EDQUOT):
        Session("d", "python")
    status, _, err = shell(f"mkdir {MNT}/raw/e")
    ok("mkdir says so", status and b"quota" in err.lower(), err)
    sessions[0].remove()
    same("room again", Session("d").run("echo d\n").stdout, b"d\n")


def removed_ones():
    """A session that was removed stays as long as something of it is open."""
    held, refused = [], None
    try:
        for i in range(100):
            s = Session(f"held{i}")
            write(s / "config", "".join(f"env.V{n} = {'x' * 480}\n" for n in range(100)))
            held.append(os.open(s / "status.json", os.O_RDONLY))
            os.rmdir(s.path)
    except OSError as error:
        refused = error.errno
    same("not without end", refused, errno.EDQUOT)
    for fd in held:
        os.close(fd)
    same("three, as there are that are not removed", len(held), 3)
    s = Session("well")
    same("and all is well afterwards", s.run("echo fine\n").stdout, b"fine\n")
    s.remove()


main(removed_ones, quota)
