#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run whose time is up gets SIGTERM, and SIGKILL when it is still there grace_s later."""
# backends: local vm
# night: vm
# timeout: 90
from xsbx import *



def timed(s, code, grace=60):
    """Runs code that says `up` before its time is up: the more time, the busier the host is.
    Returns the result, and the seconds that it took."""
    for seconds in 1, 5, 25:
        write(s / "config", f"timeout_s = {seconds}\ngrace_s = {grace}\n")
        begin = time.monotonic()
        result = s.run(code)
        if result.out.startswith("up\n"):
            break
    return result, time.monotonic() - begin


# A program of each language that acts on SIGTERM, and one that does nothing about it.
HANDLER = {
    "python": "import signal, sys, time\n"
              "def end(*_):\n    time.sleep(0.2); print('bye', flush=True); sys.exit(3)\n"
              "signal.signal(signal.SIGTERM, end)\nprint('up', flush=True)\ntime.sleep(600)",
    "raw": "trap 'sleep 0.2; echo bye; exit 3' TERM\necho up\nsleep 600\n",
    "javascript": "process.on('SIGTERM', () => setTimeout(() => { console.log('bye'); "
                  "process.exit(3) }, 200));\nconsole.log('up');\n"
                  "await new Promise(done => setTimeout(done, 600000))",
}
DEFAULT = {
    "python": "import time\nx = 1\nprint('up', flush=True)\ntime.sleep(600)",
    "raw": "x=1; echo up\nsleep 600\n",
    "javascript": "var x = 1; console.log('up');\nawait new Promise(done => setTimeout(done, 600000))",
}
FRESH = {
    "python": ("print('x' in globals())", "False\n"),
    "raw": ("echo \"[$x]\"", "[]\n"),
    "javascript": ("console.log(typeof x)", "undefined\n"),
}


def language(name):
    if not has_language(name):
        print(f"({name} left out: it is not to be had here)")
        return
    s = Session("grace", name, config="timeout_s = 60\n")
    s.run("1" if name != "raw" else "true")
    for what, code, out in (("handler", HANDLER[name], "up\nbye\n"),
                            ("default", DEFAULT[name], "up\n")):
        result, took = timed(s, code)
        n = s.runs()[-1]
        same(f"{name}, {what}", (result.out, result.code, s.state_of(n)), (out, 124, "timeout"))
        # A shell says how its child has ended.
        ok(f"{name}, {what}: stderr", not result.err or name == "raw" and
           result.err.startswith("Terminated"), result)
        # Far less than the grace of a minute; on a busy host that can't be told.
        ok(f"{name}, {what}: it ends when nothing is left", took < 55 * slack(), took)
        show, fresh = FRESH[name]
        write(s / "config", "timeout_s = 60\n")
        same(f"{name}, {what}: the state afterwards", s.run(show).out, fresh)


def python():
    language("python")


def raw():
    language("raw")


def javascript():
    language("javascript")


def children():
    """Whatever the run has started is asked, and what earlier runs left behind is not."""
    s = Session("children", config="timeout_s = 60\n")
    s.run("(trap 'touch wrong' TERM; while :; do sleep 0.05; done) >/dev/null 2>&1 &\n")
    result, _ = timed(s, "setsid bash -c \"trap 'sleep 0.3; echo child; exit' TERM; echo up; "
                         "while :; do sleep 0.05; done\" &\nsleep 600\n")
    same("a child's last words", (result.out, result.code), ("up\nchild\n", 124))
    ok("an earlier one is left alone", not os.path.exists(s / "files/wrong"))


def stubborn():
    """Who ignores it is killed, by whatever comes first: the grace, `kill`, or no grace at all."""
    s = Session("stubborn")
    ignore = "trap '' TERM; echo up; while :; do sleep 0.1; done\n"
    for grace in 1, 0:
        result, _ = timed(s, ignore, grace)
        same(f"grace {grace}", (result.out, result.code), ("up\n", 124))
    write(s / "config", f"timeout_s = {SLOW}\ngrace_s = 60\n")
    s.submit(ignore)
    ok("up", wait_for(lambda: read_ready(s / "stdout") == b"up\n"))
    time.sleep(1.5 * SLOW)
    begin = time.monotonic()
    s.ctl("kill")
    same("killed in its grace", s.result().code, 124)
    ok("at once", time.monotonic() - begin < 55 * slack())
    for bad in "grace_s = 61\n", "grace_s = -1\n", "grace_s = x\n":
        with raises(bad, errno.EINVAL):
            write(s / "config", bad)
    has("shown", s.text("config"), "grace_s = 60")
    same("and told", s.json()["settings"]["grace_s"], 60)


main(python, raw, javascript, children, stubborn)
