# SPDX-License-Identifier: Apache-2.0
"""Three network namespaces for xsbxfs-net: a guest, this machine, and the internet.

    guest --TAP-- xsbxfs-net, net_fixture --- host --veth-- internet

The guest is the kernel of a namespace whose only device is a TAP; its frames go to xsbxfs-net. The
host is where the gateway resolves (by a table) and connects. The internet is a namespace with public
addresses on its loopback device. Threads move between them: a socket belongs to where its thread
was when it was made.
"""

import contextlib
import ctypes
import fcntl
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

from patience import slack

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454ca, 2, 0x1000
GATEWAY, GUEST = "198.18.0.1", "198.18.0.2"
REFUSER = "198.18.0.9"  # where names lead that are not allowed
WEB, OTHER, OWN, PRIVATE = "93.184.216.34", "93.184.216.35", "11.1.1.1", "10.9.0.2"
LIMIT = 30 * slack()  # seconds after which something hangs

libc = ctypes.CDLL(None, use_errno=True)


def skip(why):
    print(why)
    sys.exit(77)


def call(fn, *args):
    if fn(*args) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def run(*args):
    subprocess.run(args, check=True)


class Namespace:
    def __init__(self):
        call(libc.unshare, CLONE_NEWNET)
        self.fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        run("ip", "link", "set", "lo", "up")

    @contextlib.contextmanager
    def entered(self):
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        call(libc.setns, self.fd, CLONE_NEWNET)
        try:
            yield
        finally:
            call(libc.setns, before, CLONE_NEWNET)
            os.close(before)

    def socket(self, *args):
        with self.entered():
            sock = socket.socket(*args)
        sock.settimeout(LIMIT)
        return sock

    def connect(self, address, port):
        sock = self.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.connect((address, port))
        return sock


def open_tap():
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", b"tap0", IFF_TAP | IFF_NO_PI))
    return fd


class Lab:
    """The namespaces, and servers in the internet."""

    def __init__(self, mtu=1500, guest=True):
        if os.geteuid() != 0:
            uid = os.getuid()
            try:
                call(libc.unshare, CLONE_NEWUSER)
            except OSError as error:
                skip(f"no user namespaces here: {error}")
            with open("/proc/self/uid_map", "w") as file:
                file.write(f"0 {uid} 1")
        try:
            self.host, self.internet = Namespace(), Namespace()
            self.guest = Namespace() if guest else None
        except OSError as error:
            skip(f"no network namespaces here: {error}")
        if guest:
            self.make_guest(mtu)
        self.connect_host()
        call(libc.setns, self.host.fd, CLONE_NEWNET)
        self.stopping = False

    def make_guest(self, mtu):
        with self.guest.entered():
            try:
                self.tap = open_tap()
            except OSError as error:
                skip(f"no TAP device here: {error}")
            run("ip", "addr", "add", f"{GUEST}/30", "dev", "tap0")
            run("ip", "link", "set", "tap0", "up", "mtu", str(mtu))
            run("ip", "route", "add", "default", "via", GATEWAY)

    def connect_host(self):
        with self.host.entered():
            run("ip", "link", "add", "veth0", "type", "veth", "peer", "name", "veth1", "netns",
                f"/proc/{os.getpid()}/fd/{self.internet.fd}")
            run("ip", "addr", "add", "10.9.0.1/24", "dev", "veth0")
            run("ip", "addr", "add", f"{OWN}/32", "dev", "lo")
            run("ip", "link", "set", "veth0", "up")
            run("ip", "route", "add", "default", "via", "10.9.0.2")
        with self.internet.entered():
            run("ip", "addr", "add", "10.9.0.2/24", "dev", "veth1")
            run("ip", "link", "set", "veth1", "up")
            for address in (WEB, OTHER, "8.8.8.8", "169.254.169.254"):
                run("ip", "addr", "add", f"{address}/32", "dev", "lo")

    def serve(self, space, address, port, handler, family=socket.AF_INET):
        """Run handler(sock) in a thread for each connection."""
        listener = space.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(512)
        listener.settimeout(None)

        def handle(sock):
            sock.settimeout(LIMIT)
            with contextlib.suppress(OSError), sock:
                handler(sock)

        def loop():
            while True:
                sock, _ = listener.accept()
                threading.Thread(target=handle, args=(sock,), daemon=True).start()

        threading.Thread(target=loop, daemon=True).start()
        return listener.getsockname()[1]


