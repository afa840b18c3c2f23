#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packages are imported before a snapshot is made, and what that leaves in sessions is modules and nothing
else; packages that can't be imported so, whatever they do instead, are done without."""
# mount: none
# backends: vm
# night: vm
# timeout: 300
# log-allow: importing .* ahead
from layers import *

vm_only()
need_language("python")

ALPHA = """
import os, random, ssl, sys, time, uuid
BORN, PID = time.time(), os.getpid()
print("noise"); print("noise", file=sys.stderr); os.write(1, b"noise")
FREE, FIXED = random.Random(), random.Random(7)
ssl.RAND_bytes(8)
uuid.uuid1()
from beta import TWICE
"""
LOOK = ("import sys; print(sorted(m for m in ('alpha', 'beta', 'gamma', 'raises', 'exits', 'hangs') if m in sys.modules),"
        " sorted(k for k in globals() if not k.startswith('_') and k != 'sys'))\n")
DRAWS = ("import alpha, os, random, secrets, ssl, uuid\n"
         "print(alpha.FREE.random(), random.random(), ssl.RAND_bytes(8).hex(), secrets.token_hex(8), os.urandom(8).hex(),"
         " uuid.uuid4(), uuid.getnode())\nprint(alpha.FIXED.random())\n")
DRAW = "import ssl; print(ssl.RAND_bytes(16).hex())\n"
BAD = "alpha==1.0 exits==1.0 gamma==1.0 raises==1.0"
host = None


def mirror():
    wheel("alpha", "1.0", {"alpha.py": ALPHA}, requires=["beta"])
    wheel("beta", "1.0", {"beta.py": "TWICE = 84\n"})
    wheel("gamma", "1.0")
    wheel("raises", "1.0", {"raises.py": "print('noise')\nraise ValueError('on purpose')\n"})
    wheel("exits", "1.0", {"exits.py": "import os; os._exit(0)\n"})
    wheel("hangs", "1.0", {"hangs.py": "import time\nwhile True: time.sleep(1)\n"})
    tarball("left", "1.2.3", {"index.js": "console.log('noise'); module.exports = { born: Date.now(), drawn: "
                                          "require('node:crypto').randomBytes(8).toString('hex') + crypto.randomUUID() }\n"})
    tarball("sad", "1.0.0", {"index.js": "process.exit(0)\n"})
    tarball("types", "1.0.0", {"index.d.ts": ""}, types="index.d.ts")


def kind(packages, warmup="auto", mnt=None):
    """What is known of sandboxes of this kind."""
    found = [k for k in json.loads(read(f"{mnt or host.mnt}/status.json"))["snapshots"]
             if k["packages"] == packages and k["warmup"] == warmup]
    return found[0] if found else {"state": "absent", "pool": {"ready": 0}}


def wait_ready(packages, warmup="auto", mnt=None):
    def there():
        k = kind(packages, warmup, mnt)
        return k["state"] == "ready" and k["pool"]["ready"]
    ok(f"{packages} {warmup}: a snapshot and a clone", wait_for(there, 40), kind(packages, warmup, mnt))


def use(name, packages, more="", template="python"):
    """A session that is the only one of its kind so far, and ends."""
    s = host.session(name, packages, template, more)
    same(f"{name}: runs", s.run("print(1)\n" if template == "python" else "console.log(1)\n").out, "1\n")
    start = s.json()["sandbox"]["start"]
    s.remove()
    return start


def use_twice(name, packages, more):
    """There may be four snapshots already that were just used: then once is not enough."""
    start = use(name, packages, more)
    use(f"{name}2", packages, more)
    return start


def start_of(s):
    return s.json()["sandbox"]["start"]


def first():
    """One session is enough for a snapshot with its packages in it."""
    same("it boots", use("first", "alpha==1.0"), "cold")
    # Those that take their time begin early.
    for packages in "hangs==1.0", BAD:
        use("early", packages)
    wait_ready("alpha==1.0")


def modules():
    made = time.time()
    s = host.session("second", "alpha==1.0")
    same("modules, and no variable", s.run(LOOK).out, "['alpha', 'beta'] []\n")
    same("from the snapshot", start_of(s), "warm")
    run = s.run("import alpha, os; print(alpha.BORN, alpha.PID != os.getpid(), alpha.TWICE)\n")
    born, other, twice = run.out.split()
    ok("older than the session", float(born) < made, (born, made))
    same("imported in another process", (other, twice, run.err), ("True", "84", ""))
    same("nothing in files/", os.listdir(s / "files"), [])
    s.ctl("reset")
    same("after a reset, too", s.run(LOOK).out, "['alpha', 'beta'] []\n")
    same("it is the same", s.run("import alpha; print(alpha.BORN)\n").out, f"{born}\n")
    same("after the end of an interpreter", s.run("import os; os._exit(1)\n").code, 1)
    same("still", s.run("import alpha; print(alpha.BORN)\n").out, f"{born}\n")
    s.remove()
    s = host.session("variables", "alpha==1.0", more="env.X = 1\n")
    same("not with variables of its own", s.run(LOOK).out, "[] []\n")
    s.remove()


