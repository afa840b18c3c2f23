#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A host that is too busy to let the sandbox end a run in time: the run ends as it should, only later, and
nothing but the time is lost."""
# backends: process
# timeout: 180
from xsbx import *


def late():
    s = Session("late", "raw", config="timeout_s = 2\ngrace_s = 1\n")
    same("before", s.run("echo here >kept\n").code, 0)
    agent = s.json()["sandbox"]["pid"]
    s.submit("echo up; sleep 600\n")
    ok("it runs", wait_for(lambda: s.json()["state"] == "running", 10))
    os.kill(agent, signal.SIGSTOP)
    try:
        time.sleep(12)  # three seconds of its own, and nine more
        ok("it is not given up", s.json()["state"] == "running", s.json()["state"])
    finally:
        os.kill(agent, signal.SIGCONT)
    result = s.result()
    same("its end", (result.out, result.code, s.state_of(s.runs()[-1])), ("up\n", 124, "timeout"))
    same("the session goes on", s.run("cat kept\n").out, "here\n")
    same("in the same sandbox", s.json()["sandbox"]["pid"], agent)


def never():
    """But not for ever: who waits for the end has it, in words, and the session can be used again."""
    s = Session("never", "raw", config="timeout_s = 1\ngrace_s = 1\n")
    agent = (s.run("true\n"), s.json()["sandbox"]["pid"])[1]
    s.submit("echo up; sleep 600\n")
    fd = os.open(s / "stdout", os.O_RDONLY)
    same("it runs", os.read(fd, 3), b"up\n")
    os.close(fd)
    os.kill(agent, signal.SIGSTOP)
    begin = time.monotonic()
    result = s.result()
    took = time.monotonic() - begin
    same("its end", (result.out, result.code, s.state_of(s.runs()[-1])), ("up\n", 124, "timeout"))
    ok("after it had the time to", took > 20, took)
    has("in words", s.text("error"), "agent-silent")
    ok("its sandbox is gone", wait_for(lambda: not os.path.exists(f"/proc/{agent}"), 10))
    s.ctl("reset")
    same("the session goes on", s.run("echo fine\n").out, "fine\n")


main(late, never)
