#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbxfs-net test/net_fixture
"""xsbxfs-net: HTTP/2 that is looked into, with clients and servers as they are found, and such as are not."""

import contextlib
import os
import socket
import ssl
import subprocess
import sys
import threading
import time

try:
    import h2_peer
    from h2_peer import CONTINUATION, DATA, END_HEADERS, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, Peer, request
except ImportError:
    print("SKIP: there is no python3-hpack here (Debian: python3-h2)")
    sys.exit(77)
from netguest import Guest, main
from netlab import LIMIT, OTHER, WEB
from servers import await_port, find, start, start_nginx

for program in "curl", "nghttp", "nghttpd", "nginx", "h2load":
    find(program)

SCRATCH = os.environ.get("SCRATCH", "/tmp")
NGHTTPD, ECHO, TRAILS, NGINX, OLD, RAW = 8001, 8002, 8003, 8004, 8005, 8006
BIG = 10 << 20
raw = []  # what servers of our own do with a connection, first come first served
raw_seen = []  # requests that they were sent


def rules(*extra):
    ports = NGHTTPD, ECHO, TRAILS, NGINX, OLD, RAW
    return " ".join([*extra, *(f"deny * web.test:{port}/admin*" for port in ports), *(f"allow * web.test:{port}/*" for port in ports)])


# -- servers --

def start_nghttpd(lab, port, *options):
    return start(lab, SCRATCH, "nghttpd", "-a", WEB, "-d", f"{SCRATCH}/www", *options, str(port), f"{SCRATCH}/key", f"{SCRATCH}/cert")


def serve_nginx(lab):
    common = f"ssl_certificate {SCRATCH}/cert; ssl_certificate_key {SCRATCH}/key; root {SCRATCH}/www;"
    start_nginx(lab, SCRATCH, f"""access_log off; {common}
        server {{ listen {WEB}:{NGINX} ssl http2; client_max_body_size 1k; keepalive_requests 5; }}
        server {{ listen {WEB}:{OLD} ssl; }}""")


