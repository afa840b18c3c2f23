#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of run states and exit statuses."""
# backends: local vm
import re

from xsbx import *

s = None


def ended(what, code, state, status, stdout=b""):
    result = s.run(code)
    n = s.runs()[-1]
    same(f"{what}: exit code", result.code, status)
    same(f"{what}: state", s.state_of(n), state)
    same(f"{what}: stdout", result.stdout, stdout)
    same(f"{what}: runs/N/exit_code", s.text(f"runs/{n}/exit_code"), f"{status}\n")
    same(f"{what}: runs/N/wait", s.text(f"runs/{n}/wait"), f"{status}\n")
    info = s.json(f"runs/{n}/status.json")
    same(f"{what}: status.json", (info["state"], info["exit_code"]), (state, status))
    has(f"{what}: summary", s.text(f"runs/{n}/summary"), f"run {n}: ")
    same(f"{what}: summary of the latest", s.text("summary"), s.text(f"runs/{n}/summary"))


def done():
    global s
    s = Session("states")
    same("a new session", s.word(), "new")
    ended("success", "echo yes\n", "done", 0, b"yes\n")
    same("idle afterwards", s.word(), "idle")
    ended("failure", "false\n", "done", 1)
    for status in (0, 1, 2, 42, 124, 126, 127, 128, 137, 254, 255):
        ended(f"exit {status}", f"exit {status}\n", "done", status)
    ended("exit 256", "exit 256\n", "done", 0)
    ended("exit -1", "exit -1\n", "done", 255)
    ended("unknown command", "no-such-command 2>/dev/null\n", "done", 127)


def by_signal():
    for name, number in (("TERM", 15), ("KILL", 9), ("SEGV", 11), ("ABRT", 6), ("USR1", 10)):
        ended(f"SIG{name}", f"echo before; trap - {name}; kill -{name} $$\n", "done", 128 + number,
              b"before\n")
    ended("after the signals", "echo alive\n", "done", 0, b"alive\n")


def timeout():
    write(s / "config", "timeout_s = 3\n")
    begin = time.monotonic()
    ended("timeout", "echo so far; read -r x < <(sleep 60); echo never\n", "timeout", 124,
          b"so far\n")
    ok("not too early", time.monotonic() - begin > 2.9, time.monotonic() - begin)
    ended("timeout of a busy loop", "while :; do :; done\n", "timeout", 124)
    ended("with signals ignored", "trap '' TERM INT HUP; while :; do sleep 0.1; done\n", "timeout",
          124)
    write(s / "config", "timeout_s = 30\n")
    ended("after a timeout", "echo alive\n", "done", 0, b"alive\n")


def killed():
    n = s.runs()[-1] + 1
    s.submit("echo so far; read -r x < <(sleep 60)\n")
    wait_for(lambda: s.text(f"runs/{n}/stdout") == "so far\n")
    same("running", (s.state_of(n), s.word()), ("running", "running"))
    ok("no exit code while it runs", not os.path.exists(s / f"runs/{n}/exit_code"))
    info = s.json(f"runs/{n}/status.json")
    same("status.json", (info["state"], info.get("exit_code")), ("running", None))
    s.submit("echo queued\n")
    same("the next is queued", s.state_of(n + 1), "queued")
    ok("and has no exit code", not os.path.exists(s / f"runs/{n + 1}/exit_code"))
    s.ctl("kill")
    same("killed", read(s / f"runs/{n}/wait"), b"137\n")
    same("state", s.state_of(n), "killed")
    same("what it wrote is kept", s.text(f"runs/{n}/stdout"), "so far\n")
    same("the queue goes on", s.result().stdout, b"queued\n")


def times():
    begin = time.time()
    result = s.run("sleep 0.3\n")
    most = 1000 * (time.time() - begin)
    same("sleep", result.code, 0)
    n = s.runs()[-1]
    summary = s.text("summary")
    found = re.search(r" in ([0-9.]+) (ms|s), nothing on stdout, nothing on stderr$", summary.rstrip())
    took = float(found[1]) * (1000 if found[2] == "s" else 1) if found else 0
    ok("the time it took, in what unit fits", 290 <= took <= most + 100, (summary, most))
    # Microseconds were measured, and no more digits are shown.
    times = re.findall(r'"(?:wall|user|system)_ms": ([^,]*)', s.text(f"runs/{n}/status.json"))
    ok("numbers", len(times) == 3 and all(re.fullmatch(r"\d+\.\d{1,3}", t) for t in times), times)
    mtime = os.stat(s / f"runs/{n}/stdout").st_mtime
    ok("mtimes are real", begin - 1 <= mtime <= time.time() + 1, mtime - begin)


main(done, by_signal, timeout, killed, times)
