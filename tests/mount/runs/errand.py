#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An errand, by files alone: fetch a page from a server that is allowed, be refused another, compute
with a package, and serve the result on a port of this machine."""
# backends: vm
# timeout: 200
# mount: none
# log-allow: snapshot of
import http.server
import socket
import threading

from xsbx import *

need("curl")
WITH = "packages = pandas==2.3.3\n"
PREPARE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../images/packages/prepare")
HOURS = "name,hours\nada,7\nbob,5\nada,4\nbob,1\n"
ERRAND = """
import http.server, io, threading, urllib.request
import pandas

page = urllib.request.urlopen("http://allowed.test:%d/hours.csv").read()
try:
    urllib.request.urlopen("http://refused.test:%d/hours.csv")
    print("both")
except urllib.error.URLError as error:
    print("one of two")
table = pandas.read_csv(io.BytesIO(page))
hours = table.groupby("name")["hours"].sum()

class Result(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(hours.to_json().encode())
    def log_message(self, *words):
        pass

server = http.server.ThreadingHTTPServer(("0.0.0.0", 8080), Result)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(hours.max(), "hours at most")
"""
asked = []


def serve():
    """Both names are this machine's; only one of them will be allowed."""
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.headers["Host"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(HOURS.encode())

        def log_message(self, *words):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    write(f"{SCRATCH}/hosts", read("/etc/hosts", "r") + "\n127.0.0.1 allowed.test refused.test\n")
    if shell(f"mount --bind {SCRATCH}/hosts /etc/hosts")[0]:
        skip("names of its own need root")
    return server.server_address[1]


def look_for_registry():
    """Without it there is no errand: this is about networks, not about a mirror."""
    status, out, _ = shell(f"XSBXFS_CACHE=$XDG_CACHE_HOME/xsbxfs {PREPARE} python host")
    hosts = [line.split()[1] for line in out.decode().splitlines() if line.startswith("host ")]
    if status or not hosts:
        skip(f"no registry of Python packages: {out.decode().strip()[-200:]}")
    name, _, port = hosts[0].partition(":")
    try:
        socket.create_connection((name, int(port or 443)), 20).close()
    except OSError as error:
        skip(f"the registry of Python packages cannot be reached: {name}: {error}")


def errand():
    look_for_registry()
    port = serve()
    mnt = f"{SCRATCH}/mnt"
    os.mkdir(mnt)
    daemon = start_daemon(mnt, f"max_allow=* 127.0.0.1:{port}")
    write(f"{SCRATCH}/errand.py", ERRAND % (port, port))
    for name in ("allowed", "refused"):
        same(f"{name}, from this machine",
             shell(f"curl -sS --noproxy '*' http://{name}.test:{port}/")[:2], (0, HOURS.encode()))

    def sh(what, command, want):
        status, out, err = shell(f"cd {mnt}/python; {command}")
        return same(what, (status, out.decode(), err.decode()), (0, want, ""))

    # The server is this machine's, so its address has to be spelt out as well.
    config = f"network = on\\nallow = allowed.test:{port} 127.0.0.1:{port}\\nports = 8080\\n" \
             f"timeout_s = 120\\nmemory_mb = 384\\n{WITH}"
    sh("a session", f"mkdir errand; printf '{config}' > errand/config", "")
    sh("its errand", f"cp {SCRATCH}/errand.py errand/in; cat errand/stdout",
       "one of two\n11 hours at most\n")
    sh("went well", "cat errand/exit_code errand/stderr errand/error", "0\n")
    sh("the refusal", "cut -d' ' -f2- errand/net/refused", "refused.test - name not allowed\n")
    sh("the result, by curl", "curl -sS --noproxy '*' $(cut -d' ' -f3 errand/ports)",
       '{"ada":11,"bob":6}')
    same("who was asked", asked.count(f"allowed.test:{port}") - 1, 1)
    same("and who was not, but by us", asked.count(f"refused.test:{port}"), 1)
    sh("the end", "rmdir errand", "")
    same("unmounted", shell(f"fusermount3 -u {mnt}")[0], 0)
    same("the daemon ends well", daemon.wait(2 * SOON), 0)


main(errand)
