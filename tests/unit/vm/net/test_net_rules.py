#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbxfs-net test/net_fixture
"""xsbxfs-net: rules by method and path, also within TLS; leave; refusals that say why; the log."""

import contextlib
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

from netguest import LIST, Guest, arrived, main  # noqa: E402
from netlab import LIMIT, OTHER, PRIVATE, REFUSER, WEB, read_message, receive_all  # noqa: E402

SCRATCH = os.environ.get("SCRATCH", "/tmp")


class Rules(Guest):
    stream = ("test_methods_and_paths", "test_nothing_is_left")

    def __init__(self, lab, gateway):
        super().__init__(lab, gateway)
        self.set("trust " + SCRATCH + "/cert")
        self.roots = None
        for address in (WEB, OTHER):
            lab.serve(lab.internet, address, 8443, self.api)
            lab.serve(lab.internet, address, 8080, self.plain_api)

    def rules(self, *rules, allow="", ask=0):
        self.set("first")
        self.set("rules " + " ".join(rules))
        self.set(f"ask {ask}")
        self.set("allow " + allow)

    # -- servers --

    def answer(self, sock):
        """HTTP/1.1 that says what it was asked for, as often as it is."""
        data = b""
        while message := read_message(sock, data):
            head, body, data = message
            arrived.append((8443, head))
            if head.startswith(b"GET /last"):  # as a server that waits for no more
                sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlast")
                time.sleep(0.3)
                return
            if head.startswith(b"GET /cut"):
                sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nless")
                return
            if b"/big" in head:
                body = b"x" * 10_000_000
            said = head.split(b"\r\n")[0] + b"|" + body
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(said), said))

    def api(self, sock):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{SCRATCH}/cert", f"{SCRATCH}/key")
        with context.wrap_socket(sock, server_side=True) as secure:
            self.answer(secure)
            secure.unwrap()

    def plain_api(self, sock):
        self.answer(sock)

    # -- the guest --

    def authority(self):
        """Its certificate, as a file."""
        path = f"{SCRATCH}/authority.pem"
        words = self.gateway.wait("authority").split()
        pem = ssl.DER_cert_to_PEM_cert(bytes.fromhex(words[1]))
        with open(path, "w") as file:
            file.write(pem)
        return path

    def connect(self, name="web.test", port=8443, server_name=None, alpn=None):
        context = ssl.create_default_context(cafile=self.authority())
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        if alpn:
            context.set_alpn_protocols(alpn)
        sock = self.space.connect(self.name(name), port)
        return context.wrap_socket(sock, server_hostname=server_name or name, suppress_ragged_eofs=False)

    def ask(self, secure, line, host="web.test:8443", body=b""):
        """Return: the answer's head and body."""
        secure.sendall(self.request(f"{line} HTTP/1.1", f"Host: {host}", *([f"Content-Length: {len(body)}"] if body else []),
                                    body=body))
        answer = read_message(secure)
        assert answer, "it was cut off"
        return answer[:2]

    def once(self, line, **how):
        with self.connect(**{k: v for k, v in how.items() if k in ("name", "port", "server_name")}) as secure:
            return self.ask(secure, line, **{k: v for k, v in how.items() if k in ("host", "body")})

    # -- tests --

    def test_methods_and_paths(self):
        self.rules("allow GET,HEAD web.test:8443/v1/*", "deny * web.test:8443/open/no*", "allow * web.test:8443/open/*")
        with self.connect() as secure:
            assert self.ask(secure, "GET /v1/x?y") [1] == b"GET /v1/x?y HTTP/1.1|"
            assert self.ask(secure, "POST /open/x", body=b"abc")[1] == b"POST /open/x HTTP/1.1|abc"
            before = len(arrived)
            head, text = self.ask(secure, "POST /v1/x", body=b"abc")
            assert head.startswith(b"HTTP/1.1 403 ") and b"allow POST web.test:8443/v1/x" in text, (head, text)
            assert secure.recv(1) == b""
        for line in ("GET /v2", "GET /v1/../v2", "GET /v1/%2e%2e/v2", "GET /open/NO", "GET //v2", "GET /v1/..%2fv2"):
            head, text = self.once(line)
            assert head.startswith(b"HTTP/1.1 40") and text.startswith(b"xsbxfs: GET https://web.test:8443/"), (line, head)
        assert len(arrived) == before
        self.logged(method="GET", scheme="https", path="/v1/x?y", status=200, rule=1, refused=0)
        line = self.logged(method="POST", path="/open/x", status=200, rule=3, version="1.1")
        assert int(line["out"]) > 30 and int(line["in"]) > 30, line
        self.logged(method="GET", path="/open/NO", status=403, refused=1, rule=2)
        self.denied("web.test", 8443, "denied by a rule")

    def test_plain(self):
        self.rules("allow GET web.test:8080/v1/*")
        with self.space.connect(self.name("web.test"), 8080) as sock:
            assert self.ask(sock, "GET /v1/x", "web.test:8080")[1] == b"GET /v1/x HTTP/1.1|"
            assert self.ask(sock, "GET /v2", "web.test:8080")[0].startswith(b"HTTP/1.1 403 ")

    def test_only_where_rules_ask(self):
        """Other hosts are passed through, and keep their own certificate."""
        self.rules("allow GET web.test/v1/*", "allow * other.test:443")
        with open(f"{SCRATCH}/cert") as file:
            own = ssl.PEM_cert_to_DER_cert(file.read())
        for name, port, same in (("other.test", 443, True), ("web.test", 443, False)):
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with self.space.connect(self.name(name), port) as sock, \
                    context.wrap_socket(sock, server_hostname=name) as secure:
                assert (secure.getpeercert(True) == own) == same, name
        assert self.tls(self.space, self.name("other.test"), "other.test") == b"hi"
        self.logged(method="-", scheme="https", host="other.test", port=443, refused=0, rule=2)

    def test_fronting(self):
        """What is said within TLS is judged as well: control, it arrives where nobody looks."""
        self.rules(allow="web.test:8443")
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with self.space.connect(self.name("web.test"), 8443) as sock, \
                context.wrap_socket(sock, server_hostname="web.test") as secure:
            assert self.ask(secure, "GET /", "evil.test")[1] == b"GET / HTTP/1.1|"
        self.rules("allow GET web.test:8443/*")
        before = len(arrived)
        head, text = self.once("GET /", host="evil.test")
        assert head.startswith(b"HTTP/1.1 403 ") and b"other HTTP host" in text, (head, text)
        assert len(arrived) == before
        try:
            self.connect(server_name="other.test")
            raise AssertionError("another server name got through")
        except ssl.SSLError:
            pass

    def test_untrusted_server(self):
        """The guest cannot judge the server any more: who does, does not let a wrong one pass."""
        self.rules("allow GET wrong.test:8443/*")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                        f"{SCRATCH}/key2", "-out", f"{SCRATCH}/cert2", "-days", "2", "-subj", "/CN=wrong.test"],
                       check=True, stderr=subprocess.DEVNULL)
        context.load_cert_chain(f"{SCRATCH}/cert2", f"{SCRATCH}/key2")
        before = len(arrived)
        for alpn in (None, ["h2", "http/1.1"]):  # who offers HTTP/2 has the server judged before there is a request
            with self.connect(name="wrong.test", alpn=alpn) as secure:  # its certificate is web.test's
                assert secure.selected_alpn_protocol() in (None, "http/1.1")
                head, text = self.ask(secure, "GET /?%d" % len(alpn or []), host="wrong.test:8443")
            assert head.startswith(b"HTTP/1.1 502 ") and b"certificate is not trusted: hostname mismatch" in text, (head, text)
            self.logged(path="/?%d" % len(alpn or []), reason="the server's certificate is not trusted", status=502)
        assert len(arrived) == before

    def test_big_and_cut(self):
        self.rules("allow * web.test:8443/*")
        with self.connect() as secure:
            assert self.ask(secure, "GET /big")[1] == b"GET /big HTTP/1.1|" + b"x" * 10_000_000
            body = os.urandom(3_000_000)
            assert self.ask(secure, "PUT /x", body=body)[1] == b"PUT /x HTTP/1.1|" + body
        with self.space.entered():
            done = subprocess.run(["curl", "-sS", "-m", "60", "--cacert", self.authority(), "--resolve",
                                   f"web.test:8443:{self.name('web.test')}", "https://web.test:8443/cut"],
                                  capture_output=True, check=False)
        assert done.returncode in (18, 56) and done.stdout == b"less", done  # less than all does not look whole
        self.logged(path="/cut", reason="the server's answer is not whole")

    def test_live(self):
        """Rules change on a connection that stays."""
        self.rules("allow GET web.test:8443/*")
        with self.connect() as secure:
            assert self.ask(secure, "GET /a")[0].startswith(b"HTTP/1.1 200")
            self.rules("allow GET web.test:8443/b*")
            assert self.ask(secure, "GET /b")[0].startswith(b"HTTP/1.1 200")
            assert self.ask(secure, "GET /a")[0].startswith(b"HTTP/1.1 403")

    def test_live_and_silent(self):
        """... and where nothing was said yet."""
        seen = []

        def server(sock):
            seen.append(sock.recv(100))
            sock.sendall(b"hi")

        self.lab.serve(self.lab.internet, WEB, 8082, server)
        self.rules("deny POST web.test:8082/x", allow="web.test:8082")
        with self.space.connect(self.name("web.test"), 8082) as control, self.space.connect(self.name("web.test"), 8082) as sock:
            control.sendall(b"\0no HTTP\n")
            assert control.recv(10) == b"hi" and seen == [b"\0no HTTP\n"]
            self.rules("allow GET web.test:8082/v1*", "deny * web.test:8082", allow="web.test:8082")
            try:
                sock.sendall(b"\0no HTTP\n")
                answer = sock.recv(100)
            except ConnectionResetError:
                answer = b""
            assert answer == b"" and len(seen) == 1, (answer, seen)

    def test_first(self):
        """The administrator's rules come before all others, and a session's cannot change that."""
        self.rules("allow * web.test:8443/*")
        assert self.once("GET /root/x")[0].startswith(b"HTTP/1.1 200")
        self.set("first deny * web.test:8443/root*")
        head, text = self.once("GET /root/x")
        assert head.startswith(b"HTTP/1.1 403") and b"Only the administrator" in text, text
        assert self.once("GET /x")[0].startswith(b"HTTP/1.1 200")
        self.set("first")

    def test_websocket(self):
        def server(sock):
            head = sock.recv(65536)
            assert b"Upgrade: websocket" in head, head
            sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
            sock.sendall(sock.recv(100)[::-1])

        self.lab.serve(self.lab.internet, WEB, 8081, server)
        request = self.request("GET /ws HTTP/1.1", "Host: web.test:8081", "Upgrade: websocket", "Connection: Upgrade")
        for rule, ok in (("allow WEBSOCKET web.test:8081/ws", True), ("allow GET web.test:8081/ws", False)):
            self.rules(rule)
            with self.space.connect(self.name("web.test"), 8081) as sock:
                sock.sendall(request)
                head = sock.recv(1000)
                assert head.startswith(b"HTTP/1.1 101" if ok else b"HTTP/1.1 403"), head
                if ok:
                    sock.sendall(b"abc")
                    assert sock.recv(100) == b"cba"

    def test_no_proxy(self):
        """Where nobody looks, a proxy would be asked for what rules deny. Control: it is, where there are none, or one says so."""
        asked = []

        def proxy(sock):
            if data := sock.recv(65536):
                asked.append(data)
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")

        self.lab.serve(self.lab.internet, OTHER, 3128, proxy)
        ways = [((), f"{OTHER}:3128", True), (("deny * web.test",), f"{OTHER}:3128", False), (("deny * web.test",), "*:3128", False),
                (("deny * web.test", "allow * *:3128"), "", False), (("deny * web.test", f"allow * {OTHER}:3128"), "", True)]
        for i, (rules, allow, free) in enumerate(ways):
            self.rules(*rules, allow=allow)
            for line in ("CONNECT web.test:443", "GET http://web.test/admin", "connect web.test:443")[:3 if i < 2 else 2]:
                before = len(asked)
                with self.space.connect(OTHER, 3128) as sock:
                    sock.sendall(self.request(f"{line} HTTP/1.1", "Host: web.test"))
                    got = receive_all(sock)
                assert len(asked) == before + free and got.startswith(b"HTTP/1.1 200" if free else b"HTTP/1.1 4"), (line, rules, got)
                assert free or line[0] == "c" or f"allow * {OTHER}:3128".encode() in got, got
        self.rules("deny * web.test", allow=f"{OTHER}:3128")
        for host in (OTHER, "whoever.test"):  # a server that is no proxy
            with self.space.connect(OTHER, 3128) as sock:
                sock.sendall(self.request("GET /x HTTP/1.1", f"Host: {host}"))
                assert receive_all(sock).endswith(b"ok"), host
            assert b"Host: " + host.encode() in asked[-1], asked[-1]

        def echo(sock):
            while data := sock.recv(100):
                sock.sendall(data)

        self.lab.serve(self.lab.internet, OTHER, 3129, echo)
        for rule, ends in (("deny * web.test", True), (f"allow * {OTHER}:3129", False)):
            self.rules(allow=f"{OTHER}:3129")
            with self.space.connect(OTHER, 3129) as sock:  # since before there were rules
                sock.sendall(b"x")
                assert sock.recv(1) == b"x"
                self.rules(rule, allow=f"{OTHER}:3129")
                try:
                    sock.sendall(b"CONNECT web.test:443 HTTP/1.1\r\n")
                    got = sock.recv(1)
                except OSError:
                    got = b""
                assert (got == b"") == ends, (rule, got)

    # -- leave --

    def in_thread(self, fn):
        result = []
        thread = threading.Thread(target=lambda: result.append(fn()), daemon=True)
        thread.start()

        def wait():
            thread.join(LIMIT)
            assert result, "it has not ended"
            return result[0]
        return wait

    def asked(self):
        return self.gateway.wait("asked", since=self.since).split()

    def test_leave_for_a_request(self):
        self.rules("ask POST web.test:8443/*", "allow * web.test:8443/*")
        for answer, status in (("yes", b"200"), ("no", b"403")):
            self.since = len(self.gateway.lines)
            before = len(arrived)
            wait = self.in_thread(lambda: self.once("POST /x", body=b"abc"))
            words = self.asked()
            assert words[2:] == ["POST", "https", "web.test", "8443", "/x", "1", "0"], words
            assert len(arrived) == before
            assert self.once("GET /x")[0].startswith(b"HTTP/1.1 200")
            self.set(f"decide {words[1]} {answer}")
            assert wait()[0].startswith(b"HTTP/1.1 " + status)
        self.denied("web.test", 8443, "denied by hand")

    def test_leave_for_one_that_goes(self):
        """A program that was killed while it waited: nobody is asked any more, and nothing is sent when somebody says yes."""
        self.rules("ask POST web.test:8443/*", "ask POST web.test:8080/*")
        before = len(arrived)
        for port, connect in ((8443, self.connect), (8080, lambda: self.space.connect(self.name("web.test"), 8080))):
            for body in (b"", b"abc"):
                self.since = len(self.gateway.lines)
                with connect() as sock:
                    sock.sendall(self.request("POST /gone HTTP/1.1", f"Host: web.test:{port}", f"Content-Length: {len(body)}", body=body))
                    number = self.asked()[1]
                assert self.gateway.wait("unasked", since=self.since).split()[1:3] == [number, "1"]
                self.set(f"decide {number} yes")
                self.logged(method="POST", port=port, path="/gone", reason="it hung up while it waited for leave")
        with self.space.connect(self.name("web.test"), 8080) as sock:
            sock.sendall(self.request("POST /half HTTP/1.1", "Host: web.test:8080", "Content-Length: 0"))
            self.asked()
            sock.shutdown(socket.SHUT_WR)
            assert b"hung up while it waited" in sock.makefile("rb").read()
        assert len(arrived) == before

    def test_leave_for_one(self):
        """Leave for a request that changes something is for that one; those that only read and ask the same share it."""
        self.rules("ask POST web.test:8443/*", "ask GET web.test:8443/*")
        for method, questions in (("POST", 2), ("GET", 1)):
            self.since = len(self.gateway.lines)
            before = len(arrived)
            secure = [self.connect() for _ in range(2)]
            waits = [self.in_thread(lambda s=s, m=method: self.ask(s, f"{m} /x")) for s in secure]
            self.asked()
            time.sleep(0.5)
            asked = [line.split()[1] for line in self.gateway.lines[self.since:] if line.startswith("asked")]
            assert len(asked) == questions, asked
            self.set(f"decide {asked[0]} yes")
            self.set(f"decide {asked[-1]} no")
            said = [wait() for wait in waits]
            answers = sorted(head.split()[1] for head, _ in said)
            for s in secure:
                s.close()
            assert answers == ([b"200", b"403"] if questions == 2 else [b"200"] * 2), (method, said)
            assert len(arrived) == before + answers.count(b"200")

    def test_leave_behind_a_server(self):
        """Who is asked may think for longer than the server keeps the connection: it is connected to once more."""
        self.rules("ask POST web.test:8443/*", "allow * web.test:8443/*")
        self.since = len(self.gateway.lines)
        with self.connect() as secure:
            assert self.ask(secure, "GET /last")[1] == b"last"
            wait = self.in_thread(lambda: self.ask(secure, "POST /x", body=b"abc"))
            words = self.asked()
            time.sleep(0.6)
            self.set(f"decide {words[1]} yes")
            assert wait()[1] == b"POST /x HTTP/1.1|abc"

    def test_leave_for_a_connection(self):
        """An unlisted name waits, and nobody outside is asked for it meanwhile."""
        self.rules(ask=60)
        for answer in ("yes", "no"):
            self.since = len(self.gateway.lines)
            wait = self.in_thread(lambda: self.try_tls())
            words = self.asked()
            assert words[2:] == ["-", "https", "web.test", "443", "-", "0", "0"], words
            self.set(f"decide {words[1]} {answer}")
            assert wait() == (b"hi" if answer == "yes" else None)
        self.since = len(self.gateway.lines)
        wait = self.in_thread(lambda: self.get(self.space, self.name("web.test"), "web.test", "/y", half_close=False))
        words = self.asked()
        assert words[2:7] == ["GET", "http", "web.test", "80", "/y"], words
        self.set(f"decide {words[1]} yes")
        assert wait().startswith(b"HTTP/1.1 200")

    def try_tls(self):
        try:
            return self.tls(self.space, self.name("web.test"), "web.test")
        except OSError:
            return None

    def test_nobody_answers(self):
        self.rules(ask=1)
        begun = time.monotonic()
        text = self.get(self.space, self.name("web.test"), "web.test", half_close=False)
        self.told(text, "403", "nobody gave leave in time")
        assert time.monotonic() - begun < LIMIT
        assert self.gateway.wait("unasked", since=self.since).split()[2] == "0"

    def test_rules_answer(self):
        """Whoever waits goes on when a rule allows it; one that gave up does not wait."""
        self.rules(ask=60)
        wait = self.in_thread(self.try_tls)
        self.asked()
        self.set("allow web.test")
        assert wait() == b"hi"
        self.rules(ask=60)
        self.since = len(self.gateway.lines)
        with self.space.connect(self.name("web.test"), 9000):
            self.asked()
        assert self.gateway.wait("unasked", since=self.since).split()[2] == "1"

    def test_hangs_up(self):
        """Who has gone before he is let through was not: it is told as refused, for what was let through is learnt from that."""
        self.rules(allow="web.test")
        for address, name in ((REFUSER, "?"), (PRIVATE, PRIVATE)):  # without a word
            with self.space.connect(address, 80):
                pass
            assert self.logged(host=name, port=80)["refused"] == "1", name
        self.rules("ask * *")
        for request, method in ((b"", "-"), (b"POST /x HTTP/1.1\r\nHost: web.test\r\nContent-Length: 0\r\n\r\n", "POST")):
            self.since = len(self.gateway.lines)
            if request:
                self.rules("ask POST web.test/*")
            with self.space.connect(self.name("web.test"), 80 if request else 9000) as sock:
                sock.sendall(request)
                self.asked()
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # it resets
            self.logged(host="web.test", method=method, refused=1, reason="it hung up while it waited for leave")

    # -- refusals, budgets --

    def test_told_within_tls(self):
        """With an authority, HTTPS to a name that is not allowed is told so, too."""
        self.rules("allow GET web.test:8443/*")
        self.authority()
        context = ssl.create_default_context(cafile=f"{SCRATCH}/authority.pem")
        for address in (self.name("other.test"), REFUSER):
            with self.space.connect(address, 443) as sock, \
                    context.wrap_socket(sock, server_hostname="other.test") as secure:
                head, text = self.ask(secure, "GET /x", "other.test")
                assert head.startswith(b"HTTP/1.1 403 ") and b"allow GET other.test/x" in text, (head, text)
        self.logged(method="GET", scheme="https", host="other.test", path="/x", status=403, refused=1)

    def test_broken_off(self):
        """Who does not trust the session's authority says so in the midst of the handshake, or goes behind it without a word."""
        self.rules("allow GET web.test:8443/*")
        self.authority()
        unverified = ssl.create_default_context()
        unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
        for context, way in ((ssl.create_default_context(), None), (unverified, "closes"), (unverified, "resets")):
            self.since = len(self.gateway.lines)
            try:
                with self.space.connect(self.name("web.test"), 8443) as sock, \
                        context.wrap_socket(sock, server_hostname="web.test") as secure:
                    if way == "resets":
                        secure.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except ssl.SSLCertVerificationError:
                assert not way
            assert self.logged(host="web.test", method="-")["reason"] == "the program broke off TLS", way
        self.since = len(self.gateway.lines)
        assert self.once("GET /x")[0].startswith(b"HTTP/1.1 200")  # control: who asks does not
        assert self.logged(path="/x")["status"] == "200" and not self.gateway.find("logged method=- ", since=self.since)

    def test_of_no_name(self):
        """What names nobody is refused, and the network goes on: nothing is told of nobody."""
        self.rules(allow="web.test")
        for request in (b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nHost:\r\n\r\n", b"no request\r\n\r\n"):
            with self.send(self.space, REFUSER, [request], port=80) as sock:
                assert not receive_all(sock).startswith(b"HTTP/1.1 200"), request
        self.denied("?", 80, "no HTTP host")
        self.rules("deny * *.wild.test:80", allow="*")
        self.told(self.get(self.space, REFUSER, "a.b.wild.test"), "403", "rule 1 of net/rules denies it")
        assert self.get(self.space, self.name("web.test"), "web.test").endswith(WEB.encode())

    def test_no_port(self):
        """To lists 0 is any port. Whoever connects to it is refused, and the network goes on."""
        for allow, ask in (("web.test", 0), ("*", 0), ("", 60)):
            self.rules(allow=allow, ask=ask)
            self.refused(self.name("web.test"), 0)
            self.refused(WEB, 0)
        self.denied("web.test", 0, "port not allowed")
        self.rules(allow="web.test")
        assert self.get(self.space, self.name("web.test"), "web.test").endswith(WEB.encode())

    def test_requests_of_sorts(self):
        """Behind what only some servers read as a request there may be another one: rules see that."""
        seen = []

        def server(sock):
            while data := sock.recv(65536):
                seen.append(data)
                sock.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

        self.lab.serve(self.lab.internet, WEB, 8083, server)
        self.rules("deny POST web.test:8083/x", allow="web.test:8083")
        for line in ("FOO x HTTP/1.1", "FOO /\x01 HTTP/1.1", "F(O)O / HTTP/1.1"):
            with self.send(self.space, self.name("web.test"), [self.request(line, "Host: web.test:8083")], port=8083) as sock:
                answer = sock.recv(1000)
                assert answer.startswith(b"HTTP/1.1 400") and not seen, (line, answer, seen)
        with self.send(self.space, self.name("web.test"), [b"NICK x\r\n"], port=8083) as sock:
            assert sock.recv(1000) and seen == [b"NICK x\r\n"], seen  # control: other protocols pass

    def test_old_hello(self):
        """A hello of TLS in the record of SSL 2 is one."""
        seen = []

        def server(sock):
            seen.append(sock.recv(65536))

        self.lab.serve(self.lab.internet, WEB, 8084, server)
        self.rules("deny POST web.test:8084/x", allow="web.test:8084")
        hello = b"\1\3\3" + struct.pack(">HHH", 9, 0, 32) + b"\0\xc0\x2b\0\xc0\x2c\0\0\xff" + os.urandom(32)
        with self.send(self.space, self.name("web.test"), [struct.pack(">H", 0x8000 | len(hello)) + hello], port=8084) as sock:
            with contextlib.suppress(ConnectionError):
                sock.recv(1000)
        assert self.logged(host="web.test", port=8084)["reason"] == "the program broke off TLS" and not seen, seen

    def test_budgets(self):
        self.rules("allow GET web.test:8443/*")
        self.set("budget 0 2 0 0")
        try:
            head, text = self.once("GET /")
            assert head.startswith(b"HTTP/1.1 429 ") and b"net_requests" in text, (head, text)
            self.set("budget 0 1000 0 0")
            assert self.once("GET /")[0].startswith(b"HTTP/1.1 200")
            self.set("budget 0 0 2 0")
            self.refused(self.name("web.test"), 8443)
            self.set("budget 1000 0 0 0")
            self.refused(self.name("web.test"), 8443)
            self.denied("web.test", 8443, "the budget is used up")
        finally:
            self.set("budget 0 0 0 0")

    def test_told_unasked(self):
        """What was used is told when it has changed, not only when somebody asks: by then the sandbox may be gone."""
        self.rules("allow GET web.test:8443/*")
        before = [int(x) for x in self.gateway.ask("stats", "stats").split()[1:]]
        since = len(self.gateway.lines)
        begun = time.monotonic()
        assert len(self.once("GET /big")[1]) > 10_000_000
        while True:
            line = self.gateway.wait("stats", since=since)
            now = [int(x) for x in line.split()[1:]]
            if now[0] - before[0] > 10_000_000 and (now[2], now[5]) == (before[2] + 1, before[5] + 1):
                break
            since = self.gateway.lines.index(line, since) + 1
        lines = [x for x in self.gateway.lines[since:] if x.startswith("stats")]
        assert len(lines) < 10 + (time.monotonic() - begun) * 50, lines  # and not for each packet

    def test_rate(self):
        self.rules("allow GET web.test:8443/*")
        self.set("budget 0 0 0 4000000")
        try:
            begun = time.monotonic()
            assert len(self.once("GET /big")[1]) > 10_000_000
            assert time.monotonic() - begun > 2, "ten million bytes at four a second"
        finally:
            self.set("budget 0 0 0 0")

    def test_zz_end(self):
        self.rules(allow=LIST)
        assert self.tls(self.space, self.name("web.test"), "web.test") == b"hi"


if __name__ == "__main__":
    main(Rules)
