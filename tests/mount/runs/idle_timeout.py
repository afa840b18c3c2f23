#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An idle session is closed; what is busy, or used, is not."""
# timeout: 90
# backends: local vm
# night: process vm
from xsbx import *


def closes():
    s = Session("closes", config="idle = close\nidle_timeout_s = 2\n")
    s.run("x=1\n")
    pid = s.pid()
    s.submit("echo before\n")
    begin = time.monotonic()
    s.result()
    ok("closed", s.wait_state("closed", 6), s.word())
    ok("not too early", time.monotonic() - begin > 1.9)
    ok("its process is gone", wait_for(lambda: not alive(pid)))
    same("results stay readable", s.text("stdout"), "before\n")
    with raises("in", errno.ESTALE):
        s.submit("echo x\n")
    has("error says why", s.text("error"), "idle")
    with raises("files", errno.ESTALE):
        os.listdir(s / "files")
    s.ctl("reset")
    same("nothing is restarted unasked, and reset asks", s.run("echo ${x:-none}\n").stdout,
         b"none\n")


def busy():
    idle = 4 * round(min(slack(), 4))  # a busy host has longer pauses of its own
    s = Session("busy", config=f"idle_timeout_s = {idle}\ntimeout_s = 0\n")
    same("a long run is not idle", s.run(f"sleep {idle + 1}; echo done\n").stdout, b"done\n")
    for i in range(5):
        time.sleep(idle / 4)
        same("nor is a session that is used", s.run(f"echo {i}\n").out, f"{i}\n")
    for i in range(5):
        time.sleep(idle / 4)
        write(s / "files/x", str(i))
    same("nor one whose files are used", s.word(), "idle")


def never():
    s = Session("never", config="idle_timeout_s = 0\n")
    s.run("true\n")
    time.sleep(2)
    same("0 is never", s.word(), "idle")
    new = Session("new", config="idle_timeout_s = 1\n")
    time.sleep(2)
    same("a new session has nothing to close", new.word(), "new")


def changed():
    s = Session("changed")
    s.run("true\n")
    with open(s / "config", "a") as file:
        file.write("idle = close\nidle_timeout_s = 1\n")
    ok("a shorter time counts at once", s.wait_state("closed", 6), s.word())


main(closes, busy, never, changed)
