#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Debian's squid, where sandboxes can reach it: it goes where it is asked to, and rules are not got round that way."""
# backends: process vm
# night: process vm
# timeout: 120
# mount: none
from codeland import *

from servers import start_squid

PROXY = "93.184.216.37"
# For each scheme: what goes out, and a word of what it reaches.
WAYS = {"https": (f"curl -sS --cacert $HOME/authority.pem {URL}/api/open", "nobody knows you"),
        "http": ("curl -sS http://web.test/", WEB)}
DENIED = ["deny * code.test", "deny * web.test"]

find("squid")
HOSTS[PROXY] = "proxy.test"
land = CodeLand(network="proxy = pass\n", env={f"{scheme}_proxy": f"http://{PROXY}:3128" for scheme in WAYS})
with land.lab.internet.entered():
    land.ip("addr", "add", f"{PROXY}/32", "dev", "lo")
squid, access = start_squid(land.lab, SCRATCH, PROXY)


def asked():
    """How often squid was asked for something: a connection alone is in its log as well."""
    return len(re.findall(rb" (?:CONNECT|GET) ", read(access)))


def goes(s, what, reaches, proxy=None):
    """By the proxy that the administrator passes on, or another."""
    for scheme, (command, word) in WAYS.items():
        before = asked()
        got, _ = shows(s, f"{command} -m 60 -v", **({f"{scheme}_proxy": f"http://{proxy}:3128"} if proxy else {}))
        same(f"{what}, {scheme}: is it reached?", word in got, reaches)
        same("by squid", wait_for(lambda: asked() > before) if reaches else asked() > before, reaches)
        ok("or is told why not", reaches or " 403" in got, got)


def rules():
    """Without rules the proxy decides; with them it is not asked, unless one of them says so."""
    goes(land.session("unruled", config="allow = \n"), "no rules", True)
    s = land.session("ruled", DENIED, config="allow = \n")
    goes(s, "rules", False)
    s.denied(PROXY, 3128, "other HTTP host")
    has("a line says what would help", shows(s, WAYS["http"][0])[0], f"allow * {PROXY}:3128")
    write(s / "net/rules", "\n".join([*DENIED, f"allow * {PROXY}:3128"]) + "\n")
    goes(s, "a rule for it", True)
    goes(land.session("wide", DENIED, config="allow = *:3128\n"), "any name", False, "proxy.test")
    goes(land.session("named", config="allow = proxy.test:3128\n"), "a name, and what is said to it is held to it", False, "proxy.test")


def end():
    squid.terminate()
    ok("squid ends", squid.wait(SOON) is not None)
    land.end()


main(rules, end)
