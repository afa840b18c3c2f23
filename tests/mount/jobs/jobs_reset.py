#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A reset ends jobs that print as fast as they can, although nobody reads; and the session goes on."""
# backends: local process vm
# night: vm
# timeout: 120
# conf: output_limit = 64M
from xsbx import *

ROUNDS = 8


def printing():
    s = Session("printing", config="timeout_s = 0\n")
    ends = []
    for n in range(ROUNDS):
        s.run("true\n")
        os.mkdir(s / f"jobs/{n}")
        write(s / f"jobs/{n}/in", "exec head -c 60000000 /dev/zero\n" if n % 2 else "echo; sleep 0.1; exec yes\n")
        with open(s / f"jobs/{n}/stdout", "rb", 0) as out:  # some at their first byte, others later
            seen = len(out.read(1))
            while seen < n * 300000:
                seen += len(out.read(100000))
        s.ctl("reset")
        if not wait_for(lambda: read(s / f"jobs/{n}/state") != b"running\n", 5):
            fail("a job goes on after a reset", f"in round {n}")
            break
        ends.append(read(s / f"jobs/{n}/state"))
        os.rmdir(s / f"jobs/{n}")
    same("each has ended", [end for end in ends if end not in (b"killed\n", b"done\n")], [])
    ok("and most because they were killed", ends.count(b"killed\n") >= ROUNDS / 2, ends)
    same("the session goes on", s.run("echo on\n").out, "on\n")


main(printing)
