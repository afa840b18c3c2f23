#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The map in a folder's README.md against the tree: what it names is there, and what is there is on it. And the functions
and files that the text of one mentions exist.

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

# "files": all of them are named. "folders": a folder that is named stands for what is in it; but a bold one, which is
# the head of the lines below it, for its own files only.
MAPS = {"agent": "files", "vm": "files", "fs": "files", "tests": "folders", "images": "files",
        "scripts/adapters": "files"}
TEXTS = ("", "agent/", "fs/", "images/", "tests/", "vm/")
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


def heads(text):
    """The folders that are bold on a map."""
    return set(re.findall(r"^\| \*\*`?([^`*]+/)`?\*\*", text, re.M))


def covers(name, path, kind, bold=()):
    """Whether a name on a map is, or stands for, this file."""
    if name.endswith("/"):
        return kind == "folders" and path.startswith(name) and not (name in bold and "/" in path[len(name):])
    stem = re.sub(r"\.\[ch\]$", "", name)
    return fnmatch.fnmatchcase(path, name) or fnmatch.fnmatchcase(os.path.splitext(path)[0], stem)


def check(top, folder, kind):
    """What is wrong with a map."""
    with open(f"{top}/{folder}/README.md", encoding="utf-8") as file:
        text = file.read()
    names, bold = named(text), heads(text)
    files, wrong = files_of(top, folder), []
    if not names:
        return [f"{folder}/README.md has no table below a line '## The map'"]
    for name in names:
        there = os.path.isdir(f"{top}/{folder}/{name}") if name.endswith("/") else any(
            covers(name, path, kind) for path in files)
        if not there:
            wrong.append(f"{folder}/README.md names {name}, and there is none: delete it, or give its new name")
    for path in files:
        if not any(covers(name, path, kind, bold) for name in names):
            wrong.append(f"{folder}/README.md does not name {unnamed(path, kind, bold)}: add it, and what it is for")
    if kind == "files":
        for place in sorted({os.path.dirname(path) for path in files} - {""}):
            if f"{place}/" not in names:
                wrong.append(f"{folder}/README.md does not name the folder {place}/")
    return list(dict.fromkeys(wrong))


def unnamed(path, kind, bold):
    """What a map lacks for this file: the file, or its folder below a bold one."""
    above = max((head for head in bold if path.startswith(head)), key=len, default="")
    below = path[len(above):].split("/")
    return above + below[0] + "/" if kind == "folders" and above and len(below) > 1 else path


def sources(top):
    """What is defined somewhere, and where things are."""
    files = [f"{folder}/{path}" for folder in (*MAPS, "scripts") for path in files_of(top, folder)]
    text = []
    for path in files:
        if path.endswith((".c", ".h", ".py", ".sh", ".ts")):
            with open(f"{top}/{path}", encoding="utf-8") as file:
                text.append(file.read())
    defined = re.compile(r"^(?:[a-z_][\w *]*?[ *]|#define )(\w+)\(|^ *(?:def|function) (\w+)\(", re.M)
    return files, {name for found in defined.findall("\n".join(text)) for name in found if name}


def mentions(text, files, functions):
    """What a text mentions, functions in backquotes, and there is none. Capitals are for the reader to fill in."""
    called = re.findall(r"\b(\w+)\(\)", " ".join(re.findall(r"`([^`\n]+)`", text)))
    said = re.findall(r"[\w./-]*\w\.(?:[ch]|py)\b(?!\()", text)
    return [f"mentions {name}(), and there is no such function" for name in dict.fromkeys(called)
            if name not in functions] + [
        f"mentions {name}, and there is no such file" for name in dict.fromkeys(said)
        if not re.search(r"[A-Z]{2}", name) and not any(f"/{path}".endswith(f"/{name}") for path in files)]


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
        (planted("folders", table, *tree, "core/new/a.py", "core/new/b.py"), ["does not name core/new/"]),
        (planted("folders", table.replace("`loop`", "`new/`"), *tree[:2], "main.c", "core/new/a.py"), []),
        (planted("files", "# X\n", *tree), ["has no table below a line '## The map'"]),
        (mentions("`go()` in `x/a.c`, `a.c`, `b/test_NAME.c`, gone()", ["x/a.c"], {"go"}), []),
        (mentions("`gone()`, `y/a.c`", ["x/a.c"], {"go"}), ["mentions gone(), and there is no such function",
                                                          "mentions y/a.c, and there is no such file"]),
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
    files, functions = sources(ROOT)
    for place in TEXTS:
        with open(f"{ROOT}/{place}README.md", encoding="utf-8") as file:
            failures += [f"{place}README.md {line}" for line in mentions(file.read(), files, functions)]
    for line in failures:
        print(line)
    sys.exit(1 if failures else 0)


main()
