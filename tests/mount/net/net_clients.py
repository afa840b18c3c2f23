#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that fetch pages, in a sandbox whose HTTPS is looked into: what rules allow arrives with a secret that the sandbox
has not, what they refuse is told so, and who was not told to trust the filter does not."""
# backends: process vm
# night: vm
# timeout: 240
# mount: none
from codeland import *

PYTHON = "python3 -c 'import sys, {0}; r = {1}; print(r.text, r.status_code)' "
FETCH = "-e 'const r = await fetch(process.env.URL); console.log(await r.text(), r.status)'"
# What fetches $URL: how it is known whether that is there, the version of HTTP that it speaks, and its command, which prints
# what it gets, and the status.
PAGES = {
    "curl": ("curl --version", "2.0", "curl -sS -w '%{http_code}' \"$URL\""),
    "curl --http1.1": ("curl --version", "1.1", "curl --http1.1 -sS -w '%{http_code}' \"$URL\""),
    "wget": ("wget --version", "1.1", "wget -qSO- --content-on-error \"$URL\""),
    "requests": ("python3 -c 'import requests'", "1.1", PYTHON.format("requests", "requests.get(sys.argv[1])") + '"$URL"'),
    "httpx": ("python3 -c 'import httpx, h2'", "2.0", PYTHON.format("httpx", "httpx.Client(http2=True).get(sys.argv[1])") + '"$URL"'),
    "node": ("[ \"$(node -p process.release.name)$(node -p process.versions.bun)\" = nodeundefined ]", "1.1",
             "node --input-type=module " + FETCH),
    "bun": ("bun --version", "1.1", "bun " + FETCH),
}

land = CodeLand()
knows, bare, unseen = land.session("knows", RULES, SECRETS), land.session("bare", RULES), land.session("unseen")


def pages():
    for name, version, command in present(knows, PAGES):
        got, code = shows(knows, command, URL=f"{URL}/api/open?x=y")
        has(f"{name}: what is allowed arrives, with a secret that is not shown", got,
            f"GET /api/open HTTP/{version} Bearer xsbx-secret-token")
        ok(f"{name}: and is answered", "200" in got and TOKEN not in got, got)
        got, code = shows(knows, command, URL=f"{URL}/api/closed/x")
        ok(f"{name}: what is refused says why", "403" in got and f"xsbxfs: GET {URL}/api/closed/x" in got and "rule 1 of net/rules" in got, got)
        got, code = shows(bare, command, URL=f"{URL}/api/open")
        ok(f"{name}: control: without the secret the server knows nobody", "401" in got, got)
        before, broken = land.arrived(), broken_off(knows)
        got, code = shows(knows, command, URL=f"{URL}/api/open", **UNTRUSTING)
        ok(f"{name}: who does not trust the session's authority does not go on", code and "nobody" not in got, (code, got))
        ok(f"{name}: breaks off", wait_for(lambda: broken_off(knows) > broken), knows.text("net/log")[-500:])
        same(f"{name}: and nothing arrived", land.arrived(), before)
        got, code = shows(unseen, command, URL=f"{URL}/api/open", **UNTRUSTING)
        ok(f"{name}: control: the server's own is trusted where nobody looks into it", "401" in got, (code, got))


def logged():
    lines = [json.loads(line) for line in knows.text("net/log").splitlines()]
    ok("all was looked into", all(line["method"] or line["refused"] for line in lines), lines[-3:])
    same("with both versions", {line["version"] for line in lines if line["secret"]}, {"1.1", "2"})
    for node in "net/log", "net/secrets", "net/refused", "status.json":
        ok(f"the secret is not in {node}", TOKEN not in knows.text(node))


main(pages, logged, land.end)
