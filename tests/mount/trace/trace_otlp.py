#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces: spans of runs, jobs and starts at a collector; one that is away, or refuses; who is asked to join a trace."""
# backends: local
# night: local
# mount: none
# timeout: 120
# log-allow: the collector of traces is away
# log-allow: the collector refuses spans
# log-allow: the daemon died
# log-allow: OTEL_EXPORTER_OTLP_HEADERS: 1 left out
import re
import time

from collector import Collector
from deaths import *


class Traced:
    def __init__(self, name, url, *lines):
        self.mnt, conf = f"{SCRATCH}/{name}.mnt", f"{SCRATCH}/{name}.conf"
        os.mkdir(self.mnt)
        write(conf, "".join(f"{x}\n" for x in (f"otlp_url = {url}", f"otlp_program = {BUILD}/xsbxfs-trace", *lines)) +
              read(os.environ["CONF"], "r"))
        self.daemon = start_daemon(self.mnt, conf=conf)

    def session(self, name, **how):
        return Session(name, mnt=self.mnt, **how)

    def count(self, result):
        found = re.search(rf'trace_spans_total{{result="{result}"}} (\d+)', read(f"{self.mnt}/metrics", "r"))
        return int(found[1])

    def close(self):
        self.daemon.terminate()
        same("it ends", self.daemon.wait(SOON), 0)


def inside(what, child, parent):
    same(f"{what}: its parent", child.get("parentSpanId"), parent["spanId"])
    same(f"{what}: of the same trace", child["traceId"], parent["traceId"])
    ok(f"{what}: within it", parent["from"] <= child["from"] and child["to"] <= parent["to"], (child, parent))


def spans():
    c = Collector()
    t = Traced("spans", c.url)
    began = time.time_ns()
    s = t.session("demo")
    s.run("sleep 0.2; exit 3\n")
    s.run("true\n")
    os.mkdir(s / "jobs/build")
    write(s / "jobs/build/in", "exit 4\n")
    read(s / "jobs/build/exit_code")
    write(s / "config", "timeout_s = 1\n")
    s.run("sleep 20\n")
    ok("they come", wait_for(lambda: len(c.of("run")) == 3 and c.of("job"), 20), c.spans)
    same("as OTLP says", c.wrong, [])
    same("whose", (c.resource["service.name"], c.resource["service.instance.id"]), ("xsbxfs", t.mnt))
    first, second, third = sorted(c.of("run"), key=lambda x: x["from"])
    same("the first", (first["attributes"]["process.exit.code"], first["attributes"]["xsbxfs.session"],
                       first["attributes"]["xsbxfs.run"], first["attributes"]["xsbxfs.state"]),
         (3, "raw/demo", 1, "done"))
    ok("by a clock", began <= first["from"] and first["to"] <= time.time_ns(), first)
    ok("a root", "parentSpanId" not in first)
    ok("each its trace", len({first["traceId"], second["traceId"], third["traceId"]}) == 3)
    queue, = c.of("queue", traceId=first["traceId"])
    execute, = c.of("execute", traceId=first["traceId"])
    inside("queue", queue, first)
    inside("execute", execute, first)
    same("one behind the other", queue["to"], execute["from"])
    ok("it took its time", execute["to"] - execute["from"] >= 0.2e9, execute)
    start, = c.of("start")
    same("of which it waited for the start", (start["traceId"], start["parentSpanId"]), (first["traceId"], queue["spanId"]))
    steps = [x for x in c.spans if x.get("parentSpanId") == start["spanId"]]
    for x in steps:
        ok("a step of it", x["name"] in ("image", "packages", "place", "boot", "greeting"), x)
        inside(x["name"], x, start)
    same("why it ended", (third["status"]["code"], "timeout_s" in third["status"]["message"]), (2, True))
    ok("nothing of the others", "status" not in second, second)
    job, = c.of("job")
    same("the job", (job["attributes"]["xsbxfs.job"], job["attributes"]["process.exit.code"]), ("build", 4))
    ok("counted", wait_for(lambda: t.count("sent") == len(c.spans), 20), (t.count("sent"), len(c.spans)))
    same("none was dropped", t.count("dropped"), 0)
    ids = [x["spanId"] for x in c.spans]
    same("each has its number", len(set(ids)), len(ids))
    s.run("echo last\n")
    t.close()
    ok("the last ones are sent at the end", wait_for(lambda: len(c.of("run")) == 4, 5), len(c.of("run")))
    c.close()
    print("checked by opentelemetry-proto" if c.strict else "opentelemetry-proto is not installed: checked by hand")


def joins():
    c = Collector()
    t = Traced("joins", c.url)
    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    s = t.session("demo", config=f"env.TRACEPARENT = 00-{trace}-{span}-01\n")
    same("the program sees it", s.run("echo $TRACEPARENT\n").out, f"00-{trace}-{span}-01\n")
    os.mkdir(s / "jobs/own")
    other = "1" * 32
    write(s / "jobs/own/config", f"env.TRACEPARENT = 00-{other}-{span}-01\n")
    write(s / "jobs/own/in", "true\n")
    read(s / "jobs/own/exit_code")
    for n, bad in enumerate(("", "00-" + "0" * 32 + f"-{span}-01", f"00-{trace}-{'0' * 16}-01", f"ff-{trace}-{span}-01",
                             f"00-{trace.upper()}-{span}-01", f"00-{trace}-{span}-01-more", "x" * 60)):
        t.session(f"bad{n}", config=f"env.TRACEPARENT = {bad}\n").run("true\n")
    ok("they come", wait_for(lambda: len(c.of("run")) == 8 and c.of("job"), 20), c.spans)
    same("as OTLP says", c.wrong, [])
    run, = c.of("run", session="raw/demo")
    same("below its caller's", (run["traceId"], run["parentSpanId"]), (trace, span))
    same("all of it", {x["traceId"] for x in c.spans if x["attributes"]["xsbxfs.session"] == "raw/demo"}, {trace, other})
    same("a job's own", (c.of("job")[0]["traceId"], c.of("job")[0]["parentSpanId"]), (other, span))
    for n in range(7):
        run, = c.of("run", session=f"raw/bad{n}")
        ok("what is none is nobody's", "parentSpanId" not in run and run["traceId"] != trace, run)
    t.close()
    c.close()


