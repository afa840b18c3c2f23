#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What comes between a session and its sleep: what an ended job has left, ports that go and come, a reset while it is saved."""
# backends: local vm
# timeout: 120
from xsbx import *


def sleeps(s):
    s.ctl("sleep")
    ok("asleep", s.wait_state("asleep", 30), s.text("error"))


def left_by_jobs():
    """What a job has left in the background goes on, as what a run has left does."""
    s = Session("left")
    same("a run", s.run("x=kept\n").code, 0)
    os.mkdir(s / "jobs/j")
    write(s / "jobs/j/in", "#!/bin/sh\n(while :; do echo tick >> ticks; sleep 0.2; done) > /dev/null 2>&1 &\n")
    same("the job has ended", read(s / "jobs/j/exit_code"), b"0\n")
    ok("what it left goes on", wait_for(lambda: os.path.exists(s / "files/ticks")))
    sleeps(s)
    before = os.stat(s / "files/ticks").st_size
    same("it wakes", s.run("echo $x").out, "kept\n" if VM else "\n")
    if VM:
        ok("and that as well", wait_for(lambda: os.stat(s / "files/ticks").st_size > before + 10))
    s.ctl("reset")
    same("a run behind it", s.run("true").code, 0)
    after = os.stat(s / "files/ticks").st_size
    time.sleep(1)
    same("reset has ended it", os.stat(s / "files/ticks").st_size, after)
    s.remove()


def ports():
    s = Session("ports", config="ports = 8080\n")
    same("a run", s.run("x=kept\n").code, 0)
    write(s / "config", "ports =\n")
    sleeps(s)
    same("it wakes without them", s.run("echo $x").out, "kept\n" if VM else "\n")
    ok("and says nothing", not VM or not s.text("error"), s.text("error"))
    s.remove()
    s = Session("none")
    same("a run", s.run("x=kept\n").code, 0)
    sleeps(s)
    if VM:
        with raises("it knows no card", errno.EBUSY):
            write(s / "config", "ports = 8080\n")
        has("in words", s.text("error"), "ports cannot be added to what was saved")
        same("and wakes as it was", s.run("echo $x").out, "kept\n")
    s.remove()


def reset():
    """A change that waits for what is being saved is made when a reset ends that."""
    s = Session("reset")
    same("a run", s.run("head -c 20000000 /dev/urandom > big\n").code, 0)
    for i in range(5):
        same("it is up", s.run("true").code, 0)
        s.ctl("sleep")
        writer = subprocess.Popen(["sh", "-c", 'echo $0 > "$1"', str(i), s / f"files/f{i}"])
        s.ctl("reset")
        same("it is answered", writer.wait(SOON), 0)
        same("and made", read(s / f"files/f{i}"), f"{i}\n".encode())
    s.remove()


main(left_by_jobs, ports, reset)
