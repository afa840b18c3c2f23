#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbxfs-net test/net_fixture
"""xsbxfs-net: secrets go with requests to their places, nowhere else, and do not come back."""

import base64
import errno
import gzip
import json
import os
import socket
import ssl
import sys
import threading
import time
import urllib.parse

from netguest import Guest, main  # noqa: E402
from netlab import LIMIT, OTHER, REFUSER, WEB, read_message  # noqa: E402

SCRATCH = os.environ.get("SCRATCH", "/tmp")
VALUE = 'tok-5e/cr&t "42" and on'
LABEL = b"xsbx-secret-token"
HIDDEN = (LABEL + b"*" * len(VALUE))[:len(VALUE)]
SECOND = "another-value-0815"


class Secrets(Guest):
    stream = ("test_ways", "test_repeated", "test_nothing_is_left")

    def __init__(self, lab, gateway):
        super().__init__(lab, gateway)
        self.seen = []  # heads and bodies that have arrived
        self.set("trust " + SCRATCH + "/cert")
        for address in (WEB, OTHER):
            lab.serve(lab.internet, address, 8443, self.tls_server)
            lab.serve(lab.internet, address, 8080, self.server)

    def give(self, name, value):
        with open(f"{SCRATCH}/value", "w") as file:
            file.write(value)
        since = len(self.gateway.lines)
        self.set(f"secret {name} {SCRATCH}/value")
        return self.gateway.wait("secret ", since=since).split()[1:]

    def uses(self, *uses, token=VALUE, allow="web.test:8443 other.test:8443 web.test:8080"):
        """With a value of `token`."""
        self.seen.clear()
        self.set("rules")
        self.set("allow " + allow)
        self.set("secrets")
        self.set("secrets " + " ".join(uses))
        if token:
            assert self.give("token", token + "\n") == ["token", "0", "0"]

    # -- the server --

    def tls_server(self, sock):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{SCRATCH}/cert", f"{SCRATCH}/key")
        with context.wrap_socket(sock, server_side=True) as secure:
            self.server(secure)

    def server(self, sock):
        """Repeats what it is sent, in the manner that the path says."""
        data = b""
        while message := read_message(sock, data):
            head, body, data = message
            self.seen.append((head, body))
            if not self.reply(sock, head, body):
                return

    def reply(self, sock, head, body):
        manner = head.split(b" ")[1].split(b"?")[0].rsplit(b"/", 1)[-1].decode()
        said = head + b"\n" + body
        if manner == "redirect":
            sock.sendall(b"HTTP/1.1 302 Found\r\nLocation: https://other.test:8443/x?k=%s\r\nContent-Length: 0\r\n\r\n" %
                         self.field(head, "Authorization"))
        elif manner == "head":
            words = self.field(head, "Authorization") or b"-"
            sock.sendall(b"HTTP/1.1 103 Early\r\nX-A: %s\r\n\r\nHTTP/1.1 200 %s\r\nX-B: %s\r\n"
                         b"Content-Length: 2\r\n\r\nok" % (words, words, words))
        elif manner == "bytes":
            sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for i in range(len(said)):
                sock.sendall(b"1\r\n%c\r\n" % said[i])
            sock.sendall(b"0\r\nX-Trailer: %s\r\n\r\n" % self.field(head, "Authorization"))
        elif manner == "base64":
            self.whole(sock, base64.b64encode(said))
        elif manner == "percent":
            self.whole(sock, urllib.parse.quote(said.decode(), safe="").encode())
        elif manner == "json":
            self.whole(sock, json.dumps({"said": said.decode()}).encode())
        elif manner == "gzip":
            self.whole(sock, gzip.compress(said), b"Content-Encoding: gzip\r\n")
        elif manner == "big":
            self.whole(sock, (said + b"x" * 100_000) * 20)
        elif manner == "slow":  # its words come in two parts
            words = b"<" + self.field(head, "Authorization") + b">"
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(words), words[:-6]))
            time.sleep(0.3)
            sock.sendall(words[-6:])
        elif manner == "events":
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
            sock.recv(100)  # until the guest has read it, and goes
            return False
        elif manner == "close":
            sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + said)
            return False
        elif manner == "socket":
            return self.websocket(sock, said)
        else:
            self.whole(sock, said)
        return True

    def whole(self, sock, body, more=b""):
        sock.sendall(b"HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s" % (more, len(body), body))

    def websocket(self, sock, said):
        """No frames: the bytes are what matters. It waits for the guest after each message."""
        sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + said)
        while part := sock.recv(65536):
            sock.sendall(b"<" + part + b">")
        return False

    @staticmethod
    def field(head, name):
        found = [x.split(b": ", 1)[1] for x in head.split(b"\r\n")[1:] if x.lower().startswith(name.lower().encode() + b": ")]
        assert len(found) < 2, (head, name)
        return found[0] if found else b""

    # -- the guest --

    def connect(self, name="web.test", port=8443):
        if port == 8080:
            return self.space.connect(self.name(name), port)
        with open(f"{SCRATCH}/authority.pem", "w") as file:
            file.write(ssl.DER_cert_to_PEM_cert(bytes.fromhex(self.gateway.wait("authority").split()[1])))
        context = ssl.create_default_context(cafile=f"{SCRATCH}/authority.pem")
        return context.wrap_socket(self.space.connect(self.name(name), port), server_hostname=name)

    def fetch(self, line, *fields, name="web.test", port=8443, body=b""):
        """Return: all that is answered, and the last head and body that have arrived."""
        before = len(self.seen)
        with self.connect(name, port) as sock:
            more = [f"Content-Length: {len(body)}"] if body else []
            sock.sendall(self.request(f"{line} HTTP/1.1", f"Host: {name}:{port}", "Connection: close", *fields, *more, body=body))
            data = b""
            while part := sock.recv(65536):
                data += part
        return data, *(self.seen[-1] if len(self.seen) > before else (b"", b""))

    def hidden(self, answer):
        for form in (VALUE, VALUE[:12], urllib.parse.quote(VALUE, safe=""), json.dumps(VALUE)[1:-1]):
            assert form.encode() not in answer, (form, answer)
        for i in range(3):
            part = base64.b64encode(b"x" * i + VALUE.encode())[4:16]
            assert part not in answer, (part, answer)

    # -- tests --

    def test_control(self):
        """Without uses the server sees what the guest sends, and the guest what the server says."""
        self.uses(token=None, allow="web.test:8080")
        answer, head, _ = self.fetch("GET /x", f"Authorization: Bearer {VALUE}", "Accept-Encoding: gzip", port=8080)
        assert self.field(head, "Authorization").decode() == "Bearer " + VALUE and VALUE.encode() in answer, (head, answer)
        assert self.field(head, "Accept-Encoding") == b"gzip"

    def test_ways(self):
        self.uses("web.test:8443/b* bearer token", "web.test:8443/u* basic me token", "web.test:8443/h* header X-Api-Key token",
                  "web.test:8443/q* query key token", "web.test:8443/b* basic late token")
        _, head, _ = self.fetch("GET /b", "Authorization: mine", "authorization: mine", "Accept-Encoding: gzip", "Range: bytes=1-2")
        assert self.field(head, "Authorization").decode() == "Bearer " + VALUE, head
        assert b"mine" not in head and b"Range" not in head and self.field(head, "Accept-Encoding") == b"identity", head
        _, head, _ = self.fetch("GET /u")
        assert base64.b64decode(self.field(head, "Authorization").split()[1]).decode() == "me:" + VALUE, head
        _, head, _ = self.fetch("GET /h", "x_api_key: mine")
        assert self.field(head, "X-Api-Key").decode() == VALUE and b"mine" not in head, head
        for query in ("", "?", "?a=b&key=mine&c", "?%6bEY=mine&a=b;k%65y=mine&c", "?key", "?a=b&c#key=mine"):
            _, head, _ = self.fetch("GET /q" + query)
            target = head.split(b" ")[1].decode()
            assert "mine" not in target and target.endswith("key=" + urllib.parse.quote(VALUE, safe="")), (query, target)
            assert not query.startswith("?a=b&") or target.startswith("/q?a=b&c&key="), (query, target)
        line = self.logged(path="/q?a=b&key=mine&c", secret="token", status=200)
        assert urllib.parse.quote(VALUE, safe="") not in str(line)

    def test_nowhere_else(self):
        """Other paths and other hosts do not get it; the control is that the place does."""
        self.uses("web.test:8443/v1/* bearer token", "web.test:8443/v1/* placeholder token")
        assert VALUE.encode() in self.fetch("GET /v1/x")[1]
        for line, name, port in (("GET /v2", "web.test", 8443), ("GET /v1/x", "other.test", 8443), ("GET /v1/x", "web.test", 8080)):
            if name == "other.test":
                self.set("rules allow GET other.test:8443/*")
            _, head, _ = self.fetch(line, "X: xsbx-secret-token", name=name, port=port)
            assert head and VALUE.encode() not in head and b"Authorization" not in head and b"xsbx-secret-token" in head, head
        self.set("rules deny GET web.test:8443/v1/no")
        answer, head, _ = self.fetch("GET /v1/no")
        assert answer.startswith(b"HTTP/1.1 403 ") and not head, answer

    def test_not_in_the_clear(self):
        """Without a port a place is port 443, and there TLS is spoken or nothing."""
        self.lab.serve(self.lab.internet, "8.8.8.8", 443, self.server)
        self.uses("8.8.8.8 bearer token", "eight.test bearer token", allow="8.8.8.8:443 eight.test:443")
        # Where refusals are told of, the request alone says whom it is for.
        for address, name in (("8.8.8.8", "8.8.8.8"), (self.name("eight.test"), "eight.test"), (REFUSER, "eight.test"),
                              (self.name("refused.test"), "eight.test")):
            with self.space.connect(address, 443) as sock:
                try:
                    sock.sendall(self.request("GET /x HTTP/1.1", f"Host: {name}"))
                    answer = sock.recv(100)
                except ConnectionResetError:
                    answer = b""
            assert not answer and not self.seen, (address, name, answer, self.seen)

    def test_growth(self):
        """A body grows by the values in it, but not to what the filter does not have."""
        self.uses("web.test:8443 placeholder token", token="v" * 16000)
        for n, status in ((2, b"200"), (3000, b"429")):
            answer, _, body = self.fetch("POST /x", body=b"xsbx-secret-token " * n)
            assert answer.startswith(b"HTTP/1.1 " + status) and len(body) == (16001 * n if n == 2 else 0), (n, answer[:100], len(body))

    def test_redirect(self):
        self.uses("web.test:8443/redirect bearer token")
        self.set("rules allow * other.test:8443/*")
        answer, head, _ = self.fetch("GET /redirect")
        assert VALUE.encode() in head
        self.hidden(answer)
        assert b"Location: https://other.test:8443/x?k=Bearer " + HIDDEN in answer, answer
        for name, path in (("other.test", "/x"), ("web.test", "/y")):
            _, head, _ = self.fetch(f"GET {path}", name=name)
            assert head and b"Authorization" not in head, head

    def test_placeholder(self):
        self.uses("web.test:8443 placeholder token", "web.test:8443/n placeholder none")
        mark = "xsbx-secret-token"
        basic = base64.b64encode(f"me:{mark}".encode()).decode()
        _, head, _ = self.fetch(f"GET /x?a={mark}&b={mark}x&c={mark}.", f"X-A: a {mark}, {mark}!", f"Authorization: Basic {basic}")
        quoted = urllib.parse.quote(VALUE, safe="")
        assert head.startswith(f"GET /x?a={quoted}&b={mark}x&c={quoted}. HTTP/1.1\r\n".encode()), head
        assert self.field(head, "X-A").decode() == f"a {VALUE}, {VALUE}!", head
        assert base64.b64decode(self.field(head, "Authorization").split()[1]).decode() == "me:" + VALUE, head
        for kind, expected in (("application/json", json.dumps(VALUE)[1:-1]), ("text/plain", VALUE),
                               ("application/x-www-form-urlencoded", quoted)):
            body = f"<{mark}> and {mark}-not".encode()
            answer, _, arrived = self.fetch("POST /x", f"Content-Type: {kind}", body=body)
            assert arrived.decode() == f"<{expected}> and {mark}-not", arrived
            self.hidden(answer)
        answer, _, arrived = self.fetch("POST /x", "Expect: 100-continue", body=mark.encode())
        assert answer.startswith(b"HTTP/1.1 100 ") and arrived.decode() == VALUE, (answer, arrived)
        big = (mark * 5000).encode()
        assert self.fetch("POST /x", body=big)[2] == big  # as it is: it is no secret
        answer, head, _ = self.fetch("GET /n", "X: xsbx-secret-none")
        assert answer.startswith(b"HTTP/1.1 502 ") and b"no value" in answer and not head, answer
        assert self.fetch("GET /n")[1]  # where none is written, none is needed

    def test_repeated(self):
        """Whatever the server makes of it by itself."""
        self.uses("web.test:8443 bearer token", "web.test:8443 query key token")
        for manner in ("plain", "slow", "head", "bytes", "base64", "percent", "json", "big", "close"):
            answer, head, _ = self.fetch(f"GET /{manner}")
            assert VALUE.encode() in head, head
            self.hidden(answer)
            assert LABEL in answer, (manner, answer[:300])
            assert b" 200 " in answer, answer
        answer, _, _ = self.fetch("GET /gzip")
        assert answer.startswith(b"HTTP/1.1 502 ") and b"encoded" in answer, answer
        answer, head, _ = self.fetch("TRACE /x")
        assert answer.startswith(b"HTTP/1.1 403 ") and not head, answer

    def test_events(self):
        """Each comes at once, although it might be the beginning of more."""
        self.uses("web.test:8443 bearer token")
        with self.connect() as sock:
            sock.sendall(self.request("GET /events HTTP/1.1", "Host: web.test:8443"))
            data = b""
            while not data.endswith(b"data: 1\n\n"):
                part = sock.recv(65536)
                assert part, data
                data += part

    def test_repeated_to_another(self):
        """A request without it, on the same connection and host, does not get it either."""
        self.uses("web.test:8443/v1 bearer token")
        answer, head, _ = self.fetch("GET /x", f"X: {VALUE}")
        assert VALUE.encode() in head and b"Authorization" not in head
        self.hidden(answer)

    def test_websocket(self):
        self.uses("web.test:8443 bearer token")
        with self.connect() as sock:
            sock.sendall(self.request("GET /socket HTTP/1.1", "Host: web.test:8443", "Upgrade: websocket", "Connection: Upgrade",
                                      "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: eA==",
                                      "Sec-WebSocket-Extensions: permessage-deflate"))
            data = b""
            while not data.endswith(b"Upgrade\n"):
                part = sock.recv(65536)
                assert part, data
                data += part
            assert HIDDEN in data and b"deflate" not in self.seen[-1][0], (data, self.seen)
            self.hidden(data)
            for message in (b"hello", VALUE[:8].encode(), VALUE.encode(), b"and on"):
                sock.sendall(message)  # each waits for its answer
                data = b""
                while b">" not in data:
                    data += sock.recv(65536)
                assert data == b"<%s>" % (HIDDEN if message == VALUE.encode() else message), (message, data)

    def test_missing(self):
        self.uses("web.test:8443 bearer absent", token=None)
        answer, head, _ = self.fetch("GET /x")
        assert answer.startswith(b"HTTP/1.1 502 ") and b"its secret has no value" in answer and not head, answer
        self.logged(path="/x", status=502, refused=0)

    def test_values(self):
        """What is no value does not replace one."""
        self.uses("web.test:8443 bearer token")
        for value, result in (("", "1"), ("\n\n", "1"), ("short", "2"), ("x" * 16385, "2"), ("two\nlines of it", "3"),
                              ("tab\tin it", "3"), ("x" * 20000, "2")):
            assert self.give("token", value) == ["token", result, "0"], value
            assert self.field(self.fetch("GET /x")[1], "Authorization").decode() == "Bearer " + VALUE
        assert self.give("token", "next value\r\nexpires=120\n") == ["token", "0", "120"]
        assert self.field(self.fetch("GET /x")[1], "Authorization") == b"Bearer next value"
        assert self.give("unused", "some value") == ["unused", "1", "0"]
        assert self.give("token", SECOND) == ["token", "0", "0"]
        with self.connect() as sock:  # on one connection: both are taken out of its answers
            for value in (SECOND, VALUE):
                self.give("token", value)
                sock.sendall(self.request("GET /x HTTP/1.1", "Host: web.test:8443", f"X: {SECOND} {VALUE}"))
                data = b""
                while b"X: " not in data.split(b"\r\n\r\n", 1)[-1]:
                    data += sock.recv(65536)
                assert SECOND.encode() not in data, data
                assert (VALUE.encode() in data) == (value == SECOND), data  # not yet, and then
        self.set("secrets")
        self.set("secrets web.test:8443 bearer token")
        assert self.fetch("GET /x")[0].startswith(b"HTTP/1.1 502 ")  # it was forgotten

    def test_waits_for_value(self):
        """A request that comes while the value is read waits for it."""
        self.uses("web.test:8443 bearer token", token=None)
        os.mkfifo(f"{SCRATCH}/pipe{len(self.gateway.lines)}")
        path = f"{SCRATCH}/pipe{len(self.gateway.lines)}"
        writer = []
        opener = threading.Thread(target=lambda: writer.append(open(path, "w")))
        opener.start()
        self.set(f"secret token {path}")
        opener.join(LIMIT)
        threading.Timer(0.5, lambda: (writer[0].write(SECOND), writer[0].close())).start()
        begun = time.monotonic()
        _, head, _ = self.fetch("GET /x")
        assert self.field(head, "Authorization").decode() == "Bearer " + SECOND and time.monotonic() - begun > 0.3
        assert not [x for x in self.gateway.lines if SECOND in x or VALUE in x]

    def test_memory(self):
        """Locked, if that is possible, and no longer there when it is not used any more."""
        unique = "unique-value-" + os.urandom(8).hex()
        self.uses("web.test:8443 bearer token", token=unique)
        assert unique.encode() in self.memory()  # control
        self.set("secrets")
        assert unique.encode() not in self.memory()

    def memory(self):
        """All of it: what is unmapped while it is read is looked at anew."""
        for _ in range(100):
            try:
                return self.read_memory()
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
        raise AssertionError("its memory can't be read")

    def read_memory(self):
        found = b""
        with open(f"/proc/{self.gateway.pid}/maps") as maps, open(f"/proc/{self.gateway.pid}/mem", "rb", 0) as mem:
            for line in maps:
                begin, end = (int(x, 16) for x in line.split()[0].split("-"))
                if "rw" in line.split()[1] and end - begin < 1 << 27:
                    mem.seek(begin)
                    found += mem.read(end - begin)
        return found


if __name__ == "__main__":
    socket.setdefaulttimeout(LIMIT)
    main(Secrets)
