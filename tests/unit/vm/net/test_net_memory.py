#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbxfs-net test/net_fixture
"""xsbxfs-net: how much memory it has of its own, with connections that are looked into, and when they have gone."""

import contextlib
import os
import ssl
import time

from netguest import LIST, Guest, main
from netlab import LIMIT, WEB, skip

SCRATCH = os.environ.get("SCRATCH", "/tmp")
if "san" in os.environ.get("BUILD", ""):
    skip("SKIP: sanitizers take memory of their own")
BODY = b"x" * (512 << 10)  # more than a connection's buffers have room for
MOST = 8_000_000  # bytes, of a filter that looks into connections
EACH = 300_000  # more for one that is kept, most of it that of libslirp
CROWD = 40


class Memory(Guest):
    stream = ("test_kept", "test_nothing_is_left")

    def __init__(self, lab, gateway):
        super().__init__(lab, gateway)
        for port in 8443, 9443:
            lab.serve(lab.internet, WEB, port, self.server)
        for line in (f"trust {SCRATCH}/cert", "rules allow GET web.test:8443/*", f"allow web.test:9443 {LIST}"):
            answer = gateway.ask(line, "allowed")
            assert answer == "allowed", (line, answer)
        self.ca = f"{SCRATCH}/authority.pem"
        with open(self.ca, "w", encoding="ascii") as file:
            file.write(ssl.DER_cert_to_PEM_cert(bytes.fromhex(gateway.wait("authority").split()[1])))

    def server(self, sock):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{SCRATCH}/cert", f"{SCRATCH}/key")
        with contextlib.suppress(ssl.SSLError), context.wrap_socket(sock, server_side=True) as secure:
            while secure.recv(65536):
                secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY)

    def get(self, port, ca):
        """Return: a connection, over which an answer has come."""
        context = ssl.create_default_context(cafile=ca)
        secure = context.wrap_socket(self.space.connect(self.name("web.test"), port), server_hostname="web.test")
        secure.sendall(self.request("GET / HTTP/1.1", f"Host: web.test:{port}"))
        have = 0
        while have < len(BODY):
            part = secure.recv(1 << 20)
            assert part, have
            have += len(part)
        return secure

    def memory(self):
        """Bytes that are its own."""
        with open(f"/proc/{self.gateway.pid}/smaps_rollup", encoding="ascii") as file:
            return sum(int(line.split()[1]) << 10 for line in file if line.startswith("Private_"))

    def falls_to(self, most):
        end = time.monotonic() + LIMIT
        while (now := self.memory()) > most:
            assert time.monotonic() < end, now
            time.sleep(0.05)

    def test_kept(self):
        with self.get(8443, self.ca):
            one = self.memory()
        assert one < MOST, one
        crowd = [self.get(8443, self.ca) for _ in range(CROWD)]
        all_of_them = self.memory()
        assert all_of_them < one + CROWD * EACH, all_of_them
        for secure in crowd:
            secure.close()
        self.falls_to(MOST)

    def test_one_after_the_other(self):
        for port, ca in (8443, self.ca), (9443, f"{SCRATCH}/cert"):
            for _ in range(2 * CROWD):
                self.get(port, ca).close()
            assert self.memory() < MOST, (port, self.memory())


if __name__ == "__main__":
    main(Memory)
