#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the code has, the manual pages have: nodes, keys, options, signals, error numbers, codes of `error`."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
failures = []


def read(*paths):
    return "".join(open(f"{ROOT}/{path}", encoding="utf-8").read() for path in paths)


def sources(pattern):
    return read(*sorted(os.path.relpath(p, ROOT) for p in glob.glob(f"{ROOT}/{pattern}", recursive=True)))


def plain(page):
    """The words of a page, without what mdoc puts around them."""
    return set(re.findall(r"\w[\w.]*\w|\w", re.sub(r"^\.\\\".*$|\\&", "", read(page), flags=re.M)))


def want(page, what, names):
    missing = sorted(set(names) - plain(page))
    if missing or not names:
        failures.append(f"{page} lacks {what}: {' '.join(missing) or '(none found in the code)'}")


keys = re.findall(r'^\t\{"(\w+)", CONF_(\w+)', read("fs/config/key.c"), re.M)
want("man/xsbxfs.conf.5", "keys", [key for key, section in keys if section != "OPTION"])
want("man/xsbxfs.conf.example", "keys", [key for key, section in keys if section != "OPTION"])

want("man/xsbxfs-net.8", "options", re.findall(r'\{"(\w+)", (?:no|required)_argument',
                                              read("vm/net/filter/main.c")))
page = " ".join(read("man/xsbxfs-net.8").split())
for reason in re.findall(r'\[NET_\w+\] = "([^"]+)"', read("vm/base/net_reason.c")):
    if reason not in page and reason not in ("allowed", "unreachable"):
        failures.append(f"man/xsbxfs-net.8 lacks the reason: {reason}")

store = read("vm/store/main.c")
want("man/xsbxfs-store.8", "options", re.findall(r'\{"(\w+)", (?:no|required)_argument', store))
want("man/xsbxfs-store.8", "variables", re.findall(r'(?:take_|get)env\("(\w+)"\)', store))

nodes = re.findall(r'^\t\[NODE_\w+\] = \{"([\w.]+)",', read("fs/tree/table.c"), re.M)
want("man/xsbxfs.5", "nodes", nodes)
want("man/xsbxfs.5", "states", re.findall(r'\[(?:SESSION|RUN)_[A-Z]+\] = "(\w+)"',
                                           read("fs/session/session.c", "fs/session/run.c")))
want("man/xsbxfs.5", "verbs", re.findall(r'\[CTL_\w+\] = \{"(\w+)"', read("fs/tree/ctl.c")))

# ENOENT, ENOTDIR and EISDIR mean what they always mean; the others are never seen by a caller.
usual = {"ENOENT", "ENOTDIR", "EISDIR", "EBADF", "ECANCELED", "EADDRINUSE", "ECONNABORTED", "EINPROGRESS",
         "EMFILE", "EBADMSG"}
ops = "".join(sources(f"fs/{folder}/*.c") for folder in ("request", "session", "files", "tree", "fuse"))
want("man/xsbxfs.5", "error numbers", set(re.findall(r"-(E[A-Z]{3,})\b", ops)) - usual)

# Every code of `error` is in the page, once, and nothing else is; each is given by something.
codes = re.findall(r'^\tX\(\w+, (\w+), "([a-z-]+)"', read("vm/base/problem_codes.h"), re.M)
table = read("man/xsbxfs.5").split(".Sh CODES OF ERRORS")[1].split(".Sh ")[0]
lines = re.findall(r"^\.It Li (.*)$", table, re.M)
if sorted(lines) != sorted(name for _, name in codes) or len(codes) < 80:
    failures.append("man/xsbxfs.5 has other codes of errors than vm/base/problem_codes.h: " +
                    " ".join(sorted(set(lines) ^ {name for _, name in codes})))
if len(set(lines)) != len(lines):
    failures.append("man/xsbxfs.5 has a code of errors twice")
both = sources("fs/**/*.[ch]") + sources("vm/**/*.[ch]") + read("tests/unit/fixture/backend_local.c")
used = set(re.findall(r"\bPROBLEM_(\w+)", both))
idle = [name for enum, name in codes if enum not in used]
if idle:
    failures.append(f"vm/base/problem_codes.h has codes that nothing gives: {' '.join(idle)}")

