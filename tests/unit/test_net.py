#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""xsbxfs-net: what gets through, what does not, and that each probe works where nobody filters."""

import contextlib
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../net"))
from netlab import (GATEWAY, LIMIT, OTHER, OWN, PRIVATE, WEB, Bed, Lab, add_extension, hello,  # noqa
                    lookup, query, receive_all, split_records)

NAMES = [f"web.test={WEB}", f"a.b.wild.test={WEB}", f"other.test={OTHER}", "loop.test=127.0.0.1",
         f"private.test={PRIVATE}", "meta.test=169.254.169.254", f"own.test={OWN}",
         "mapped.test=::ffff:10.9.0.2", f"mixed.test={PRIVATE}", f"mixed.test={WEB}"]
LIST = "web.test web.test:9000 web.test:9001 *.wild.test loop.test private.test meta.test own.test " \
       "mapped.test mixed.test gone.test"
NXDOMAIN, REFUSED, FORMERR = 3, 5, 1
STREAM = ("test_allowed_name", "test_many_bytes_and_half_close", "test_many_connections",
          "test_slow_reader", "test_other_server_name", "test_nothing_is_left", "test_ports")

arrived = []  # (port, first bytes) of what the internet's servers were sent


def start_servers(lab, scratch):
    """Web servers that say who they are, servers that echo, servers that only listen."""
    def web(sock):
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                part = sock.recv(65536)
                if not part:
                    return
                data += part
            head, data = data.split(b"\r\n\r\n", 1)
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

    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{scratch}/key", "-out",
                    f"{scratch}/cert", "-days", "2", "-subj", "/CN=web.test", "-addext",
                    "subjectAltName=DNS:web.test,DNS:a.b.wild.test,DNS:other.test"],
                   check=True, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{scratch}/cert", f"{scratch}/key")

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
    """The tests. Each is a method; `since` is where its lines begin, and `begun` when it began: what
    was reported within a second before is not reported again."""

    def __init__(self, lab, bed):
        self.lab, self.bed, self.space, self.host = lab, bed, lab.guest, lab.host

    def name(self, name):
        rcode, address = lookup(self.space, name)
        assert rcode == 0 and address, (name, rcode)
        return address

    def denied(self, name, port, reason):
        self.bed.wait_denied(name, port, reason, self.begun - 1)

    def cut(self, sock):
        """The connection ends without an answer."""
        with sock:
            assert receive_all(sock) == b""

    def refused(self, address, port, family=socket.AF_INET):
        with self.space.socket(family, socket.SOCK_STREAM) as sock:
            try:
                sock.connect((address, port))
            except OSError:
                return
        raise AssertionError(f"{address} {port} was reached")

    def get(self, space, address, host, path="/", port=80):
        with space.connect(address, port) as sock:
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
                         .encode())
            sock.shutdown(socket.SHUT_WR)
            return receive_all(sock)

    def tls(self, space, address, name):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with space.connect(address, 443) as sock, \
                context.wrap_socket(sock, server_hostname=name) as secure:
            secure.sendall(b"hi")
            return secure.recv(100)

    # -- names --

    def test_allowed_name(self):
        assert b"200 OK" in self.get(self.space, self.name("web.test"), "web.test")
        assert self.get(self.space, self.name("WEB.test."), "Web.Test:80").endswith(WEB.encode())

    def test_wildcard(self):
        assert b"200 OK" in self.get(self.space, self.name("a.b.wild.test"), "a.b.wild.test")
        assert lookup(self.space, "wild.test") == (NXDOMAIN, None)
        assert lookup(self.space, "evilwild.test") == (NXDOMAIN, None)
        self.denied("evilwild.test", 0, "name not allowed")

    def test_refused_name(self):
        assert self.get(self.host, OTHER, "other.test").endswith(OTHER.encode())
        assert lookup(self.space, "other.test") == (NXDOMAIN, None)
        self.denied("other.test", 0, "name not allowed")

    def test_records(self):
        assert lookup(self.space, "web.test", 28) == (0, None)
        assert lookup(self.space, "web.test", 65) == (0, None)
        assert lookup(self.space, "web.test", 16) == (REFUSED, None)
        self.denied("web.test", 0, "no such records are served")
        assert lookup(self.space, "web.test", 255)[0] == REFUSED
        assert lookup(self.space, "1.0.18.198.in-addr.arpa", 12)[0] == NXDOMAIN

    def test_malformed_queries(self):
        with self.space.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect((GATEWAY, 53))
            good = query("web.test")
            for bad in (b"", b"\0", good[:11], good[:-1], good[:12] + b"\xc0\x0c\0\1\0\1",
                        good[:12] + b"\x3f" + b"a" * 20, good[:4] + b"\0\2" + good[6:]):
                sock.send(bad)
            sock.send(query("web.test", ident=7))
            while (data := sock.recv(2000))[:2] != b"\0\7":
                assert data[3] & 15 == FORMERR, data
            assert data[3] & 15 == 0

    def test_foreign_name_server(self):
        assert lookup(self.host, "web.test", server="8.8.8.8")[0] == 0
        with contextlib.suppress(OSError):
            raise AssertionError(lookup(self.space, "web.test", server="8.8.8.8"))
        self.denied("8.8.8.8", 53, "foreign name server")

    # -- addresses --

    def test_raw_address(self):
        assert b"200" in self.get(self.host, WEB, "web.test")
        self.refused(WEB, 80)
        self.denied(WEB, 80, "address not allowed")
        self.refused("198.18.200.200", 80)
        self.refused(GATEWAY, 80)
        self.refused(GATEWAY, 53)

    def test_dns_over_tls(self):
        with self.host.connect("8.8.8.8", 853) as sock:
            sock.sendall(b"x")
            assert sock.recv(100)
        self.refused("8.8.8.8", 853)
        self.denied("8.8.8.8", 853, "address not allowed")

    def test_dns_over_https(self):
        assert self.tls(self.host, OTHER, "other.test") == b"hi"
        self.refused(OTHER, 443)
        self.denied(OTHER, 443, "address not allowed")

    def test_port(self):
        with self.host.connect(WEB, 9002) as sock:
            sock.sendall(b"x")
            assert sock.recv(100)
        self.refused(self.name("web.test"), 9002)
        self.denied("web.test", 9002, "port not allowed")

    def test_rebinding(self):
        for name, address in (("loop.test", "127.0.0.1"), ("private.test", PRIVATE),
                              ("meta.test", "169.254.169.254"), ("own.test", OWN)):
            assert b"200 OK" in self.get(self.host, address, name), name
            assert self.get(self.space, self.name(name), name) == b"", name
            self.denied(name, 80, "private address")
        assert self.get(self.space, self.name("mapped.test"), "mapped.test") == b""
        self.denied("mapped.test", 80, "private address")

    def test_public_address_among_private_ones(self):
        assert self.get(self.space, self.name("mixed.test"), "mixed.test").endswith(WEB.encode())

    def test_unresolvable(self):
        assert self.get(self.space, self.name("gone.test"), "gone.test") == b""
        self.denied("gone.test", 80, "name does not resolve")

    def test_literal(self):
        self.bed.allow(f"{PRIVATE}:8080 private.test:8080")
        try:
            for address in (PRIVATE, self.name("private.test")):
                with self.space.connect(address, 8080) as sock:
                    sock.sendall(b"hello")
                    assert sock.recv(100) == b"hello"
            self.refused(PRIVATE, 80)
            self.denied(PRIVATE, 80, "port not allowed")
        finally:
            self.bed.allow(LIST)

    # -- TLS --

    def test_tls(self):
        assert self.tls(self.space, self.name("web.test"), "web.test") == b"hi"
        assert self.tls(self.space, self.name("web.test"), "WEB.TEST") == b"hi"

    def test_other_server_name(self):
        assert self.tls(self.host, WEB, "other.test") == b"hi"
        before = len(arrived)
        try:
            self.tls(self.space, self.name("web.test"), "other.test")
            raise AssertionError("it got through")
        except OSError:
            pass
        self.denied("web.test", 443, "other TLS server name")
        assert len(arrived) == before

    def test_no_server_name(self):
        assert self.tls(self.host, WEB, None) == b"hi"
        try:
            self.tls(self.space, self.name("web.test"), None)
            raise AssertionError("it got through")
        except OSError:
            pass
        self.denied("web.test", 443, "no TLS server name")

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

    def test_fragmented_hello(self):
        for name, ok in (("web.test", True), ("other.test", False)):
            data = hello(name)
            ways = ([data[i:i + 1] for i in range(len(data))], [data[:3], data[3:]],
                    [split_records(data, 7)], [split_records(data, 1)],
                    [x for i in range(0, 9999, 11) if (x := split_records(data, 40)[i:i + 11])])
            for i, way in enumerate(ways):
                if i != 3:  # OpenSSL does not like that many records
                    assert self.answered(self.send(self.host, WEB, way)), (name, i)
                sock = self.send(self.space, self.name("web.test"), way, pause=0.0003)
                if not ok:
                    self.cut(sock)
                elif i != 3:
                    assert self.answered(sock), i
                else:
                    sock.close()
        self.denied("web.test", 443, "other TLS server name")

    def test_encrypted_hello(self):
        data = add_extension(hello("web.test"), 0xfe0d, b"\0" * 100)
        assert self.answered(self.send(self.host, WEB, [data]))
        self.cut(self.send(self.space, self.name("web.test"), [data]))
        self.denied("web.test", 443, "encrypted TLS server name")

    def test_two_server_names(self):
        name = b"other.test"
        body = struct.pack(">HBH", len(name) + 3, 0, len(name)) + name
        self.cut(self.send(self.space, self.name("web.test"),
                           [add_extension(hello("web.test"), 0, body)]))
        self.denied("web.test", 443, "not TLS")

    def test_second_hello(self):
        first, second = hello("web.test"), hello("other.test")
        change = b"\x14\x03\x03\0\1\1"
        for tail in (second, change + second, change + split_records(second, 3),
                     b"\x15\x03\x03\0\2\1\0" + second):
            with self.send(self.space, self.name("web.test"), [first, tail]) as sock:
                receive_all(sock)
            self.denied("web.test", 443, "other TLS server name")
            time.sleep(1.05)  # or it would be one report
            self.begun = time.time() + 0.9

    def test_not_tls(self):
        for data in (b"SSH-2.0-x\r\n", b"GET / HTTP/1.1\r\nHost: web.test\r\n\r\n", b"\x16\x03"
                     b"\x01\x00\x05\x02\x00\x00\x01\x00", b"\0" * 50000):
            self.cut(self.send(self.space, self.name("web.test"), [data]))
        self.denied("web.test", 443, "not TLS")

    # -- HTTP --

    def test_other_host(self):
        assert b"200 OK" in self.get(self.host, WEB, "other.test")
        before = len(arrived)
        assert self.get(self.space, self.name("web.test"), "other.test") == b""
        self.denied("web.test", 80, "other HTTP host")
        assert len(arrived) == before

    def request(self, *lines, body=b""):
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + body

    def test_other_host_in_another_way(self):
        web = self.name("web.test")
        for data, reason in (
                (self.request("GET http://other.test/ HTTP/1.1", "Host: web.test"),
                 "other HTTP host"),
                (self.request("GET / HTTP/1.1", "Host: web.test", "Host: other.test"), "not HTTP"),
                (self.request("GET / HTTP/1.1"), "no HTTP host"),
                (self.request("GET /\n HTTP/1.1", "Host: web.test"), "not HTTP"),
                (self.request("CONNECT other.test:443 HTTP/1.1", "Host: web.test"),
                 "other HTTP host"),
                (self.request("GET / HTTP/1.1", "Host : other.test", "Host: web.test"),
                 "not HTTP"),
                (self.request("GET / HTTP/1.1", "X: y", " Host: other.test", "Host: web.test"),
                 "not HTTP"),
                (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "not HTTP"),
                (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "not HTTP")):
            self.cut(self.send(self.space, web, [data], 80))
            self.denied("web.test", 80, reason)

    def test_split_request(self):
        data = self.request("GET / HTTP/1.1", "Host: web.test", "Connection: close")
        sock = self.send(self.space, self.name("web.test"),
                         [data[i:i + 1] for i in range(len(data))], 80, 0.0003)
        with sock:
            assert b"200 OK" in sock.recv(1000)
        data = data.replace(b"web", b"eve")
        self.cut(self.send(self.space, self.name("web.test"),
                           [data[i:i + 1] for i in range(len(data))], 80, 0.0003))
        self.denied("web.test", 80, "other HTTP host")

    def test_kept_alive(self):
        good, bad = (self.request("GET / HTTP/1.1", f"Host: {x}.test") for x in ("web", "other"))
        post = self.request("POST / HTTP/1.1", "Host: web.test", "Content-Length: 90",
                            body=bad + b"x" * (90 - len(bad)))
        with self.space.connect(self.name("web.test"), 80) as sock:
            for data in (good, good, post):
                sock.sendall(data)
                assert b"200 OK" in sock.recv(1000)
            sock.sendall(bad)
            # The server knows of no bodies and takes that of the post for requests.
            receive_all(sock)
        self.denied("web.test", 80, "other HTTP host")
        before = len(arrived)
        with self.space.connect(self.name("web.test"), 80) as sock:
            sock.sendall(good + bad)
            assert receive_all(sock).count(b"200 OK") < 2
        assert len(arrived) <= before + 1

    def test_redirect(self):
        web = self.name("web.test")
        curl = ["curl", "-sS", "-L", "-m", "15", "-o", "-", "http://web.test/away", "--resolve",
                f"web.test:80:{web}"]
        with self.space.entered():
            done = subprocess.run(curl + ["--resolve", f"other.test:80:{OTHER}"],
                                  capture_output=True, check=False)
        assert done.returncode == 7, done
        with self.host.entered():
            done = subprocess.run(curl[:-1] + [f"web.test:80:{WEB}", "--resolve",
                                               f"other.test:80:{OTHER}"],
                                  capture_output=True, check=False)
        assert done.stdout == OTHER.encode(), done
        self.denied(OTHER, 80, "address not allowed")

    def test_other_ports(self):
        web = self.name("web.test")
        with self.space.connect(web, 9001) as sock:  # the server speaks first
            assert sock.recv(100) == b"220 hello\r\n"
            sock.sendall(b"EHLO x\r\n")
            assert sock.recv(100) == b"EHLO x\r\n"
        self.cut(self.send(self.space, web, [hello("other.test")], 9000))
        self.denied("web.test", 9000, "other TLS server name")
        with self.space.connect(web, 9000) as sock:
            data = hello("web.test")
            sock.sendall(data)
            assert sock.recv(65536)
        self.cut(self.send(self.space, web, [b"GET / HTTP/1.1\r\nHost: other.test\r\n\r\n"], 9000))

    # -- other protocols --

    def test_other_protocols(self):
        with self.space.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect((WEB, 123))
            sock.send(b"x")
            with contextlib.suppress(OSError):
                raise AssertionError(sock.recv(100))
        self.denied(WEB, 123, "protocol not allowed")
        for space, works in ((self.host, True), (self.space, False)):
            with space.entered():
                done = subprocess.run([sys.executable, "-c", PING, WEB], check=False)
            assert (done.returncode == 0) == works, space
        self.denied(WEB, 0, "protocol not allowed")

    def test_ipv6(self):
        with self.space.entered():
            subprocess.run(["ip", "-6", "addr", "add", "2001:4860::2/64", "dev", "tap0", "nodad"],
                           check=True)
            subprocess.run(["ip", "-6", "neigh", "add", "2001:4860::1", "lladdr",
                            "52:55:c6:12:00:01", "dev", "tap0"], check=True)
            subprocess.run(["ip", "-6", "route", "add", "default", "via", "2001:4860::1"],
                           check=True)
        with self.space.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"x", ("2606:4700::1111", 53))
        self.denied("2606:4700::1111", 0, "protocol not allowed")

    # -- the live list --

    def test_withdrawn(self):
        web = self.name("web.test")
        kept = self.space.connect(self.name("a.b.wild.test"), 80)
        cut = self.space.connect(web, 9000)
        cut.sendall(b"hello")
        assert cut.recv(100) == b"hello"
        self.bed.allow(LIST.replace("web.test", "x.test"))
        try:
            self.cut(cut)
            self.denied("web.test", 9000, "no longer allowed")
            self.refused(web, 9000)
            self.denied("web.test", 9000, "name not allowed")
            assert lookup(self.space, "web.test")[0] == NXDOMAIN
            kept.sendall(self.request("GET / HTTP/1.1", "Host: a.b.wild.test"))
            assert b"200 OK" in kept.recv(1000)
        finally:
            kept.close()
            self.bed.allow(LIST)
        assert b"200 OK" in self.get(self.space, self.name("web.test"), "web.test")

    def test_bad_lists(self):
        for bad in ("exa mple..com", "a*.com", "x:0", "x:65536", "1.2.3", "::1", "*.1.2.3.4",
                    "-x.com", "x" * 64, "caf\u00e9.fr"):
            answer = self.bed.ask(f"allow {bad}", "allowed")
            assert answer.startswith("error 22 "), (bad, answer)
        assert b"200 OK" in self.get(self.space, self.name("web.test"), "web.test")

    def test_everything_public(self):
        self.bed.allow("*")
        try:
            assert self.get(self.space, WEB, "whatever").endswith(WEB.encode())
            assert self.tls(self.space, self.name("other.test"), "web.test") == b"hi"
            for address in (PRIVATE, "169.254.169.254", "127.0.0.1", "10.9.0.1"):
                if address != "127.0.0.1":
                    self.refused(address, 80)
                    self.denied(address, 80, "address not allowed")
            assert self.get(self.space, OWN, "own.test") == b""
            self.denied(OWN, 80, "private address")
            assert self.get(self.space, self.name("meta.test"), "meta.test") == b""
            self.denied("meta.test", 80, "private address")
            # What was opened without being looked into is cut when that becomes the rule.
            sock = self.space.connect(self.name("web.test"), 9000)
            sock.sendall(b"x")
            assert sock.recv(1) == b"x"
        finally:
            self.bed.allow(LIST)
        self.cut(sock)

    # -- bytes --

    def test_many_bytes_and_half_close(self):
        data = os.urandom(1 << 20) * 8
        with self.space.connect(self.name("web.test"), 9000) as sock:
            writer = threading.Thread(target=lambda: (sock.sendall(data),
                                                      sock.shutdown(socket.SHUT_WR)))
            writer.start()
            got = receive_all(sock)
            writer.join()
        assert got == data, (len(got), len(data))

    def test_slow_reader(self):
        """A reader that stops holds up its own connection, and no other."""
        web, size = self.name("web.test"), 4 << 20
        with self.space.connect(web, 9000) as slow:
            slow.setblocking(False)
            sent = 0
            with contextlib.suppress(BlockingIOError):
                while sent < 64 * size:
                    sent += slow.send(bytes(65536))
            with self.space.connect(web, 9000) as sock:
                sock.sendall(b"quick")
                assert sock.recv(100) == b"quick"
            slow.settimeout(LIMIT)
            slow.shutdown(socket.SHUT_WR)
            assert len(receive_all(slow)) == sent

    def test_many_connections(self):
        web, bad = self.name("web.test"), []

        def fetch():
            for _ in range(25):
                try:
                    if b"200 OK" not in self.get(self.space, web, "web.test"):
                        bad.append("no answer")
                except OSError as error:
                    bad.append(error)

        threads = [threading.Thread(target=fetch) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not bad, bad[:3]

    def test_too_many_connections(self):
        web, socks = self.name("web.test"), []
        try:
            for _ in range(256):
                socks.append(self.space.connect(web, 9000))
                socks[-1].sendall(b"x")
                assert socks[-1].recv(1) == b"x"
            self.refused(web, 9000)
            self.denied("web.test", 9000, "too many connections")
        finally:
            for sock in socks:
                sock.close()
        assert b"200 OK" in self.get(self.space, web, "web.test")

    def test_flood_of_refusals(self):
        for i in range(400):
            lookup(self.space, f"n{i}.evil.test")
        self.bed.ask("stats", "stats")
        lines = [x for x in self.bed.lines[self.since:] if ".evil.test" in x]
        assert 150 <= len(lines) < 400, len(lines)
        time.sleep(0.3)
        lookup(self.space, "last.evil.test")
        line = self.bed.wait("denied", since=len(self.bed.lines) - 1)
        assert line.split()[2] == "last.evil.test" and int(line.split()[4]) > 0, line
        time.sleep(10)  # until reports are made again as usual

    # -- ports --

    def test_ports(self):
        def web(sock):
            sock.recv(1000)
            sock.sendall(b"from the guest")

        self.lab.serve(self.space, "0.0.0.0", 8080, web)
        answer = self.bed.ask("forward 8080 0", "forward").split()
        port = int(answer[2])
        self.bed.allow("")  # works without a way out
        try:
            bad = []

            def fetch():
                for _ in range(20):
                    with self.host.connect("127.0.0.1", port) as sock:
                        sock.sendall(b"x")
                        if receive_all(sock) != b"from the guest":
                            bad.append(1)

            threads = [threading.Thread(target=fetch) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not bad, len(bad)
        finally:
            self.bed.allow(LIST)
        assert self.bed.ask("forward 8080 0", "forward").startswith("error 17 ")
        assert self.bed.ask(f"forward 8081 {port}", "forward").startswith("error 98 ")
        assert self.bed.ask("forward 8082 80", "forward").startswith("error 98 ")
        for i in range(9):
            assert self.bed.ask(f"forward {9000 + i} 0", "forward").startswith("forward"), i
        assert self.bed.ask("forward 9999 0", "forward").startswith("error 28 ")
        self.bed.ask("unforward 8080", "unforward")
        end = time.monotonic() + LIMIT
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < end:
                self.host.connect("127.0.0.1", port).close()
            raise AssertionError("still forwarded")
        answer = self.bed.ask(f"forward 8080 {port}", "forward")
        assert answer == f"forward 8080 {port}", answer
        with self.host.connect("127.0.0.1", port) as sock:
            sock.sendall(b"x")
            assert receive_all(sock) == b"from the guest"
        with self.host.connect("127.0.0.1", int(self.bed.find("forward 9003").split()[2])) as sock:
            assert receive_all(sock) == b""  # nobody listens there, in the guest
        with open(f"/proc/{self.bed.process.pid}/net/tcp") as file:
            local = [x.split()[1] for x in file if x.split()[3] == "0A"]
        assert f"0100007F:{port:04X}" in local and f"00000000:{port:04X}" not in local

    # -- the helper itself --

    def test_confinement(self):
        pid = self.bed.pid
        assert os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
        with open(f"/proc/{pid}/status") as file:
            status = dict(line.split(":", 1) for line in file)
        assert status["NoNewPrivs"].strip() == "1" and status["Threads"].strip() == "1"
        with open(f"/proc/{pid}/net/dev") as file:
            devices = [line.split(":")[0].strip() for line in file if ":" in line]
        assert [d for d in devices if d not in ("lo", "sit0", "tunl0", "gre0", "gretap0",
                                                "erspan0", "ip_vti0", "ip6_vti0", "ip6tnl0",
                                                "ip6gre0", "dummy0")] == [], devices

    def test_nothing_is_left(self):
        end = time.monotonic() + LIMIT
        while (line := self.bed.ask("stats", "stats")).split()[5] != "0":
            assert time.monotonic() < end, line
            time.sleep(0.05)
        fds = os.listdir(f"/proc/{self.bed.pid}/fd")
        assert len(fds) < 40, fds


PING = """
import os, socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
s.settimeout(1)
head = struct.pack(">BBHHH", 8, 0, 0, 1, 1)
total = sum(struct.unpack(">4H", head))
s.sendto(struct.pack(">BBHHH", 8, 0, 0xffff - total, 1, 1), (sys.argv[1], 0))
try:
    while s.recv(100)[20] != 0:
        pass
except OSError:
    sys.exit(1)
"""


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
        guest.since, guest.begun = len(guest.bed.lines), time.time()
        try:
            getattr(guest, name)()
            print(f"ok {name} {time.time() - guest.begun:.2f}", flush=True)
        except Exception:  # the others go on
            bad += 1
            traceback.print_exc()
            print(f"FAILED {name}", flush=True)
    guest.bed.stop()
    return bad


def main():
    scratch = os.environ.get("SCRATCH", "/tmp")
    every = [name for name in dir(Guest) if name.startswith("test_")]
    wanted = sys.argv[1:] or every
    lab = Lab()
    start_servers(lab, scratch)
    bed = Bed(lab, NAMES, lab.tap)
    bed.allow(LIST)
    bad = run_tests(Guest(lab, bed), wanted)
    # The same over a stream, with larger packets.
    lab = Lab(mtu=16000)
    start_servers(lab, scratch)
    ours, theirs = socket.socketpair()
    pump(lab.tap, ours)
    bed = Bed(lab, NAMES, theirs.fileno(), "--stream", ["--mtu", "16000"])
    theirs.close()
    bed.allow(LIST)
    bad += run_tests(Guest(lab, bed), [name for name in wanted if name in STREAM])
    sys.stdout.flush()
    os._exit(bad > 0)  # there are threads


if __name__ == "__main__":
    main()
