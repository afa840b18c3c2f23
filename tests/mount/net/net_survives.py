#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon is killed while networks are used, begin or change: connections go on, what was about to be made is made."""
# backends: process vm
# night: vm
# timeout: 240
# mount: none
# log-allow: the daemon died|died of the same|snapshot of
from deaths import *
from netland import *

CONF = """
survive = yes
max_deaths = 1000000
[template web]
image = python
language = python
network = on
allow = web.test:9000
timeout_s = 120
"""
land = Land(conf=CONF)
daemon = Mortal(guard_of(land.mnt))
DELAYS = (0, 0.005, 0.02, 0.05, 0.1)
MANY = """
import socket, time
def echo(n):
    sock = socket.create_connection(("web.test", 9000), 30)
    sock.sendall(b"%d" % n)
    got = sock.recv(9)
    sock.close()
    return got == b"%d" % n
done = 0
end = time.monotonic() + 8
while time.monotonic() < end and echo(done):
    done += 1
print(done, time.monotonic() >= end)
"""
SERVER = """
import socket, threading
def serve(port):
    s = socket.create_server(("0.0.0.0", port))
    def line(c):
        for text in c.makefile("rb"):
            c.sendall(text.upper())
    while True:
        threading.Thread(target=line, args=(s.accept()[0],), daemon=True).start()
for port in (8080, 8081, 8082):
    threading.Thread(target=serve, args=(port,), daemon=True).start()
"""


def say(sock, words):
    sock.sendall(words + b"\n")
    return sock.recv(100)


def call(port):
    sock = socket.create_connection(("127.0.0.1", port), SOON)
    sock.settimeout(SOON)
    return sock


def begins():
    """Its filter is about to be started."""
    for n, delay in enumerate(DELAYS):
        s = land.session(f"begins{n}", "network = on\nallow = web.test:9000\n")
        s.submit("import socket; s = socket.create_connection(('web.test', 9000), 30); s.sendall(b'x'); print(s.recv(1))")
        time.sleep(delay)
        daemon.die()
        same(f"after {delay * 1000:.0f} ms", read(s / "stdout"), b"b'x'\n")
        same("without a problem", (s.text("stderr"), s.text("error")), ("", ""))
        s.remove()


def connects():
    """One connection after the other: none fails."""
    s = land.session("connects", "network = on\nallow = web.test:9000\n")
    s.run("x = 1")
    s.submit(MANY)
    for _ in range(8):
        time.sleep(0.8)
        daemon.die()
    done, well = (read(s / "stdout") or b"0 False").split()
    ok(f"{int(done)} connections", int(done) > 10 and well == b"True", (done, s.text("stderr"), s.text("error")))
    s.remove()


def forwards():
    """Ports of this machine lead there, and connections stay."""
    s = land.session("forwards", "network = on\nallow = web.test:9000\nports = 8080\n")
    s.run(SERVER)
    ok("a port", wait_for(lambda: 8080 in s.ports(), SOON))
    port = s.ports()[8080]
    sock = call(port)
    for n in range(5):
        same("it goes on", say(sock, b"on %d" % n), b"ON %d\n" % n)
        daemon.die()
        same("at once", say(sock, b"at once"), b"AT ONCE\n")
        with call(port) as other:
            same("another", say(other, b"another"), b"ANOTHER\n")
    same("the same port", s.ports(), {8080: port})
    s.remove()


def changes():
    """Ports and lists that were changed a moment ago are."""
    s = land.session("changes", "network = on\nallow = web.test:9000\nports = 8080\n")
    s.run(SERVER)
    for n in range(4):
        write(s / "config", f"network = on\nallow = web.test:9000\nports = 8080 {8081 + n % 2}\n")
        if n % 2:
            write(s / "net/allow", "web.test:9000\n" if n == 1 else "nobody.test\n")
        daemon.die()
        ok("the port comes", wait_for(lambda n=n: set(s.ports()) == {8080, 8081 + n % 2}, SOON), s.text("ports"))
        with call(s.ports()[8081 + n % 2]) as sock:
            same("and works", say(sock, b"x"), b"X\n")
    same("what is not allowed any more is not", s.run("""
import socket
try:
    socket.create_connection(("web.test", 9000), 30)
    print("yes")
except OSError:
    print("no")
""").out, "no\n")
    s.remove()


def refused():
    """What was refused is told once."""
    s = land.session("refused", "network = on\nallow = web.test:9000\n")
    s.run("import socket")
    for n in range(4):
        s.run(f"try: socket.getaddrinfo('nobody{n}.test', 80)\nexcept OSError: pass")
        daemon.die()
    for n in range(4):
        s.denied(f"nobody{n}.test", 0, "name not allowed")
        same(f"nobody{n}.test once", s.text("net/refused").count(f" nobody{n}.test "), 1)
    s.remove()


main(begins, connects, forwards, changes, refused, land.end)