class Gateway:
    """xsbxfs-net with its gateway, in the host."""

    def __init__(self, lab, names, card, kind="--packet", options=()):
        build = os.environ.get("BUILD", "build")
        with lab.host.entered():
            self.process = subprocess.Popen(
                [f"{build}/test/net_fixture", f"{build}/xsbxfs-net", kind, str(card), *options,
                 "--", *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[card],
                text=True)
        self.lines, self.seen = [], 0
        self.changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()
        self.pid = int(self.wait("pid").split()[1])
        self.wait("ready")

    def _read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.lines.append("end of file")
            self.changed.notify_all()

    def find(self, *words, since=0):
        for line in self.lines[since:]:
            if any(line.startswith(word) for word in words):
                return line
        return None

    def wait(self, *words, since=0):
        """Wait for a line that begins with one of these words."""
        end = time.monotonic() + LIMIT
        with self.changed:
            while True:
                line = self.find(*words, since=since)
                if line:
                    return line
                left = end - time.monotonic()
                if left <= 0 or self.lines[-1:] == ["end of file"]:
                    raise AssertionError(f"no {words} in {self.lines[since:]}")
                self.changed.wait(left)

    def ask(self, line, *answers):
        since = len(self.lines)
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.wait(*answers, "error", since=since)

    def allow(self, words):
        answer = self.ask(f"allow {words}", "allowed")
        assert answer == "allowed", answer

    def wait_denied(self, name, port, reason, since):
        """Wait for a report that was made after `since`."""
        end = time.monotonic() + LIMIT
        with self.changed:
            while True:
                for line in self.lines:
                    part = line.split(" ", 5)
                    if part[0] == "denied" and part[2:4] == [name, str(port)] and \
                            part[5] == reason and since <= int(part[1]) / 1000 < since + 90:
                        return
                assert time.monotonic() < end, (name, port, reason, self.lines[-20:])
                self.changed.wait(0.2)

    def stop(self):
        self.process.stdin.close()
        status = self.process.wait(LIMIT)
        assert status == 0, f"xsbxfs-net ended with {status}"


def query(name, kind=1, ident=0x1234, tail=b""):
    labels = b"".join(bytes([len(x)]) + x.encode() for x in name.split(".") if x)
    return struct.pack(">HHHHHH", ident, 0x100, 1, 0, 0, 0) + labels + b"\0" + \
        struct.pack(">HH", kind, 1) + tail


def lookup(space, name, kind=1, server=GATEWAY, port=53):
    """Return (rcode, address or None)."""
    with space.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((server, port))
        sock.send(query(name, kind))
        data = sock.recv(2000)
    ident, flags, _, answers = struct.unpack(">HHHH", data[:8])
    assert ident == 0x1234 and flags & 0x8000
    return flags & 15, socket.inet_ntoa(data[-4:]) if answers else None


def hello(name, pieces=None):
    """The bytes of a ClientHello."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def split_records(data, size):
    """The same handshake message in records of another size."""
    body, records = data[5:], b""
    for at in range(0, len(body), size):
        part = body[at:at + size]
        records += b"\x16\x03\x01" + struct.pack(">H", len(part)) + part
    return records


def add_extension(data, kind, body):
    """A ClientHello record with one more extension."""
    message = bytearray(data[9:])
    at = 34
    at += 1 + message[at]
    at += 2 + int.from_bytes(message[at:at + 2], "big")
    at += 1 + message[at]
    extension = struct.pack(">HH", kind, len(body)) + body
    total = int.from_bytes(message[at:at + 2], "big") + len(extension)
    message[at:at + 2] = struct.pack(">H", total)
    message += extension
    return b"\x16\x03\x01" + struct.pack(">H", len(message) + 4) + b"\x01" + \
        len(message).to_bytes(3, "big") + bytes(message)


def read_message(sock, data=b""):
    """One of HTTP/1, of which `data` has come already. Return: its head, the body that Content-Length tells, and what came
    behind it; None if it ends before that."""
    while b"\r\n\r\n" not in data:
        part = sock.recv(65536)
        if not part:
            return None
        data += part
    head, data = data.split(b"\r\n\r\n", 1)
    length = sum(int(x[15:]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-length:"))
    while len(data) < length:
        part = sock.recv(65536)
        if not part:
            return None
        data += part
    return head, data[:length], data[length:]


def receive_all(sock):
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while part := sock.recv(65536):
            data += part
    return data
