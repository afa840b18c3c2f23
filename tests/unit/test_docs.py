#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the code has, the manual pages have: nodes, keys, options, signals, error numbers, codes of `error`."""
import glob
import os
import re
import sys

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
want("man/xsbxfs.5", "verbs", re.findall(r'\[CTL_\w+\] = "(\w+)"', read("fs/tree/ctl.c")))

# ENOENT, ENOTDIR and EISDIR mean what they always mean; the others are never seen by a caller.
usual = {"ENOENT", "ENOTDIR", "EISDIR", "EBADF", "ECANCELED", "EADDRINUSE", "ECONNABORTED", "EINPROGRESS"}
ops = "".join(sources(f"fs/{folder}/*.c") for folder in ("request", "session", "files", "tree", "fuse"))
want("man/xsbxfs.5", "error numbers", set(re.findall(r"-(E[A-Z]{3,})\b", ops)) - usual)

# Every word that can stand behind `code:` has its line in the table.
said = r"\b(?:problem_set|session_problemf)\("
both = sources("fs/**/*.[ch]") + sources("vm/**/*.[ch]")
codes = set(re.findall(r'\.code = "([a-z-]+)"', both))
codes |= set(re.findall(r'\bcode, sizeof\([^)]*\bcode\), "([a-z-]+)"', both))
defined = dict(re.findall(r'#define (PROBLEM_\w+)\s+"([a-z-]+)"', both))
for call in re.findall(said + r"[^,;]+,([^;]*?),", both):
    codes |= set(re.findall(r'"([a-z-]+)"', call)) | {defined[name] for name in defined if name in call}
# What becomes of a session with `fresh` after a run, and of a machine that nobody has, is told nobody.
codes -= {"fresh", "not-saved"}
table = read("man/xsbxfs.5").split(".Sh CODES OF ERRORS")[1].split(".Sh ")[0]
lines = set(re.findall(r"[\w-]+", " ".join(re.findall(r"^\.It Li (.*)$", table, re.M))))
if codes - lines or len(codes) < 80:
    failures.append("man/xsbxfs.5 lacks codes of errors: " +
                    (" ".join(sorted(codes - lines)) or "(few found in the code)"))

conf = read("fs/config/daemon.c", "fs/config/value.c")
want("man/xsbxfs.1", "options", re.findall(r'\{"(\w+)", (?:no|required)_argument', conf))
want("man/xsbxfs.1", "mount options", ["allow_other", "notify"] + re.findall(
    r'"(\w+)"', re.search(r"generic\[\] = \{(.*?)\};", read("fs/config/daemon_key.c"), re.S).group(1)))
want("man/xsbxfs.1", "signals", re.findall(r"\bSIG(?!_)[A-Z]+\b", read("fs/main.c")))
want("man/xsbxfs.1", "variables", set(re.findall(r'(?:getenv|xdg_path)\("(\w+)"', conf)))

for failure in failures:
    print(failure)
sys.exit(bool(failures))
