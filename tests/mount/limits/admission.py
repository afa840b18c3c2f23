#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A limit on sandboxes at once: runs wait their turn, and are refused after a time, with a reason."""
# option: max_vms=2
# option: admission_timeout_s=8
# backends: local vm
from xsbx import *


def waiting():
    a, b, c = (Session(n) for n in "abc")
    a.run("true\n")
    b.run("true\n")
    c.submit("echo c\n")
    time.sleep(0.3)
    same("the third waits", (c.word(), c.state_of(1)), ("starting", "queued"))
    same("its queue is open", c.submit("echo c2\n"), None)
    a.ctl("close")
    same("until there is a place", c.result().stdout, b"c2\n")
    same("the first of its runs too", c.text("runs/1/stdout"), "c\n")
    info = json.loads(read(f"{MNT}/status.json"))
    has("status.json shows the limit", json.dumps(info), "2")

    d = Session("d")
    begin = time.monotonic()
    d.submit("echo d\n")
    with raises("refused after the time", errno.EIO):
        read(d / "exit_code")
    ok("which was kept", time.monotonic() - begin > 7.5, time.monotonic() - begin)
    same("state", d.state_of(1), "refused")
    has("with a reason", d.text("error"), "cause:")
    b.remove()
    time.sleep(0.2)
    if d.word() in ("closed", "failed"):
        d.ctl("reset")
    same("safe to try again", d.run("echo d again\n").stdout, b"d again\n")
    c.remove()
    e = Session("e")
    same("a removed session makes room", e.run("echo e\n").stdout, b"e\n")


def removed_while_waiting():
    f = Session("f")
    f.submit("echo f\n")
    time.sleep(0.2)
    f.remove()
    ok("a session can go while it waits", not os.path.exists(f.path))


main(waiting, removed_while_waiting)
