#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The log where standard error is the journal: lines begin with their priority, and leave the rest to it."""
# mount: none
import re

from xsbx import *


def logged(name, stream, *options):
    """Lines of a daemon that was told that its standard error is @stream."""
    log, mnt = f"{SCRATCH}/{name}.log", f"{SCRATCH}/{name}"
    os.mkdir(mnt)
    open(log, "w").close()
    st = os.stat(log)
    env = {**os.environ, "JOURNAL_STREAM": stream.format(st.st_dev, st.st_ino)}
    daemon = start_daemon(mnt, *options, log=log, env=env)
    s = Session("demo", mnt=mnt)
    same("it runs", s.run("echo x").out, "x\n")
    daemon.terminate()
    same("the daemon ends", daemon.wait(SOON), 0)
    return read(log, "r").splitlines()


def priorities():
    lines = logged("journal", "{}:{}", "log_level=debug")
    for line in lines:
        ok("a priority, and no name", re.match(r"<[3-7]>(?!xsbxfs|debug)", line), line)
    ok("what is information", f"<6>mounted on {SCRATCH}/journal" in lines, lines)
    ok("a step", any(line.startswith("<7>raw/demo#1 +") for line in lines), lines)


def as_json():
    for line in logged("json", "{}:{}", "log_level=debug", "log_format=json"):
        m = re.fullmatch(r"<([3-7])>(\{.*\})", line)
        if ok("a priority and an object", m, line):
            same("they agree", {"3": "error", "4": "warning", "6": "info", "7": "debug"}[m[1]],
                 json.loads(m[2])["level"])


def another_file():
    lines = logged("other", "{}:1")
    ok("as without a journal", lines and all(line.startswith("xsbxfs: ") for line in lines), lines)


main(priorities, as_json, another_file)
