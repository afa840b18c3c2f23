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


main(quota)
