# SPDX-License-Identifier: Apache-2.0
"""For tests of xsbxfs-net: servers in the lab's internet, and a guest that tries to reach them.

A file of such tests has a class of them, and hands it to main(). Each is run over a TAP, and those that
the class names in `stream` once more over a stream, with larger packets.
"""

import contextlib
import errno
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import traceback

from netlab import LIMIT, OTHER, OWN, PRIVATE, WEB, Gateway, Lab, lookup, read_message, receive_all

NAMES = [f"web.test={WEB}", f"a.b.wild.test={WEB}", f"other.test={OTHER}", "loop.test=127.0.0.1",
         f"private.test={PRIVATE}", "meta.test=169.254.169.254", f"own.test={OWN}",
         "mapped.test=::ffff:10.9.0.2", "eight.test=8.8.8.8", f"wrong.test={WEB}", f"mixed.test={PRIVATE}", f"mixed.test={WEB}"]
LIST = "web.test web.test:9000 web.test:9001 *.wild.test loop.test private.test meta.test own.test " \
       "mapped.test mixed.test gone.test"

arrived = []  # (port, first bytes) of what the internet's servers were sent


def certified(scratch):
    """TLS of the web servers, with a certificate that is made for them."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{scratch}/key", "-out",
                    f"{scratch}/cert", "-days", "2", "-subj", "/CN=web.test", "-addext",
                    "subjectAltName=DNS:web.test,DNS:a.b.wild.test,DNS:other.test"],
                   check=True, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{scratch}/cert", f"{scratch}/key")
    return context


def start_servers(lab, scratch):
    """Web servers that say who they are, servers that echo, servers that only listen."""
    def web(sock):
        data = b""
        while message := read_message(sock, data):
            head, _, data = message
            arrived.append((80, head))
            where = sock.getsockname()[0].encode()
            if head.startswith(b"GET /away"):
                sock.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://other.test/\r\n"
                             b"Content-Length: 0\r\n\r\n")
                continue
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(where), where))

    def echo(sock):
        while part := sock.recv(65536):
            sock.sendall(part)
        sock.shutdown(socket.SHUT_WR)

    def listen(sock):
        arrived.append((sock.getsockname()[1], sock.recv(65536)))
        sock.sendall(b"got it")

    def first(sock):
        sock.sendall(b"220 hello\r\n")
        sock.sendall(sock.recv(100))

    context = certified(scratch)

    def tls(sock):
        with context.wrap_socket(sock, server_side=True) as secure:
            arrived.append((443, secure.version()))
            secure.sendall(secure.recv(65536))
            secure.unwrap()

    for address in (WEB, OTHER, PRIVATE, "169.254.169.254"):
        lab.serve(lab.internet, address, 80, web)
        lab.serve(lab.internet, address, 443, tls)
    lab.serve(lab.internet, WEB, 9000, echo)
    lab.serve(lab.internet, WEB, 9001, first)
    lab.serve(lab.internet, WEB, 9002, listen)
    lab.serve(lab.internet, OTHER, 9000, echo)
    lab.serve(lab.internet, "8.8.8.8", 853, listen)
    lab.serve(lab.internet, PRIVATE, 8080, echo)
    lab.serve(lab.host, "127.0.0.1", 80, web)
    lab.serve(lab.host, OWN, 80, web)
    resolver = lab.internet.socket(socket.AF_INET, socket.SOCK_DGRAM)
    resolver.bind(("8.8.8.8", 53))
    resolver.settimeout(None)

    def answer():
        while True:
            data, peer = resolver.recvfrom(2000)
            resolver.sendto(data[:2] + b"\x81\x80" + data[4:], peer)

    threading.Thread(target=answer, daemon=True).start()


class Guest:
    """What tests have in common. Each is a method; `since` is where its lines begin, and `begun` when it began: what
    was reported within a second before is not reported again."""

    stream = ()

    def __init__(self, lab, gateway):
        self.lab, self.gateway, self.space, self.host = lab, gateway, lab.guest, lab.host

    def set(self, line):
        """A line for net_fixture that says what may be reached."""
        answer = self.gateway.ask(line, "allowed")
        assert answer == "allowed", (line, answer)

    def name(self, name):
        rcode, address = lookup(self.space, name)
        assert rcode == 0 and address, (name, rcode)
        return address

    def denied(self, name, port, reason):
        self.gateway.wait_denied(name, port, reason, self.begun - 1)

    def cut(self, sock):
        """The connection ends without an answer."""
        with sock:
            assert receive_all(sock) == b""

    def told(self, data, *words):
        """An answer of the filter's own, and none of a server."""
        assert data.startswith(b"HTTP/1.1 ") and b"\r\nX-Xsbxfs: " in data and data.count(b"HTTP/1.1") == 1, data
        for word in words:
            assert word.encode() in data, (word, data)

    def told_instead(self, sock, *words):
        with sock:
            self.told(receive_all(sock), *words)

    def logged(self, **fields):
        """Waits for a line of the log with these fields. Return: all of it, by name."""
        end = time.monotonic() + LIMIT
        with self.gateway.changed:
            while True:
                for line in self.gateway.lines[self.since:]:
                    found = parse_logged(line)
                    if found and all(found[key] == str(value) for key, value in fields.items()):
                        return found
                assert time.monotonic() < end, (fields, self.gateway.lines[self.since:])
                self.gateway.changed.wait(0.2)

    def refused(self, address, port, family=socket.AF_INET):
        with self.space.socket(family, socket.SOCK_STREAM) as sock:
            try:
                sock.connect((address, port))
            except OSError:
                return
        raise AssertionError(f"{address} {port} was reached")

    def get(self, space, address, host, path="/", port=80, half_close=True):
        with space.connect(address, port) as sock:
            try:
                sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
                             .encode())
                if half_close:
                    sock.shutdown(socket.SHUT_WR)
            except OSError as cut:  # what is refused may be cut before it has asked
                if cut.errno not in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN):
                    raise
            return receive_all(sock)

    def tls(self, space, address, name):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with space.connect(address, 443) as sock, \
                context.wrap_socket(sock, server_hostname=name) as secure:
            secure.sendall(b"hi")
            return secure.recv(100)

    def send(self, space, address, pieces, port=443, pause=0.0):
        sock = space.connect(address, port)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                sock.sendall(piece)
                time.sleep(pause)
        return sock

    def answered(self, sock):
        with sock:
            return sock.recv(1) == b"\x16"  # the server's hello

    def request(self, *lines, body=b""):
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + body

    def test_nothing_is_left(self):
        end = time.monotonic() + LIMIT
        while (line := self.gateway.ask("stats", "stats")).split()[5] != "0":
            assert time.monotonic() < end, line
            time.sleep(0.05)
        fds = os.listdir(f"/proc/{self.gateway.pid}/fd")
        assert len(fds) < 40, fds


