#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A session uses secrets that it cannot read: they arrive, and are nowhere but in the filter and where they come from."""
# backends: process vm
# timeout: 240
# mount: none
from netland import *

VALUES = {name: f"value-of-{name}-{os.urandom(9).hex()}" for name in ("filed", "envd", "made", "own", "next", "later")}
CONTROL = f"what-the-guest-knows-{os.urandom(6).hex()}"
VARIABLE = "XSBX_TEST_TOKEN"
seen = []


def private(name, text, mode=0o600):
    path = f"{SCRATCH}/{name}"
    write(path, text)
    os.chmod(path, mode)
    return path


def section(name, source, hosts="web.test:8080", more=""):
    return f"[secret {name}]\nfrom = {source}\nhosts = {hosts}\n{more}"


def server(sock):
    """Repeats what it is asked."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = sock.recv(65536)
        if not part:
            return
        data += part
    seen.append(data.decode())
    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(data), data))


maker = private("maker", f"#!/bin/sh\necho about {VALUES['made']} >&2\ncat {SCRATCH}/made\n", 0o700)
conf = "[limits]\nmax_allow = *\n" + \
    section("filed", "file " + private("filed", VALUES["filed"] + "\n"), more="refresh_s = 1\n") + \
    section("envd", "env " + VARIABLE) + \
    section("made", "command " + maker, more="refresh_s = 600\n") + \
    section("open", "file " + private("open", "anybody reads this", 0o644)) + \
    section("link", f"file {SCRATCH}/link") + \
    section("fails", "command /bin/false") + \
    section("theirs", f"file {SCRATCH}/filed", more="users = 4711\n")
os.symlink("filed", f"{SCRATCH}/link")
private("made", VALUES["made"] + "\nexpires=7\n")
land = Land(conf=conf, env={VARIABLE: VALUES["envd"]})
land.lab.serve(land.lab.internet, WEB, 8080, server)
land.lab.serve(land.lab.internet, OTHER, 8080, server)
s = land.session("keeper", "network = on\nallow = web.test:8080 other.test:8080\ntimeout_s = 60\n"
                 "secrets = web.test:8080/filed bearer filed web.test:8080/envd header X-Key envd "
                 "web.test:8080/made query key made\n")
FETCH = '''
import urllib.request, urllib.error
def fetch(url, **headers):
    try:
        return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30).read().decode()
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()}"
'''


def fetch(path, host="web.test", session=s):
    """Return: what the guest gets, and what the server got."""
    before = len(seen)
    result = session.run(f"print(fetch('http://{host}:8080{path}'))")
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
          "web.test:8080/made query key made\n")


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

def children(pid):
    found = [pid]
    for other in os.listdir("/proc"):
        if not other.isdigit():
            continue
        with contextlib.suppress(OSError):
            if int(read(f"/proc/{other}/stat").rsplit(")", 1)[1].split()[1]) == pid:
                found += children(int(other))
    return found


def memory_has(pid, needles):
    """Which of them are in its memory, environment or command line?"""
    found = set()
    with contextlib.suppress(OSError):
        for file in ("environ", "cmdline"):
            data = read_bytes(f"/proc/{pid}/{file}")
            found |= {x for x in needles if x in data}
        maps = read(f"/proc/{pid}/maps").splitlines()
        with open(f"/proc/{pid}/mem", "rb", 0) as mem:
            for line in maps:
                begin, end = (int(x, 16) for x in line.split()[0].split("-"))
                if line.split()[1][0] == "r" and "[v" not in line:
                    found |= search_range(mem, begin, end, needles)
    return found


def search_range(mem, begin, end, needles, step=1 << 22):
    found, tail = set(), b""
    while begin < end:
        try:
            mem.seek(begin)
            data = mem.read(min(step, end - begin))
        except (OSError, OverflowError):
            data = b""
        found |= {x for x in needles if x in tail + data}
        tail = data[-200:]
        begin += step
    return found


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def role(pid):
    with contextlib.suppress(OSError):
        line = read(f"/proc/{pid}/cmdline").replace("\0", " ")
        return "filter" if "--control" in line else read(f"/proc/{pid}/comm").strip()
    return "gone"


def nowhere():
    values = {VALUES[x].encode() for x in ("filed", "envd", "made", "next", "later", "own")}
    known, holders, controls = CONTROL.encode(), {}, set()
    for pid in children(land.daemon.pid):
        name = role(pid)
        got = memory_has(pid, values | {known})
        if known in got:
            controls.add(name)
        for value in got - {known}:
            holders.setdefault(name, set()).add(value.split(b"-")[2].decode())
    print("control found in", controls, "values in", holders, flush=True)
    ok("control: what the guest knows is found", controls)
    ok("control: the filter has the values", "filter" in holders, holders)
    spawner = {x for x in holders if x not in ("filter", "xsbxfs-spawner")}
    ok("nobody else has any", not spawner, holders)
    ok("the spawner has what came by the environment alone", holders.get("xsbxfs-spawner", set()) <= {"envd"}, holders)
    allowed = {f"{SCRATCH}/{x}" for x in ("filed", "made", "maker", "own", "own.conf")}
    hits, control = [], False
    for top, dirs, files in os.walk(SCRATCH):
        if top == land.mnt:
            dirs[:] = []
            continue
        for file in files:
            path = f"{top}/{file}"
            if not os.path.isfile(path) or path in allowed or os.path.islink(path):
                continue
            data = read_bytes(path)
            control = control or b"keeper" in data
            if any(value in data for value in values):
                hits.append(path)
    same("no file has any", hits, [])
    for node in ("config", "status.json", "net/log", "net/secrets", "net/refused", "error", "console"):
        if os.path.exists(f"{s.path}/{node}"):
            ok(f"{node} has none", not any(value.decode() in s.text(node) for value in values))
    got = s.run("import glob\nprint(open('/proc/self/environ').read(), [k for k in globals()])").out
    ok("the guest's environment has none", not any(value.decode() in got for value in values))


uses()
sources()
refreshed()
own_file()
nowhere()
s.run("del known")
land.end()
finish()
