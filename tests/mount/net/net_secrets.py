#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A session uses secrets that it cannot read: they arrive, and are nowhere but in the filter and where they come from."""
# backends: process vm
# timeout: 240
# mount: none
# log-allow: the daemon died|another one goes on|network-lost
from netland import *

import base64
import signal

import memories

VALUES = {name: f"value-of-{name}-{os.urandom(9).hex()}" for name in ("filed", "envd", "made", "own", "next", "later", "last", "hidden")}
CONTROL = f"what-the-guest-knows-{os.urandom(6).hex()}"
NEEDLE = re.compile("|".join((*VALUES.values(), CONTROL)).encode())
VARIABLE = "XSBX_TEST_TOKEN"
seen = []


def private(name, text, mode=0o600):
    path = f"{SCRATCH}/{name}"
    write(path, text)
    os.chmod(path, mode)
    return path


def section(name, source, hosts="web.test:8080", more=""):
    return f"[secret {name}]\nfrom = {source}\nhosts = {hosts}\n{more}"


def repeat(head):
    """What it is asked."""
    seen.append(head.decode())
    return base64.b64encode(head) if head.startswith(b"GET /coded ") else head


maker = private("maker", f"#!/bin/sh\necho about $(head -n 1 {SCRATCH}/made) >&2\ncat {SCRATCH}/made\n", 0o700)
conf = f"survive = yes\nkeep = yes\nstate_dir = {SCRATCH}/state\naudit_file = {SCRATCH}/audit\n[network]\nca_certificates = {SCRATCH}/cert\n[limits]\nmax_allow = *\n" + \
    section("filed", "file " + private("filed", VALUES["filed"] + "\n"), more="refresh_s = 1\n") + \
    section("envd", "env " + VARIABLE) + \
    section("hidden", "file " + private("hidden", VALUES["hidden"] + "\n"), "web.test:8443") + \
    section("made", "command " + maker, more="refresh_s = 600\n") + \
    section("open", "file " + private("open", "anybody reads this", 0o644)) + \
    section("link", f"file {SCRATCH}/link") + \
    section("fails", "command /bin/false") + \
    section("theirs", f"file {SCRATCH}/filed", more="users = 4711\n")
os.symlink("filed", f"{SCRATCH}/link")
private("made", VALUES["made"] + "\nexpires=7\n")
land = Land(conf=conf, env={VARIABLE: VALUES["envd"]})
for address in (WEB, OTHER):
    land.lab.serve(land.lab.internet, address, 8080, answering(repeat))
    land.lab.serve(land.lab.internet, address, 8443, within_tls(answering(repeat)))
s = land.session("keeper", "network = on\nallow = web.test:8080 other.test:8080 web.test:8443 other.test:8443\ntimeout_s = 60\n"
                 "secrets = web.test:8080/filed bearer filed web.test:8080/envd header X-Key envd "
                 "web.test:8080/made query key made web.test:8443 bearer hidden web.test:8443 placeholder hidden\n")


def fetch(path, host="web.test", session=s, port=8080, more=""):
    """Return: what the guest gets, and what the server got."""
    before = len(seen)
    result = session.run(f"print(fetch('http{'s' * (port == 8443)}://{host}:{port}{path}'{more}))")
    return result.out + result.err, "".join(seen[before:])


def arrives(name, path):
    got, sent = fetch(path)
    ok(f"{name}: the server gets it", VALUES[name] in sent, (got, sent))
    ok(f"{name}: the guest does not", VALUES[name] not in got and "xsbx-secret" in got, got)


def uses():
    s.run(FETCH)
    s.run(f"known = '{CONTROL}'.encode() * 3")
    arrives("filed", "/filed")
    arrives("envd", "/envd")
    arrives("made", "/made")
    got, sent = fetch("/filed", host="other.test")
    ok("nothing goes to another host", sent and VALUES["filed"] not in sent and "Bearer" not in sent, (got, sent))
    got, sent = fetch("/else")
    ok("nothing goes to another path", sent and VALUES["filed"] not in sent and "Bearer" not in sent, (got, sent))
    if os.path.exists(f"{s.path}/net/log"):
        ok("net/log has the name of it", wait_for(lambda: '"secret":"filed"' in s.text("net/log").replace(" ", "")),
           s.text("net/log")[-600:])


