#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make check-save builds what T names and nothing else; a host with much else to do is given more time; the tests
that took longest start first."""
import contextlib
import glob
import importlib.machinery
import importlib.util
import io
import os
import re
import subprocess
import sys
import tempfile
import time

import patience

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Without what a make that runs this was told: it would be told to those below as well.
ENV = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k != "T"}
failures = []


def same(what, got, want):
    if got != want:
        failures.append(f"{what}: got {got}, want {want}")


def built(*args):
    """What make would build, into an empty directory."""
    with tempfile.TemporaryDirectory() as build:
        done = subprocess.run(["make", "-n", "-C", ROOT, f"O={build}", "CC=cc", *args], env=ENV, check=False,
                              encoding="utf-8", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    same(f"make -n {args}", done.returncode, 0)
    return [word[len(build) + 1:] for line in done.stdout.splitlines() if line.startswith("cc ")
            for word in [line.split(" -o ")[1].split()[0]]]


TEST = "tests/unit/vm/base/test_buf.c"
with open(f"{ROOT}/{TEST}", encoding="utf-8") as source:
    modules = re.search(r"/\* modules: (.*) \*/", source.read())[1].split()
same("a test of a module, and its modules", sorted(built("check-save", "T=test_buf")),
     sorted([f"obj/{path[:-2]}.o" for path in [TEST, *modules]] + ["unit/test_buf"]))
agent = built("check-save", "T=test_agent_locks")
same("a test in Python: what it needs", sorted(name for name in agent if not name.startswith("obj/")),
     ["drivers/turn.so", "xsbx-agent"])
mount = [name for name in built("check-save", "T=in_order") if not name.startswith(("obj/", "test/obj/"))]
same("a test of a mount", sorted(mount),
     ["drivers/turn.so", "test/xsbxfs", "xsbx-agent", "xsbxfs-dial", "xsbxfs-net"])

# What is not called like a test leads to some all the same.
def loaded(name):
    loader = importlib.machinery.SourceFileLoader(f"{name}_main", f"{ROOT}/tests/{name}")
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(f"{name}_main", loader))
    loader.exec_module(module)
    return module


sys.dont_write_bytecode = True
suggest = loaded("suggest")
codes = suggest.codes_of("--- a/PROBLEM_RESET\n+++ b/x\n PROBLEM_KILLED\n-\tPROBLEM_NO_JAIL;\n+\tPROBLEM_BUSY, PROBLEM_NONE\n",
                         suggest.read(f"{ROOT}/vm/base/problem_codes.h"))
same("codes on changed lines", codes, {"PROBLEM_NO_JAIL": "no-jail", "PROBLEM_BUSY": "busy"})
same("tests that fit, the best first", suggest.suggest(
    {"tests/unit/fs/session/test_near.c": "/* modules: fs/session/run.c */\n",
     "tests/unit/fs/tree/test_far.c": "/* modules: fs/tree/table.c */\n/* it is busy */",
     "tests/unit/vm/test_lists.c": "/* modules: fs/session/pause.c vm */\n",
     "tests/mount/runs/says.py": "s.error('busy'); no-jail"}, ["fs/session/pause.h"], codes),
     [("says", "mentions no-jail, mentions busy"), ("test_lists", "has fs/session/pause.c"),
      ("test_near", "is in its folder")])
done = subprocess.run(["make", "-n", "-C", ROOT, "check-save", "unsaved=fs/session/pause.c"], env=ENV, check=False,
                      encoding="utf-8", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
same("they are asked for", "tests/suggest fs/session/pause.c\n" in done.stdout, True)

# Who tries what is written here has tests that exist.
for place in ("Makefile", "README.md", "tests/README.md", "images/README.md", "agent/README.md", "vm/README.md", "fs/README.md"):
    for names in re.findall(r"\bT='([a-z_* ]+)'", suggest.read(f"{ROOT}/{place}")):
        for name in names.split():
            same(f"{place}: T={name} names a test", any(glob.glob(f"{ROOT}/tests/{kind}/**/{name}.*", recursive=True)
                                                       for kind in ("unit", "mount")), True)

# On a quiet host a wait ends when it says, on a busy one later: the load when it has waited for so long counts.
patience.os = type("Os", (), {"environ": {}, "getloadavg": staticmethod(lambda: (20, 1, 0)),
                              "cpu_count": staticmethod(lambda: 2)})
same("ten times as slow", patience.slack(), 10)
begin = time.monotonic()
same("nothing comes", patience.wait_until(lambda: False, 0.05), False)
same("after ten times as long", time.monotonic() - begin >= 0.5, True)
same("what comes late is taken", patience.wait_until(lambda: time.monotonic() > begin + 0.7, 0.05), True)
patience.os.getloadavg = lambda: (0.1, 0.1, 0)
same("a quiet host", patience.slack(), 1)
patience.os.environ["SLACK"] = "5"
same("one that is slow by itself", patience.slack(), 5)

# The order of tests.
sys.path.insert(0, f"{ROOT}/tests")
run = loaded("run")
with tempfile.TemporaryDirectory() as place:
    run.DURATIONS = f"{place}/sub/durations.json"
    args = type("Args", (), {"unit": False, "local": True, "process": False, "vm": False, "night": False,
                             "names": ["in_order", "ctl", "names"]})

    def passed(name, seconds):
        return next(t for t in run.collect(args, place) if t.name == name), ("passed", seconds, 0, "")

    run.keep_durations([passed("ctl", 70.0), passed("in_order", 1.0), passed("names", 500.0)])
    same("the longest of the last time first", [t.name for t in run.collect(args, place)], ["names", "ctl", "in_order"])
    with open(run.DURATIONS, "w", encoding="utf-8") as file:
        file.write("[not what it should be")
    same("a record that is spoilt costs the order only", len(run.collect(args, place)), 3)

# A second try.
def tried_again(failed, again, passes):
    """(what passed at the second try, what each test is taken for, the exit status) with FAILED tests of two."""
    tests = [type("T", (), {"name": name, "kind": "local"}) for name in ("a", "b")]
    results = [(t, ("failed" if t.name in failed else "passed", 1.0, 0.0, "first")) for t in tests]
    run.run = lambda names, at_once, build, _: [
        (t, ("passed" if t.name in passes and at_once == 1 else "failed", 1.0, 0.0, "second")) for t in names]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        second = run.try_again(results, place, type("Args", (), {"again": again}))
        status = run.summary(results, second)
    same("what passes late is said", "Passed at the second try only:" in said.getvalue(), bool(second))
    return [t.name for t in second], [result[0] for _, result in results], status


same("a second try that passes", tried_again("a", 1, "a"), (["a"], ["passed", "passed"], 0))
same("one that fails", tried_again("a", 1, ""), ([], ["failed", "passed"], 1))
same("one of two", tried_again("ab", 2, "b"), (["b"], ["failed", "passed"], 1))
same("too many for one", tried_again("ab", 1, "ab"), ([], ["failed", "failed"], 1))
same("none, where it was not asked for", tried_again("a", 0, "a"), ([], ["failed", "passed"], 1))

for line in failures:
    print(line)
sys.exit(1 if failures else 0)
