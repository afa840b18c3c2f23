# SPDX-License-Identifier: Apache-2.0
"""For tests of sandboxes' networks: a daemon in a land of its own, with an internet around it.

Network namespaces stand for this machine and for the internet (tests/net/netlab.py); names are in
an /etc/hosts that only this test sees. What a sandbox tries, the machine tries as well, with
the same code: each refusal is held against a success where nobody filters.
"""

import ctypes
import re
import socket
import ssl
import subprocess
import sys
import threading

from xsbx import *

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
from netguest import start_servers  # noqa: E402
from netlab import OTHER, OWN, PRIVATE, WEB, Lab, read_message  # noqa: E402

MS_BIND = 4096
META, WEB6 = "169.254.169.254", "2606:4700::1111"
HOSTS = {WEB: "web.test a.b.wild.test", OTHER: "other.test", "127.0.0.1": "localhost loop.test",
         WEB6: "lan6.test", PRIVATE: "private.test", META: "meta.test", OWN: "own.test"}

# Runs in sandboxes and on this machine. Each probe gives a word: what came back, or what went wrong.
PROBES = r'''
import contextlib, os, socket, ssl, struct, sys, time, urllib.request
socket.setdefaulttimeout(8)

def word(fn):
    def wrapped(*args, **more):
        try:
            return fn(*args, **more)
        except Exception as error:
            return type(error).__name__
    return wrapped

def all_of(sock):
    data = b""
    while part := sock.recv(65536):
        data += part
    return data

@word
def name(host):
    return "found" if socket.getaddrinfo(host, 80, socket.AF_INET) else "nothing"

@word
def http(to, host=None, port=80):
    with socket.create_connection((to, port)) as sock:
        sock.sendall(f"GET / HTTP/1.1\r\nHost: {host or to}\r\nConnection: close\r\n\r\n".encode())
        sock.shutdown(socket.SHUT_WR)
        head, _, body = all_of(sock).decode().partition("\r\n\r\n")
        return "told" if "X-Xsbxfs: " in head else body or "cut"

def context():
    made = ssl.create_default_context()
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made

@word
def tls(to, server, port=443):
    with socket.create_connection((to, port)) as sock, \
            context().wrap_socket(sock, server_hostname=server) as secure:
        secure.sendall(b"hi")
        return secure.recv(100).decode()

@word
def trusted(to):
    with socket.create_connection((to, 443)) as sock, \
            ssl.create_default_context().wrap_socket(sock, server_hostname=to) as secure:
        secure.sendall(b"hi")
        return secure.recv(100).decode()

@word
def hello(to, server, size):
    """A ClientHello in pieces."""
    out = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context().wrap_bio(ssl.MemoryBIO(), out, server_hostname=server).do_handshake()
    data = out.read()
    with socket.create_connection((to, 443)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(data), size):
            sock.sendall(data[at:at + size])
            time.sleep(0.0005)
        return "server hello" if sock.recv(1) == b"\x16" else "cut"

@word
def tcp(to, port, family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(8)
        sock.connect((to, port))
        sock.sendall(b"x")
        return "answered" if sock.recv(1) else "cut"

@word
def udp(to, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(2)
        sock.connect((to, port))
        labels = b"".join(bytes([len(x)]) + x.encode() for x in ("web", "test"))
        sock.send(struct.pack(">HHHHHH", 1, 0x100, 1, 0, 0, 0) + labels + b"\0\0\1\0\1")
        return "answered" if sock.recv(2000) else "nothing"

@word
def ping(to):
    for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM):
        try:
            sock = socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP)
        except OSError:
            continue
        sock.settimeout(2)
        sock.sendto(struct.pack(">BBHHH", 8, 0, 0xf7fd, 1, 1), (to, 0))
        return "answered" if sock.recv(100) else "nothing"
    return "PermissionError"

@word
def follow(url):
    return urllib.request.urlopen(url).read().decode()
'''

