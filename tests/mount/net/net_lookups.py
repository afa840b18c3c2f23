#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lookups carry nothing outwards: this machine's name server is asked for a name when it may be connected to, and is, and never
else; with `*.wild.test` that is any name below it, whose bytes count."""
# backends: process vm
# night: vm
# timeout: 120
# mount: none
from netland import *

land = Land(conf="[limits]\nmax_allow = *\n")
asked = []  # what this machine's name server was


def serve():
    """What is below wild.test leads to the web's server, and nothing else is there."""
    sock = land.lab.host.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 53))
    sock.settimeout(None)
    while True:
        data, peer = sock.recvfrom(2000)
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1:at + 1 + data[at]].decode())
            at += 1 + data[at]
        name, kind = ".".join(labels), int.from_bytes(data[at + 1:at + 3], "big")
        asked.append(name)
        there = name.endswith(".wild.test")
        answer = b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4" + socket.inet_aton(WEB) if there and kind == 1 else b""
        sock.sendto(data[:2] + (b"\x81\x80" if there else b"\x81\x83") + b"\0\1" + (b"\0\1" if answer else b"\0\0") +
                    b"\0\0\0\0" + data[12:at + 5] + answer, peer)


threading.Thread(target=serve, daemon=True).start()
DATA = "secret-data"
EVIL, WILD = f"{DATA}.evil.example", f"{DATA}.wild.test"


def are_asked(what, names):
    same(what, sorted(set(asked)), names)
    asked.clear()


def control():
    same("this machine looks up what it likes", land.control(f"name('{EVIL}')"), "gaierror")
    are_asked("and its name server hears of it", [EVIL])


def never():
    for n, policy in enumerate(("", "allow = web.test *.wild.test *.example.com\n", "rules = allow GET *.wild.test/v1*\n",
                                "allow = *\nrules = deny * *.evil.example deny * *.evil.example:9000\n")):
        s = land.session(f"never{n}", "network = on\ntimeout_s = 60\n" + policy)
        for probe in (f"name('{EVIL}')", f"http('{EVIL}')", f"tls('{EVIL}', '{EVIL}')", f"tcp('{EVIL}', 9000)"):
            s.probe(probe)
        s.denied(EVIL, 0 if n < 3 else 80, "name not allowed" if n < 3 else "denied by a rule")
        if n == 1:
            s.probe(f"name('{WILD}')")
        are_asked(f"nobody is asked for what may not be reached, or is only looked up ({policy.strip()})", [])
        s.remove()


def wildcard():
    s = land.session("wild", f"network = on\ntimeout_s = 60\nallow = *.wild.test *.wild.test:9000\nnet_bytes = {len(WILD)}\n")
    ok("it resolves", s.probe(f"tcp('{WILD}', 9000)") in ("answered", "cut", "ConnectionResetError"))
    are_asked("with its first connection", [WILD])
    other = "more-of-the-" + WILD
    ok("no more than the bytes that may go out", s.probe(f"tcp('{other}', 9000)") != "answered")
    are_asked("go out in names", [])
    s.denied(other, 9000, "the budget is used up")
    ok("error says so", wait_for(lambda: "code: net-budget\n" in s.text("error")), s.text("error"))
    has("and which", s.text("error"), f"net_bytes is used up, which is {len(WILD)}")
    same("and status.json the limit", s.json()["network"]["budgets"]["bytes"]["limit"], len(WILD))
    s.remove()


def leave():
    s = land.session("leave", "network = on\nask = yes\nask_s = 60\ntimeout_s = 60\n")
    s.run(FETCH)
    s.submit(f"print(fetch('http://{WILD}/'))")
    ok("it waits", wait_for(lambda: os.listdir(s / "net/pending"), 15), s.text("net/log"))
    are_asked("nobody is asked meanwhile", [])
    os.rename(s / "net/pending/1", s / "net/allowed/1")
    same("it is reached", read(s / "stdout").strip().decode(), WEB)
    are_asked("and asked for then", [WILD])
    s.remove()


main(control, never, wildcard, leave, land.end)