def randomness():
    """Clones draw other numbers, each time, and those that a package has chosen stay."""
    draws = []
    for i in range(3):
        wait_ready("alpha==1.0")
        s = host.session(f"draw{i}", "alpha==1.0")
        draws.append(s.run(DRAWS).out.split())
        if i == 0:
            s.ctl("reset")
            draws.append(s.run(DRAWS).out.split())
        s.remove()
    same("all have drawn", [len(d) for d in draws], [8] * 4)
    for numbers in zip(*(d[:6] for d in draws)):
        same("none twice", len(set(numbers)), 4)
    same("what is fixed", len({d[7] for d in draws}), 1)


def off():
    snapshots = os.listdir(f"{CACHE}/snapshots")
    same("a kind of its own", use_twice("first-off", "alpha==1.0", "warmup = off\n"), "cold")
    wait_ready("alpha==1.0", None)
    s = host.session("off", "alpha==1.0", more="warmup = off\n")
    same("not imported", s.run(LOOK).out, "[] []\n")
    same("from a snapshot as well", start_of(s), "warm")
    has("in config", s.text("config"), "warmup = off\n")
    s.remove()
    ok("another snapshot", wait_for(lambda: set(os.listdir(f"{CACHE}/snapshots")) - set(snapshots), 20), snapshots)


def code():
    code = "import alpha; START = alpha.TWICE"
    same("a kind of its own", use_twice("first-code", "alpha==1.0", f"warmup = {code}\n"), "cold")
    wait_ready("alpha==1.0", code)
    s = host.session("code", "alpha==1.0", more=f"warmup = {code}\n")
    same("code has run instead", s.run(LOOK).out, "['alpha', 'beta'] ['START', 'alpha']\n")
    draws = [s.run(DRAW).out]
    s.remove()
    wait_ready("alpha==1.0", code)
    s = host.session("code2", "alpha==1.0", more=f"warmup = {code}\n")
    draws.append(s.run(DRAW).out)
    s.remove()
    ok("OpenSSL, which it has drawn from, draws others in each clone", len(set(draws)) == 2, draws)


def bad_ones():
    """Whatever they do, there is a snapshot, as it would be without them."""
    wait_ready(BAD)
    s = host.session("bad", BAD)
    same("the good ones", s.run(LOOK).out, "['alpha', 'beta', 'gamma'] []\n")
    has("and the user is told by the bad one", s.run("import raises\n").err, "ValueError: on purpose")
    s.remove()
    wait_ready("hangs==1.0")
    s = host.session("hung", "hangs==1.0")
    same("of one that hangs", (s.run(LOOK).out, start_of(s)), ("[] []\n", "warm"))
    s.remove()
    log = read(os.environ["LOG"], "r")
    for words in ("importing exits ahead ended the interpreter; its snapshot is made without exits",
                  "importing raises ahead failed: ValueError: on purpose; its snapshot is made without raises",
                  "importing hangs ahead took more than"):
        same(f"said once: {words}", log.count(words), 1)


def javascript():
    if not has_language("javascript"):
        return
    use("js", "left@1.2.3 sad@1.0.0 types@1.0.0", template="javascript")
    made = time.time()
    wait_ready("left@1.2.3 sad@1.0.0 types@1.0.0")
    draws = []
    for i in range(2):
        wait_ready("left@1.2.3 sad@1.0.0 types@1.0.0")
        s = host.session(f"js{i}", "left@1.2.3 sad@1.0.0 types@1.0.0", template="javascript")
        made = time.time()
        run = s.run("const left = require('left')\nconsole.log(left.born, left.drawn, require('node:crypto').randomBytes(8)"
                    ".toString('hex'), crypto.randomUUID(), Buffer.from(crypto.getRandomValues(new Uint8Array(8)))"
                    ".toString('hex'), Math.random())\n")
        born, *drawn = run.out.split()
        ok("older than the session", float(born) / 1000 < made, (born, made))
        same("nothing is said", run.err, "")
        draws.append(drawn)
        s.remove()
    same("imported once", draws[0][0], draws[1][0])
    for one, other in zip(draws[0][1:], draws[1][1:]):
        ok("no number twice", one != other, draws)
    has("a bad one", read(os.environ["LOG"], "r"), "importing sad ahead")


mirror()
host = Mount("host", "[xsbxfs]\nboot_timeout_s = 60\n")
main(first, modules, randomness, bad_ones, javascript, off, code, lambda: host.close())
