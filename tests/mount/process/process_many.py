#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many process sandboxes asked for in the same moment: each answers, in a jail of its own, and when they are removed
nothing of them is left."""
# backends: process
# timeout: 90
from xsbx import *

MANY = 20
ANSWER = ("import os, socket\n"
          "open('mine', 'w').write('{n}')\n"
          "print({n} * 7, socket.gethostname(), os.listdir('.'), os.readlink('/proc/self/ns/net'))\n")


def parent_of(pid):
    return int(read(f"/proc/{pid}/stat", "r").rsplit(")", 1)[1].split()[1])


def groups_above(pid):
    """The directories in which the jails have control groups, one for each."""
    found = set()
    for line in read(f"/proc/{pid}/cgroup", "r").splitlines():
        _, names, path = line.split(":", 2)
        for top in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup", f"/sys/fs/cgroup/{names}"):
            if "xsbxfs_" in path and os.path.isdir(top + path):
                found.add(os.path.dirname(top + path))
    return found


def empty(groups):
    """Those of which no process is left, which is what a jail that has ended may leave behind."""
    found = []
    for above in groups:
        for entry in os.scandir(above):
            if entry.is_dir() and entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if not read(f"{entry.path}/cgroup.procs").strip():
                        found.append(entry.path)
    return found


def held_by(spawner):
    """What a spawner that loses track of something would have more and more of: descriptors beside those of the jails
    that there are, one of each; and mounts."""
    jails = read(f"/proc/{spawner}/task/{spawner}/children").split()
    return len(os.listdir(f"/proc/{spawner}/fd")) - len(jails), len(read(f"/proc/{spawner}/mountinfo").splitlines())


def answer(n, found):
    s = Session(f"many{n}", "python")
    r = s.run(ANSWER.format(n=n))
    found[n] = s, r, s.pid()


def many():
    first = Session("first", "python")
    same("a first one", first.run("print(1)\n").out, "1\n")
    agent = first.pid()
    spawner, groups = parent_of(agent), groups_above(agent)
    before = held_by(spawner)
    for turn in range(2):
        found = {}
        with together(lambda n, found=found: answer(n, found), MANY) as problems:
            pass
        same(f"{turn}: nothing went wrong", problems, [])
        words = {n: r.out.split(" ") for n, (_, r, _) in found.items()}
        same(f"{turn}: each has its own answer", {n: w[:3] for n, w in words.items()},
             {n: [str(n * 7), f"python-many{n}", "['mine']"] for n in range(MANY)})
        same(f"{turn}: each has a network of its own", len({w[3] for w in words.values()}), MANY)
        pids = [pid for _, _, pid in found.values()]
        same(f"{turn}: each is a process of its own", len(set(pids)), MANY)
        below = [child for pid in pids for child in children_of(pid)]
        ok(f"{turn}: ... with an interpreter", len(below) >= MANY, below)
        for s, _, _ in found.values():
            s.remove()
        gone = lambda left=pids + below: not any(alive(pid) for pid in left)
        ok(f"{turn}: their processes end", wait_for(gone, 20), [p for p in pids + below if alive(p)])
        ok(f"{turn}: no control group is left", wait_for(lambda: not empty(groups), 20), empty(groups))
    ok("the spawner holds what it held", wait_for(lambda: held_by(spawner) == before, 20), (held_by(spawner), before))
    same("the first one goes on", first.run("print(2)\n").out, "2\n")


def nothing_ahead():
    """Of the pool is what runs at once, and has not imported what most programs never do."""
    s = Session("ahead", "python")
    same("a run", s.run("print(1)\n").out, "1\n")
    pools = lambda: [x["pool"]["ready"] for x in json.loads(read(f"{MNT}/status.json"))["snapshots"]]
    ok("there is a pool", wait_for(lambda: any(pools()), 20), pools())
    time.sleep(1)
    s = Session("behind", "python")
    r = s.run("import sys; print([n for n in ('asyncio', 'decimal', 'json', 'typing') if n in sys.modules])\n")
    same("it is of the pool", s.json()["sandbox"]["start"], "warm")
    same("nothing was imported ahead", r.out, "[]\n")


def compiled():
    """The driver that jails show is compiled for the Python that they show."""
    s = Session("compiled", "python")
    r = s.run("import _imp, importlib.util as u\n"
              "lib = '/run/xsbx/lib/repl.py'\n"
              "source, made = open(lib, 'rb').read(), open(lib + 'c', 'rb').read()\n"
              "print(made[:4] == u.MAGIC_NUMBER, made[8:16] == u.source_hash(source), lib.encode() in made)\n"
              "with open(f'/proc/self/cmdline') as f: print('/run/xsbx/lib/start.py' in f.read())\n")
    same("it is, and is used", r.out, "True True True\nTrue\n")


main(many, nothing_ahead, compiled)
