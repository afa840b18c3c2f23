#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbxfs-net test/net_fixture
"""xsbxfs-net: which names and addresses get through, how many bytes and connections, and ports."""

import collections
import contextlib
import os
import socket
import struct
import subprocess
import sys
import threading
import time

from netguest import LIST, Guest, arrived, main  # noqa: E402
from netlab import (GATEWAY, GUEST, LIMIT, OTHER, OWN, PRIVATE, REFUSER, WEB, Gateway, lookup,  # noqa: E402
                    query, receive_all)

NXDOMAIN, REFUSED, FORMERR = 3, 5, 1
FIN, SYN, RST, ACK = 1, 2, 4, 16

PING = """
import os, socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
s.settimeout(float(sys.argv[2]))
head = struct.pack(">BBHHH", 8, 0, 0, 1, 1)
total = sum(struct.unpack(">4H", head))
s.sendto(struct.pack(">BBHHH", 8, 0, 0xffff - total, 1, 1), (sys.argv[1], 0))
try:
    while s.recv(100)[20] != 0:
        pass
except OSError:
    sys.exit(1)
"""


Segment = collections.namedtuple("Segment", "sport dport seq ack flags data")


class Card:
    """A guest's network card with its TCP in our hands: at the other end of the stream there is no kernel."""

    MAC = b"\x52\x55\0\0\0\1"

    def __init__(self, stream):
        self.stream = stream
        # Who asks by ARP is known from then on.
        self.frame(b"\xff" * 6, 0x0806, struct.pack(">HHBBH6s4s6s4s", 1, 0x800, 6, 4, 1, self.MAC,
                   socket.inet_aton(GUEST), bytes(6), socket.inet_aton(GATEWAY)))

    def frame(self, to, kind, packet):
        data = to + self.MAC + struct.pack(">H", kind) + packet
        self.stream.sendall(struct.pack(">I", len(data)) + data)

    def exactly(self, size):
        data = b""
        while len(data) < size:
            part = self.stream.recv(size - len(data))
            assert part, "end of file"
            data += part
        return data

    def segment(self):
        """The next one of TCP."""
        while True:
            data = self.exactly(int.from_bytes(self.exactly(4), "big"))
            self.peer = data[6:12]
            if data[12:14] != b"\x08\0" or data[23] != socket.IPPROTO_TCP:
                continue
            tcp = data[34:14 + int.from_bytes(data[16:18], "big")]
            sport, dport, seq, ack, offset, flags = struct.unpack_from(">HHIIBB", tcp)
            return Segment(sport, dport, seq, ack, flags & (SYN | ACK | FIN | RST), tcp[(offset >> 4) * 4:])

    def send(self, to, flags, seq, ack):
        """Answers a segment, with the options that a first answer has."""
        ends = socket.inet_aton(GUEST) + socket.inet_aton(GATEWAY)
        tcp = struct.pack(">HHIIBBHHHBBH", to.dport, to.sport, seq, ack, 6 << 4, flags, 64000, 0, 0, 2, 4, 1460)
        sum_ = checksum(ends + struct.pack(">HH", socket.IPPROTO_TCP, len(tcp)) + tcp)
        tcp = tcp[:16] + struct.pack(">H", sum_) + tcp[18:]
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, socket.IPPROTO_TCP, 0) + ends
        ip = ip[:10] + struct.pack(">H", checksum(ip)) + ip[12:]
        self.frame(self.peer, 0x0800, ip + tcp)


def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


