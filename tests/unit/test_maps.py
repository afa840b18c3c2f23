#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The map in a folder's README.md against the tree: what it names is there, and what is there is on it.

A map is what the tables below "## The map" have in their first column, in backticks: files without suffix, which stand
for all files of that name (`core/conn` for conn.c and conn.h), with [ch] or a suffix (`util.h`), and folders, which end
with a slash (or bold, `**core/**`). Further names in a row are in the folder of the one before. `*` stands for anything."""
import fnmatch
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# "files": all of them are named. "folders": a folder that is named stands for what is in it.
MAPS = {"agent": "files", "vm": "files", "fs": "files", "tests": "folders", "images": "files"}
# Whose map is still to be drawn. Empty once it is.
LATER = ()


def named(text):
    """The names on a map, as paths below its folder."""
    parts = re.split(r"^## The map$", text, flags=re.M)
    if len(parts) != 2:
        return []
    found = []
    for line in parts[1].split("\n## ")[0].splitlines():
        if not line.startswith("|"):
            continue
        place = ""
        for name in re.findall(r"`([^`]+)`|\*\*([^`*]+/)\*\*", line.split("|")[1]):
            name = name[0] or name[1]
            if "/" in name.rstrip("/"):
                place = name.rstrip("/").rpartition("/")[0] + "/"
            found.append(name if name.startswith(place) else place + name)
    return found


def files_of(top, folder):
    """What of a folder is kept, as git knows it; all there is where there is no git."""
    done = subprocess.run(["git", "-C", top, "ls-files", "--cached", "--others", "--exclude-standard", folder],
                          check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8")
    paths = done.stdout.splitlines() if not done.returncode else [
        os.path.relpath(f"{place}/{name}", top) for place, _, names in os.walk(f"{top}/{folder}") for name in names]
    return sorted(path[len(folder) + 1:] for path in paths
                  if os.path.exists(f"{top}/{path}") and not path.endswith("/README.md"))


def covers(name, path, kind):
    """Whether a name on a map is, or stands for, this file."""
    if name.endswith("/"):
        return kind == "folders" and path.startswith(name)
    stem = re.sub(r"\.\[ch\]$", "", name)
    return fnmatch.fnmatchcase(path, name) or fnmatch.fnmatchcase(os.path.splitext(path)[0], stem)


def check(top, folder, kind):
    """What is wrong with a map."""
    with open(f"{top}/{folder}/README.md", encoding="utf-8") as file:
        names = named(file.read())
    files, wrong = files_of(top, folder), []
    if not names:
        return [f"{folder}/README.md has no table below a line '## The map'"]
    for name in names:
        there = os.path.isdir(f"{top}/{folder}/{name}") if name.endswith("/") else any(
            covers(name, path, kind) for path in files)
        if not there:
            wrong.append(f"{folder}/README.md names {name}, and there is none: delete it, or give its new name")
    for path in files:
        if not any(covers(name, path, kind) for name in names):
            wrong.append(f"{folder}/README.md does not name {path}: add it, and what it is for")
    if kind == "files":
        for place in sorted({os.path.dirname(path) for path in files} - {""}):
            if f"{place}/" not in names:
                wrong.append(f"{folder}/README.md does not name the folder {place}/")
    return wrong


def planted(kind, readme, *paths):
    with tempfile.TemporaryDirectory() as top:
        for path in ("README.md", *paths):
            os.makedirs(os.path.dirname(f"{top}/x/{path}"), exist_ok=True)
            with open(f"{top}/x/{path}", "w", encoding="utf-8") as file:
                file.write(readme if path == "README.md" else "")
        return [re.sub(r"^x/README.md ", "", line).split(":")[0] for line in check(top, "x", kind)]


def test_the_test():
    """Maps that are wrong are found to be."""
    table = "# X\n\n## The map\n\n| | |\n| --- | --- |\n| **core/** | |\n| `core/conn` `loop` | |\n| `main.[ch]` | |\n\n## Else\n"
    tree = ("core/conn.c", "core/conn.h", "core/loop.c", "main.c")
    return [f"of a planted tree it says {got}, and not {want}" for got, want in (
        (planted("files", table, *tree), []),
        (planted("files", table, *tree[:3]), ["names main.[ch], and there is none"]),
        (planted("files", table, *tree, "core/new.h"), ["does not name core/new.h"]),
        (planted("files", table, *tree, "lost/found.c"), ["does not name lost/found.c",
                                                          "does not name the folder lost/"]),
        (planted("folders", table, *tree, "core/new.h"), []),
        (planted("folders", table, *tree, "new.sh"), ["does not name new.sh"]),
        (planted("files", "# X\n", *tree), ["has no table below a line '## The map'"]),
    ) if got != want]


def main():
    failures = test_the_test()
    for folder, kind in MAPS.items():
        if os.path.exists(f"{ROOT}/{folder}/README.md"):
            failures += check(ROOT, folder, kind)
        elif folder not in LATER:
            failures.append(f"there is no {folder}/README.md")
        else:
            print(f"({folder}/README.md is not there yet)")
    for line in failures:
        print(line)
    sys.exit(1 if failures else 0)


main()
