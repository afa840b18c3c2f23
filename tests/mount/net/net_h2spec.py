#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""h2spec, which knows the rules of HTTP/2 and breaks them, in a sandbox whose HTTPS is looked into: the filter holds to them, but
where nghttp2 does not."""
# backends: process
# night: process
# timeout: 600
# mount: none
from codeland import *

import suites

PACKAGE = "github.com/summerwind/h2spec/cmd/h2spec"
# Of a request on a stream that comes too late, nghttp2 can't tell that it never was there: it ignores it, which h2spec takes for
# right if the server ends the connection meanwhile for being idle.
KNOWN = ["Sends stream identifier that is numerically smaller than previous"]

where = suites.go("h2spec", PACKAGE)
land = CodeLand(conf=f"[template spec]\nlanguage = raw\nbackend = process\nro = {where}\n")
s = land.session("spec", RULES, SECRETS, "timeout_s = 500\n", template="spec")


def spec(host, *options):
    """Return: how many tests there were, and how many passed; the names of those that did not."""
    got, code = shows(s, f"{where}/h2spec --tls --host {host} --port 443 --path /api/open --timeout {10 * slack():.0f} " + " ".join(options))
    found = re.search(r"^(\d+) tests, (\d+) passed, 0 skipped, (\d+) failed", got, re.M)
    if not ok(f"{host}: it ends", found and code == (found[3] != "0"), (code, got[-2000:])):
        return 0, 0, []
    return int(found[1]), int(found[2]), re.findall(r"^ +× \d+: (.*)$", got.partition("Failures:")[2], re.M)


def conforms():
    tests, passed, failed = spec("code.test", "--strict")
    ok("all of it", tests > 140, tests)
    ok("what it does otherwise is known", failed in ([], KNOWN), failed)
    same("all else is as it should be", passed, tests - len(failed))
    ok("and the filter is there still", "HTTP/2.0 Bearer xsbx-secret-token" in shows(s, f"curl -sS {URL}/api/open")[0])
    ok("control: nginx was asked", land.arrived() > 50, land.arrived())


def control():
    """A server that says nothing of HTTP/2, and into which nobody looks."""
    write(s / "net/allow", "web.test\n")
    tests, passed, failed = spec("web.test", "-k", "http2/3.5/1", "http2/4.2/1")
    same("it fails there", (passed, len(failed)), (0, tests))
    ok("as it is not HTTP/2", tests == 2, tests)


main(conforms, control, land.end)
