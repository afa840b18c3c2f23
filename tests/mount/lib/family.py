# SPDX-License-Identifier: Apache-2.0
"""Copies of copies."""

from xsbx import *


def copy_of(name, source, template="raw"):
    s = Session(name, template)
    write(s / "config", f"from = {source}\n")
    return s


def deep(generations):
    """A copy of a copy of a copy..., each of which has a line of its own."""
    s = Session("g0")
    s.run("echo 0 > line\n")
    family = [s]
    for n in range(1, generations + 1):
        s = copy_of(f"g{n}", f"g{n - 1}")
        # What it remembers is in machines alone.
        same(f"copy {n}", s.run(f"echo {n} >> line; x=$((x + 1)); cat line; echo $x\n").out.split(),
             [*(str(i) for i in range(n + 1)), str(n if VM else 1)])
        family.append(s)
    for n, s in enumerate(family):
        same(f"copy {n} is what it was", read(s / "files/line").split(), [str(i).encode() for i in range(n + 1)])
        same(f"whose copy {n} is", (s.json()["parent"] or {}).get("session"), f"raw/g{n - 1}" if n else None)
        same(f"copies of {n}", s.json()["children"], [f"raw/g{n + 1}"] if n < generations else [])
    middle = family.pop(generations // 2)
    middle.remove()
    same("the parent of it has no copies", family[generations // 2 - 1].json()["children"], [])
    same("its copies live on", family[-1].run("wc -l < line\n").out.strip(), str(generations + 1))
    for s in family:
        s.remove()


__all__ = ["copy_of", "deep"]
