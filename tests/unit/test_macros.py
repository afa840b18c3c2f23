#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MIN() and MAX() evaluate one of their arguments twice: none of them may do anything, such as sending a message."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Of these it does not matter how often they are called.
PURE = {"sizeof", "strlen", "strcspn", "atomic_load", "get_nprocs", "whole", "host_cpus", "records_room", "events_first",
        "filenode_depth", "end_of", "manifest_chunk_at"}
QUOTED = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def inside(text, at):
    """What is between the parenthesis at @at and its counterpart."""
    depth = 0
    for end in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        if depth == 0:
            return text[at + 1:end]
    return text[at + 1:]


def found(source):
    """The lines, and what is called there."""
    text = QUOTED.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), source)
    for macro in re.finditer(r"\bM(?:IN|AX)\(", text):
        between = inside(text, macro.end() - 1)
        calls = [c for c in re.findall(r"\b([a-z_]\w*)\(", between) if c not in PURE]
        if calls or re.search(r"\+\+|--|[^=<>!]=[^=]", between):
            yield text.count("\n", 0, macro.start()) + 1, calls


def main():
    # That it finds what it should.
    for bad in ("r = MIN(fdpass_send(s, &m), 0);", "n = MAX(a,\n (int)b(c));", "MIN(i++, 2)", "MIN(3, a = 2)"):
        assert list(found(bad)), bad
    for good in ("MIN(a, 0)", "MAX(MIN(a, 1), (size_t)(b + 1))", "/* MIN(f(), 0) */", "MIN(sizeof(a), b) f(c);"):
        assert not list(found(good)), good
    failures = 0
    for top in ("agent", "fs", "vm"):
        for folder, _, names in os.walk(f"{ROOT}/{top}"):
            for name in sorted(names):
                if not name.endswith((".c", ".h")):
                    continue
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    for line, calls in found(file.read()):
                        failures += 1
                        print(f"{os.path.relpath(path, ROOT)}:{line}: MIN() or MAX() may do this twice: "
                              f"{', '.join(calls)}")
    return failures != 0


sys.exit(main())
