#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Histograms in `metrics`: they count what happens, also over the daemon's death; and the dashboard draws them."""
# backends: local
# option: survive=yes
# log-allow: the daemon died
import re

from deaths import *

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
DASHBOARD = f"{ROOT}/scripts/observe/dashboard.json"
SAMPLE = re.compile(r'^xsbxfs_(\w+?)(?:\{(.*)\})? (\S+)$', re.M)


def samples():
    """Of each name its samples: by labels the value."""
    found = {}
    for name, labels, value in SAMPLE.findall(read(f"{MNT}/metrics", "r")):
        found.setdefault(name, {})[labels] = float(value)
    return found


def types():
    return dict(re.findall(r"^# TYPE xsbxfs_(\w+) (\w+)$", read(f"{MNT}/metrics", "r"), re.M))


def histograms():
    s = Session("counted")
    s.run("sleep 0.3\n")
    write(f"{s.path}/files/a", "x")
    same("a file", read(f"{s.path}/files/a"), b"x")
    os.mkdir(f"{s.path}/jobs/one")
    write(f"{s.path}/jobs/one/in", "true\n")
    read(f"{s.path}/jobs/one/exit_code")
    found, kinds = samples(), types()
    names = [n for n, kind in kinds.items() if kind == "histogram"]
    same("all of them", sorted(names), [
        "file_request_duration_seconds", "job_duration_seconds", "run_duration_seconds",
        "run_wait_duration_seconds", "sandbox_start_duration_seconds", "sandbox_wait_duration_seconds"])
    for name in names:
        for labels, count in found[f"{name}_count"].items():
            buckets = [(float(re.search(r'le="(.*?)"', k)[1].replace("Inf", "inf")), v)
                       for k, v in found[f"{name}_bucket"].items()
                       if re.sub(r',?le=".*?"', "", k) == labels]
            ok(f"{name}: limits rise", buckets == sorted(buckets) and len(buckets) > 5, buckets)
            ok(f"{name}: counts rise", [v for _, v in buckets] == sorted(v for _, v in buckets), buckets)
            same(f"{name}: the last has all", buckets[-1], (float("inf"), count))
            ok(f"{name}: a sum", found[f"{name}_sum"][labels] >= 0)
    run = 'language="raw",state="done"'
    same("runs", found["run_duration_seconds_count"][run], 1)
    ok("took its time", found["run_duration_seconds_sum"][run] >= 0.3, found["run_duration_seconds_sum"])
    same("not among the short ones", found["run_duration_seconds_bucket"][run + ',le="0.25"'], 0)
    same("jobs", found["job_duration_seconds_count"]['state="done"'], 1)
    for op in ("create", "write"):
        ok(f"{op} by the agent", found["file_request_duration_seconds_count"].get(f'op="{op}",by="agent"', 0) >= 1,
           found["file_request_duration_seconds_count"])
    s.remove()


def known():
    """What the daemon answers alone is told apart. It does while nothing in the sandbox runs."""
    s = Session("known")
    write(f"{s.path}/files/a", "x")
    s.run("true\n")

    def alone():
        os.stat(f"{s.path}/files/a")
        return sum(v for k, v in samples()["file_request_duration_seconds_count"].items() if 'by="daemon"' in k)
    before = alone()
    ok("some are", wait_for(lambda: alone() > before, 20))
    s.remove()


def survives():
    """Counters never go back, whoever writes them."""
    daemon = Mortal(guard_of())
    Session("before").run("true\n")
    before = samples()
    daemon.die()
    after = samples()
    for name, of in before.items():
        if name.endswith(("_count", "_sum", "_bucket")) and not name.startswith("file_request"):
            same(f"{name} as before", after.get(name), of)
        elif name.endswith("_count"):
            ok("no fewer requests", all(after[name][k] >= v for k, v in of.items()), (of, after[name]))


def dashboard():
    with open(DASHBOARD, encoding="utf-8") as file:
        board = json.load(file)
    panels = board["panels"]
    ids = [p["id"] for p in panels]
    same("each panel has a number of its own", len(set(ids)), len(ids))
    # What is only there with a store, an audit log, a collector, or where the kernel knows of pressure.
    there = set(samples()) | {"store_requests_total", "audit_lines_total", "audit_lost_total", "trace_spans_total",
                              "host_memory_pressure_percent"}
    drawn = set()
    for p in panels:
        pos = p["gridPos"]
        ok(f"{p['title']}: within 24 columns", pos["x"] + pos["w"] <= 24, pos)
        refs = [t["refId"] for t in p.get("targets", [])]
        same(f"{p['title']}: each query has a letter", len(set(refs)), len(refs))
        ok(f"{p['title']}: has queries", refs or p["type"] == "row")
        for t in p.get("targets", []):
            names = re.findall(r"xsbxfs_(\w+)", t["expr"])
            ok(f"{p['title']}: knows its mount", t["expr"].count('{instance=~"$instance"}') == len(names), t["expr"])
            same(f"{p['title']}: of metrics that there are", [n for n in names if n not in there], [])
            drawn.update(names)
    places = {(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels}
    same("each has its place", len(places), len(panels))
    for name, kind in types().items():
        if kind == "histogram":
            ok(f"{name} is drawn", f"{name}_bucket" in drawn)
    same("variables", [v["name"] for v in board["templating"]["list"]], ["datasource", "instance"])


main(histograms, known, dashboard, survives)
