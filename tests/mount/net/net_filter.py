#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a sandbox with a network reaches, and what not: each refusal beside a success on this machine."""
# backends: process vm
# timeout: 180
# mount: none
from netland import *

land = Land(conf=f"[limits]\nmax_allow = * {PRIVATE}:8080\nhost_ports = 80 9100\n")
LIST = "web.test web.test:9000 *.wild.test loop.test private.test meta.test own.test gone.test lan6.test"
s = land.session("filter", f"network = on\nallow = {LIST}\ntimeout_s = 60\n")


def refused(what, probe, *denied, free=None, words=()):
    """Not from the sandbox, and yes from this machine."""
    got = s.probe(probe)
    if free is not None:
        same(f"{what}: from this machine", land.control(probe), free)
        ok(f"{what}: not from the sandbox", got and got != free, got)
    if words:
        ok(f"{what}: it ends in time", got in words, got)
    if denied:
        s.denied(*denied)


def names():
    same("an allowed name", s.probe("http('web.test')"), WEB)
    same("below an allowed one", s.probe("http('a.b.wild.test')"), WEB)
    same("with TLS", s.probe("tls('web.test', 'web.test')"), "hi")
    same("at another port that is allowed", s.probe("tcp('web.test', 9000)"), "answered")
    refused("a name that is not", "http('other.test')", "other.test", 0, "name not allowed",
            free=OTHER, words=["told"])
    refused("the name above a pattern", "http('wild.test')", "wild.test", 0, "name not allowed",
            words=["told"])
    refused("with TLS", "tls('other.test', 'other.test')", "other.test", 443, "name not allowed",
            words=["ConnectionRefusedError"])
    refused("another port", "tcp('web.test', 9002)", "web.test", 9002, "port not allowed",
            free="answered")
    refused("a name without an address", "http('gone.test')", "gone.test", 80,
            "name does not resolve")


    if VM:  # a jail is given its /etc/hosts before it has its name
        same("its own name", s.probe("name(socket.gethostname())"), "found")
        ok("nobody is asked for it", "filter" not in s.text("net/refused"), s.text("net/refused"))


def addresses():
    refused("an address", f"http('{WEB}')", WEB, 80, "address not allowed", free=WEB)
    refused("one that nobody allowed", f"http('{OTHER}')", OTHER, 80, "address not allowed",
            free=OTHER)
    refused("DNS over TLS", "tcp('8.8.8.8', 853)", "8.8.8.8", 853, "address not allowed",
            free="answered")
    refused("DNS over HTTPS", f"tls('{OTHER}', 'other.test')", OTHER, 443, "address not allowed",
            free="hi")
    refused("another name server", "udp('8.8.8.8', 53)", "8.8.8.8", 53, "foreign name server",
            free="answered")
    refused("the same by TCP", "tcp('8.8.8.8', 53)", free="answered")


def rebinding():
    for name, address in (("loop.test", "127.0.0.1"), ("private.test", PRIVATE),
                          ("meta.test", META), ("own.test", OWN)):
        refused(f"{name} at {address}", f"http('{name}')", name, 80, "private address",
                free=address)


def server_names():
    refused("another server name", "tls('web.test', 'other.test')", "web.test", 443,
            "other TLS server name", free="hi")
    refused("no server name", "tls('web.test', None)", "web.test", 443, "no TLS server name",
            free="hi")
    same("an honest hello in pieces", s.probe("hello('web.test', 'web.test', 3)"), "server hello")
    for size in (1, 40):
        refused(f"another one in pieces of {size}", f"hello('web.test', 'other.test', {size})",
                free="server hello", words=["cut", "ConnectionResetError", "BrokenPipeError"])
    refused("no TLS at all", "tcp('web.test', 443)")


def http_hosts():
    refused("another host", "http('web.test', 'other.test')", "web.test", 80, "other HTTP host",
            free=WEB)
    refused("a redirect to another name", "follow('http://web.test/away')", "other.test", 0,
            "name not allowed", free=OTHER)
    refused("another host at another port", "http('web.test', 'other.test', 9000)")


