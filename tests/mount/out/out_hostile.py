#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Output made to confuse whoever shows it: the nodes that sum up stay well-formed."""
from xsbx import *

NASTY = {
    "control bytes": "printf '\\033]0;title\\007\\033[2J\\r\\010\\177'",
    "NULs": "head -c 100000 /dev/zero",
    "bad UTF-8": "printf '\\377\\376\\300\\200'",
    "quotes": "printf '\"\\\\}],{'",
    "newlines": "printf '\\n\\n\\n'",
}


def summaries():
    s = Session("nasty")
    for what, code in NASTY.items():
        s.run(f"{code}; {code} >&2; exit 1\n")
        summary = read(s / "summary")
        ok(f"{what}: summary is one printable line",
           summary.count(b"\n") == 1 and summary[:-1].decode().isprintable(), short(summary))
        json.loads(read(s / "status.json"))
        json.loads(read(s / f"runs/{s.runs()[-1]}/status.json"))
        json.loads(read(f"{MNT}/status.json"))
        read(s / "error").decode()
    for line in read_ready(f"{MNT}/events").splitlines():
        json.loads(line)


def settings():
    """Values with such bytes in them, where a user can put them."""
    s = Session("settings")
    for value in (b"env.X = \x1b[31m\n", b"env.X = \xff\xfe\n", b"packages = \x00\n"):
        try:
            write(s / "config", value)
        except OSError as error:
            same("refused as a bad value", error.errno, errno.EINVAL)
        json.loads(read(s / "status.json"))
    try:
        write(s / "ctl", b"\x1b[31mkill\n")
        fail("a verb with escape sequences was taken")
    except OSError as error:
        same("refused as a bad verb", error.errno, errno.EINVAL)
    ok("and error does not repeat it raw", b"\x1b" not in read(s / "error"))


def flood():
    """Very many very small writes, very long lines, both streams at once."""
    s = Session("flood")
    result = s.run("for i in $(seq 3000); do printf x; printf y >&2; done\n")
    same("small writes", (result.stdout, result.stderr), (b"x" * 3000, b"y" * 3000))
    result = s.run("(yes out | head -c 2000000) & (yes err | head -c 2000000) >&2; wait\n")
    same("two floods at once", (len(result.stdout), len(result.stderr)), (2000000, 2000000))
    same("output has both", os.stat(s / "output").st_size, 4000000)


main(summaries, settings, flood)
