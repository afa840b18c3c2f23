#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The way out and in of a sandbox with a network: an allowed server is reached by its name, nothing
else is; a port of the host leads to the sandbox; the pool serves networked sessions; nothing is left."""
# mount: none
# backends: vm process
# timeout: 300
# log-allow: snapshot of|cannot be so
import ctypes
import http.server
import signal
import socketserver
import threading
import time

from xsbx import *

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
    return [pid for pid in children_of(daemon.pid) if command_of(pid).startswith("/program --control")]


PORT = serve()
MNT = f"{SCRATCH}/net"
os.mkdir(MNT)
daemon = start_daemon(MNT, f"max_allow=* 127.0.0.1:{PORT}", f"host_ports={PORT}")
CONFIG = f"network = on\nallow = {NAME}:{PORT} 127.0.0.1:{PORT}\n"


def test_addresses(session):
    out = session.run("ip -o -4 addr show eth0 2>/dev/null || cat /proc/net/fib_trie; "
                      "cat /etc/resolv.conf\n").out
    has("its address", out, "198.18.0.2")
    has("its name server", out, "nameserver 198.18.0.1")


def test_way_out(session):
    same("an allowed name", fetch(session, f"http://{NAME}:{PORT}/").out.encode(), PAGE + b" 0\n")
    has("another name", fetch(session, f"http://{OTHER}:{PORT}/").out, " 7")
    has("it is told", session.text("net/refused"), f"{OTHER} ")
    ok("another port", not fetch(session, f"http://{NAME}:{PORT + 1}/").out.endswith(" 0\n"))
    ok("an address", not fetch(session, f"http://1.1.1.1:{PORT}/", "-m 3").out.endswith(" 0\n"))


def test_list_is_live(session):
    write(session / "net/allow", f"{OTHER}:{PORT} 127.0.0.1:{PORT}\n")
    same("what is allowed now", fetch(session, f"http://{OTHER}:{PORT}/").out.encode(),
         PAGE + b" 0\n")
    has("what was", fetch(session, f"http://{NAME}:{PORT}/").out, " 7")
    write(session / "net/allow", f"{NAME}:{PORT}\n")
    ok("not public, and not spelt out",
       not fetch(session, f"http://{NAME}:{PORT}/").out.endswith(" 0\n"))
    has("why", session.text("net/refused"), "private address")


SERVER = """
import ctypes
import http.server
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"from the sandbox")
    def log_message(self, *words):
        pass
server = http.server.HTTPServer(("", 8080), Page)
for _ in range(3):
    server.handle_request()