def over_https():
    """TLS ends in the filter, so all of it holds there; but for what is said to a host that no secret goes to, which nobody sees."""
    got, sent = fetch("/x", port=8443, more=", Mine='" + CONTROL + "', Marked='xsbx-secret-hidden'")
    same("the server gets it, where it was to go", sent.count(VALUES["hidden"]), 2)
    ok("the guest gets what is no secret", CONTROL in got and "xsbx-secret-hidden" in got, got)
    ok("... and not what is one", VALUES["hidden"] not in got, got)
    got, sent = fetch("/coded", port=8443)
    coded = base64.b64encode(sent.encode()).decode()
    parts = [base64.b64encode(b"x" * n + VALUES["hidden"].encode()).decode()[4:20] for n in range(3)]
    ok("nor in another form", any(x in coded for x in parts) and coded[:12] == got[:12] and not any(x in got for x in parts), got)
    got, sent = fetch("/x", port=8443, host="other.test", more=", Marked='xsbx-secret-hidden'")
    ok("control: another host gets what was written", "xsbx-secret-hidden" in sent and VALUES["hidden"] not in sent and
       "Bearer" not in sent, (got, sent))
    lines = [json.loads(line) for line in s.text("net/log").splitlines()]
    same("net/log has its name", {x["secret"] for x in lines if x["scheme"] == "https" and x["name"] == "web.test"}, {"hidden"})


def sources():
    """What is no source is none, in words."""
    for name, words in (("open", "can be used by others"), ("link", "is a link"), ("fails", "exit status 1")):
        write(f"{s.path}/net/secrets", f"web.test:8080/{name} bearer {name}\n")
        ok(f"{name}: it says why not", wait_for(lambda: words in s.text("error") and name in s.text("error")), s.text("error"))
        got, sent = fetch(f"/{name}")
        ok(f"{name}: nothing goes out", not sent and "502 " in got and "no value" in got, (got, sent))
    for use in ("other.test:8080 bearer filed", "web.test bearer filed", "web.test:8080 bearer theirs", "web.test:8080 bearer none"):
        try:
            write(f"{s.path}/net/secrets", use + "\n")
            ok(f"{use} is refused", False)
        except OSError as error:
            ok(f"{use} is refused", error.errno in (errno.EPERM, errno.EINVAL, errno.EACCES), error)
    write(f"{s.path}/net/secrets", "web.test:8080/filed bearer filed\nweb.test:8080/envd header X-Key envd\n"
          "web.test:8080/made query key made\nweb.test:8443 bearer hidden\n")


def refreshed():
    private("filed.new", VALUES["next"] + "\n")
    os.rename(f"{SCRATCH}/filed.new", f"{SCRATCH}/filed")
    ok("a file that was replaced is read again", wait_for(lambda: VALUES["next"] in fetch("/filed")[1]))
    private("made", VALUES["later"] + "\n")
    ok("a command is run again before its value expires", wait_for(lambda: VALUES["later"] in fetch("/made")[1]))
    private("filed", VALUES["next"] + "\n", 0o644)
    ok("one that can be read by others no more is said", wait_for(lambda: "secret filed" in s.text("error")), s.text("error"))
    ok("... and the value of before is used", VALUES["next"] in fetch("/filed")[1])
    private("filed", VALUES["next"] + "\n")


def survived():
    """The daemon dies: the filter has the values, and the next daemon has them read again."""
    os.kill(daemon_of(land.mnt), signal.SIGKILL)
    ok("another daemon is there", wait_for(lambda: s.text("state"), 20))
    for name, path in (("next", "/filed"), ("envd", "/envd"), ("later", "/made")):
        arrives(name, path)
    private("filed", VALUES["last"] + "\n")
    ok("a file is still read again", wait_for(lambda: VALUES["last"] in fetch("/filed")[1]))
    os.mkdir(f"{s.path}/checkpoints/with")
    ok("a checkpoint is made", wait_for(lambda: os.path.exists(f"{s.path}/checkpoints/with") and s.word() == "idle", 20))
    s.ctl("reset")
    s.run(FETCH)
    s.run(f"known = '{CONTROL}'.encode() * 3")
    arrives("envd", "/envd")
    arrives("last", "/filed")
    ok("the last within TLS, too", VALUES["hidden"] in fetch("/x", port=8443)[1])


