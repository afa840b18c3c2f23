#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""By a shell and files alone: a token is used that is nowhere, another path is refused in words, asked for, and allowed by mv."""
# backends: process vm
# timeout: 180
# mount: none
from netland import *

import memories

TOKEN = f"ghs-{os.urandom(12).hex()}"
CONTROL = f"what-the-guest-knows-{os.urandom(6).hex()}"
NEEDLE = re.compile(f"{TOKEN}|{CONTROL}".encode())
seen = []


def serve(head):
    seen.append(head.decode())
    return head.split(b" HTTP")[0] + b" for " + head.split(b"uthorization: ")[-1].split(b"\r")[0]


write(f"{SCRATCH}/token", TOKEN + "\n")
os.chmod(f"{SCRATCH}/token", 0o600)
land = Land(conf=f"[network]\nca_certificates = {SCRATCH}/cert\n[secret api]\nfrom = file {SCRATCH}/token\nhosts = web.test:8443\n")
land.lab.serve(land.lab.internet, WEB, 8443, within_tls(answering(serve)))
s = f"{land.mnt}/python/story"


def sh(commands):
    """What somebody types in the session's directory. Return: what is said."""
    status, out, err = shell(commands, cwd=s if os.path.exists(s) else land.mnt)
    same(f"$ {commands.splitlines()[0]}", (status, err), (0, b""))
    return out.decode()


def fetches():
    sh(f"mkdir {s}")
    sh("printf 'network = on\\nallow = web.test:8443\\n' > config")
    sh("echo 'allow GET web.test:8443/v1/*' > net/rules; echo 'deny * web.test:8443/*' >> net/rules")
    sh("echo 'web.test:8443 bearer api' > net/secrets")
    write(f"{s}/in", FETCH)
    sh("cat exit_code")
    said = sh("echo \"print(fetch('https://web.test:8443/v1/me'))\" > in; cat stdout")
    same("the guest has the answer, and the token is not in it",
         said, "GET /v1/me for Bearer " + "xsbx-secret-api".ljust(len(TOKEN), "*") + "\n")
    same("the server got the token", [f"Bearer {TOKEN}" in head for head in seen], [True])
    same("an owner reads where it goes, and not what it is", sh("cat net/secrets"), "web.test:8443 bearer api\n")


def refused():
    said = sh("echo \"print(fetch('https://web.test:8443/admin/keys'))\" > in; cat stdout")
    has("it is refused, by which rule", said, "rule 2 of net/rules denies it: deny * web.test:8443/*")
    has("and how to have it", said, "a line in its net/rules: allow GET web.test:8443/admin/keys")
    same("the server was not asked", len(seen), 1)


def asks():
    sh("sed -i 's/^deny /ask /' net/rules")
    sh("echo \"print(fetch('https://web.test:8443/admin/keys'))\" > in")
    asked = sh("until ls net/pending | grep .; do sleep 0.1; done").strip()
    same("what and who", sh(f"cat net/pending/{asked}/what net/pending/{asked}/who"),
         "GET https://web.test:8443/admin/keys\nrun 4\n")
    same("the server was not asked yet", len(seen), 1)
    sh(f"mv net/pending/{asked} net/allowed/")
    has("it goes on", sh("cat stdout"), "GET /admin/keys for Bearer xsbx-secret-api")
    same("with the token", [f"Bearer {TOKEN}" in head for head in seen], [True, True])
    has("who decided", sh(f"cat net/allowed/{asked}/decided"), "allowed once, by uid ")


def logged():
    lines = [json.loads(line) for line in sh("cat net/log").splitlines()]
    same("net/log has all of it",
         [(x["who"], x["method"], x["path"], x["status"], x["refused"], x["rule"], x.get("secret")) for x in lines if x["method"]],
         [("run 2", "GET", "/v1/me", 200, False, 1, "api"), ("run 3", "GET", "/admin/keys", 403, True, 2, None),
          ("run 4", "GET", "/admin/keys", 200, False, 2, "api")])


def nowhere():
    """Not in the sandbox, nor in what serves the mount; in no file, but its own."""
    sh(f"echo \"known = '{CONTROL}' * 3\" > in; cat exit_code")
    holders, known = {}, set()
    for pid in (land.daemon.pid, *children_of(land.daemon.pid)):
        for what in memories.have(pid, NEEDLE, known):
            holders.setdefault(what, set()).add(memories.role(pid))
    same("the filter has it, and nobody else", holders.get(TOKEN), {"filter"})
    ok("control: what the guest knows is found", any("python" in x or "qemu" in x for x in holders.get(CONTROL, ())), holders)
    sh("mkdir checkpoints/with")
    same("no file in the mount has it, nor one behind it",
         sh(f"grep -rlsa --exclude-dir=pending -e {TOKEN} {SCRATCH} --exclude-dir=mnt; "
            f"grep -sa -e {TOKEN} config status.json error console net/log net/rules net/secrets net/refused runs/*/* || :"),
         f"{SCRATCH}/token\n")
    with open(os.open(f"{s}/events", os.O_RDONLY | os.O_NONBLOCK)) as file:
        events = file.read()
    ok("events have what was decided, and no token", '"event":"decided"' in events and TOKEN not in events, events[-300:])


main(fetches, refused, asks, logged, nowhere, land.end)
