#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A search over a tree of sessions, as scripts/tree-search does it: 32 branches a level, three levels, and the same by
starting over. That takes longer or not, which is printed."""
# backends: local vm
# night: local vm
# timeout: 300
# conf: max_sessions = 0
# conf: boot_timeout_s = 240
# conf: [template python]
# conf: timeout_s = 120
import re

from xsbx import *

need_language("python")
SEARCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../scripts/tree-search")


def value(steps):
    x = 1
    for step in steps.split(", "):
        a, b = map(int, re.fullmatch(r"x \* (\d+) ([+-]\d+)", step).groups())
        x = x * a + b
    return x


def search(*options):
    status, out, err = shell(f"{SEARCH} {' '.join(options)} {MNT}/python")
    ok("it finds something", status == 0, err)
    text = out.decode()
    print(" ".join(options) or "copies", text.splitlines()[-1], flush=True)
    name, x, steps = re.search(r"^(\S+): x = (-?\d+) by (.*)$", text, re.M).groups()
    same("three levels", re.findall(r"level (\d): (\d+)", text), [("1", "32"), ("2", "32"), ("3", "32")])
    same("the steps lead there", value(steps), int(x))
    there = [n for n in os.listdir(f"{MNT}/python") if os.path.isdir(f"{MNT}/python/{n}")]
    same("the best is kept, and no other", there, [name])
    best = f"{MNT}/python/{name}"
    same("its result", read(f"{best}/files/x"), x.encode())
    status = json.loads(read(f"{best}/status.json"))
    parent = status["parent"]
    # Without its memory it would have gone on by its files, and nobody would have seen it.
    if not options:
        same("a copy of a machine has its memory", status["state_kept"], VM)
    os.rmdir(best)
    return x, steps, parent


def searched():
    x, steps, parent = search()
    again_x, again_steps, again_parent = search("--again")
    same("the same by starting over", (again_x, again_steps), (x, steps))
    ok("it knows whose copy it was", re.fullmatch(r"python/root-\d+-2-\d+", parent["session"]), parent)
    same("... and the other that it was none", again_parent, None)
    status = json.loads(read(f"{MNT}/status.json"))["sessions"]
    same("nothing is left", sum(status.values()), 0)


main(searched)