def own_file():
    path = private("own.conf", section("mine", "file " + private("own", VALUES["own"])) +
                   section("filed", "command /bin/echo " + VALUES["own"]))
    o = land.session("owner", "network = on\nallow = web.test:8080\ntimeout_s = 60\n"
                     f"secrets_file = {path}\nsecrets = web.test:8080/mine bearer mine web.test:8080/filed bearer filed "
                     "web.test:8080/envd bearer envd\n")
    o.run(FETCH)
    for name, value in (("mine", "own"), ("filed", "own"), ("envd", "envd")):
        got, sent = fetch(f"/{name}", session=o)
        ok(f"{name} of an owner's file", VALUES[value] in sent and VALUES[value] not in got, (got, sent, o.text("error")))
    os.chmod(path, 0o640)
    write(f"{o.path}/net/secrets", "web.test:8080/mine bearer mine\n")
    ok("it has to be private", wait_for(lambda: "can be used by others" in o.text("error")), o.text("error"))
    os.chmod(path, 0o600)
    o.remove()


# -- where they are not --

def nowhere():
    holders, controls, known = {}, set(), set()
    for pid in (land.daemon.pid, *children_of(land.daemon.pid)):
        name, got = memories.role(pid), memories.have(pid, NEEDLE, known)
        if CONTROL in got:
            controls.add(name)
        for value in got - {CONTROL}:
            holders.setdefault(name, set()).update(x for x in VALUES if VALUES[x] == value)
    print("control found in", controls, "values in", holders, flush=True)
    ok("control: what the guest knows is found", any("python" in x or "qemu" in x for x in controls), controls)
    ok("control: the filter has the values", "filter" in holders, holders)
    ok("nobody else has any", set(holders) <= {"filter", "xsbxfs-spawner"}, holders)
    ok("the spawner has what came by the environment alone", holders.get("xsbxfs-spawner", set()) <= {"envd"}, holders)
    values = {x.encode() for x in VALUES.values()}
    allowed = {f"{SCRATCH}/{x}" for x in ("filed", "made", "maker", "own", "own.conf", "hidden")}
    hits, control = [], False
    for top, dirs, files in os.walk(SCRATCH):
        if top == land.mnt:
            dirs[:] = []
            continue
        for file in files:
            path = f"{top}/{file}"
            if not os.path.isfile(path) or path in allowed or os.path.islink(path):
                continue
            data = read(path)
            control = control or b"keeper" in data
            if any(value in data for value in values):
                hits.append(path)
    same("no file has any", hits, [])
    for node in ("config", "status.json", "net/log", "net/secrets", "net/refused", "error", "console"):
        if os.path.exists(f"{s.path}/{node}"):
            ok(f"{node} has none", not any(value.decode() in s.text(node) for value in values))
    got = s.run("import glob\nprint(open('/proc/self/environ').read(), [k for k in globals()])").out
    ok("the guest's environment has none", not any(value.decode() in got for value in values))


LOOK = '''
import os
def look(coded):
    """What of these a program here can read: of all files but the system's, of all processes' environments and words."""
    wanted = {name: bytes(x ^ 1 for x in value) for name, value in coded.items()}
    paths = [f"/proc/{pid}/{file}" for pid in os.listdir("/proc") if pid.isdigit() for file in ("environ", "cmdline")]
    for top, dirs, files in os.walk("/"):
        dirs[:] = [d for d in dirs if f"{top}/{d}".lstrip("/") not in ("proc", "sys", "usr")]
        paths += [f"{top}/{file}" for file in files if os.path.isfile(f"{top}/{file}")]
    found = set()
    for path in paths:
        try:
            data = open(path, "rb").read(1 << 24)
        except OSError:
            continue
        found |= {name for name, value in wanted.items() if value in data}
    return sorted(found), len(paths)
'''


def inside():
    """The last, for its memory has them then."""
    write(s / "files/known", CONTROL)
    s.run(LOOK)
    coded = {name: bytes(x ^ 1 for x in value.encode()) for name, value in {**VALUES, "control": CONTROL}.items()}
    found, count = eval(s.run(f"print(look({coded}))").out)
    same("nothing there has one, but what it has written itself", found, ["control"])
    ok("there is something to read", count > 20, count)


def without_filter():
    """A value is due, and nobody takes it any more: that is said, and nothing else waits for it."""
    for pid in children_of(land.daemon.pid):
        if memories.role(pid) == "filter":
            os.kill(pid, signal.SIGKILL)
    ok("the network is lost", wait_for(lambda: "code: network-lost" in s.text("error")), s.text("error"))
    time.sleep(2.5)  # behind refresh_s of one
    status, out, _ = shell(f"timeout {SOON} cat {land.mnt}/status.json")
    same("the mount answers", (status, out[:1]), (0, b"{"))


main(uses, over_https, sources, refreshed, survived, own_file, nowhere, inside, without_filter, land.end)