# Likewise: what a server says, or what came instead.
FETCH = '''
import urllib.request, urllib.error
def fetch(url, method="GET", **headers):
    try:
        asked = urllib.request.Request(url, headers=headers, method=method)
        return urllib.request.urlopen(asked, timeout=80).read().decode()
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()}"
    except Exception as error:
        return f"{type(error).__name__} {error}"
'''


def answering(answer):
    """For Lab.serve(): a server that says answer(HEAD) to the first request of a connection."""
    def server(sock):
        if message := read_message(sock):
            said = answer(message[0])
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(said), said))
    return server


def within_tls(server):
    """The same behind the certificate that start_servers() has made."""
    def secured(sock):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{SCRATCH}/cert", f"{SCRATCH}/key")
        with context.wrap_socket(sock, server_side=True) as secure:
            server(secure)
    return secured


def bind_over(path, text):
    file = f"{SCRATCH}/{os.path.basename(path)}"
    write(file, text)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(file.encode(), path.encode(), None, MS_BIND, None):
        skip(f"mounting over {path}: {os.strerror(ctypes.get_errno())}")


class Land:
    """The internet, this machine, and a daemon on it."""

    def __init__(self, *options, conf="", env=None):
        if os.geteuid():
            skip("names of its own need root")
        self.lab = Lab(guest=False)
        bind_over("/etc/hosts", "".join(f"{a} {names}\n" for a, names in HOSTS.items()))
        bind_over("/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
        with self.lab.host.entered():
            self.ip("-6", "addr", "add", "2606:4700::1/64", "dev", "veth0", "nodad")
        with self.lab.internet.entered():
            self.ip("-6", "addr", "add", f"{WEB6}/64", "dev", "veth1", "nodad")
        start_servers(self.lab, SCRATCH)
        self.serve_more()
        self.mnt = f"{SCRATCH}/mnt"
        os.mkdir(self.mnt)
        write(f"{SCRATCH}/conf", conf)
        # The main thread is on this machine of the lab, and so is what it starts.
        self.daemon = start_daemon(self.mnt, *options, conf=f"{SCRATCH}/conf",
                                   env={**os.environ, **(env or {})})

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True)

    def serve_more(self):
        def echo(sock):
            sock.sendall(sock.recv(100))

        self.lab.serve(self.lab.internet, WEB6, 80, echo, socket.AF_INET6)
        self.lab.serve(self.lab.internet, "8.8.8.8", 53, echo)
        sock = self.lab.internet.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind((WEB, 9123))
        sock.settimeout(None)

        def answer():
            while True:
                sock.sendto(*sock.recvfrom(2000))

        threading.Thread(target=answer, daemon=True).start()

    def control(self, probe):
        """What comes of a probe on this machine."""
        done = subprocess.run([sys.executable, "-c", f"{PROBES}\nprint({probe})"],
                              stdout=subprocess.PIPE, check=True, timeout=2 * SOON)
        return done.stdout.decode().strip()

    def session(self, name, config, template="python"):
        return Networked(name, template, config, mnt=self.mnt)

    def end(self):
        shell(f"fusermount3 -u {self.mnt}")
        self.daemon.wait(2 * SOON)
        same("the daemon ends well", self.daemon.returncode, 0)


class Networked(Session):
    """A session of a template in Python that knows the probes."""

    probes = False

    def probe(self, probe):
        if not self.probes:
            result = self.run(PROBES)
            if not same("the probes are there", (result.code, result.err), (0, "")):
                print(self.text("error"), self.text("console")[-1500:], flush=True)
            self.probes = True
        result = self.run(f"print({probe})")
        return result.out.strip() or result.err

    def denied(self, name, port, reason):
        """Such a line comes."""
        line = re.compile(rf"^\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{{3}}Z {re.escape(name)} "
                          rf"{port or '-'} {re.escape(reason)}$", re.M)
        ok(f"denied: {name} {port} {reason}",
           wait_for(lambda: line.search(self.text("net/refused"))), self.text("net/refused")[-800:])

    def ports(self):
        """{port of the sandbox: port of this machine}"""
        return {int(x.split()[0]): int(x.split()[1]) for x in self.text("ports").splitlines()}


__all__ = [name for name in dir() if not name.startswith("_")]