def protocols():
    refused("UDP", f"udp('{WEB}', 9123)", WEB, 9123, "protocol not allowed", free="answered")
    refused("ping", f"ping('{WEB}')", free="answered")
    refused("IPv6", f"tcp('{WEB6}', 80, socket.AF_INET6)", free="answered")


def beside():
    """A host in an IPv6 network of this machine: a public address, and not in the internet."""
    same("from this machine", land.control(f"tcp('{WEB6}', 80, socket.AF_INET6)"), "answered")
    refused("a neighbour by IPv6", "http('lan6.test')", "lan6.test", 80, "private address")


def this_machine():
    """host.internal, at ports that the administrator opens."""
    land.lab.serve(land.lab.host, "127.0.0.1", 9100, lambda sock: sock.sendall(sock.recv(100)))
    land.lab.serve(land.lab.host, "127.0.0.1", 9101, lambda sock: sock.sendall(sock.recv(100)))
    write(s / "net/allow", "*\n")
    same("not by a *", s.probe("tcp('host.internal', 9100)"), "ConnectionRefusedError")
    write(s / "net/allow", "host.internal:9100\n")
    same("a port that is opened", s.probe("tcp('host.internal', 9100)"), "answered")
    refused("another one", "tcp('host.internal', 9101)", "host.internal", 9101, "port not allowed",
            words=["ConnectionRefusedError", "ConnectionResetError", "TimeoutError", "cut"])
    same("which is there", land.control("tcp('127.0.0.1', 9101)"), "answered")
    for text, words in (("host.internal:9101", "does not open that port"), ("127.0.0.1:9100", "sandbox itself"),
                        ("localhost", "sandbox itself"), ("*.localhost:80", "sandbox itself"),
                        ("0.0.0.0", "sandbox itself"), ("224.0.0.1", "no host")):
        with raises(f"allow {text}", errno.EINVAL):
            write(s / "net/allow", f"{text}\n")
        has(f"in words: {text}", s.text("error"), words)
        has("and what to do", s.text("error"), "host.internal:PORT")
    for text in ("10.9.0.2:22", "192.168.1.1", "169.254.169.254", "100.100.100.200"):
        with raises(f"allow {text}", errno.EINVAL):
            write(s / "net/allow", f"{text}\n")
        has(f"not the administrator's: {text}", s.text("error"), "not-allowed")


def spelt_out():
    write(s / "net/allow", f"{PRIVATE}:8080 web.test\n")
    same("a private address that is spelt out", s.probe(f"tcp('{PRIVATE}', 8080)"), "answered")
    refused("another port of it", f"http('{PRIVATE}')", PRIVATE, 80, "port not allowed",
            free=PRIVATE)
    write(s / "net/allow", "*\n")
    same("everything public", s.probe(f"http('{OTHER}', 'whatever.test')"), OTHER)
    refused("and nothing private", "http('meta.test')", "meta.test", 80, "private address",
            free=META)


def told():
    info = s.json()
    ok("status.json counts refusals", info["network"]["denied"] > 15, info["network"])
    ok("and connections", wait_for(lambda: (s.json()["network"]["traffic"] or {}).get(
        "connections", 0) > 5), s.json()["network"])
    events = subprocess.run(["timeout", "5", "head", "-c", "100000", f"{land.mnt}/events"],
                            stdout=subprocess.PIPE, check=False).stdout.decode()
    has("events have them", events, '"event":"denied"')
    has("with the reason", events, '"reason":"private address"')
    metrics = read(f"{land.mnt}/metrics", "r")
    ok("metrics count them", int(re.search(r"^xsbxfs_net_denied_total (\d+)$", metrics, re.M)[1]) >
       15, metrics)
    with raises("net/refused cannot be written", errno.EACCES):
        write(s / "net/refused", "x")


def off():
    without = land.session("off", "timeout_s = 60\n")
    ok("without a network there is nothing",
       without.probe("http('web.test')") in ("gaierror", "OSError"))
    refused_word = without.probe(f"http('{WEB}')")
    ok("not by address either", refused_word in ("OSError", "TimeoutError"), refused_word)
    write(f"{without.path}/ctl", "close\n")


main(names, addresses, rebinding, server_names, http_hosts, protocols, beside, this_machine, spelt_out, told, off,
     land.end)