"""


def forwarded(session):
    """The lines of `ports`, without comments, as {guest: host}."""
    lines = [line.split() for line in session.text("ports").splitlines() if line[:1].isdigit()]
    return {int(words[0]): int(words[1]) for words in lines if words[1].isdigit()}


def test_ports():
    s = Session("ports", "python", "network = off\nports = 8080\n", mnt=MNT)
    same("it runs", s.run("print('ok')\n").out, "ok\n")
    host = forwarded(s)[8080]
    s.submit(SERVER)
    url = f"http://127.0.0.1:{host}/"
    for _ in range(3):
        got = wait_for(lambda: shell(f"curl -sS -m 20 {url}")[1] or None, 60)
        same("from the host", got, b"from the sandbox")
    same("the run", s.result().code, 0)
    same("no way out", s.run("import socket\ntry: socket.create_connection(('1.1.1.1', 443), 3)\n"
                             "except OSError: print('none')\n").out, "none\n")
    taken = Session("taken", config=f"ports = {host}:80\n", mnt=MNT)
    taken.submit("echo ran\n")
    ok("a port that is taken", wait_for(lambda: "port-taken" in taken.text("error"), 20),
       taken.text("error"))
    has("by whom", taken.text("error"), "sandbox python-ports has it")
    taken.remove()
    s.remove()
    ok("nobody listens any more", wait_for(lambda: shell(f"curl -sS -m 5 {url}")[0] == 7, 10))


def has_server(session):
    return session.run("command -v python3 >/dev/null; echo $?\n").out == "0\n"


def dialer():
    return [pid for pid in children_of(daemon.pid) if command_of(pid).startswith("/program 3")]


def test_dialer_dies():
    """What it was doing is lost, what comes next is not."""
    s = Session("dials", config=CONFIG, mnt=MNT)
    same("a page", fetch(s, f"http://{NAME}:{PORT}/").out.encode(), PAGE + b" 0\n")
    time.sleep(1.1)  # or it would not be started again at once
    os.kill(dialer()[0], signal.SIGKILL)
    ok("it is gone", wait_for(lambda: not dialer(), 10))
    same("a page again", fetch(s, f"http://{NAME}:{PORT}/").out.encode(), PAGE + b" 0\n")
    s.remove()


def test_helper_dies():
    """The network is gone, the sandbox is not."""
    s = Session("helper", config=CONFIG + "ports = 8080\n", mnt=MNT)
    before = s.run("python3 -m http.server 8080 >/dev/null 2>&1 & echo started\n").out
    same("a server", before, "started\n")
    port = forwarded(s)[8080]
    if has_server(s):
        ok("its port answers", wait_for(lambda: shell(f"curl -sS -m 20 http://127.0.0.1:{port}/")[0] == 0, 20))
    s.run("echo kept >file\n")
    same("a page", fetch(s, f"http://{NAME}:{PORT}/").out.encode(), PAGE + b" 0\n")
    os.kill(helpers(daemon)[0], signal.SIGKILL)
    ok("it is told", wait_for(lambda: "network-lost" in s.text("error"), 10), s.text("error"))
    ok("no way out", not fetch(s, f"http://{NAME}:{PORT}/", "-m 5").out.endswith(" 0\n"))
    same("what it had", s.run("cat file\n").out, "kept\n")
    has("error still says it after a run", s.text("error"), "network-lost")
    ok("so does status.json", s.json()["network"]["lost"] is True, s.json()["network"])
    same("no port is shown that leads nowhere", s.text("ports"), "")
    same("and who connects is refused, not left waiting",
         shell(f"curl -sS -m 20 http://127.0.0.1:{port}/")[0], 7)
    with raises("a list that nobody would obey is not taken", errno.ENETDOWN):
        write(s / "net/allow", f"{OTHER}:{PORT}\n")
    with raises("nor a port", errno.ENETDOWN):
        write(s / "config", CONFIG + "ports = 8080 8081\n")
    s.ctl("close")
    s.ctl("reset")
    same("a new sandbox has it again", fetch(s, f"http://{NAME}:{PORT}/").out.encode(), PAGE + b" 0\n")
    same("and error has nothing to say", s.text("error"), "")
    s.remove()
    s = Session("helper", config=CONFIG, mnt=MNT)
    same("another sandbox", fetch(s, f"http://{NAME}:{PORT}/").out.encode(), PAGE + b" 0\n")
    s.remove()


def test_helper_lies():
    """It says what no filter says: it is ended for that, and the reader is told so."""
    s = Session("lies", config=CONFIG, mnt=MNT)
    same("a page", fetch(s, f"http://{NAME}:{PORT}/").out.encode(), PAGE + b" 0\n")
    pidfd = os.pidfd_open(helpers(daemon)[0])
    control = ctypes.CDLL(None).syscall(438, pidfd, 3, 0)  # pidfd_getfd(): as if it had said it itself
    ok("its socket", control >= 0, control)
    os.write(control, b"\xff" * 64)
    os.close(control)
    os.close(pidfd)
    ok("it is told", wait_for(lambda: "killed, for what it said cannot be so" in s.text("error"), 10), s.text("error"))
    has("as what it is", s.text("error"), "network-lost")
    s.remove()


def test_isolation(session):
    lines = session.json()["sandbox"]["isolation"]
    has("the session's", lines["network"], "filtered")
    same("its filter's own network", lines["network.namespace.net"], "own")
    has("its filter's calls", lines["network.seccomp"], "on")
    lines = dict(x.split(": ", 1) for x in read(f"{MNT}/isolation", "r").splitlines() if ": " in x)
    has("who connects", lines["dial.seccomp"], "on")
    ok("has the host's network", "dial.namespace.net" not in lines)


def test_first():
    first = Session("first", config=CONFIG, mnt=MNT)
    same("it runs", first.run("echo ok\n").out, "ok\n")
    ok("one helper", wait_for(lambda: len(helpers(daemon)) == 1, 10), helpers(daemon))
    test_addresses(first)
    test_way_out(first)
    test_list_is_live(first)
    test_isolation(first)
    first.remove()
    ok("no helper is left", wait_for(lambda: not helpers(daemon), 10), helpers(daemon))



def test_end():
    daemon.terminate()
    same("the daemon's end", daemon.wait(SOON), 0)
    shell("umount /etc/hosts")


main(test_first, test_ports, test_dialer_dies, test_helper_dies, test_helper_lies, test_end)
