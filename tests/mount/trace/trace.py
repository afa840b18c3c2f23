#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One run, followed in the log from `in` to its result: by its name, in order, with times, and without what is in it."""
# backends: local process vm
# night: vm
# conf: log_level = debug
import re

from xsbx import *

LINE = re.compile(r"xsbxfs: debug: (\S+?)(?:#(\d+))? (?:\+(\d+\.\d) ms )?([a-z]+): (.*)")


def lines(who, number=None):
    """(ms, part, words) of each step of a run, or of a session."""
    found = []
    for line in read(os.environ["LOG"], "r").splitlines():
        m = LINE.fullmatch(line)
        if m and m[1] == who and (number is None or m[2] == str(number)):
            found.append((float(m[3]) if m[3] else None, m[4], m[5]))
    return found


def place(steps, part, words):
    return next((n for n, step in enumerate(steps) if step[1] == part and words in step[2]), -1)


def in_order(steps, *wanted):
    places = [place(steps, part, words) for part, words in wanted]
    ok("each step is there", -1 not in places, (wanted[places.index(-1)] if -1 in places else "", steps))
    same("in this order", places, sorted(places))


def first_run():
    s, code = Session("first"), "echo marked-$((6 * 7)); (exit 3)"
    same("it runs", s.run(code).code, 3)
    steps = wait_for(lambda: place(lines("raw/first", 1), "fs", "its result") >= 0 and lines("raw/first", 1))
    ok("every step has its time", all(ms is not None for ms, _, _ in steps), steps)
    in_order(steps, ("fs", f"received, {len(code)} bytes"), ("fs", "asks for a sandbox"), ("sandbox", "waits for a place"),
             ("sandbox", "has a place"), ("guest", "is started"), ("guest", "greets the agent"),
             ("guest", "the agent has answered"), ("guest", "asks for an interpreter: raw"),
             ("guest", "the interpreter is ready"), ("sandbox", "is ready"),
             ("guest", f"sends the code, {len(code)} bytes"), ("guest", "first output, 10 bytes of stdout"),
             ("guest", "the run has ended: done, status 3"), ("fs", "its result can be read: done"))
    # What another process has said may arrive in another order, but not before it was asked.
    spawner = [words for _, part, words in steps if part == "spawner"]
    ok("the spawner's steps", any("forked, process" in w for w in spawner) and
       any("runs in process" in w for w in spawner), steps)
    in_order([step for step in steps if step[1] == "agent"], ("agent", "greeted"),
             ("agent", f"{len(code)} bytes of code have arrived"), ("agent", "handed to the interpreter, process"),
             ("agent", "the interpreter has answered, status 3"),
             ("agent", "all that it has written is on its way"))
    ok("the first output", place(steps, "agent", "it has written something") > 0, steps)
    sent = next(ms for ms, part, words in steps if part == "guest" and "sends the code" in words)
    taken = next(ms for ms, part, words in steps if part == "agent" and "have arrived" in words)
    ended = next(ms for ms, part, words in steps if part == "guest" and "has ended" in words)
    ok("the agent's time is between what its host did", sent <= taken <= ended, (sent, taken, ended))


def next_run():
    s = Session("next")
    s.run("true")
    same("it runs", s.run("cat").code, 0)
    steps = wait_for(lambda: place(lines("raw/next", 2), "fs", "its result") >= 0 and lines("raw/next", 2))
    same("it began when it was received", steps[0][1:], ("fs", "received, 3 bytes of code; 1 run is queued"))
    ok("nothing is started for it", place(steps, "spawner", "") < 0, steps)
    in_order(steps, ("fs", "received"), ("guest", "sends"), ("guest", "has ended"), ("fs", "its result"))


def saved():
    s = Session("saved")
    s.run("true")
    os.mkdir(s / "checkpoints/c")
    same("it is saved", read(s / "checkpoints/c/wait"), b"whole\n")
    steps = [words for _, part, words in lines("raw/saved") if part == "sandbox" and "stood still" in words]
    ok("how long its code stood still", len(steps) == 1 and re.fullmatch(r"its code stood still for about \d+ us", steps[0]),
       lines("raw/saved"))


def end():
    s = Session("end")
    s.run("true")
    s.remove()
    ok("the end of its processes", wait_for(
        lambda: any("ended, signal 9" in words for _, part, words in lines("raw/end") if part == "spawner")),
       lines("raw/end"))
    same("which belongs to no run", [s for s in lines("raw/end", 1) if "ended, signal" in s[2]], [])


def secrets():
    s = Session("secret", config="env.KEY = variable-of-mine\n")
    write(s / "stdin", "input-of-mine")
    same("it runs", s.run("cat; echo program-of-mine $KEY").out, "input-of-mineprogram-of-mine variable-of-mine\n")
    log = read(os.environ["LOG"], "r")
    has("it was traced", log, "raw/secret#1")
    ok("nothing of it is in the log", "of-mine" not in log)


def hostile_output():
    s = Session("hostile")
    s.run(r"printf 'a\nxsbxfs: debug: raw/forged#1 fs: received\n' | tee /dev/stderr")
    ok("user code has no line of the log", not re.search(r"^xsbxfs: debug: raw/forged", read(os.environ["LOG"], "r"),
                                                          re.M))


main(first_run, next_run, saved, end, secrets, hostile_output)
