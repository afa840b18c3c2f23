#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The maps of the rooms in README.md name each source file where it is, and no other; the rooms are in the order of
scripts/layers, and all paths in the text are there."""
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
failures = []


def present(top):
    """Each source, but for headers that stand beside one of the same name."""
    for path in glob.glob(f"{ROOT}/{top}/**/*.[ch]", recursive=True):
        if path.endswith(".c") or not os.path.exists(path[:-1] + "c"):
            yield os.path.relpath(path, f"{ROOT}/{top}")


def order(top):
    text = open(f"{ROOT}/scripts/layers", encoding="utf-8").read()
    return [n.removeprefix(f"{top}/") if n != top else top for n in re.findall(rf"^({top}(?:/\w+)?)$", text, re.M)]


def check(top):
    text = open(f"{ROOT}/{top}/README.md", encoding="utf-8").read()
    named, rooms, room = [], [], None
    for line in text.splitlines():
        if found := re.match(r"### (\w+)/:", line):
            room = found.group(1)
            rooms.append(room)
        elif room and (found := re.match(r"- `([\w.]+)`: \S", line)):
            named.append(found.group(1) if room == top else f"{room}/{found.group(1)}")
    for path in sorted(set(present(top)) - set(named)):
        failures.append(f"{top}/README.md does not say what {path} is for")
    for path in sorted(set(named) - set(present(top))):
        failures.append(f"{top}/README.md names {path}, which is not there")
    if rooms != order(top):
        failures.append(f"{top}/README.md has the rooms {rooms}, scripts/layers {order(top)}")
    for path in re.findall(r"`(\w+/[\w/]+\.[ch])`", text):
        if not any(os.path.exists(f"{ROOT}/{place}{path}") for place in ("", f"{top}/")):
            failures.append(f"{top}/README.md speaks of {path}, which is not there")


check("fs")
print("\n".join(failures))
sys.exit(bool(failures))