class Reach(Guest):
    stream = ("test_allowed_name", "test_many_bytes_and_half_close", "test_many_connections",
              "test_slow_reader", "test_nothing_is_left", "test_ports")

    # -- names --

    def leads_nowhere(self, name):
        """It has an address of the filter's, where it is told so."""
        address = self.name(name)
        self.told(self.get(self.space, address, name), "403 Forbidden", "not allowed")
        return address.startswith("198.18.")

    def test_allowed_name(self):
        assert b"200 OK" in self.get(self.space, self.name("web.test"), "web.test")
        assert self.get(self.space, self.name("WEB.test."), "Web.Test:80").endswith(WEB.encode())

    def test_wildcard(self):
        assert b"200 OK" in self.get(self.space, self.name("a.b.wild.test"), "a.b.wild.test")
        assert self.leads_nowhere("wild.test")
        assert self.leads_nowhere("evilwild.test")
        self.denied("evilwild.test", 0, "name not allowed")

    def test_refused_name(self):
        assert self.get(self.host, OTHER, "other.test").endswith(OTHER.encode())
        assert self.leads_nowhere("other.test")
        assert lookup(self.space, "other.test", 28) == (0, None)
        self.denied("other.test", 0, "name not allowed")
        before = len(arrived)
        other = self.name("other.test")
        name = "?" if other == REFUSER else "other.test"  # behind a flood of such names
        self.told(self.get(self.space, other, "other.test", "/x"), "403 Forbidden",
                  "neither net/allow nor a rule allows it", "net/rules: allow GET other.test/x")
        self.denied("other.test", 80, "name not allowed")
        self.logged(method="GET", host="other.test", path="/x", status=403, refused=1)
        for port in (443, 22):
            self.refused(other, port)
            self.denied(name, port, "name not allowed")
        self.logged(method="-", scheme="tcp", host=name, port=443, refused=1)
        assert len(arrived) == before

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
        self.told(self.get(self.space, WEB, "web.test"), "other HTTP host")
        self.told(self.get(self.space, WEB, WEB), "403 Forbidden")
        self.denied(WEB, 80, "address not allowed")
        self.refused(WEB, 81)
        self.told(self.get(self.space, "198.18.200.200", "web.test"), "other HTTP host")
        self.refused("198.18.200.200", 443)
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
            self.told(self.get(self.space, self.name(name), name), "403", "private address", "net/allow")
            self.denied(name, 80, "private address")
        self.told(self.get(self.space, self.name("mapped.test"), "mapped.test"), "private address")
        self.denied("mapped.test", 80, "private address")

    def test_public_address_among_private_ones(self):
        assert self.get(self.space, self.name("mixed.test"), "mixed.test").endswith(WEB.encode())

    def test_unresolvable(self):
        self.told(self.get(self.space, self.name("gone.test"), "gone.test"), "502", "does not resolve")
        self.denied("gone.test", 80, "name does not resolve")

    def test_literal(self):
        self.gateway.allow(f"{PRIVATE}:8080 private.test:8080")
        try:
            for address in (PRIVATE, self.name("private.test")):
                with self.space.connect(address, 8080) as sock:
                    sock.sendall(b"hello")
                    assert sock.recv(100) == b"hello"
            self.told(self.get(self.space, PRIVATE, PRIVATE), "port not allowed")
            self.denied(PRIVATE, 80, "port not allowed")
            self.refused(PRIVATE, 443)
            self.denied(PRIVATE, 443, "port not allowed")
        finally:
            self.gateway.allow(LIST)

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
                done = subprocess.run([sys.executable, "-c", PING, WEB, str(LIMIT if works else 1)],
                                      check=False)
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
        self.gateway.allow(LIST.replace("web.test", "x.test"))
        try:
            self.cut(cut)
            self.denied("web.test", 9000, "no longer allowed")
            self.refused(web, 9000)
            self.denied("web.test", 9000, "name not allowed")
            assert self.leads_nowhere("web.test")
            kept.sendall(self.request("GET / HTTP/1.1", "Host: a.b.wild.test"))
            assert b"200 OK" in kept.recv(1000)
        finally:
            kept.close()
            self.gateway.allow(LIST)
        assert b"200 OK" in self.get(self.space, self.name("web.test"), "web.test")

    def test_bad_lists(self):
        for bad in ("exa mple..com", "a*.com", "x:0", "x:65536", "1.2.3", "::1", "*.1.2.3.4",
                    "-x.com", "x" * 64, "caf\u00e9.fr"):
            answer = self.gateway.ask(f"allow {bad}", "allowed")
            assert answer.startswith("error 22 "), (bad, answer)
        assert b"200 OK" in self.get(self.space, self.name("web.test"), "web.test")

    def test_everything_public(self):
        self.gateway.allow("*")
        try:
            assert self.get(self.space, WEB, "whatever").endswith(WEB.encode())
            assert self.tls(self.space, self.name("other.test"), "web.test") == b"hi"
            for address in (PRIVATE, "169.254.169.254", "127.0.0.1", "10.9.0.1"):
                if address != "127.0.0.1":
                    self.told(self.get(self.space, address, address), "403 Forbidden")
                    self.denied(address, 80, "address not allowed")
                    self.refused(address, 81)
            assert self.get(self.space, OWN, "own.test") == b""
            self.denied(OWN, 80, "private address")
            assert self.get(self.space, self.name("meta.test"), "meta.test") == b""
            self.denied("meta.test", 80, "private address")
            # What was opened without being looked into is cut when that becomes the rule.
            sock = self.space.connect(self.name("web.test"), 9000)
            sock.sendall(b"x")
            assert sock.recv(1) == b"x"
        finally:
            self.gateway.allow(LIST)
        self.cut(sock)

    # -- bytes --

    def test_many_bytes_and_half_close(self):
        data = (b"." + os.urandom((1 << 20) - 1)) * 8  # nothing that might be TLS's
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

    def flood(self, names, at_once=40):
        """Asks for many names without waiting for each answer: reports come back with time."""
        with self.space.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect((GATEWAY, 53))
            for at in range(0, len(names), at_once):
                part = names[at:at + at_once]
                for name in part:
                    sock.send(query(name))
                for _ in part:
                    assert sock.recv(2000)[3] & 15 == 0

    def reports(self):
        return [x for x in self.gateway.lines[self.since:] if x.startswith("denied ")]

    def test_flood_of_refusals(self):
        """A part of them is reported, and how many are not."""
        self.flood([f"n{i}.evil.test" for i in range(1000)])
        self.gateway.ask("stats", "stats")
        lines = self.reports()
        assert 150 <= len(lines) < 1000, len(lines)
        # There is room for others, and they are told so as well.
        assert self.name("web.test") != REFUSER == self.name("later.refused.test")
        self.told(self.get(self.space, REFUSER, "later.refused.test"), "403 Forbidden", "later.refused.test")
        self.refused(REFUSER, 443)
        # Reports come back, so that the next one is made, and says what is missing until then.
        for i in range(int(LIMIT / 0.1)):
            time.sleep(0.1)
            lookup(self.space, f"last{i}.evil.test")
            self.gateway.ask("stats", "stats")
            lines = self.reports()
            if any(" last" in x for x in lines):
                break
        # Whoever comes first may get that report: one of the flood, if it took its time.
        lost = sum(int(x.split()[4]) for x in lines)
        # There are three more above, or four: a packet may come twice.
        assert lost > 0 and len(lines) + lost in (1004 + i, 1005 + i), (len(lines), lost, i)
        time.sleep(10)  # until reports are made again as usual

    # -- ports --

    def test_ports(self):
        def web(sock):
            sock.recv(1000)
            sock.sendall(b"from the guest")

        self.lab.serve(self.space, "0.0.0.0", 8080, web)
        answer = self.gateway.ask("forward 8080 0", "forward").split()
        port = int(answer[2])
        self.gateway.allow("")  # works without a way out
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
            self.gateway.allow(LIST)
        assert self.gateway.ask("forward 8080 0", "forward").startswith("error 17 ")
        assert self.gateway.ask(f"forward 8081 {port}", "forward").startswith("error 98 ")
        assert self.gateway.ask("forward 8082 80", "forward").startswith("error 98 ")
        for i in range(9):
            assert self.gateway.ask(f"forward {9000 + i} 0", "forward").startswith("forward"), i
        assert self.gateway.ask("forward 9999 0", "forward").startswith("error 28 ")
        self.gateway.ask("unforward 8080", "unforward")
        end = time.monotonic() + LIMIT
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < end:
                self.host.connect("127.0.0.1", port).close()
            raise AssertionError("still forwarded")
        answer = self.gateway.ask(f"forward 8080 {port}", "forward")
        assert answer == f"forward 8080 {port}", answer
        with self.host.connect("127.0.0.1", port) as sock:
            sock.sendall(b"x")
            assert receive_all(sock) == b"from the guest"
        other = int(self.gateway.find("forward 9003").split()[2])
        with self.host.connect("127.0.0.1", other) as sock:
            assert receive_all(sock) == b""  # nobody listens there, in the guest
        with open(f"/proc/{self.gateway.process.pid}/net/tcp") as file:
            local = [x.split()[1] for x in file if x.split()[3] == "0A"]
        assert f"0100007F:{port:04X}" in local and f"00000000:{port:04X}" not in local

    def test_port_without_listener(self):
        self.gateway.ask("crowd", "crowd")
        assert self.gateway.ask("forward 8090 0", "forward").startswith("forward 8090 ")
        self.gateway.ask("quiet", "quiet")
        self.gateway.ask("stats", "stats")  # one that leads nowhere, and all else as it was
        self.gateway.ask("unforward 8090", "unforward")
        assert self.gateway.ask("forward 8090 0", "forward").startswith("forward 8090 ")
        self.gateway.ask("unforward 8090", "unforward")
        self.gateway.ask("stats", "stats")

    def test_answered_again(self):
        """A guest whose queue of new connections is full drops what comes, and answers once more."""
        ours, theirs = socket.socketpair()
        gateway = Gateway(self.lab, [], theirs.fileno(), "--stream")
        theirs.close()
        ours.settimeout(LIMIT)
        card = Card(ours)
        port = int(gateway.ask("forward 8080 0", "forward").split()[2])
        with self.host.connect("127.0.0.1", port) as sock:
            sock.sendall(b"question")
            syn = card.segment()
            assert syn.flags == SYN, syn
            card.send(syn, SYN | ACK, 1000, syn.seq + 1)
            while not (lost := card.segment()).data:
                pass
            assert lost.data == b"question" and lost.seq == syn.seq + 1, lost
            card.send(syn, SYN | ACK, 1000, syn.seq + 1)
            confirmed = card.segment()
            assert confirmed.flags == ACK and not confirmed.data, confirmed
            again = card.segment()
            assert again.data == b"question" and again.seq == lost.seq, again
        gateway.stop()

    # -- the helper itself --

    def test_confinement(self):
        pid = self.gateway.pid
        assert os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
        with open(f"/proc/{pid}/status") as file:
            status = dict(line.split(":", 1) for line in file)
        assert status["NoNewPrivs"].strip() == "1" and status["Threads"].strip() == "1"
        with open(f"/proc/{pid}/net/dev") as file:
            devices = [line.split(":")[0].strip() for line in file if ":" in line]
        assert [d for d in devices if d not in ("lo", "sit0", "tunl0", "gre0", "gretap0",
                                                "erspan0", "ip_vti0", "ip6_vti0", "ip6tnl0",
                                                "ip6gre0", "dummy0")] == [], devices


if __name__ == "__main__":
    main(Reach)
