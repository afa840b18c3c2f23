#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies of copies, copies of one moment, a session that sleeps again and again: what is there, what must not be alike, and
that nothing grows."""
# backends: local vm
# night: vm
# timeout: 180
# conf: boot_timeout_s = 240
# conf: history_runs = 20
from clocks import *
from family import *
from sleepers import again
from xsbx import *

WHO = ("import os, random, socket, uuid\n"
       "print(os.urandom(16).hex(), uuid.uuid4().hex, random.random(), socket.gethostname())\n")


def ten_deep():
    """... four in machines."""
    deep(4 if VM else 10)


def one_moment():
    """Copies that are asked for while a run goes on: all are what was between it and the next one."""
    s = Session("moment", config="timeout_s = 0\n")
    s.run("echo before > f; head -c 3000000 /dev/urandom > big\n")
    s.submit("until [ -e go ]; do sleep 0.1; done; echo between > f\n")
    ok("it runs", s.wait_run(2, "running", 20))
    copies = [Session(f"moment{i}") for i in range(3)]
    with together(lambda i: write(copies[i] / "config", "from = moment\nwhen = idle\n"), len(copies)) as problems:
        pass
    same("nothing went wrong", problems, [])
    s.submit("echo after > f\n")
    write(s / "files/go", "")
    same("the source goes on", (s.result().code, read(s / "files/f")), (0, b"after\n"))
    of_source = s.run("cksum < big\n").out
    for c in copies:
        same("of that moment, and whole", c.run("cat f; cksum < big\n").out, "between\n" + of_source)
    for c in copies:
        same("each its own", c.run(f"echo {c.path} > f; cat f\n").out.strip(), c.path)
    same("and so is the source", s.run("cat f\n").out, "after\n")


def racing():
    """Copies that are asked for while it is being saved, or before: each is of a moment, whichever."""
    s = Session("racing")
    s.run("echo before > f; head -c 3000000 /dev/urandom > big\n")
    copies = [Session(f"racing{i}") for i in range(2)]
    with together(lambda i: write(copies[i] / "config", "from = racing\nwhen = idle\n"), len(copies)) as problems:
        s.submit("echo after > f\n")
    same("nothing went wrong", problems, [])
    s.result()
    of_source = s.run("cksum < big\n").out.split()
    for c in copies:
        got = c.run("cat f; cksum < big\n").out.split()
        ok("of before or after", got[0] in ("before", "after"), got)
        same("... and whole", got[1:], of_source)


def unlike():
    """Generations, entropy, clocks and names: of sisters, of a copy of a copy, of one that woke, of one that went back."""
    need_language("python")
    s = Session("who", "python")
    s.run("import random; random.seed(); " + WHO)
    os.mkdir(s / "checkpoints/x")
    read(s / "checkpoints/x/wait")
    family = [s, copy_of("who1", "who", "python"), copy_of("who2", "who@x", "python"), copy_of("who3", "who@x", "python")]
    ok("it is saved", wait_for(lambda: family[1].json()["asleep"]["saved"]), family[1].json())
    time.sleep(REST_S)
    clocks, seen = {}, []

    def look(what, x):
        seen.append(x.run(WHO).out.split())
        clocks[what] = drift("python", x)

    for what, x in zip(("the source", "a copy", "one of a checkpoint", "its sister"), family):
        look(what, x)
    family.append(copy_of("who4", "who1", "python"))
    look("a copy of a copy", family[-1])
    s.ctl("restore x")
    look("one that went back", s)
    s.ctl("sleep")
    ok("asleep", s.wait_state("asleep", 20), s.text("error"))
    time.sleep(REST_S)
    look("one that woke", s)
    for i, what in ((0, "urandom"), (1, "uuid4")):
        same(f"{what} is never the same", len({line[i] for line in seen}), len(seen))
    same("nor are random numbers of a generator that was seeded by the system",
         len({line[2] for line in seen}), len(seen))
    if VM:
        same("names", [line[3] for line in seen[:5]], [f"python-{n}" for n in ("who", "who1", "who2", "who3", "who4")])
    same("clocks that are not right", {what: off for what, off in clocks.items() if off >= OFF}, {})


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
    again(*(8, 2) if VM else (200, 50))


main(ten_deep, one_moment, racing, unlike, removed, numbers, slept_again)
