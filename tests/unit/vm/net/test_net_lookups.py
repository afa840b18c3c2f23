#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbxfs-net test/net_fixture
"""xsbxfs-net: names that are looked up carry nothing outwards: nobody outside is asked for one before it may be connected to."""

import os
import socket
import ssl
import struct
import threading

from netguest import Guest, main
from netlab import GATEWAY, OTHER, REFUSER, WEB, query, receive_all

SCRATCH = os.environ.get("SCRATCH", "/tmp")
DATA = "secret-data"  # what is to be carried
KINDS = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "NULL": 10, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "SVCB": 64,
         "HTTPS": 65, "ANY": 255}
EDNS = b"\0\0\x29\x04\xd0\0\0\0\0" + struct.pack(">HHH", 4 + len(DATA), 65001, len(DATA)) + DATA.encode()


class Lookups(Guest):
    stream = ("test_lookups", "test_nothing_is_left")

    def __init__(self, lab, gateway):
        super().__init__(lab, gateway)
        self.set("trust " + SCRATCH + "/cert")

    def policy(self, *rules, allow="", ask=0, budget="0 0 0 0"):
        self.since = len(self.gateway.lines)
        for line in ("first", "rules " + " ".join(rules), f"ask {ask}", "budget " + budget, "allow " + allow):
            self.set(line)

    def outside(self):
        """The names that somebody outside was asked for under this policy, before this."""
        self.gateway.ask("stats", "stats")
        return [line.split()[1] for line in self.gateway.lines[self.since:] if line.startswith("resolved ")]

    def look_up(self, name):
        """In every manner. Return: the address that it has."""
        with self.space.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect((GATEWAY, 53))
            for kind in KINDS.values():
                for tail in (b"", EDNS):
                    sock.send(query(name, kind, tail=tail))
                    assert sock.recv(2000), (name, kind)
        return self.name(name)

    def connect(self, address, port, name=None):
        """Says that it is for this name, as HTTP. Return: what is answered."""
        try:
            return self.get(self.space, address, name or "x", port=port, half_close=False)
        except OSError:
            return b""

    def greet(self, address):
        """Says something that is no HTTP, on a port of no protocol."""
        try:
            with self.send(self.space, address, [b"hello\n"], port=9000) as sock:
                return receive_all(sock)
        except OSError:
            return b""

    def hello(self, address, name, port=443, alpn=None):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if alpn:
            context.set_alpn_protocols([alpn])
        try:
            with self.space.connect(address, port) as sock, context.wrap_socket(sock, server_hostname=name) as secure:
                secure.sendall(self.request("GET /x HTTP/1.1", f"Host: {name}"))
                return secure.recv(100)
        except OSError:
            return b""

    def try_all(self, name):
        """Every port where something else is looked at, by its own address and by that of what is refused."""
        for address in (self.look_up(name), REFUSER):
            for port in (80, 443, 8080, 9000):
                self.connect(address, port, name)
            self.hello(address, name)

    # -- tests --

    def test_lookups(self):
        """What no list has is not asked for, whatever else is allowed; nor is what one has, as long as it is only looked up."""
        name = f"{DATA}.evil.example"
        for policy in ({}, {"allow": "web.test *.wild.test"}, {"allow": "*.example.com evil.example"},
                       {"rules": ("allow GET *.wild.test/v1*", "deny * *.evil.example")}):
            self.policy(*policy.pop("rules", ()), **policy)
            self.try_all(name)
            assert self.outside() == [], (policy, self.outside())
        self.policy(allow="*.wild.test")
        self.look_up(f"{DATA}.wild.test")
        assert self.outside() == [], self.outside()
        self.policy(*(f"deny * *.evil.example:{port}" for port in (80, 443, 8080, 9000)), allow="*")
        self.try_all(name)
        assert self.outside() == [], self.outside()

    def test_control(self):
        """What may be connected to is asked for when it is, as it stands and once for each connection."""
        self.policy(allow="*.wild.test")
        assert self.connect(self.name("a.b.wild.test"), 80, "a.b.wild.test")
        assert self.outside() == ["a.b.wild.test"], self.outside()
        name = f"{DATA}.wild.test"
        self.connect(self.name(name), 80, name)
        assert self.outside() == ["a.b.wild.test", name], self.outside()
        self.policy(allow="*")
        self.connect(self.name(f"{DATA}.evil.example"), 9000)
        assert self.outside() == [f"{DATA}.evil.example"], self.outside()

    def test_other_name(self):
        """What a connection says of another name is no lookup of it."""
        self.policy(allow="web.test *.wild.test")
        for said in (f"{DATA}.evil.example", f"{DATA}.wild.test"):
            self.told(self.connect(self.name("web.test"), 80, said), "403")
            assert self.hello(self.name("web.test"), said) == b""
        assert self.outside() == [], self.outside()

    def test_refused_requests(self):
        """Where rules depend on requests, one that is refused asks nobody."""
        name = f"{DATA}.wild.test"
        self.policy("allow GET *.wild.test:80/v1*", "allow GET *.wild.test:443/v1*")
        address = self.look_up(name)
        self.told(self.get(self.space, address, name, "/v2"), "403")
        assert self.hello(address, name).startswith(b"HTTP/1.1 403")
        assert self.outside() == [], self.outside()
        self.get(self.space, address, name, "/v1")
        assert self.outside() == [name], self.outside()
        # Whether a client of HTTP/2 gets that depends on the server: it is asked when something may be allowed there.
        self.policy("deny * *.wild.test:443/v1*")
        self.hello(address, name, alpn="h2")
        assert self.outside() == [], self.outside()

    def test_leave(self):
        """What waits for leave is asked for when that is given, and never if not."""
        name = f"{DATA}.evil.example"
        for answer in ("no", "yes"):
            self.policy(ask=60)
            address = self.look_up(name)
            thread = threading.Thread(target=self.greet, args=(address,))
            thread.start()
            words = self.gateway.wait("asked", since=self.since).split()
            assert words[4:6] == [name, "9000"] and self.outside() == [], (words, self.outside())
            self.set(f"decide {words[1]} {answer}")
            thread.join()
            assert self.outside() == ([name] if answer == "yes" else []), (answer, self.outside())

    def test_a_budget(self):
        """Each name that is asked for is one of the connections, and its bytes count, whether it resolves or not. It is the first
        test: what was used is the filter's."""
        names = [f"{DATA}-{n}.wild.test" for n in range(5)]
        for budget in (f"{3 * len(names[0])} 0 0 0", "0 0 6 0"):
            self.policy(allow="*.wild.test:9000", budget=budget)
            for name in names:
                self.connect(self.name(name), 9000)
            assert self.outside() == names[:3], (budget, self.outside())
        self.denied(names[3], 9000, "the budget is used up")
        self.policy()


if __name__ == "__main__":
    main(Lookups)