# Whoever looks for the places where something is refused finds all of them, and nothing else.
FIXTURE = "tests/unit/fixture/backend_local.c"


def given_in(files, codes):
    """For each code, the files that give it: those that name it, but not to compare with it."""
    return {name: {path for path, text in files.items() if f"PROBLEM_{enum}" in text and
                   re.search(rf"(?<![!=]= )\bPROBLEM_{enum}\b", text)}
            for enum, name in codes}


def wrong_places(text, files, codes):
    """What is wrong with a table of the places in which codes are given."""
    wrong, named = [], {}
    given = given_in(files, codes)
    for said, places in re.findall(r"^\| ((?:`[a-z-]+` ?)+) \| ((?:`[\w./]+` ?)+) \|", text, re.M):
        names, paths = (re.findall(r"`(.*?)`", words) for words in (said, places))
        for name in names:
            named.setdefault(name, set()).update(paths)
        wrong += [f"{path} gives none of {' '.join(names)}" for path in paths
                  if not any(path in given.get(name, ()) for name in names)]
    wrong += [f"{name} is given in {path} too" for name, paths in sorted(named.items())
              for path in sorted(given.get(name, set()) - paths - {FIXTURE})]
    wrong += [f"{name} has no row, or is no code" for name in sorted(set(named) ^ {name for _, name in codes})]
    return wrong


files = {path: read(path) for folder in ("fs", "vm") for path in sorted(
    os.path.relpath(p, ROOT) for p in glob.glob(f"{ROOT}/{folder}/**/*.[ch]", recursive=True))
    if path != "vm/base/problem_codes.h"}
files[FIXTURE] = read(FIXTURE)
failures += [f"vm/README.md, why a run was refused: {line}"
             for line in wrong_places(read("vm/README.md"), files, codes)]

# This test of the table sees what is wrong with one.
for table, want_lines in (
        ("| `a` | `x.c` `y.c` | |\n| `b` | `y.c` | |\n", []),
        ("| `a` | `x.c` | |\n| `b` | `y.c` | |\n", ["a is given in y.c too"]),
        ("| `a` | `x.c` `y.c` | |\n| `b` | `x.c` | |\n", ["x.c gives none of b", "b is given in y.c too"]),
        ("| `a` `b` `c` | `x.c` `y.c` | |\n", ["c has no row, or is no code"]),
        ("| `a` | `x.c` `y.c` | |\n", ["b has no row, or is no code"])):
    lines = wrong_places(table, {"x.c": "set(PROBLEM_A); if (e != PROBLEM_B)", "y.c": "PROBLEM_B, PROBLEM_A"},
                         [("A", "a"), ("B", "b")])
    if lines != want_lines:
        failures.append(f"test_docs says of a table {table!r}: {lines}, and not {want_lines}")

# It is made from the table, and the maker sees what is wrong with one.
MAKER = f"{ROOT}/scripts/man-codes"
PARTS = ("man/xsbxfs.5", "man/xsbxfs.conf.5", "vm/base/problem_codes.h")


def made(old, new):
    """What becomes of a tree whose table has @new where there was @old."""
    with tempfile.TemporaryDirectory() as tree:
        for part in PARTS:
            os.makedirs(os.path.dirname(f"{tree}/{part}"), exist_ok=True)
            with open(f"{tree}/{part}", "w", encoding="utf-8") as file:
                file.write(read(part).replace(old, new, 1) if part == PARTS[2] else read(part))
        done = subprocess.run([MAKER, "--check", tree], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              encoding="utf-8", check=False)
        return done.returncode, done.stdout


for old, new, status, words in (
        ("", "", 0, ""),
        ("There is no such setting.", "There is none.", 1, "run scripts/man-codes"),
        ('KILLED, "killed"', 'KILLED, "closed"', 1, "closed is there twice"),
        ('KILLED, "killed", YES', 'KILLED, "killed", MAYBE', 1, "YES, LATER or NO"),
        ("X(VERBS, BUSY", "X(RUNS, BUSY", 1, "order of the groups")):
    got = made(old, new)
    if got[0] != status or words not in got[1]:
        failures.append(f"scripts/man-codes, with {new or 'the table as it is'}: {got}")