def serve_raw(sock):
    """What the test in hand says, with HTTP/2 if it is not to be anything else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{SCRATCH}/cert", f"{SCRATCH}/key")
    context.set_alpn_protocols(["h2"])
    with context.wrap_socket(sock, server_side=True) as secure:
        handler = raw.pop(0) if raw else None
        if not handler:
            return
        peer = Peer(secure, client=False)
        handler(peer)
        while peer.read():  # or its end would throw away what is on its way
            pass


def start_all(lab):
    os.makedirs(f"{SCRATCH}/www/admin", exist_ok=True)
    for name, data in (("small", b"small\n"), ("big", os.urandom(BIG)), ("admin/x", b"secret\n")):
        with open(f"{SCRATCH}/www/{name}", "wb") as file:
            file.write(data)
    start_nghttpd(lab, NGHTTPD)
    start_nghttpd(lab, ECHO, "--echo-upload", "-m", "8")
    start_nghttpd(lab, TRAILS, "--trailer", "grpc-status: 0", "-b", "100")
    serve_nginx(lab)
    lab.serve(lab.internet, WEB, RAW, serve_raw)
    for port in NGHTTPD, ECHO, TRAILS, NGINX, OLD:
        await_port(lab, WEB, port)


class H2(Guest):
    stream = ("test_get", "test_large", "test_nothing_is_left")
    ready = None

    def prepare(self):
        """Once for each gateway: its rules, what it trusts, and what the guest trusts."""
        if self.ready is self.gateway:
            return
        H2.ready = self.gateway
        self.set(f"trust {SCRATCH}/cert")
        self.set("rules " + rules())
        der = bytes.fromhex(self.gateway.wait("authority").split()[1])
        with open(f"{SCRATCH}/ca", "w", encoding="ascii") as file:
            file.write(ssl.DER_cert_to_PEM_cert(der))
        with open(f"{SCRATCH}/hosts", "w", encoding="ascii") as file:
            file.write(f"{self.name('web.test')} web.test\n{self.name('other.test')} other.test\n")

    def memory(self):
        """KiB; sanitizers take more, and are not measured."""
        if "san" in os.environ.get("BUILD", ""):
            return 0
        with open(f"/proc/{self.gateway.pid}/status", encoding="ascii") as file:
            return int(next(x for x in file if x.startswith("VmRSS")).split()[1])

    @contextlib.contextmanager
    def secret(self, value, *uses):
        """Uses of `token`, which has this value, until the block ends."""
        with open(f"{SCRATCH}/value", "w", encoding="ascii") as file:
            file.write(value)
        self.prepare()
        self.set("secrets " + " ".join(uses))
        self.set(f"secret token {SCRATCH}/value")
        try:
            yield
        finally:
            self.set("secrets")

    # -- clients --

    def run(self, *args, **more):
        """A program in the guest, which knows the test's names."""
        self.prepare()
        with self.space.entered():
            return subprocess.run(["unshare", "-m", "sh", "-c", f'mount --bind {SCRATCH}/hosts /etc/hosts && exec "$@"', "sh", *args],
                                  capture_output=True, check=False, timeout=2 * LIMIT, **more)

    def curl(self, *args, port=NGHTTPD, path="/small", **more):
        """Return: (status, version, body)."""
        done = self.run("curl", "-sS", "--http2", "--path-as-is", "-m", str(LIMIT), "--cacert", f"{SCRATCH}/ca", "-w",
                        "%{stderr}%{http_code} %{http_version} %{num_connects}", *args, f"https://web.test:{port}{path}", **more)
        words = done.stderr.decode().split()
        assert done.returncode == 0 and len(words) >= 3, done
        return words[-3], words[-2], done.stdout

    @contextlib.contextmanager
    def peer(self, port=NGHTTPD, **more):
        """A client without manners."""
        self.prepare()
        context = ssl.create_default_context(cafile=f"{SCRATCH}/ca")
        context.set_alpn_protocols(["h2"])
        with self.space.connect(self.name("web.test"), port) as sock, \
                context.wrap_socket(sock, server_hostname="web.test") as secure:
            assert secure.selected_alpn_protocol() == "h2"
            yield Peer(secure, **more)

    def refused_stream(self, peer, stream, fields, status, *words):
        peer.headers(stream, fields)
        got, headers, body, _ = peer.answer(stream)
        assert got == status and "x-xsbxfs" in headers, (got, headers, body)
        for word in words:
            assert word.encode() in body, body

    # -- as it should be --

    def test_get(self):
        assert self.curl() == ("200", "2", b"small\n")
        assert self.curl(path="/none")[:2] == ("404", "2")
        assert self.curl("-I")[:2] == ("200", "2")
        found = self.logged(path="/small", method="GET", status=200)
        assert found["version"] == "2" and found["refused"] == "0" and int(found["in"]) > 6 and int(found["out"]) > 10, found
        assert self.curl(port=NGINX) == ("200", "2", b"small\n")

    def test_server_without(self):
        assert self.curl(port=OLD) == ("200", "1.1", b"small\n")
        assert self.curl("--http1.1", port=NGINX)[:2] == ("200", "1.1")

    def test_large(self):
        with open(f"{SCRATCH}/www/big", "rb") as file:
            big = file.read()
        for port in NGHTTPD, NGINX, TRAILS:
            assert self.curl(port=port, path="/big") == ("200", "2", big), port
        found = self.logged(path="/big", status=200)
        assert BIG <= int(found["in"]) < BIG + 1000, found

    def test_upload(self):
        with open(f"{SCRATCH}/www/big", "rb") as file:
            big = file.read()
        assert self.curl("--data-binary", f"@{SCRATCH}/www/big", port=ECHO, path="/up") == ("200", "2", big)
        assert self.curl("-T", "-", port=ECHO, path="/up", input=b"piped") == ("200", "2", b"piped")
        assert self.curl("-d", "", port=ECHO, path="/up") == ("200", "2", b"")

    def test_side_by_side(self):
        for port in ECHO, NGHTTPD:  # one of them takes 8 at a time
            done = self.run("h2load", "-n", "200", "-c", "2", "-m", "20", f"https://web.test:{port}/small")
            assert b"200 succeeded, 0 failed" in done.stdout, done
        done = self.run("h2load", "-n", "6", "-c", "1", "-m", "6", f"https://web.test:{NGHTTPD}/big")
        assert b" 6 succeeded, 0 failed" in done.stdout, done

    def test_nghttp(self):
        """With what it has of priorities, paddings, and fields that must not be indexed."""
        done = self.run("nghttp", "-n", "-v", "-s", "-b", "50", "--expect-continue", "-H", "te: trailers", "-d", f"{SCRATCH}/www/small",
                        f"https://web.test:{ECHO}/up")
        assert done.returncode == 0 and b":status: 200" in done.stdout, done.stdout
        assert b":status: 100" in done.stdout, done.stdout

    def test_trailers(self):
        done = self.run("nghttp", "-v", f"https://web.test:{TRAILS}/small")
        assert b"grpc-status: 0" in done.stdout, done.stdout

        def serve(peer):
            raw_seen.append([peer.wait(HEADERS)[3], peer.wait(DATA)[3], peer.wait(HEADERS)[3]])
            peer.headers(1, [(":status", "200"), ("content-type", "application/grpc"), ("trailer", "grpc-status")], end=False)
            peer.data(1, b"ok")
            peer.headers(1, [("grpc-status", "7"), ("set-cookie", "x")])

        raw.append(serve)
        with self.peer(RAW) as peer:
            peer.headers(1, request("/grpc", "POST", "web.test:8006", ("te", "trailers"), ("cookie", "a=b"), ("cookie", "c=d")), end=False)
            peer.data(1, b"hello")
            peer.headers(1, [("x-checksum", "1"), ("authorization", "x")])
            status, fields, body, trailer = peer.answer(1)
        assert (status, body, trailer) == ("200", b"ok", {"grpc-status": "7"}), (status, body, trailer)
        assert fields["content-type"] == "application/grpc", fields
        head, body, trailer = raw_seen[-1]
        assert body == b"hello" and trailer == [("x-checksum", "1")], raw_seen
        assert head == request("/grpc", "POST", "web.test:8006", ("te", "trailers"), ("cookie", "a=b"), ("cookie", "c=d")), head

    def test_interim(self):
        def serve(peer):
            peer.wait(HEADERS)
            for _ in range(3):
                peer.headers(1, [(":status", "103"), ("link", "</x>")], end=False)
            peer.headers(1, [(":status", "204")])
            peer.wait(HEADERS)
            for _ in range(20):
                peer.headers(3, [(":status", "103"), ("link", "</x>")], end=False)
            peer.wait(RST_STREAM)

        raw.append(serve)
        with self.peer(RAW) as peer:
            peer.headers(1, request(authority="web.test:8006"))
            assert [dict(peer.wait(HEADERS)[3])[":status"] for _ in range(4)] == ["103"] * 3 + ["204"]
            peer.headers(3, request(authority="web.test:8006"))
            assert peer.answer(3)[0] == "502"

    # -- refused --

    def test_refused_among_allowed(self):
        with self.peer() as peer:
            peer.headers(1, request("/small", authority="web.test:8001"))
            self.refused_stream(peer, 3, request("/admin/x", authority="web.test:8001"), "403", "rule 1 of net/rules denies it")
            peer.headers(5, request("/admin/x", "HEAD", "web.test:8001"))
            status, fields, body, _ = peer.answer(5)
            assert (status, body) == ("403", b"") and int(fields["content-length"]) > 20, (status, fields)
            # Its body is thrown away, and if it is a long one, the client is told that nobody reads it.
            for stream in 7, 9:
                peer.headers(stream, request("/admin/x", "POST", "web.test:8001"), end=False)
                assert peer.answer(stream)[0] == "403"
            for _ in range(12):
                peer.data(7, b"x" * 5000)
                peer.data(9, b"x" * 5000)
            peer.data(9, b"", end=True)
            peer.wait(8, stream=7)  # more room
            peer.data(7, b"x" * 10000)
            assert peer.wait(RST_STREAM)[2:] == (7, b"\0\0\0\0")
            peer.headers(11, request("/small", authority="web.test:8001"))
            assert peer.answer(11)[2] == b"small\n"
        assert self.logged(path="/admin/x", method="POST", status=403)["refused"] == "1"
        assert self.curl(path="/admin/x")[:2] == ("403", "2")

    def test_other_hosts(self):
        def serve(peer):
            while frame := peer.wait(HEADERS):
                raw_seen.append(frame[3])
                peer.headers(frame[2], [(":status", "204")])

        raw.append(serve)
        before = len(raw_seen)
        bare = [(":method", "GET"), (":scheme", "https"), (":path", "/")]
        with self.peer(RAW) as peer:
            for i, (fields, status) in enumerate((
                    (request(authority="other.test:8006"), "403"),
                    (request(authority="web.test:8001"), "403"),
                    (request(authority="user@web.test:8006"), "403"),
                    (request("/", "GET", "web.test:8006", ("host", "other.test")), "403"),
                    (bare + [("host", "other.test:8006")], "403"),
                    (bare, "400"),
                    (request(authority="web.test:8006", scheme="http"), "400"),
                    (request("*", authority="web.test:8006"), "403"),
                    (request("/", "WEBSOCKET", "web.test:8006"), "400"),
                    (request("/", "get", "web.test:8006"), "400"),
                    ([(":method", "CONNECT"), (":authority", "other.test:443")], "403"),
                    ([(":method", "CONNECT"), (":authority", "web.test:8006")], "403"))):
                peer.headers(2 * i + 1, fields)
                got = peer.answer(2 * i + 1)
                assert got[0] == status or isinstance(got[0], tuple), (fields, got)
            for i, fields in enumerate((request(authority="web.test:8006"), bare + [("host", "web.test:8006")],
                                        request("/", "GET", "WEB.test:8006", ("host", "web.test:8006"))), 50):
                peer.headers(2 * i + 1, fields)
                assert peer.answer(2 * i + 1)[0] == "204", fields
        assert len(raw_seen) == before + 3, raw_seen[before:]
        assert self.curl("-H", "Host: other.test")[:2] == ("403", "2")
        self.logged(refused=1, reason="other HTTP host")

    def test_paths(self):
        for path in "/%61dmin/x", "//admin/x", "/x/../admin/x", "/./admin/x", "/x/%2e%2e/admin/x", "/ADMIN/../admin/x", "/admin/x?y":
            assert self.curl(path=path)[0] in ("403", "400"), path
        for path in "/x/..%2fadmin/x", "/x/..;/admin/x", "/small%00", "/x%252e%252e/../admin", "/small%":
            status, _, body = self.curl(path=path)
            assert status in ("400", "403") and body.startswith(b"xsbxfs: "), (path, status, body)
        with self.peer() as peer:
            for i, path in enumerate(("/small#/../admin/x", "small", "/a b", "", "/\x7f", "http://web.test/small", "/admin/x#")):
                peer.headers(2 * i + 1, request(path, authority="web.test:8001"))
                status, fields, _, _ = peer.answer(2 * i + 1)
                assert status == ("reset", 1) or (status in ("400", "403") and "x-xsbxfs" in fields), (path, status)

    def test_too_long(self):
        with self.peer() as peer:
            peer.headers(1, request("/small", "GET", "web.test:8001", *((f"x-{i}", "y") for i in range(200))))
            assert peer.answer(1)[0] == "400"
            peer.headers(3, request("/" + "a" * 9000, authority="web.test:8001"))
            assert peer.answer(3)[0] in ("400", "403", "404")
            block = peer.block(request("/small", "GET", "web.test:8001", *((f"x-{i}", "y" * 900) for i in range(60))))
            peer.frame(HEADERS, 1, 5, block[:16000])
            for at in range(16000, len(block), 16000):
                peer.frame(CONTINUATION, END_HEADERS if at + 16000 >= len(block) else 0, 5, block[at:at + 16000])
            assert peer.answer(5)[0] == "400"
            peer.headers(7, request("/small", authority="web.test:8001"))
            assert peer.answer(7)[0] == "200"

    def test_changed_rules(self):
        with self.peer() as peer:
            peer.headers(1, request("/big", authority="web.test:8001"))
            peer.wait(DATA, stream=1)
            peer.headers(3, request("/small", "POST", "web.test:8001"), end=False)
            peer.frame(PING, 0, 0, b"x" * 8)
            peer.wait(PING)
            try:
                self.set("rules " + rules("deny * web.test:8001/big", "deny POST web.test:8001/small"))
                status = peer.answer(1)[0]
                assert status == ("reset", 8), status
                peer.headers(5, request("/small", authority="web.test:8001"))
                assert peer.answer(5)[0] == "200"
            finally:
                self.set("rules " + rules())
        self.logged(path="/big", refused=1, reason="no longer allowed")
        self.logged(path="/small", method="POST", refused=1, reason="no longer allowed")

    def test_asked(self):
        """One waits, others go on; and it waits with a body."""
        try:
            self.prepare()
            self.set("ask 60")
            self.set("rules " + rules(f"ask * web.test:{ECHO}/up"))
            with self.peer(ECHO) as peer:
                for stream in 1, 3:
                    peer.headers(stream, request("/up", "POST" if stream == 1 else "PUT", "web.test:8002"), end=False)
                    peer.data(stream, b"z" * 1000, end=True)
                peer.headers(5, request("/small", authority="web.test:8002"))
                assert peer.answer(5)[2] == b"small\n"
                for method, answer in ("POST", "yes"), ("PUT", "no"):
                    line = self.gateway.wait("asked", since=self.since)
                    ids = {x.split()[2]: x.split()[1] for x in self.gateway.lines[self.since:] if x.startswith("asked")}
                    while method not in ids:
                        time.sleep(0.05)
                        ids = {x.split()[2]: x.split()[1] for x in self.gateway.lines[self.since:] if x.startswith("asked")}
                    assert line
                    self.gateway.process.stdin.write(f"decide {ids[method]} {answer}\n")
                    self.gateway.process.stdin.flush()
                assert peer.answer(1)[::2] == ("200", b"z" * 1000)
                status, _, body, _ = peer.answer(3)
                assert status == "403" and b"denied by hand" in body, (status, body)
                # Who does not wait any more is asked for no longer.
                since = len(self.gateway.lines)
                peer.headers(7, request("/up", "DELETE", "web.test:8002"))
                self.gateway.wait("asked", since=since)
                peer.reset(7)
                self.gateway.wait("unasked", since=since)
        finally:
            self.set("ask 0")
            self.set("rules " + rules())

    # -- slow, and reset --

    def test_slow_readers(self):
        """Who does not read gets no more than a window, and others go on."""
        with self.peer(settings=((4, 1000),)) as peer:
            for stream in range(1, 41, 2):
                peer.headers(stream, request("/big", authority="web.test:8001"))
            peer.headers(41, request("/small", authority="web.test:8001"))
            got = dict.fromkeys(range(1, 43, 2), 0)
            while got[41] < 6:
                frame = peer.wait(DATA)
                got[frame[2]] += len(frame[3])
            assert max(got.values()) <= 1000, got
            assert self.memory() < 30000
            peer.window(1, 1 << 30)
            while got[1] < BIG:
                frame = peer.wait(DATA, stream=1)
                got[1] += len(frame[3])

    def test_slow_servers(self):
        """... and a server that takes nothing: its client may send no more than is kept."""
        def serve(peer):
            raw_seen.append(peer)
            peer.wait(RST_STREAM)

        raw.append(serve)
        with self.peer(RAW) as peer:
            peer.headers(1, request("/", "POST", "web.test:8006"), end=False)
            room = 65535
            peer.sock.settimeout(2)
            with contextlib.suppress(TimeoutError, socket.timeout):
                while room > 0:
                    peer.data(1, b"x" * min(room, 16000))
                    room -= min(room, 16000)
                while frame := peer.read():
                    if frame[0] == 8 and frame[2] == 1:
                        room += int.from_bytes(frame[3], "big")
            assert room < 600000, room
            peer.sock.settimeout(LIMIT)
            peer.reset(1, 8)
            peer.frame(PING, 0, 0, b"x" * 8)
            assert peer.wait(PING)

    def test_resets(self):
        seen = []

        def serve(peer):
            peer.wait(HEADERS)
            seen.append(int.from_bytes(peer.wait(RST_STREAM)[3], "big"))
            peer.wait(HEADERS)
            peer.reset(3, 11)
            peer.wait(HEADERS)
            peer.headers(5, [(":status", "200")], end=False)
            peer.data(5, b"part")
            peer.reset(5, 2)
            peer.wait(HEADERS)  # an early answer: the rest is not wanted
            peer.headers(7, [(":status", "413")])
            peer.reset(7, 0)
            peer.wait(HEADERS)

        raw.append(serve)
        with self.peer(RAW) as peer:
            peer.headers(1, request(authority="web.test:8006"))
            peer.frame(PING, 0, 0, b"x" * 8)
            peer.wait(PING)
            peer.reset(1, 8)
            peer.headers(3, request(authority="web.test:8006"))
            assert peer.answer(3)[0] == ("reset", 11)
            peer.headers(5, request(authority="web.test:8006"))
            assert peer.answer(5)[::2] in ((("reset", 2), b"part"), (("reset", 2), b""))
            peer.headers(7, request("/", "POST", "web.test:8006"), end=False)
            assert peer.answer(7)[0] == "413"
            peer.data(7, b"x" * 1000, end=True)
            peer.frame(PING, 0, 0, b"y" * 8)
            while peer.wait(PING)[3] != b"y" * 8:
                pass
            assert not any(frame[0] == RST_STREAM for frame in peer.later)
        assert seen == [8], seen

    def test_bad_answers(self):
        def serve(peer):
            for stream, fields in ((1, [(":status", "abc")]), (3, [("x", "y")]), (5, [(":status", "200"), ("connection", "close")]),
                                   (7, [(":status", "101")]), (9, [(":status", "200"), ("X-Upper", "y")]),
                                   (11, [(":status", "200"), ("content-length", "5")])):
                peer.wait(HEADERS)
                peer.headers(stream, fields)
            peer.wait(HEADERS)
            peer.frame(DATA, 0, 13, b"no head")
            peer.wait(GOAWAY)

        raw.append(serve)
        with self.peer(RAW) as peer:
            for stream in range(1, 15, 2):
                peer.headers(stream, request(authority="web.test:8006"))
                status, _, body, _ = peer.answer(stream)
                assert status == "502" and b"xsbxfs: " in body, (stream, status, body)
        self.logged(status=502, path="/")

    def test_push(self):
        """A server that promises what nobody has asked for is not listened to any more."""
        def serve(peer):
            peer.wait(HEADERS)
            peer.frame(5, END_HEADERS, 1, b"\0\0\0\2" + peer.block(request("/pushed", authority="web.test:8006")))
            assert peer.goaway() == 1

        raw.append(serve)
        with self.peer(RAW) as peer:
            peer.headers(1, request(authority="web.test:8006"))
            ends = {}
            while frame := peer.wait(HEADERS, GOAWAY):
                ends[frame[2]] = dict(frame[3])[":status"] if frame[0] == HEADERS else frame[3][4:]
            assert ends == {0: b"\0\0\0\0", 1: "502"}, ends

    # -- secrets --

    def test_secrets(self):
        value, label = "tok-5e/cr&t and on", b"xsbx-secret-token*"
        seen = []

        def serve(peer):
            """Repeats its fields and what it got, byte by byte, and in its own fields."""
            while frame := peer.wait(HEADERS):
                stream, fields, body = frame[2], dict(frame[3]), b""
                flags = frame[1]
                while not flags & 1:
                    kind, flags, _, payload = peer.wait(DATA, HEADERS, stream=stream)
                    body += payload if kind == DATA else repr(payload).encode()
                seen.append((fields, body))
                said = (fields.get("authorization", "") + fields.get("x-k", "")).encode() + b"|" + body
                more = [("content-encoding", "gzip")] if fields[":path"] == "/gzip" else []
                peer.headers(stream, [(":status", "103"), ("x-early", said[:30])], end=False)
                peer.headers(stream, [(":status", "200"), ("x-said", said[:30]), *more], end=False)
                for byte in said:
                    peer.data(stream, bytes([byte]))
                peer.headers(stream, [("x-trailer", said[:30])])

        with self.secret(value, "web.test:8006 bearer token", "web.test:8006 placeholder token"):
            raw.append(serve)
            with self.peer(RAW) as peer:
                mark = b"xsbx-secret-token"
                peer.headers(1, request("/a", "GET", "web.test:8006", ("authorization", "mine"), ("x-k", mark.decode())))
                assert dict(peer.wait(HEADERS, stream=1)[3])["x-early"].encode()[:25] == b"Bearer " + label, seen
                status, fields, body, trailer = peer.answer(1)
                assert seen[-1][0]["authorization"] == "Bearer " + value and seen[-1][0]["x-k"] == value, seen
                assert (status, body) == ("200", b"Bearer " + label * 2 + b"|"), (status, body)
                assert fields["x-said"].encode()[:25] == trailer["x-trailer"].encode()[:25] == b"Bearer " + label, (fields, trailer)
                # In bodies: of a length that is known, or when all of it is there already.
                for stream, more in (3, [("content-length", "19")]), (5, [("content-length", "19"), ("expect", "100-continue")]):
                    peer.headers(stream, request("/b", "POST", "web.test:8006", *more), end=False)
                    if len(more) > 1:
                        assert dict(peer.wait(HEADERS, stream=stream)[3])[":status"] == "100"
                    peer.data(stream, b"<" + mark[:5])
                    peer.data(stream, mark[5:] + b">", end=True)
                    status, _, body, _ = peer.answer(stream)
                    while status == "103":
                        status, _, body, _ = peer.answer(stream)
                    assert seen[-1][1] == b"<" + value.encode() + b">", seen[-1]
                    assert seen[-1][0].get("content-length") == str(len(value) + 2) and "expect" not in seen[-1][0], seen[-1]
                    assert body == b"Bearer " + label + b"|<" + label + b">", body
                # Trailers of the guest do not go where it has gone; answers that cannot be searched do not come.
                peer.headers(7, request("/c", "POST", "web.test:8006"), end=False)
                peer.headers(7, [("x-late", mark.decode())])
                assert peer.answer(7)[0] == "200" and seen[-1][1] == b"", seen[-1]
                peer.headers(9, request("/gzip", authority="web.test:8006"))
                status, _, body, _ = peer.answer(9)
                assert status == "502" and b"encoded" in body, (status, body)
            assert self.logged(path="/a")["secret"] == "token"

    def test_held_back(self):
        """What may be the beginning of a secret is not let through because its server is not let to say more."""
        value = "0123456789abcdefghij"

        def serve(peer):
            peer.wait(HEADERS)
            peer.headers(1, [(":status", "200")], end=False)
            data = b"x" * (65535 - 15) + value.encode()[:15]  # its window
            for at in range(0, len(data), 15000):
                peer.data(1, data[at:at + 15000])
            while frame := peer.wait(8):
                if frame[2] == 1:
                    break
            peer.data(1, value.encode()[15:] + b"!", end=True)

        with self.secret(value, "web.test:8006 bearer token"):
            raw.append(serve)
            with self.peer(RAW, settings=((4, 1000),)) as peer:
                peer.headers(1, request("/a", authority="web.test:8006"))
                time.sleep(0.5)
                peer.window(1, 1 << 20)
                status, _, body, _ = peer.answer(1)
                assert status == "200" and len(body) == 65535 + 6 and body.endswith(b"xsbx-secret-token***!"), body[-40:]

    # -- ends --

    def test_server_dies(self):
        """Who has got nothing is told; the rest is cut off; and the client begins anew."""
        children = [start_nghttpd(self.lab, 8007)]
        try:
            self.prepare()
            await_port(self.lab, WEB, 8007)
            self.set("rules " + rules("allow * web.test:8007/*"))
            with self.peer(8007, settings=((4, 1000),)) as peer:
                peer.headers(1, request("/big", authority="web.test:8007"))
                peer.wait(DATA)
                peer.headers(3, request("/small", "POST", "web.test:8007"), end=False)
                peer.frame(PING, 0, 0, b"x" * 8)
                peer.wait(PING)
                time.sleep(0.3)
                children[0].kill()
                ends = {}
                while len(ends) < 3:
                    kind, _, stream, payload = peer.read()
                    if kind in (RST_STREAM, HEADERS, GOAWAY) and stream not in ends:
                        ends[stream] = dict(payload)[":status"] if kind == HEADERS else payload[-4:]
                assert ends == {1: b"\0\0\0\2", 3: "502", 0: b"\0\0\0\0"}, ends
        finally:
            children[0].kill()
            children[0].wait()
            self.set("rules " + rules())

    def test_goaway(self):
        """nginx ends a connection after some requests, and clients begin new ones."""
        done = self.run("h2load", "-n", "40", "-c", "1", "-m", "3", f"https://web.test:{NGINX}/small")
        assert b"5 succeeded" in done.stdout, done
        done = self.run("curl", "-sS", "--http2", "--cacert", f"{SCRATCH}/ca", *["-o", "/dev/null"] * 12, "-w", "%{http_code} ",
                        *[f"https://web.test:{NGINX}/small"] * 12)
        assert done.stdout.split() == [b"200"] * 12, done
        assert self.curl("-d", "x" * 5000, port=NGINX, path="/none")[0] in ("413", "405", "404")

        def serve(peer):
            peer.wait(HEADERS)
            peer.wait(HEADERS)
            peer.frame(GOAWAY, 0, 0, b"\0\0\0\1\0\0\0\0")
            peer.headers(1, [(":status", "204")])
            peer.read()

        raw.append(serve)
        with self.peer(RAW) as peer:
            for stream in 1, 3:
                peer.headers(stream, request(authority="web.test:8006"))
            ends = {}
            while len(ends) < 3 and (frame := peer.read()):
                if frame[0] in (RST_STREAM, HEADERS, GOAWAY):
                    ends[frame[2]] = frame[0]
            assert ends == {0: GOAWAY, 1: HEADERS, 3: RST_STREAM}, ends
            while peer.read():
                pass

    def test_guest_goes(self):
        """Its streams end at the server as well."""
        came, gone = threading.Event(), threading.Event()

        def serve(peer):
            peer.wait(HEADERS)
            came.set()
            while peer.read():
                pass
            gone.set()

        raw.append(serve)
        with self.peer(RAW) as peer:
            peer.headers(1, request(authority="web.test:8006"))
            assert came.wait(LIMIT)
        assert gone.wait(LIMIT)

    # -- floods --

    def flood(self, code, *frames, port=NGHTTPD):
        """They end it, with this code, or without a word."""
        with self.peer(port) as peer:
            with contextlib.suppress(OSError):
                for _ in range(400):
                    peer.sock.sendall(b"".join(frames))
            got = peer.goaway()
            assert got in (code, None), got
            while peer.read():
                pass

    def test_floods(self):
        def serve(peer):
            while peer.read():
                pass

        raw.append(serve)
        with self.peer(RAW) as peer:  # streams begun and reset
            with contextlib.suppress(OSError):
                for stream in range(1, 3000, 2):
                    peer.headers(stream, request("/small", authority="web.test:8006"))
                    peer.reset(stream)
            assert peer.goaway() in (11, None)
        self.flood(1, *[Peer.packed(CONTINUATION, 0, 1, b"")] * 5)
        block = h2_peer.Encoder().encode(request("/small", authority="web.test:8001"))
        self.flood(11, Peer.packed(HEADERS, 0, 1, block), *[Peer.packed(CONTINUATION, 0, 1, b"")] * 50)
        with self.peer() as peer:  # answers that nobody reads
            peer.sock.settimeout(5)
            with contextlib.suppress(OSError):
                while True:
                    peer.sock.sendall(Peer.packed(PING, 0, 0, b"x" * 8) * 1000)
            assert self.memory() < 40000
        assert self.curl()[0] == "200"

    def test_not_http2(self):
        self.prepare()
        context = ssl.create_default_context(cafile=f"{SCRATCH}/ca")
        context.set_alpn_protocols(["h2"])
        for data in b"GET / HTTP/1.1\r\nHost: web.test\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSX\r\n\r\n", b"\0" * 100:
            with self.space.connect(self.name("web.test"), NGHTTPD) as sock, \
                    context.wrap_socket(sock, server_hostname="web.test") as secure:
                with contextlib.suppress(OSError):
                    secure.sendall(data)
                    while secure.recv(1000):
                        pass


if __name__ == "__main__":
    main(H2, prepare=start_all)
