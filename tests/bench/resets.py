# SPDX-License-Identifier: Apache-2.0
"""What a reset costs: runs that end their interpreter, and the run behind each."""

import os
import time

from common import *

ENDS = {"python": "import os; os._exit(0)", "raw": "exit 0",
        "javascript": "process.kill(process.pid, 'SIGKILL')"}
LOOPS = {"python": "while True: pass", "raw": "while :; do :; done", "javascript": "while (true);"}
PAUSE = 0.05  # seconds; a client takes at least as long to think


def timed(series, path, code):
    begin = time.perf_counter_ns()
    run(path, code)
    series.add(time.perf_counter_ns() - begin)


def kill(path, template):
    write(f"{path}/in", LOOPS[template] + "\n")
    time.sleep(PAUSE)
    write(f"{path}/ctl", "kill\n")
    read(f"{path}/exit_code")


def reset_of(mount, template, n, target):
    path = mount.session(template, "reset")
    hello = PROGRAMS[template]["hello"]
    clock_of = "open(in) .. end of read(stdout)"
    plain = Series(f"{template}: a plain run", clock_of)
    ended = Series(f"{template}: after an end of the interpreter", clock_of, target)
    at_once = Series(f"{template}:   the same, back to back", clock_of, target)
    killed = Series(f"{template}: after a kill", clock_of, target)
    for _ in range(n):
        timed(plain, path, hello)
    for series, pause in (ended, PAUSE), (at_once, 0):
        for _ in range(n):
            run(path, ENDS[template])
            timed(series, path, hello)
            time.sleep(pause)
    for _ in range(n):
        kill(path, template)
        timed(killed, path, hello)
    for series in plain, ended, at_once, killed:
        show(series)
    os.rmdir(path)


def reset(bench):
    heading("The first run after a reset",
            "The session comes from the pool. The target is for what is added to a plain run.",
            f"Between two rounds {PAUSE * 1000:.0f} ms pass, but for those back to back.")
    n = 10 if bench.quick else 50
    for template in bench.templates:
        with bench.mount() as mount:
            mount.session(template, "first")
            run(f"{mount.path}/{template}/first", PROGRAMS[template]["hello"])
            mount.wait_pool(template)
            reset_of(mount, template, n, bench.target(30, 10))