conf = read("fs/config/daemon.c", "fs/config/value.c")
want("man/xsbxfs.1", "options", re.findall(r'\{"(\w+)", (?:no|required)_argument', conf))
want("man/xsbxfs.1", "mount options", ["allow_other", "notify"] + re.findall(
    r'"(\w+)"', re.search(r"generic\[\] = \{(.*?)\};", read("fs/config/daemon_key.c"), re.S).group(1)))
want("man/xsbxfs.1", "signals", re.findall(r"\bSIG(?!_)[A-Z]+\b", read("fs/daemon_setup.c") + read("fs/daemon.c")))
want("man/xsbxfs.1", "variables", set(re.findall(r'(?:getenv|xdg_path)\("(\w+)"', conf)))

# From the page that people find the others are found; and what is in the pages has the names that installed commands have.
named = read("man/xsbxfs.1").split(".Sh SEE ALSO")[1].split(".Sh ")[0]
for page in sorted(glob.glob(f"{ROOT}/man/*.[1-8]")):
    name, section = os.path.basename(page).rsplit(".", 1)
    if f".Xr {name} {section}" not in named and (name, section) != ("xsbxfs", "1"):
        failures.append(f"man/xsbxfs.1, SEE ALSO, lacks {name} {section}")
for page in "man/xsbxfs.1", "man/xsbxfs.5", "man/xsbxfs.conf.5", "man/xsbxfs.conf.example":
    for line in re.findall(r".*\bscripts/images --.*", read(page)):
        failures.append(f"{page}: xsbxfs-images --, for there is no scripts/images where it is installed: {line}")

# What a command's --help says, its page says: options, values and variables.
for command in "images", "xsbx-remote", "xsbx-top", "xsbx-tty":
    said = subprocess.run([f"{ROOT}/scripts/{command}", "--help"], stdout=subprocess.PIPE, check=False, encoding="utf-8",
                          env={**os.environ, "COLUMNS": "200"})
    page = f"man/{'xsbxfs-images' if command == 'images' else command}.1"
    flags = set(re.findall(r"(?<![\w-])-(-[a-z][a-z-]+|[a-zA-Z0-9]\b)", re.sub(r"\(.*?\)", "", said.stdout)))
    missing = sorted(flags - set(re.findall(r"\bFl (-?\w[\w-]*)", re.sub(r", (?=-)", ", Fl ", read(page)))))
    if said.returncode or not said.stdout.startswith("usage: ") or missing or not (flags or command == "xsbx-tty"):
        failures.append(f"{page} lacks options of --help, or that fails: {said.returncode} {missing}")
    variables = set(re.findall(r"\bXSBXFS_\w+", said.stdout))
    if variables:
        want(page, "variables", variables)

# Where xsbxfs is installed, and no Makefile is, what builds images has another name.
with tempfile.TemporaryDirectory() as tree:
    shutil.copytree(f"{ROOT}/scripts", f"{tree}/scripts", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(f"{ROOT}/images", f"{tree}/images", ignore=shutil.ignore_patterns("__pycache__"))
    for makefile, name in (False, "xsbxfs-images"), (True, "scripts/images"):
        if makefile:
            open(f"{tree}/Makefile", "w", encoding="utf-8").close()
        for script in (f". {tree}/scripts/lib.sh; cache_dir() {{ echo {tree}; }}; XSBXFS_SHARED=none unpack_image nothing",
                       f". {tree}/scripts/lib.sh; . {tree}/images/lib.sh; host_repository() {{ :; }}; XSBXFS_MIRROR= apt_mirror",
                       f"{tree}/scripts/images --help"):
            said = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                                  encoding="utf-8").stdout
            if f" {name} " not in said:
                failures.append(f"not called {name}: {said}")

for failure in failures:
    print(failure)
sys.exit(bool(failures))
