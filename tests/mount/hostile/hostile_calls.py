#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""System calls that user code must not succeed with: namespaces, mounts, other processes' insides,
privileges, and the parts of a kernel that had many holes. tests/hostile/ makes them; the same
program is run outside first, where it must succeed: otherwise the test could not tell."""
# backends: process vm
# timeout: 120
from xsbx import *

PROBE = f"{BUILD}/test/probe"

# A machine's kernel is the guest's own: its walls are another test's (vm_kernel), and what user code
# does to its own processes is its own affair.
GUESTS_OWN = set("""
    memfd-secret set-mempolicy netfilter audit uevent ptrace-child ptrace-parent ptrace-me vm-read
    vm-write pidfd-getfd kcmp read-implies-exec tiocsti tiocsti-upper-bits clone3-into-cgroup mlock aio sync cachestat
    core-dumps core-dumps-upper-bits
""".split())


def results(text):
    return dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)


def outside():
    """What succeeds on this host, by name."""
    os.mkdir(f"{SCRATCH}/control")
    done = subprocess.run([PROBE], cwd=f"{SCRATCH}/control", check=False, timeout=2 * SOON,
                          stdout=subprocess.PIPE)
    got = results(done.stdout.decode())
    able = {name for name, word in got.items() if word == "possible"}
    print("# not possible outside either: " + ", ".join(
        f"{name} ({word})" for name, word in got.items() if word != "possible"), flush=True)
    ok("control: there are many probes", len(got) > 100, len(got))
    if os.geteuid() == 0:
        ok("control: nearly all succeed outside", len(able) > len(got) * 8 / 10, sorted(able))
    return able


def look(what, text, able):
    allowed = GUESTS_OWN if VM else set()
    got = results(text)
    ok(f"{what}: all were tried", able <= set(got), sorted(able - set(got)))
    for name, word in got.items():
        if name not in allowed:
            ok(f"{what}: {name} is refused", word not in ("possible", "not tried"), word)


def calls():
    if not os.path.exists(PROBE):
        skip("there is no build/test/probe: make tests")
    able = outside()
    s = Session("calls")
    shutil.copy(PROBE, s / "files/probe")
    os.chmod(s / "files/probe", 0o755)
    look("in a run", s.run("./probe\n").out, able)
    look("in the background", s.run("(setsid bash -c './probe > out 2>&1; : > ended' &); until "
                                    "[ -e ended ]; do sleep 0.05; done; cat out\n").out, able)
    s.ctl("reset")
    look("after a reset", s.run("./probe\n").out, able)
    if has_language("python"):
        p = Session("calls", "python")
        shutil.copy(PROBE, p / "files/probe")
        os.chmod(p / "files/probe", 0o755)
        look("from Python", p.run("import os\nif os.fork() == 0: os.execv('./probe', ['probe'])\n"
                                  "os.wait()\n").out, able)
    same("the session goes on", s.run("echo on\n").out, "on\n")


main(calls)
