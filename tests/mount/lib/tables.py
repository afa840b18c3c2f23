# SPDX-License-Identifier: Apache-2.0
"""For tests of languages: a table of programs, and what must come out of each."""

import re

from xsbx import *


def run_table(session, cases, end="\n"):
    """Each case: name, code, stdout (text, or a pattern), exit status (None: some), pattern of stderr
    ("": none at all; None: any). `end` is put behind the code."""
    with open(session / "config", "a") as config:
        config.write(f"timeout_s = {round(30 * slack())}\n")
    for name, code, stdout, status, stderr in cases:
        result = session.run(code + end)
        if not code + end:
            continue  # writes nothing, so it runs nothing
        if session.word() == "failed":
            fail(name, session.text("error"))
            break
        if isinstance(stdout, str):
            same(f"{name}: stdout", result.out, stdout)
        else:
            ok(f"{name}: stdout", stdout.search(result.out), short(result.out))
        if status is not None:
            same(f"{name}: exit", result.code, status)
            if result.code != status:
                print(f"    stderr: {short(result.err)}")
        else:
            ok(f"{name}: some exit", isinstance(result.code, int), result)
        if stderr == "":
            same(f"{name}: stderr", result.err, "")
        elif stderr is not None:
            ok(f"{name}: stderr", re.search(f"(?s){stderr}", result.err), short(result.err))


__all__ = [name for name in dir() if not name.startswith("_")]
