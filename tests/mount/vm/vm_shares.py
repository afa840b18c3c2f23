#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A new session whose machine is restored from a snapshot, step by step: each is there, one after the other. With -v it
prints what each step took, as shares of the whole: in the laboratory, where times mean nothing, those of KVM."""
# backends: vm
# night: vm
# conf: log_level = debug
# conf: [template raw]
# conf: pool = 0
# timeout: 300
import re
import statistics

from xsbx import *

vm_only()

N = 8
LINE = re.compile(r"xsbxfs: debug: raw/(r\d+)#1 \+(\d+\.\d) ms ([a-z]+): (.*)")

# Part, how its line begins, and what was done until then. The agent's own lines come when they come: they have the
# time at which it wrote them.
STEPS = (("fs", "received", ""),
         ("guest", "microvm: a copy is started", "a place"),
         ("spawner", "qemu-system-x86_64 runs", "jail, exec"),
         ("backend", "migration: completed", "QEMU's start, its devices and memory"),
         ("guest", "greets the agent", "the agent's port"),
         ("guest", "the agent has answered", "greeting: name, clock, seeds"),
         ("guest", "the interpreter is ready", "interpreter"),
         ("guest", "first output", "the run until it writes"),
         ("guest", "the run has ended", "its end"),
         ("fs", "its result can be read", "the result"))


def steps_of(name):
    """Milliseconds at which each step was done; None for one that was not."""
    lines = [m.groups()[1:] for m in map(LINE.fullmatch, read(os.environ["LOG"], "r").splitlines())
             if m and m[1] == name]
    return [next((float(ms) for ms, part, words in lines if (part, True) == (step[0], words.startswith(step[1]))), None)
            for step in STEPS]


def shares():
    Session("first").run("true")
    ok("there is a snapshot", wait_for(lambda: any(
        s["image"] == "raw" and s["state"] == "ready" for s in json.loads(read(f"{MNT}/status.json"))["snapshots"]), 120))
    found = []
    for i in range(N):
        s = Session(f"r{i}")
        same("it answers", s.run("echo 1").out, "1\n")
        if s.json()["sandbox"]["start"] == "snapshot":
            found.append(wait_for(lambda: None not in steps_of(f"r{i}") and steps_of(f"r{i}"), 5) or steps_of(f"r{i}"))
        s.remove()
    ok("restored", len(found) >= N - 1, found)
    for steps in found:
        ok("each step", None not in steps, list(zip(steps, STEPS)))
        same("one after the other", sorted(steps), steps)
    whole = statistics.median(steps[-1] for steps in found)
    for n, (_, _, what) in enumerate(STEPS[1:], 1):
        ms = statistics.median(steps[n] - steps[n - 1] for steps in found)
        print(f"{what:40} {ms:8.1f} ms {100 * ms / whole:5.1f} %")
    print(f"{'from in to the result':40} {whole:8.1f} ms")


main(shares)
