#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The log as JSON: each line is an object, and a run is followed by its fields."""
# backends: local process
# conf: log_level = debug
# option: log_format=json
import re

from xsbx import *

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
LEVELS = {"error", "warning", "info", "debug"}


def lines():
    return [json.loads(line) for line in read(os.environ["LOG"], "r").splitlines()]


def each_line():
    s = Session("demo")
    same("it runs", s.run("echo x; exit 3").code, 3)
    mine = wait_for(lambda: (found := [o for o in lines() if o.get("session") == "raw/demo"]) and
                    any("its result" in o["message"] for o in found) and found)
    for o in lines():
        ok("time", TIME.fullmatch(o["time"]), o)
        ok("level", o["level"] in LEVELS, o)
        ok("message", isinstance(o["message"], str) and o["message"], o)
        ok("no other fields", set(o) <= {"time", "level", "message", "session", "template", "run", "part", "elapsed_ms"}, o)
    ok("parts", {"fs", "sandbox", "guest", "spawner", "backend", "agent"} <= {o["part"] for o in mine}, mine)
    run = [o for o in mine if o.get("run") == 1]
    ok("of the run", len(run) > 10, mine)
    ok("with the time since it was received", all(isinstance(o["elapsed_ms"], (int, float)) for o in run), run)
    same("it begins", (run[0]["part"], run[0]["message"][:8], run[0]["level"]), ("fs", "received", "debug"))
    ok("others have no run", any("session" not in o and o["level"] == "info" for o in lines()), lines())


main(each_line)
