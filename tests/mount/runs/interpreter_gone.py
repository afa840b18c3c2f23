#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An interpreter that ends between two runs: the next run is refused and says why, the one after it has
a fresh one. Ends that a run has told of are no such thing."""
# backends: local vm
# timeout: 60
from xsbx import *

# Says in a file that the interpreter is gone: that who waits for it, the agent, knows it.
WATCH = "while kill -0 %s; do sleep 0.01; done 2>/dev/null; touch gone"
# Ends it from behind, when it is told to.
KILLER = "while [ ! -e go ]; do sleep 0.01; done; kill -%d %s; " + WATCH

# What is set, with the killer started, and what shows whether it is set.
LANGUAGES = {
    "python": ("import os, subprocess\nx = 5\n"
               "p = subprocess.Popen(['sh', '-c', '{killer}'], stdout=subprocess.DEVNULL)",
               "print('x' in globals())", "False\n"),
    "raw": ("x=5; ({killer}) >/dev/null 2>&1 & echo set", "echo \"[$x]\"", "[]\n"),
    "javascript": ("var x = 5; require('child_process').spawn('sh', ['-c', '{killer}'], "
                   "{{stdio: 'ignore'}}); 0", "console.log(typeof x)", "undefined\n"),
}


def end(s, name, sig):
    """A run that sets something, after which the interpreter is killed."""
    parent = "$$" if name == "raw" else "$PPID"
    code = LANGUAGES[name][0].format(killer=KILLER % (sig, parent, parent))
    same(f"{name}: setting", s.run(code).code, 0)
    write(s / "files/go", "")
    await_gone(s, name)
    os.unlink(s / "files/go")


def await_gone(s, what):
    gone = s / "files/gone"
    ok(f"{what}: killed", wait_for(lambda: os.path.exists(gone), 10))
    os.unlink(gone)


def refused(s, run, what, cause, code="interpreter-gone"):
    same(f"{what}: state", s.state_of(run), "refused")
    same(f"{what}: it printed nothing", read(s / f"runs/{run}/stdout"), b"")
    problem = s.json(f"runs/{run}/status.json")["problem"]
    same(f"{what}: problem", problem["code"], code)
    has(f"{what}: cause", problem["cause"], cause)
    has(f"{what}: error", s.text("error"), problem["cause"])


def language(name):
    if not has_language(name):
        print(f"({name} left out: it is not to be had here)")
        return
    _, show, fresh = LANGUAGES[name]
    s = Session("gone", name)
    for sig, words in (9, "signal 9"), (11, "signal 11"):
        what = f"{name}, {words}"
        end(s, name, sig)
        same(f"{what}: exit_code", s.run(show).code, "EIO")
        refused(s, s.runs()[-1], what, words)
        result = s.run(show)
        same(f"{what}: the one after it", (result.out, result.code), (fresh, 0))
        n = s.runs()[-1]
        same(f"{what}: has no problem", s.json(f"runs/{n}/status.json")["problem"], None)

    # Of two that wait one is refused.
    end(s, name, 9)
    s.submit(show)
    s.submit(show)
    s.result()
    n = s.runs()[-1]
    same(f"{name}: both", [s.state_of(n - 1), s.state_of(n)], ["refused", "done"])

    # A reset is what is wanted then, and nobody has to be told.
    end(s, name, 9)
    s.ctl("reset")
    same(f"{name}: after a reset", s.run(show).out, fresh)


def full():
    """What an interpreter can't take, for want of descriptors, has not run, and says so."""
    for name, limit, show in (("python", "import resource as r\nx = 5\n"
                               "r.setrlimit(r.RLIMIT_NOFILE, (6, 4096))", "print('x' in globals())"),
                              ("raw", "x=5; ulimit -S -n 4", "echo \"[$x]\"")):
        if not has_language(name):
            continue
        s = Session("full", name)
        same(f"{name}: set", s.run(limit).code, 0)
        for turn in range(2):
            same(f"{name}: exit_code", s.run("1/0" if name == "python" else "false").code, "EIO")
            refused(s, s.runs()[-1], f"{name}: full", "Too many open files", "not-taken")
        s.ctl("reset")
        same(f"{name}: after a reset", s.run(show).out, LANGUAGES[name][2])


def python():
    language("python")


def raw():
    language("raw")


def javascript():
    language("javascript")


def known():
    """What a run itself has ended is known."""
    s = Session("known", "python")
    for code, status in ("import os; os._exit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137):
        same(code, s.run(code).code, status)
        same(f"{code}: the next run", s.run("print(1)").out, "1\n")
    # Right behind its answer it may be part of the run, or of the next one, or between them, but it is never silent.
    leaving = "import os, threading\nx = 1\nthreading.Timer(0.002, os._exit, (0,)).start()"
    for _ in range(10):
        if s.run(leaving).code == "EIO":
            s.run(leaving)  # that of before came late
        told = is_fresh(s)
        time.sleep(0.1 * SLOW)
        result = s.run("print('x' in globals())")
        was_refused = s.state_of(s.runs()[-1]) == "refused"
        ok("right behind the answer", told or was_refused or result.out == "True\n" or is_fresh(s),
           (result, s.text("summary")))
        if was_refused:
            same("and then it runs", s.run("print(1)").out, "1\n")


def is_fresh(s):
    return s.json("status.json")["latest"]["interpreter"] == "fresh"


main(python, raw, javascript, known, full)
