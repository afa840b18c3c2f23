#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Debian's squid as the only way out of a mount: sandboxes know nothing of it, rules and secrets hold, and it alone resolves names."""
# backends: process vm
# night: vm
# timeout: 120
# mount: none
from codeland import *

from servers import start_squid

PROXY = "93.184.216.37"
FAR, SHUT = "far.test", "shut.test"  # which only the proxy knows, and which it refuses
RULES_HERE = ["deny * code.test/api/closed*", "allow GET code.test/*"]

land = CodeLand(network=f"upstream = http://{PROXY}:3128\n")
with land.lab.internet.entered():
    land.ip("addr", "add", f"{PROXY}/32", "dev", "lo")
write(f"{SCRATCH}/squid.hosts", f"{CODE} code.test\n{WEB} {FAR} web.test {SHUT}\n")
squid, access = start_squid(land.lab, SCRATCH, PROXY, f"hosts_file {SCRATCH}/squid.hosts", f"acl shut dstdomain {SHUT}", "http_access deny shut")
s = land.session("upstream", RULES_HERE, "code.test bearer token", f"allow = code.test {FAR} {SHUT} web.test {WEB}:80\n")


def asked():
    """What squid was asked for."""
    return re.findall(r" (\S+) (\S+:\d+) ", re.sub(r" +", " ", read(access, "r")))


def https():
    got = shows(s, f"curl -sS -m 60 {URL}/api/open")[0]
    ok("it is reached, with the secret", "GET /api/open HTTP/1.1 Bearer xsbx-secret-token" in got.replace("HTTP/2.0", "HTTP/1.1"), got)
    same("by the proxy, by its name", wait_for(lambda: ("CONNECT", "code.test:443") in asked()), True)
    before = land.arrived()
    got = shows(s, f"curl -sS -m 60 {URL}/api/closed")[0]
    has("a rule denies", got, "rule 1 of net/rules denies it")
    same("the server was not asked", land.arrived(), before)


def names():
    """Of the proxy's."""
    got, code = shows(s, f"curl -sS -m 60 http://{FAR}/")
    same("a name that only the proxy knows", (got.strip(), code), (WEB, 0))
    has("this machine does not", land.control(f"http('{FAR}')"), "gaierror")
    got = shows(s, f"curl -sS -m 60 http://{SHUT}/")[0]
    has("what the proxy refuses is not reached", got, "the upstream proxy refused it")
    s.denied(SHUT, 80, "the upstream proxy refused it")
    shows(s, "curl -sS -m 60 http://gone.test/")
    ok("what is not on the list is not asked for", not any("gone.test" in to for _, to in asked()), asked())


def addresses():
    got = shows(s, f"curl -sS -m 60 http://{WEB}/")[0]
    same("a public address is reached", got.strip(), WEB)
    ok("by the proxy, which logs a tunnel when it ends", wait_for(lambda: ("CONNECT", f"{WEB}:80") in asked()), asked())


def told():
    lines = read(f"{land.mnt}/doctor", "r")
    has("doctor says so", lines, f"by the proxy http://{PROXY}:3128")
    squid.terminate()
    ok("squid ends", squid.wait(SOON) is not None)
    got = shows(s, f"curl -sS -m 60 {URL}/api/open")[0]
    has("without it there is no way out", got, "unreachable")
    land.end()


main(https, names, addresses, told)