def parse_logged(line):
    if not line.startswith("logged "):
        return None
    words, reason = line[len("logged "):].split(" reason=", 1)
    return dict(word.split("=", 1) for word in words.split(" ")) | {"reason": reason}


def pump(tap, stream):
    """Carries frames between a TAP and a stream, as QEMU does, in odd pieces."""
    def outwards():
        while frame := os.read(tap, 70000):
            data = struct.pack(">I", len(frame)) + frame
            stream.sendall(data[:7])
            stream.sendall(data[7:])

    def inwards():
        data = b""
        while part := stream.recv(65536):
            data += part
            while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "big"):
                size = 4 + int.from_bytes(data[:4], "big")
                os.write(tap, data[4:size])
                data = data[size:]

    for loop in outwards, inwards:
        threading.Thread(target=loop, daemon=True).start()


def run_tests(guest, names):
    """Return how many failed."""
    bad = 0
    for name in names:
        guest.since, guest.begun = len(guest.gateway.lines), time.time()
        try:
            getattr(guest, name)()
            print(f"ok {name} {time.time() - guest.begun:.2f}", flush=True)
        except Exception:  # the others go on
            bad += 1
            traceback.print_exc()
            print(f"FAILED {name}", flush=True)
    guest.gateway.stop()
    return bad


def main(tests, prepare=lambda lab: None):
    """Run the tests of a class, or those that the command line names; `prepare` starts more servers."""
    scratch = os.environ.get("SCRATCH", "/tmp")
    wanted = sys.argv[1:] or [name for name in dir(tests) if name.startswith("test_")]
    lab = Lab()
    start_servers(lab, scratch)
    prepare(lab)
    gateway = Gateway(lab, NAMES, lab.tap)
    gateway.allow(LIST)
    bad = run_tests(tests(lab, gateway), wanted)
    # The same over a stream, with larger packets.
    lab = Lab(mtu=16000)
    start_servers(lab, scratch)
    prepare(lab)
    ours, theirs = socket.socketpair()
    pump(lab.tap, ours)
    gateway = Gateway(lab, NAMES, theirs.fileno(), "--stream", ["--mtu", "16000"])
    theirs.close()
    gateway.allow(LIST)
    bad += run_tests(tests(lab, gateway), [name for name in wanted if name in tests.stream])
    sys.stdout.flush()
    os._exit(bad > 0)  # there are threads