def headers():
    """The collector's key: it gets it, and nobody else sees it."""
    c = Collector()
    names = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")
    os.environ[names[0]] = "authorization=Bearer%20s3cret-key, x-other = o ,no-header-s3cret"
    t = Traced("headers", c.url)
    s = t.session("demo")
    same("code does not see it", s.run("env | grep -c OTEL_EXPORTER || true\n").out, "0\n")
    ok("they come", wait_for(lambda: c.of("run"), 20), c.wrong)
    same("with its headers", (c.headers["authorization"], c.headers["x-other"], c.headers["content-type"]),
         ("Bearer s3cret-key", "o", "application/json"))
    same("as OTLP says", c.wrong, [])
    pid, = shell(f"pgrep -f 'xsbxfs-trace --url {c.url}'")[1].split()
    ok("its environment has it no more", b"s3cret" not in read(f"/proc/{pid.decode()}/environ") + read(f"/proc/{pid.decode()}/cmdline"))
    ok("what is none is said", wait_for(lambda: "OTEL_EXPORTER_OTLP_HEADERS: 1 left out, the first of them the 3. there"
                                        in read(os.environ["LOG"], "r"), 20))
    ok("but no part of it", "s3cret" not in read(os.environ["LOG"], "r"))
    ok("in no node", not [n for n in ("status.json", "doctor", "events", "metrics") if "s3cret" in read(f"{t.mnt}/{n}", "r")])
    t.close()
    c.close()
    c = Collector()
    os.environ[names[1]] = "authorization=for-traces"
    t = Traced("headers2", c.url)
    t.session("demo").run("true\n")
    ok("they come again", wait_for(lambda: c.of("run"), 20), c.wrong)
    same("those of traces count", (c.headers["authorization"], c.headers["x-other"]), ("for-traces", None))
    for name in names:
        del os.environ[name]
    t.close()
    c.close()


def away():
    """Nobody waits for a collector that is not there; when it is, it gets what was kept."""
    c = Collector()
    port = c.port
    c.close()
    t = Traced("away", f"http://127.0.0.1:{port}")
    s = t.session("demo")
    for _ in range(5):
        same("it goes on", s.run("echo x\n").out, "x\n")
    ok("that is said", wait_for(lambda: "collector of traces is away" in read(os.environ["LOG"], "r"), 20))
    c = Collector(port)
    ok("they come later", wait_for(lambda: len(c.of("run")) == 5, 30), c.spans)
    c.answer = 503
    s.run("true\n")
    time.sleep(1)
    c.answer = 200
    ok("also behind an answer that says so", wait_for(lambda: len(c.of("run")) == 6, 30), c.spans)
    c.answer = 400
    s.run("true\n")
    ok("what is refused is dropped", wait_for(lambda: t.count("dropped") > 0, 30))
    same("as OTLP says", c.wrong, [])
    t.close()
    c.close()


def deaths():
    c = Collector()
    t = Traced("deaths", c.url, "survive = yes")
    mortal = Mortal(guard_of(t.mnt))
    s = t.session("demo")
    s.run("true\n")
    s.submit("sleep 1\n")
    ok("it runs", s.wait_run(2, "running"))
    mortal.die()
    s.result()
    s.run("true\n")
    ok("the heir's come", wait_for(lambda: {x["attributes"]["xsbxfs.run"] for x in c.of("run")} >= {2, 3}, 30), c.spans)
    for n in (2, 3):
        ok("with one number", len({(x["traceId"], x["spanId"]) for x in c.of("run", run=n)}) == 1)
    same("as OTLP says", c.wrong, [])
    t.close()
    c.close()


SILENT = """ip link set lo up; mount --bind resolv.conf /etc/resolv.conf
python3 -c 'import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", 53)); print(flush=True); time.sleep(600)' >bound &
until [ -s bound ]; do sleep 0.1; done
echo 'S{"name":"x"}' | timeout $1 "$2" --url http://collector.example.com:4318; echo "status $?"
kill %1
"""


def silent_name_server():
    """The end waits for no name server: one that does not answer is asked for minutes."""
    if os.getuid():
        print("only as root: a name server that does not answer", flush=True)
        return
    write(f"{SCRATCH}/resolv.conf", "nameserver 127.0.0.1\noptions timeout:30 attempts:5\n")
    done = subprocess.run(["unshare", "-nm", "bash", "-c", SILENT, "bash", str(min(SOON, 100)), f"{BUILD}/xsbxfs-trace"],
                          cwd=SCRATCH, check=False, stdout=subprocess.PIPE, text=True)
    same("it ends, and says what is lost", done.stdout, "dropped 1\nstatus 0\n")


main(spans, joins, headers, away, deaths, silent_name_server)
