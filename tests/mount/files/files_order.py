#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Below files/ names are listed in the order of their bytes; in the sandbox as its file system has them, which is the same after the
same steps."""
# backends: local process vm
from xsbx import *

MAKE = "mkdir d; for i in c a .b z B d/y d/x 'a b'; do echo $i > \"$i\"; done; rm z; echo > new\n"
NAMES = [".b", "B", "a", "a b", "c", "d", "new"]


def outside():
    s = Session("outside")
    s.run(MAKE)
    same("sorted", os.listdir(s / "files"), NAMES)
    same("below as well", os.listdir(s / "files/d"), ["x", "y"])
    write(s / "files/Z", "")
    same("with one from outside", os.listdir(s / "files"), sorted([*NAMES, "Z"]))
    same("as find has it", shell(f"find {s / 'files/d'} -printf '%P '")[1].split(), [b"x", b"y"])
    # Who reads it, while it changes, misses and repeats nothing of what stays.
    s.run("mkdir many; cd many; for i in $(seq -w 2000); do : > $i; done; cd ..\n")
    with os.scandir(s / "files/many") as entries:
        seen = [next(entries).name for _ in range(10)]
        for i in range(2, 2000, 100):
            os.unlink(s / f"files/many/{i:04}")
        write(s / "files/many/0000", "")
        seen += [e.name for e in entries]
    stays = [f"{i:04}" for i in range(1, 2001) if i % 100 != 2]
    same("those that stay, once each, sorted", [n for n in seen if n in set(stays)], stays)
    s.run("for i in $(seq 9000); do : > many/x$i; done\n")
    listed = os.listdir(s / "files/many")
    ok("more than are sorted are all there", len(listed) == len(set(listed)) and len(listed) > 10900, len(listed))


def saved():
    s = Session("saved")
    s.run(MAKE)
    os.mkdir(s / "checkpoints/c")
    same("saved", read(s / "checkpoints/c/wait"), b"whole\n")
    same("a checkpoint's", os.listdir(s / "checkpoints/c/files"), NAMES)
    same("below as well", os.listdir(s / "checkpoints/c/files/d"), ["x", "y"])
    s.ctl("sleep")
    s.wait_state("asleep", 60)
    same("one's that sleeps", os.listdir(s / "files"), NAMES)


def inside():
    def order(name, make):
        s = Session(name)
        s.run(make)
        out = s.run("ls -U; ls -U d\n").out
        s.remove()
        return out

    one = order("one", MAKE)
    same("the same steps", order("other", MAKE), one)
    if BACKEND != "local":  # control; a disk's file system may have an order that depends on names alone
        ok("other steps", order("third", MAKE.replace("c a", "a c")) != one, one)


main(outside, saved, inside)
