#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs of a session queue in order; sessions do not wait for each other."""
# backends: local vm
from xsbx import *


def in_order():
    s = Session("order")
    for i in range(1, 21):
        s.submit(f"echo {i}; echo {i} >> log\n")
    same("the latest answers with its own", s.result().stdout, b"20\n")
    same("each its own output", [s.text(f"runs/{i}/stdout") for i in range(1, 21)],
         [f"{i}\n" for i in range(1, 21)])
    same("in order", s.run("cat log\n").out.split(), [str(i) for i in range(1, 21)])


def many_writers():
    s = Session("writers")
    s.run("true\n")

    def writer(i):
        for j in range(4):
            write(s / "in", f"echo {i}.{j}; sleep 0.01; echo {i}.{j}\n")

    with together(writer, 8, 60) as problems:
        pass
    same("no errors", problems, [])
    s.result()
    outputs = [s.text(f"runs/{n}/stdout").split() for n in s.runs()[1:]]
    same("32 runs", len(outputs), 32)
    same("no run is mixed with another", [o for o in outputs if len(o) != 2 or o[0] != o[1]], [])
    same("all of them", sorted(o[0] for o in outputs),
         sorted(f"{i}.{j}" for i in range(8) for j in range(4)))


def independent():
    a, b = Session("a", config="timeout_s = 3000\n"), Session("b")
    a.run("true\n")
    a.submit("read -r x < <(sleep 600)\n")
    a.wait_run(2, "running")
    same("b does not wait for a", b.run("echo b\n").stdout, b"b\n")
    same("variables are apart", (b.run("x=1\n").code, a.state_of(2)), (0, "running"))
    a.ctl("kill")
    same("a", a.result().code, 137)


def lazy_start():
    """A session starts when it is first needed, and mkdir never waits for that."""
    sessions = [Session(f"lazy{i}") for i in range(10)]
    same("all are new", {s.word() for s in sessions}, {"new"})
    same("no process yet", {s.pid() or 0 for s in sessions}, {0})
    os.listdir(sessions[0] / "files")
    same("reading files/ starts nothing", sessions[0].word(), "new")
    sessions[0].submit("echo x\n")
    ok("a run starts one", sessions[0].word() in ("starting", "running", "idle"))
    same("and ends", sessions[0].result().stdout, b"x\n")
    write(sessions[1] / "files/x", b"data")
    same("writing a file starts one", sessions[1].word(), "idle")
    same("with the file in it", sessions[1].run("cat x\n").stdout, b"data")


main(in_order, many_writers, independent, lazy_start)
