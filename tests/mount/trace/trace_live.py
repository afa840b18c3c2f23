#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is logged changes while the mount is there, in the daemon, the spawner and the agents; for who mounted alone."""
# backends: local process
# option: allow_other
# log-allow: "error, warning, info or debug"|log level: error
from xsbx import *

CTL = f"{MNT}/ctl"


def log():
    return read(os.environ["LOG"], "r")


def level():
    return json.loads(read(f"{MNT}/status.json"))["log_level"]


def off():
    same("as it begins", level(), "info")
    s = Session("off")
    s.run("true")
    s.remove()
    ok("nothing is traced", "debug" not in log() and "raw/off" not in log(), log())


def on_and_off():
    s = Session("live")
    s.run("true")
    shell(f"echo debug > {CTL}")
    same("it is on", level(), "debug")
    s.run("true")
    new = Session("new")
    new.run("true")
    text = wait_for(lambda: "raw/new#1" in log() and "its result" in log().split("raw/new#1")[-1] and log())
    ok("the second run, by an agent that was there before", all(
        any(line.startswith("xsbxfs: debug: raw/live#2 ") and f" ms {part}: " in line for line in text.splitlines())
        for part in ("fs", "guest", "agent")), text)
    ok("not the first", "raw/live#1" not in text, text)
    # The new one's jail may have been there already; then another is made in its place.
    ok("the spawner as well", wait_for(lambda: " spawner: " in log()), text)
    for word in ("warning", "info\n", "  error \n", "info"):
        write(CTL, word)
        same(word, level(), word.strip())
    before = log()
    s.run("true")
    another = Session("another")
    another.run("true")
    another.remove()
    ok("it is off", "debug: " not in log()[len(before):], log()[len(before):])


def mistakes():
    for text in ("loud", "debug info", "", "\0", "debug\0", "DEBUG", "x" * 5000):
        if not text:
            continue
        with raises(short(text), errno.EINVAL):
            write(CTL, text)
    has("error says why", read(f"{MNT}/error", "r"), "code: invalid")
    has("and how it is right", read(f"{MNT}/error", "r"), "fix: Write error, warning, info or debug.")
    same("nothing has changed", level(), "info")
    write(CTL, "info")
    same("a good word empties it", read(f"{MNT}/error", "r"), "")
    write(CTL, "error")
    has("why the log falls silent", log(), "log level: error")
    write(CTL, "info")
    same("size", os.stat(CTL).st_size, 0)
    same("mode", oct(os.stat(CTL).st_mode), "0o100200")
    same("owner", os.stat(CTL).st_uid, os.getuid())
    with raises("it can't be removed", errno.EPERM, errno.EACCES):
        os.unlink(CTL)


def others():
    if os.getuid():
        return
    same("another user", as_user(ALICE, lambda: write(CTL, "debug")), "EACCES")
    same("nothing has changed", level(), "info")


main(off, on_and_off, mistakes, others)
