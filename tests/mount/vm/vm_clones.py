#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clones of a snapshot: no two alike where they must not be, the clock right, what is asked for
is had, and a snapshot that is damaged is made again."""
# mount: none
# backends: vm
# timeout: 600
# log-allow: snapshot of
from clocks import *
from xsbx import *

vm_only()

CACHE = f"{SCRATCH}/cache"
DRAWS = {
    "python": "import os, random, uuid, secrets, tempfile, time\n"
              "print(os.urandom(8).hex(), random.random(), random.getrandbits(64), uuid.uuid4(),"
              " uuid.uuid1(), secrets.token_hex(8), next(tempfile._get_candidate_names()))\n",
    "javascript": "console.log(Math.random(), Math.random(), crypto.randomUUID(),"
                  " Buffer.from(crypto.getRandomValues(new Uint8Array(8))).toString('hex'),"
                  " require('crypto').randomBytes(8).toString('hex'))\n",
    "raw": "echo $RANDOM$RANDOM$RANDOM $SRANDOM $(cat /proc/sys/kernel/random/uuid)"
           " $(head -c 8 /dev/urandom | od -An -tx1 | tr -d ' ') $(mktemp -u)\n",
}
ENDS = {
    "python": "import os; os._exit(1)\n",
    "javascript": "process.kill(process.pid, 'SIGKILL')\n",
    "raw": "exit 1\n",
}


def mount(name):
    mnt = f"{SCRATCH}/{name}"
    os.makedirs(mnt, exist_ok=True)
    return mnt, start_daemon(mnt, f"cache_dir={CACHE}")


def unmount(mnt, daemon):
    daemon.terminate()
    daemon.wait(SOON)


def snapshot_of(mnt, template):
    found = [s for s in json.loads(read(f"{mnt}/status.json"))["snapshots"]
             if s["image"] == template and s["memory_mb"] == 192]
    return found[0] if found else None


def wait_ready(mnt, template, pooled=0):
    def there():
        s = snapshot_of(mnt, template)
        return s and s["state"] == "ready" and s["pool"]["ready"] >= pooled
    ok(f"{template}: a snapshot", wait_for(there, 120), snapshot_of(mnt, template))


def start_of(s):
    return s.json()["sandbox"]["start"]


def language(template):
    if not has_language(template):
        return
    mnt, daemon = mount(f"m-{template}")
    first = Session("first", template, mnt=mnt)
    first.run(DRAWS[template])
    if template != "raw":  # of that there is one already
        same(f"{template}: the first boots", start_of(first), "cold")
    wait_ready(mnt, template, 1)
    draws, starts, drifts, clones = [], [], [], []
    for i in range(4):
        s = Session(f"clone{i}", template, mnt=mnt)
        clones.append(s)
        draws.append(s.run(DRAWS[template]).out.split())
        starts.append(start_of(s))
        drifts.append(drift(template, s))
        same(f"{template}: host name", s.run({
            "python": "import socket; print(socket.gethostname())",
            "javascript": "console.log(require('os').hostname())",
            "raw": "hostname"}[template]).out.strip(), f"{template}-clone{i}")
    ok(f"{template}: clock", max(drifts) < OFF, drifts)
    ok(f"{template}: clones", set(starts) <= {"warm", "snapshot"} and "warm" in starts, starts)
    # After a reset the interpreter is one that was ready before the snapshot was taken.
    for s in clones:
        for _ in range(2):
            s.run(ENDS[template])
            draws.append(s.run(DRAWS[template]).out.split())
    for column in zip(*draws):
        same(f"{template}: all different", len(set(column)), len(column))
    unmount(mnt, daemon)


def python():
    language("python")


def javascript():
    language("javascript")


def raw():
    language("raw")


def settings():
    """What differs from the template is had, however the sandbox started."""
    mnt, daemon = mount("settings")
    Session("first", mnt=mnt).run("true\n")
    wait_ready(mnt, "raw", 1)
    s = Session("env", config="env.COLOUR = green\n", mnt=mnt)
    same("a variable", s.run("echo $COLOUR\n").out, "green\n")
    ok("of a clone", start_of(s) != "cold", start_of(s))
    s = Session("memory", config="memory_mb = 256\n", mnt=mnt)
    total = int(s.run("awk '/MemTotal/ {print $2}' /proc/meminfo\n").out)
    ok("memory", total > 200000, total)
    same("of a machine of its own", start_of(s), "cold")
    s = Session("plain", mnt=mnt)
    same("nobody else has it", s.run("echo ${COLOUR-none}\n").out, "none\n")
    unmount(mnt, daemon)


def damaged():
    mnt, daemon = mount("damaged1")
    Session("first", mnt=mnt).run("true\n")
    wait_ready(mnt, "raw")
    top = f"{CACHE}/snapshots"
    def complete():
        return [n for n in os.listdir(top) if not n.startswith(".")]
    wait_for(complete, 60)
    unmount(mnt, daemon)
    for name in complete():
        with open(f"{top}/{name}/ram", "r+b") as file:
            file.seek(20 << 20)
            file.write(b"damage")
    mnt, daemon = mount("damaged2")
    s = Session("first", mnt=mnt)
    same("runs", s.run("echo hello\n").out, "hello\n")
    same("boots", start_of(s), "cold")
    wait_ready(mnt, "raw", 1)
    s = Session("second", mnt=mnt)
    same("runs again", s.run("echo hello\n").out, "hello\n")
    same("from the pool", start_of(s), "warm")
    unmount(mnt, daemon)
    mnt, daemon = mount("damaged3")
    s = Session("first", mnt=mnt)
    same("after another mount", s.run("echo hello\n").out, "hello\n")
    same("restored", start_of(s), "snapshot")
    unmount(mnt, daemon)
    same("nothing half-made", [n for n in os.listdir(top) if n.startswith(".")
                                  and not n.startswith(".contents")], [])  # checksums of images


os.makedirs(CACHE)
link_images(CACHE)
main(settings, damaged, python, javascript, raw)
