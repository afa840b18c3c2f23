# SPDX-License-Identifier: Apache-2.0
"""What it costs to look into HTTPS, beside mitmproxy and squid: shows what tests/bench/intercept measures."""

import collections
import os
import statistics
import subprocess

from common import MIB, Series, extra, heading, show, verdict

HERE = os.path.dirname(os.path.abspath(__file__))
OURS, OTHERS = ("filter", "secret"), ("mitmproxy", "squid")

ANSWER = "from before the request until the last byte of its answer"
CLOCKS = {
    "kept": ("a request over a connection that is there, 1 KiB", ANSWER),
    "fresh": ("a request with a connection of its own, 1 KiB", "from before the connection, with a full handshake, until the last "
              "byte; the certificate for the name was made before"),
    "minted": ("the first request to a name, 1 KiB", "likewise, but a certificate is made for it"),
    "many": ("8 at a time, 1 KiB, each", "from before the first until the last byte of the last, divided by how many they were; "
             "connections are there"),
    "mib": ("1 MiB over a connection that is there", ANSWER),
    "big": ("64 MiB over a connection that is there", ANSWER),
}
SIZES = {"mib": 1, "big": 64}
WAYS = {
    "direct": "no proxy: the kernel forwards, over a veth",
    "passed": "xsbxfs-net, which does not look into it",
    "filter": "xsbxfs-net, which looks into it, with rules; as passed, with the packets of a sandbox over a TAP, and TCP of its own",
    "secret": "likewise, and a secret is attached, for which each answer is searched",
    "mitmproxy": "mitmdump, as a proxy on a socket of the kernel, without a log",
    "squid": "squid, which bumps; likewise",
}


class Figures:
    """What the script has printed."""

    def __init__(self):
        self.times = collections.defaultdict(dict)  # measure -> way -> Series
        self.numbers = collections.defaultdict(lambda: collections.defaultdict(list))

    def add(self, measure, way, value):
        if measure.split("-")[0] not in CLOCKS:
            self.numbers[measure][way].append(int(value))
            return
        if way not in self.times[measure]:
            self.times[measure][way] = Series(f"{measure} {way}", CLOCKS[measure.split("-")[0]][1])
        self.times[measure][way].add(None if value == "fail" else int(value))

    def median(self, measure, way):
        values = self.numbers[measure].get(way)
        return statistics.median(values) if values else None

    def p50(self, measure, way):
        return self.times[measure][way].percentile(50)


def run(quick):
    """Return: Figures, or None if there are none."""
    figures = Figures()
    with subprocess.Popen([f"{HERE}/intercept", *(["--quick"] if quick else [])], stdout=subprocess.PIPE, text=True) as script:
        for line in script.stdout:
            words = line.split()
            if len(words) == 3 and words[0] != "#":
                figures.add(*words)
            else:
                print(f"  {line.lstrip('# ').rstrip()}", flush=True)
    return figures if script.returncode == 0 else None


def show_measure(figures, measure):
    kind, http = measure.split("-")
    ways = figures.times[measure]
    heading(f"{CLOCKS[kind][0]}, HTTP/{'2' if http == '2' else '1.1'}", f"The clock: {CLOCKS[kind][1]}.")
    for way, series in ways.items():
        show(series)
        if figures.median(f"http-{measure}", way) not in (None, int(http)):
            print(f"{'':44} with HTTP/1.1, it knows no other")
    if kind in SIZES:
        print("  MiB a second: " + ", ".join(f"{way} {SIZES[kind] * 1e9 / figures.p50(measure, way):.0f}" for way in ways))
    for ours in OURS:
        told = [f"of {other} by {figures.p50(measure, other) / figures.p50(measure, ours):.1f}" for other in OTHERS
                if ours in ways and other in ways]
        if told:
            ahead = all(figures.p50(measure, ours) < figures.p50(measure, other) for other in OTHERS if other in ways)
            few = "" if ways[ours].tried >= 10 else ", of too few"
            print(f"  {ours} is ahead {' and '.join(told)}: {verdict(ahead)}{few}")


def show_processor_time(figures):
    measures = [measure for measure in figures.times if f"cpu-{measure}" in figures.numbers]
    print("\nProcessor time of a request and its answer, of the proxy's processes, with ours that part of the daemon that dials, ms")
    print(f"{'':12}" + "".join(f"{measure:>11}" for measure in measures))
    for way in WAYS:
        if any(way in figures.numbers[f"cpu-{measure}"] for measure in measures):
            values = [figures.median(f"cpu-{measure}", way) for measure in measures]
            print(f"{way:12}" + "".join(f"{'' if v is None else format(v / 1e6, '.2f'):>11}" for v in values))


def show_memory(figures):
    print("\nMemory, MiB: of its own, with its share of what others have as well (PSS), and all that is resident (RSS)")
    print(f"{'':12}{'at the start':>24}{'behind all of that':>24}{'32 x 1 MiB at a time':>24}")
    for way in figures.numbers["idle-Rss"]:
        columns = [" / ".join(f"{figures.median(f'{when}-{what}', way) / MIB:.1f}" for what in ("Private", "Pss", "Rss"))
                   for when in ("idle", "after", "crowd")]
        print(f"{way:12}" + "".join(f"{column:>24}" for column in columns))
    most = figures.median("after-Pss", "filter") / MIB
    print(f"  wanted of the filter: 8 MiB at most (PSS, behind all of that): {verdict(most <= 8)}")


def intercept(bench):
    """In a process of its own: it moves between network namespaces."""
    print("\nHTTPS that is looked into, by these ways in turn, round by round:")
    for way, what in WAYS.items():
        print(f"  {way:10} {what}")
    figures = run(bench.quick)
    if not figures:
        print("(intercept left out: see above)")
        return
    for measure in figures.times:
        show_measure(figures, measure)
    show_processor_time(figures)
    show_memory(figures)
    extra["intercept"] = {measure: dict(ways) for measure, ways in figures.numbers.items()}
