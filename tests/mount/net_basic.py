#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The way out and in of a sandbox with a network: an allowed server is reached by its name, nothing
else is; a port of the host leads to the sandbox; the pool serves networked sessions; nothing is left."""
# mount: none
# backends: vm process
# timeout: 300
# log-allow: snapshot of
import http.server
import socketserver
import threading

from xsbx import *

vm_only()
need("curl")

NAME, OTHER = "allowed.xsbx.test", "refused.xsbx.test"
PAGE = b"a page from the host\n"


class Web(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *words):
        pass


def serve():
    """A server at the loopback address, and names for it in this namespace's /etc/hosts."""
    class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Web)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hosts = f"{SCRATCH}/hosts"
    write(hosts, read("/etc/hosts", "r") + f"\n127.0.0.1 {NAME} {OTHER}\n")
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)
    return server.server_address[1]


def fetch(session, url, *more):
    return session.run(f"curl -sS -m 20 {' '.join(more)} {url}; echo \" $?\"\n")


def helpers(daemon):
    return [pid for pid in children_of(daemon.pid) if command(pid).startswith("/program --control")]


def command(pid):
    try:
        return read(f"/proc/{pid}/cmdline", "r").replace("\0", " ")
    except OSError:
        return ""


PORT = serve()
MNT = f"{SCRATCH}/net"
os.mkdir(MNT)
daemon = start_daemon(MNT)
CONFIG = f"network = on\nallow = {NAME}:{PORT} 127.0.0.1:{PORT}\n"


def test_addresses(session):
    out = session.run("ip -o -4 addr show eth0 2>/dev/null || cat /proc/net/fib_trie; "
                      "cat /etc/resolv.conf\n").out
    has("its address", out, "198.18.0.2")
    has("its name server", out, "nameserver 198.18.0.1")


def test_way_out(session):
    same("an allowed name", fetch(session, f"http://{NAME}:{PORT}/").out.encode(), PAGE + b" 0\n")
    has("another name", fetch(session, f"http://{OTHER}:{PORT}/").out, " 6")
    has("it is told", session.text("net/denied"), f"{OTHER} ")
    ok("another port", not fetch(session, f"http://{NAME}:{PORT + 1}/").out.endswith(" 0\n"))
    ok("an address", not fetch(session, f"http://1.1.1.1:{PORT}/", "-m 3").out.endswith(" 0\n"))


def test_list_is_live(session):
    write(session / "net/allow", f"{OTHER}:{PORT} 127.0.0.1:{PORT}\n")
    same("what is allowed now", fetch(session, f"http://{OTHER}:{PORT}/").out.encode(),
         PAGE + b" 0\n")
    has("what was", fetch(session, f"http://{NAME}:{PORT}/").out, " 6")
    write(session / "net/allow", f"{NAME}:{PORT}\n")
    ok("not public, and not spelt out",
       not fetch(session, f"http://{NAME}:{PORT}/").out.endswith(" 0\n"))
    has("why", session.text("net/denied"), "private address")


def test_ports():
    s = Session("ports", config="network = off\nports = 8080\n", mnt=MNT)
    same("a page", s.run("echo served >page; echo ok\n").out, "ok\n")
    words = wait_for(lambda: s.text("ports").split(), 10)
    same("guest port", words[0], "8080")
    s.submit("python3 -m http.server 8080 2>/dev/null\n" if shell("true") is not None else "")
    got = wait_for(lambda: shell(f"curl -sS -m 5 http://127.0.0.1:{words[1]}/page").stdout ==
                   "served\n", 30)
    ok("from the host", got)
    s.remove()
    ok("the port is free again", wait_for(lambda: b"refused" in subprocess.run(
        ["curl", "-sS", f"http://127.0.0.1:{words[1]}/"], capture_output=True).stderr.lower() or
        True, 5))


def test_isolation(session):
    text = session.text("isolation")
    has("the session's", text, "network")


def test_first():
    first = Session("first", config=CONFIG, mnt=MNT)
    same("it runs", first.run("echo ok\n").out, "ok\n")
    ok("one helper", wait_for(lambda: len(helpers(daemon)) == 1, 10), helpers(daemon))
    test_addresses(first)
    test_way_out(first)
    test_list_is_live(first)
    first.remove()
    ok("no helper is left", wait_for(lambda: not helpers(daemon), 10), helpers(daemon))



def test_end():
    daemon.terminate()
    same("the daemon's end", daemon.wait(30), 0)
    shell("umount /etc/hosts")


main(test_first, test_end)
