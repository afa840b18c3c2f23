# SPDX-License-Identifier: Apache-2.0
"""Round trips in sessions that live, and of control nodes."""

import json
import os
import tempfile

from common import *


def round_trips(mount, template, quick):
    """Each run's time, what of it the interpreter took, and the difference."""
    sizes = [("empty program", "empty", 0, 50 if quick else 400),
             ("1 KiB of output", "output", 1 << 10, 50 if quick else 200),
             ("1 MiB of output", "output", MIB, 5 if quick else 30),
             ("50 MiB of output", "output", 50 * MIB, 1 if quick else 3)]
    path = mount.session(template, "runs")
    write(f"{path}/config", "memory_mb = 512\n")
    for _ in range(5):
        run(path, PROGRAMS[template]["empty"])
    for what, program, size, n in sizes:
        total = Series(f"{template}: {what}", "open(in) .. end of read(exit_code)")
        inner = Series(f"{template}:   interpreter", "wall_ms of status.json")
        rest = Series(f"{template}:   the rest", "difference")
        with program_file(template, program, n=size) as code:
            first = int(os.path.basename(os.readlink(f"{path}/runs/latest"))) + 1
            # In portions, so that the history still holds their status.
            done = 0
            while done < n:
                part = min(50, n - done)
                before = len(total.times)
                clock({"run": total}, "run", path, code, part)
                for i in range(part):
                    try:
                        status = json.loads(read(f"{path}/runs/{first + done + i}/status.json"))
                    except FileNotFoundError:
                        continue  # too large for the history
                    inner.add(int(status["wall_ms"] * 1e6))
                    if before + i < len(total.times):
                        rest.add(total.times[before + i] - inner.times[-1])
                done += part
        for series in (total, inner, rest):
            if series.tried:
                show(series)
        if size >= MIB:
            print(f"{'':44} {size / total.percentile(50) * 1e3:9.1f} MB/s at p50")
    os.rmdir(path)


def runs(bench):
    heading("Round trip of a run in a live session",
            "Clock: from before open(in) until stdout and exit_code have been read to their ends.",
            "`interpreter`: wall_ms of the same runs in their status.json, from the code's arrival at",
            "the interpreter to its end. `the rest`: the one less the other, run by run.")
    for template in bench.templates:
        with bench.mount() as mount:
            round_trips(mount, template, bench.quick)


LINES = {
    "both streams, line about": """import sys
for i in range({n}):
    print(i, file=sys.stderr if i % 2 else sys.stdout, flush=True)
""",
    "stdout alone": """for i in range({n}):
    print(i, flush=True)
"""}


def lines(bench):
    heading("Output line by line, in Python",
            "Clock: wall_ms of status.json, for each line. `ordered`: how many of the lines of `output`",
            "come behind the one that was written before them.")
    n = 4000 if bench.quick else 40000
    with bench.mount() as mount:
        path = mount.session("python", "lines")
        write(f"{path}/config", "timeout_s = 0\n")
        run(path, PROGRAMS["python"]["hello"])
        for what, program in LINES.items():
            series = Series(f"python: {what}, a line", "wall_ms / lines")
            for _ in range(1 if bench.quick else 3):
                run(path, program.format(n=n))
                status = json.loads(read(f"{path}/runs/latest/status.json"))
                series.add(int(status["wall_ms"] * 1e6 / n))
                numbers = [int(line) for line in read(f"{path}/output").split()]
                ordered = sum(b == a + 1 for a, b in zip(numbers, numbers[1:])) + 1
                print(f"  {len(numbers)} lines, ordered: {ordered}", flush=True)
            show(series, "us", 1e3)


def following(path, template, target, n):
    """Runs of a session at once after one another, and after pauses."""
    for pause, when in (0, ""), (60, ", after 60 ms"):
        whole = Series(f"{template}: next run{when}, whole", "open(in) .. end of read(stdout)")
        inside = Series(f"{template}: next run{when}, in", "close(in) .. end of read(stdout)", target)
        with program_file(template, "hello") as code:
            clock({"whole": whole, "in": inside}, "next", path, code, n, pause * 1000)
        show(inside)
        show(whole)


def next_run(bench):
    heading("Next run in the same session",
            "Clock `in`: from before close(in) to the last byte of stdout (end of file).",
            "Clock `whole`: the same, from before open(in).",
            "The session is as one gets it, from the pool; its first five runs are not counted.",
            "Then the same with 60 ms between runs, in which all processors go to sleep.")
    n = 100 if bench.quick else 500
    for template in bench.templates:
        with bench.mount() as mount:
            mount.session(template, "first")
            run(f"{mount.path}/{template}/first", PROGRAMS[template]["hello"])
            mount.wait_pool(template)
            path = mount.session(template, "next")
            for _ in range(5):
                run(path, PROGRAMS[template]["hello"])
            following(path, template, bench.target(4, 1), n)


def nodes(bench):
    heading("Control nodes",
            "Clock: open(2), read(2) to the end of file, close(2), from one process.",
            "tmpfs: the same on a file of 12 bytes in /dev/shm, as a floor.")
    n = 2000 if bench.quick else 20000
    with bench.mount() as mount, tempfile.NamedTemporaryFile("w", dir="/dev/shm") as floor:
        path = mount.session("raw", "nodes")
        run(path, "echo 1")
        floor.write("hello world\n")
        floor.flush()
        for name, node in [
                ("tmpfs", floor.name), ("state", f"{path}/state"),
                ("exit_code", f"{path}/exit_code"), ("stdout", f"{path}/stdout"),
                ("summary", f"{path}/summary"), ("in", f"{path}/in"),
                ("runs/1/stdout", f"{path}/runs/1/stdout"), ("config", f"{path}/config"),
                ("status.json", f"{path}/status.json"), ("/metrics", f"{mount.path}/metrics")]:
            series = Series(f"open+read+close of {name}", "open .. close")
            clock({"node": series}, "node", node, n)
            show(series, "us", 1e3)
