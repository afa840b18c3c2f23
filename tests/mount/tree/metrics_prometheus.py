#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`metrics` as Prometheus reads it: promtool has nothing to say, and what xsbxfs(5) advises is scraped, and asked by the dashboard."""
# backends: local
# night: local
# timeout: 180
import re
import socket
import urllib.parse
import urllib.request

from xsbx import *

need("promtool", "prometheus", "socat", "mandoc")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def busy(name):
    s = Session(name)
    s.run("seq 3\n")
    os.mkdir(f"{s.path}/jobs/one")
    write(f"{s.path}/jobs/one/in", "true\n")
    read(f"{s.path}/jobs/one/exit_code")
    write(f"{s.path}/files/a", "x")
    read(f"{s.path}/files/a")
    return s


def promtool():
    def check(text):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, timeout=SOON)
        return done.returncode, done.stdout
    busy("checked")
    text = read(f"{MNT}/metrics")
    same("nothing to say", check(text), (0, b""))
    ok("it does say something", check(text.replace(b"_total", b""))[0] != 0)


def advice(port):
    """The lines of xsbxfs(5) as they are copied from what man(1) shows, with this mount and a port that is free."""
    page = subprocess.run("mandoc -T utf8 man/xsbxfs.5 | col -b", shell=True, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    text = re.search(r"at\s+port\s+9469\s+of\s+this\s+host:\n\n(.*?)\n\n", page.stdout, re.S)[1]
    return text.replace("socat ", "exec socat ").replace("/sbx/", f"{MNT}/").replace("9469", str(port))


def scraped():
    node, web = free_port(), free_port()
    conf = f"{SCRATCH}/prometheus.yml"
    write(conf, f"scrape_configs:\n- job_name: xsbxfs\n  scrape_interval: 1s\n  static_configs:\n"
                f"  - targets: ['127.0.0.1:{node}']\n")
    served = subprocess.Popen(["sh", "-c", advice(node)])
    log = open(f"{SCRATCH}/prometheus.log", "wb")
    prom = subprocess.Popen(["prometheus", f"--config.file={conf}", f"--storage.tsdb.path={SCRATCH}/data",
                             f"--web.listen-address=127.0.0.1:{web}"], stdout=log, stderr=log)

    def ask(expr):
        url = f"http://127.0.0.1:{web}/api/v1/query?" + urllib.parse.urlencode({"query": expr})
        try:
            with urllib.request.urlopen(url, timeout=SOON) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            return error.read().decode() if error.code == 400 else []
        except OSError:
            return []
    try:
        s = busy("scraped")
        ok("it is up", wait_for(lambda: ask("xsbxfs_info"), 30), read(f"{SCRATCH}/prometheus.log", "r")[-2000:])
        # A rate wants two samples, of a time when something happened.
        for _ in range(3):
            s.run("true\n")
            read(f"{s.path}/files/a")
            time.sleep(1.1)
        with open(f"{ROOT}/scripts/observe/dashboard.json", encoding="utf-8") as file:
            panels = json.load(file)["panels"]
        seen = 0
        for p in panels:
            for t in p.get("targets", ()):
                expr = t["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*")
                found = ask(expr)
                ok(f"{p['title']}: is a query", isinstance(found, list), (expr, found))
                seen += isinstance(found, list) and len(found) > 0
        ok("most of them show something", seen >= 30, seen)
        found = ask("sum(xsbxfs_run_duration_seconds_count)")
        ok("the runs", found and float(found[0]["value"][1]) >= 3, found)
        same("what is no query is none", isinstance(ask("sum(xsbxfs_info"), str), True)
    finally:
        for child in (prom, served):
            child.terminate()
            child.wait()
        log.close()


main(promtool, scraped)
