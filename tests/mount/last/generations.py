#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies of copies, copies of one moment, a session that sleeps again and again: what is there, what must not be alike, and
that nothing grows."""
# backends: local vm
# timeout: 180
# conf: boot_timeout_s = 240
from sleepers import again
from xsbx import *

DEEP = 4 if VM else 10
WHO = ("import os, random, socket, time, uuid\n"
       "print(os.urandom(16).hex(), uuid.uuid4().hex, random.random(), socket.gethostname(), time.time())\n")


def copy_of(name, source, template="raw"):
    s = Session(name, template)
    write(s / "config", f"from = {source}\n")
    return s


def deep():
    s = Session("g0")
    s.run("echo 0 > line\n")
    family = [s]
    for n in range(1, DEEP + 1):
        s = copy_of(f"g{n}", f"g{n - 1}")
        same(f"copy {n}", s.run(f"echo {n} >> line; cat line\n").out.split(), [str(i) for i in range(n + 1)])
        family.append(s)
    for n, s in enumerate(family):
        same(f"copy {n} is what it was", read(s / "files/line").split(), [str(i).encode() for i in range(n + 1)])
        same(f"whose copy {n} is", (s.json()["parent"] or {}).get("session"), f"raw/g{n - 1}" if n else None)
        same(f"copies of {n}", s.json()["children"], [f"raw/g{n + 1}"] if n < DEEP else [])
    middle = family.pop(DEEP // 2)
    middle.remove()
    same("the parent of it has no copies", family[DEEP // 2 - 1].json()["children"], [])
    same("its copies live on", family[-1].run("wc -l < line\n").out.strip(), str(DEEP + 1))
    for s in family:
        s.remove()


def one_moment():
    """Two copies that are asked for while it is being saved, or before."""
    s = Session("moment")
    s.run("echo before > f; head -c 3000000 /dev/urandom > big\n")
    copies = [Session(f"moment{i}") for i in range(3)]
    with together(lambda i: write(copies[i] / "config", "from = moment\nwhen = idle\n"), len(copies)) as problems:
        s.submit("echo after > f\n")
    same("nothing went wrong", problems, [])
    s.result()
    for c in copies:
        r = c.run("cat f; cksum < big\n")
        same("all of one moment", r.out.split()[0] in ("before", "after"), True)
        same("... and whole", r.out.split()[1:], s.run("cksum < big\n").out.split())
    for c in copies:
        same("each its own", c.run(f"echo {c.path} > f; cat f\n").out.strip(), c.path)
    same("and so is the source", s.run("cat f\n").out, "after\n")


def unlike():
    """Generations, entropy, clocks and names: of sisters, of a copy of a copy, of one that woke, of one that went back."""
    need_language("python")
    s = Session("who", "python")
    s.run("import random; random.seed(); " + WHO)
    os.mkdir(s / "checkpoints/x")
    read(s / "checkpoints/x/wait")
    family = [s, copy_of("who1", "who", "python"), copy_of("who2", "who@x", "python"), copy_of("who3", "who@x", "python")]
    seen = [x.run(WHO).out.split() for x in family]
    family.append(copy_of("who4", "who1", "python"))
    seen.append(family[-1].run(WHO).out.split())
    s.ctl("restore x")
    seen.append(s.run(WHO).out.split())
    s.ctl("sleep")
    ok("asleep", s.wait_state("asleep", 20), s.text("error"))
    seen.append(s.run(WHO).out.split())
    for i, what in ((0, "urandom"), (1, "uuid4")):
        same(f"{what} is never the same", len({line[i] for line in seen}), len(seen))
    same("nor are random numbers of a generator that was seeded by the system",
         len({line[2] for line in seen}), len(seen))
    if VM:
        same("names", [line[3] for line in seen[:5]], [f"python-{n}" for n in ("who", "who1", "who2", "who3", "who4")])
    for line in seen:
        ok("the clock is right", abs(float(line[4]) - time.time()) < 60 * SLOW, line)


def removed():
    """A checkpoint that is removed while a copy begins from it, while it is read, and while it is saved."""
    s = Session("gone")
    s.run("echo x > f; head -c 3000000 /dev/urandom > big\n")
    os.mkdir(s / "checkpoints/a")
    same("saved", read(s / "checkpoints/a/wait"), b"whole\n")
    c = copy_of("ofgone", "gone@a")
    c.submit("cat f\n")
    file = os.open(s / "checkpoints/a/files/big", os.O_RDONLY)
    os.read(file, 1000)
    os.rmdir(s / "checkpoints/a")
    with raises("what was open is stale", errno.ESTALE):
        os.pread(file, 1000, 2000000)
    os.close(file)
    same("who began from it has it", c.result().out, "x\n")
    os.mkdir(s / "checkpoints/b")
    with contextlib.suppress(OSError):
        os.rmdir(s / "checkpoints/b")
    same("it goes on", s.run("cat f\n").out, "x\n")
    same("and is gone", os.listdir(s / "checkpoints"), [])


def numbers():
    """What find, tar and du take for one file is one: inode numbers of files that were saved are nobody else's."""
    s = Session("numbers")
    s.run("echo x > f; ln f g; mkdir d; echo y > d/h\n")
    for name in ("a", "b"):
        os.mkdir(s / f"checkpoints/{name}")
        same(f"{name} is saved", read(s / f"checkpoints/{name}/wait"), b"whole\n")
    s.ctl("sleep")
    ok("asleep", s.wait_state("asleep", 20), s.text("error"))
    other = copy_of("numbers2", "numbers")
    other.run("true\n")
    seen = {}
    for top in (s.path, other.path):
        for folder, dirs, names in os.walk(top):
            for name in dirs + names:
                st = os.lstat(f"{folder}/{name}")
                seen.setdefault(st.st_ino, []).append(f"{folder}/{name}")
    several = [sorted(os.path.basename(path) for path in paths) for paths in seen.values() if len(paths) > 1]
    same("only hard links are the same file", several, [["f", "g"]] * 4)


def slept_again():
    again(8 if VM else 200)


main(deep, one_moment, unlike, removed, numbers, slept_again)
