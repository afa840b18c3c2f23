#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbxfs-net test/net_fixture
"""xsbxfs-net: the names that TLS and HTTP carry are those that were asked for, or it ends."""

import os
import struct
import subprocess
import sys
import time

from netguest import Guest, arrived, main  # noqa: E402
from netlab import OTHER, WEB, add_extension, hello, receive_all, split_records  # noqa: E402


class Web(Guest):
    stream = ("test_other_server_name", "test_nothing_is_left")

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
        self.told(self.get(self.space, self.name("web.test"), "other.test"), "403", "other HTTP host")
        self.denied("web.test", 80, "other HTTP host")
        assert len(arrived) == before

    def test_other_host_in_another_way(self):
        web = self.name("web.test")
        for data, reason in (
                (self.request("GET http://other.test/ HTTP/1.1", "Host: web.test"),
                 "other HTTP host"),
                (self.request("GET / HTTP/1.1", "Host: web.test", "Host: other.test"),
                 "no HTTP host"),
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
            self.told_instead(self.send(self.space, web, [data], 80), reason)
            self.denied("web.test", 80, reason)

    def test_split_request(self):
        data = self.request("GET / HTTP/1.1", "Host: web.test", "Connection: close")
        sock = self.send(self.space, self.name("web.test"),
                         [data[i:i + 1] for i in range(len(data))], 80, 0.0003)
        with sock:
            assert b"200 OK" in sock.recv(1000)
        data = data.replace(b"web", b"eve")
        self.told_instead(self.send(self.space, self.name("web.test"),
                                    [data[i:i + 1] for i in range(len(data))], 80, 0.0003), "403")
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
        curl = ["curl", "-sS", "-L", "-m", "60", "-o", "-", "http://web.test/away", "--resolve",
                f"web.test:80:{web}"]
        with self.space.entered():
            done = subprocess.run(curl + ["--resolve", f"other.test:80:{OTHER}"],
                                  capture_output=True, check=False)
        assert b"other HTTP host" in done.stdout and OTHER.encode() in done.stdout, done
        with self.host.entered():
            done = subprocess.run(curl[:-1] + [f"web.test:80:{WEB}", "--resolve",
                                               f"other.test:80:{OTHER}"],
                                  capture_output=True, check=False)
        assert done.stdout == OTHER.encode(), done
        self.denied(OTHER, 80, "other HTTP host")

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
        self.told_instead(self.send(self.space, web, [b"GET / HTTP/1.1\r\nHost: other.test\r\n\r\n"], 9000),
                          "other HTTP host")


if __name__ == "__main__":
    main(Web)
