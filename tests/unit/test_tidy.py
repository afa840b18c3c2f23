#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/tidy: what was clean is not looked at again before anything has changed that decides about it; what was not, always."""
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# It finds fault with a word, in what it is given or in the header.
CLANG_TIDY = """#!/bin/sh
[ "$1" != --version ] || { cat version; exit; }
echo "$2" >>asked
! grep -Hn FAULT "$2" h.h || exit 0
[ ! -e broken ] || exit 3
"""
failures = []


def write(name, text):
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)


def tidy(what, asked, status=0, *flags):
    write("asked", "")
    done = subprocess.run([f"{ROOT}/scripts/tidy", "a.c", "b.c", "--", *flags], check=False, encoding="utf-8",
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with open("asked", encoding="utf-8") as file:
        seen = " ".join(sorted(file.read().split()))
    if seen != asked or done.returncode != status or (status and "a.c" not in done.stdout + done.stderr):
        failures.append(f"{what}: looked at {seen!r}, want {asked!r}; {done.returncode}: {done.stdout}{done.stderr}")


def changes():
    tidy("at first", "a.c b.c")
    tidy("again", "")
    write("a.c", "int a; /* NOLINT */\n")
    tidy("a comment", "a.c")
    write("h.h", "#define H 1\n")
    tidy("a macro that nobody uses", "b.c")
    write("h.h", "#define H 1\nint h; /* ... */\n")
    tidy("a header", "b.c")
    tidy("a flag", "a.c b.c", 0, "-DX")
    write("version", "2\n")
    tidy("the version", "a.c b.c")
    write(".clang-tidy", "Checks: '*'\n")
    tidy("the rules", "a.c b.c")
    tidy("and nothing", "")


def faults():
    write("a.c", "int FAULT;\n")
    tidy("a fault", "a.c", 1)
    tidy("which stays", "a.c", 1)
    write("a.c", "int a;\n")
    write("broken", "")
    tidy("it fails without a word", "a.c", 1)
    os.unlink("broken")
    write("a.c", '#include "gone.h"\n')
    tidy("no C", "a.c")  # of which it would say so itself
    tidy("which is not remembered", "a.c")


if not shutil.which("clang"):
    print("SKIP: there is no clang")
    sys.exit(77)
with tempfile.TemporaryDirectory() as place:
    os.chdir(place)
    os.mkdir("bin")
    write("bin/clang-tidy", CLANG_TIDY)
    os.chmod("bin/clang-tidy", 0o755)
    os.environ |= {"PATH": f"{place}/bin:{os.environ['PATH']}", "XDG_CACHE_HOME": f"{place}/cache"}
    for name, text in {"a.c": "int a;\n", "b.c": '#include "h.h"\n', "h.h": "", "version": "1\n", ".clang-tidy": ""}.items():
        write(name, text)
    changes()
    faults()
    os.chdir("/")
for line in failures:
    print(line)
sys.exit(1 if failures else 0)
