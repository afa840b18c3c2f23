#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Past the limit the head is kept, the run says so, and its exit status is reported."""
# option: output_limit=64K
# backends: local vm
from xsbx import *

LIMIT = 65536


def truncated():
    s = Session("truncated")
    result = s.run("yes | head -c 1000000; echo done >&2; exit 3\n")
    same("the head is kept", result.stdout, b"y\n" * (LIMIT // 2))
    same("stderr is not touched", result.stderr, b"done\n")
    same("the exit status", result.code, 3)
    same("state", s.state_of(1), "done")
    same("status.json says it", s.json("runs/1/status.json")["truncated"], True)
    same("size", os.stat(s / "stdout").st_size, LIMIT)
    ok("output has at least as much", len(read(s / "output")) >= LIMIT)

    result = s.run("yes | head -c 1000000 >&2; exit 4\n")
    same("the same for stderr", (len(result.stderr), result.stdout, result.code), (LIMIT, b"", 4))
    result = s.run(f"head -c {LIMIT} /dev/zero; exit 5\n")
    same("exactly the limit", (len(result.stdout), result.code), (LIMIT, 5))
    same("is not truncated", s.json("runs/3/status.json")["truncated"], False)
    result = s.run(f"head -c {LIMIT + 1} /dev/zero\n")
    same("a byte more is", s.json("runs/4/status.json")["truncated"], True)
    same("and the session goes on", s.run("echo fine\n").stdout, b"fine\n")


def endless():
    s = Session("endless", config=f"timeout_s = {round(2 * slack())}\n")
    result = s.run("yes\n")
    same("endless output ends at the deadline", (len(result.stdout), result.code), (LIMIT, 124))
    same("state", s.state_of(1), "timeout")


main(truncated, endless)
