#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of what the interpreter remembers after what."""
# timeout: 120
# backends: local vm
# night: vm
from xsbx import *

TABLE = {
    "python": {
        "set": "x = 1\ndef f(): return 'f'\nimport json",
        "get": "print(globals().get('x', 'none'))",
        "all": ("print(x, f(), json.dumps([]))", "1 f []\n"),
        "kept": [("exception", "1/0", 1), ("syntax error", "(", 1),
                 ("sys.exit", "import sys; sys.exit(7)", 7),
                 ("sys.exit(137)", "import sys; sys.exit(137)", 137)],
        "fresh": [("os._exit", "import os; print('said', flush=True); os._exit(42)", 42),
                  ("SIGSEGV", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 139),
                  ("SIGKILL", "import os; os.kill(os.getpid(), 9)", 137),
                  ("SIGTERM", "import os, signal; signal.signal(15, signal.SIG_DFL); "
                              "os.kill(os.getpid(), 15)", 143)],
        "wait": "import time; time.sleep(600)",
        "stubborn": "import time\nwhile True:\n    try: time.sleep(1)\n"
                    "    except BaseException: pass",
    },
    "raw": {
        "set": "x=1; f() { echo f; }; export E=e; mkdir -p d; cd d",
        "get": "echo ${x:-none}",
        "all": ("echo $x $(f) $E ${PWD##*/}", "1 f e d\n"),
        "kept": [("failure", "false", 1), ("unknown command", "nosuch", 127)],
        "fresh": [("exit", "echo said; exit 42", 42), ("SIGKILL", "kill -9 $$", 137),
                  ("SIGSEGV", "kill -SEGV $$", 139)],
        "wait": "read -r line < <(sleep 600)",
        "stubborn": "trap '' INT TERM HUP; while :; do sleep 1; done",
    },
    "javascript": {
        "set": "var x = 1; function f() { return 'f' }; const k = 2",
        "get": "console.log(typeof x === 'undefined' ? 'none' : x)",
        "all": ("console.log(x, f(), k)", "1 f 2\n"),
        "kept": [("exception", "throw new Error('x')", 1), ("syntax error", "(", 1),
                 ("process.exit", "process.exit(7)", 7)],
        "fresh": [("SIGKILL", "process.kill(process.pid, 'SIGKILL'); await new Promise(() => {})",
                   137)],
        "wait": "await new Promise(done => setTimeout(done, 600000))",
        "stubborn": "while (true) {}",
    },
}


def language(name):
    if name == "javascript" and not has_language(name):
        print("(javascript left out: it is not to be had here)")
        return
    s = Session("state", name)
    write(s / "files/keep.txt", b"kept")
    by_code(name, TABLE[name], s)
    ended_for_it(name, TABLE[name], s)
    same(f"{name}: files/ outlives all that", read(s / "files/keep.txt"), b"kept")


def steps(name, t, s):
    """What looks whether a variable is there, and what sets it."""
    def is_set(what, want):
        same(f"{name}, {what}: state {'kept' if want else 'fresh'}", s.run(t["get"]).out,
             "1\n" if want else "none\n")

    def set_it():
        same(f"{name}: setting", s.run(t["set"]).code, 0)

    return is_set, set_it


def by_code(name, t, s):
    """What code does to it itself."""
    is_set, set_it = steps(name, t, s)
    set_it()
    same(f"{name}: everything lasts", s.run(t["all"][0]).out, t["all"][1])
    for what, code, status in t["kept"]:
        same(f"{name}, {what}: exit", s.run(code).code, status)
        is_set(what, True)
    for what, code, status in t["fresh"]:
        result = s.run(code)
        same(f"{name}, {what}: exit", result.code, status)
        if "said" in code:
            same(f"{name}, {what}: what it printed is kept", result.out, "said\n")
        is_set(what, False)
        set_it()
    is_set("set again", True)


def ended_for_it(name, t, s):
    """What is done to it from outside."""
    is_set, set_it = steps(name, t, s)

    # kill
    n = s.runs()[-1] + 1
    s.submit(t["wait"])
    ok(f"{name}: waits", s.wait_run(n, "running"))
    time.sleep(0.2 * SLOW)
    s.ctl("kill")
    same(f"{name}, kill: exit", s.result().code, 137)
    is_set("kill", False)

    # timeout
    set_it()
    write(s / "config", "timeout_s = 1\n")
    same(f"{name}, timeout: exit", s.run(t["wait"]).code, 124)
    write(s / "config", "timeout_s = 60\n")
    is_set("timeout", False)
    write(s / "config", "timeout_s = 1\n")
    same(f"{name}, stubborn: exit", s.run(t["stubborn"]).code, 124)
    write(s / "config", "timeout_s = 60\n")

    # interrupt
    set_it()
    n = s.runs()[-1] + 1
    s.submit(t["wait"])
    s.wait_run(n, "running")
    time.sleep(0.3 * SLOW)
    s.ctl("interrupt")
    same(f"{name}, interrupt: exit", s.result().code, 130)
    is_set("interrupt", True)
    if name == "python":
        has("python, interrupt: on stderr", s.text(f"runs/{n}/stderr"), "KeyboardInterrupt")

    # reset
    s.ctl("reset")
    is_set("reset", False)


def python():
    language("python")


def raw():
    language("raw")


def javascript():
    language("javascript")


def details():
    """Of Python: what else lasts, and what else does not."""
    s = Session("details", "python")
    same("accumulate", [s.run(c).out for c in (
        "t = 0", "t += 5", "t += 7\nprint(t)")][-1], "12\n")
    s.run("class C:\n    n = 0\n    def inc(self): self.n += 1; return self.n\nc = C()")
    same("objects", [s.run("print(c.inc())").out for _ in range(3)], ["1\n", "2\n", "3\n"])
    s.run("import os; os.chdir('/tmp'); os.environ['V'] = 'w'")
    same("cwd and environment", s.run("print(os.getcwd(), os.environ['V'])").out, "/tmp w\n")
    s.run("import subprocess; p = subprocess.Popen(['sleep', '600'])")
    same("a process lives on", s.run("print(p.poll())").out, "None\n")
    s.run("gen = iter(range(3)); next(gen)")
    same("a generator", s.run("print(next(gen))").out, "1\n")
    s.run("import random; random.seed(4); a = random.random()")
    same("random goes on", s.run("b = random.random(); random.seed(4); random.random(); "
                                 "print(b == random.random())").out, "True\n")


main(python, raw, javascript, details)
