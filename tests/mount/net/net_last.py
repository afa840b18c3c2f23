#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions with a network that sleep, wake, are copied and go back: they have it again, with its list and its ports."""
# backends: process vm
# night: vm
# timeout: 180
# mount: none
# log-allow: snapshot of
from netland import *

land = Land(conf="boot_timeout_s = 240\n")
CONFIG = "network = on\nallow = web.test:9000\nidle_timeout_s = 0\n"
ECHO = """
import socket
with socket.create_connection(("web.test", 9000), 30) as c:
    c.sendall(b"x")
    print(c.recv(1).decode())
"""
OTHER_NAME = """
try:
    socket.create_connection(("other.test", 9000), 30)
    print("reached")
except OSError:
    print("refused")
"""
SERVER = """
import socket, threading
def serve(server):
    while True:
        c, _ = server.accept()
        c.sendall(c.recv(100).upper())
        c.close()
server = socket.create_server(("0.0.0.0", 8080))
threading.Thread(target=serve, args=(server,), daemon=True).start()
"""


def has_network(what, s):
    same(f"{what}: it reaches what it may", s.run(ECHO).out, "x\n")
    same(f"{what}: and no more", s.run(OTHER_NAME).out, "refused\n")


def put_to_sleep(s):
    s.ctl("sleep")
    ok("it sleeps", s.wait_state("asleep", 30), s.text("error"))


def wakes():
    s = land.session("wakes", CONFIG)
    has_network("before", s)
    for n in range(2):
        put_to_sleep(s)
        has_network(f"awake {n}", s)
        same(f"awake {n}: it kept its memory", s.json()["state_kept"], VM)
    s.remove()


def copied():
    s = land.session("source", CONFIG)
    has_network("the source", s)
    os.mkdir(s / "checkpoints/c")
    same("a checkpoint", read(s / "checkpoints/c/wait"), b"whole\n")
    for source in ("source", "source@c"):
        c = land.session("copy", f"from = {source}\n")
        has_network(f"a copy of {source}", c)
        same(f"a copy of {source}: it kept its memory", c.json()["state_kept"], VM)
        c.remove()
    has_network("the source still", s)
    s.ctl("restore c")
    has_network("gone back", s)
    s.remove()


def ports():
    s = land.session("ports", CONFIG + "ports = 8080\n")
    s.run(SERVER)
    for n in range(2):
        ok(f"{n}: a port", wait_for(lambda: 8080 in s.ports(), SOON), s.text("ports"))
        with socket.create_connection(("127.0.0.1", s.ports()[8080]), SOON) as sock:
            sock.settimeout(SOON)
            sock.sendall(b"hello")
            same(f"{n}: leads there", sock.recv(100), b"HELLO")
        if n == 0:
            put_to_sleep(s)
            # In a machine it serves still.
            s.run("pass" if VM else SERVER)
    s.remove()


main(wakes, copied, ports, land.end)
