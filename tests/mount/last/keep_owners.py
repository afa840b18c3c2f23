#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""keep = yes, with sessions of several users: each is its owner's again, and nobody else's."""
# backends: local process
# timeout: 180
from kept import *

OTHERS = "allow_other=yes"


def owners():
    if os.geteuid():
        skip("needs root, to be several users")
    k = Kept("owners", wait=False)
    k.begin(OTHERS)
    top = f"{k.mnt}/raw/hers"
    nodes = ("", "/files", "/files/f", "/runs/1", "/in", "/checkpoints/c")

    def as_alice(what, action, want=None):
        same(f"alice {what}", as_user(ALICE, action), want)

    def look(what, word):
        same(f"{what}: whose it is", {(st.st_uid, st.st_gid) for st in map(os.stat, (top + n for n in nodes))}, {(ALICE, ALICE)})
        same(f"{what}: its mode", os.stat(top).st_mode & 0o777, 0o700)
        as_alice(f"{what}: reads", lambda: (read(f"{top}/runs/1/stdout"), read(f"{top}/files/f"), read(f"{top}/state", "r")),
                 (b"out\n", b"text\n", f"{word}\n"))
        for path in ("", "/files"):
            same(f"{what}: bob can't", as_user(BOB, lambda p=path: os.listdir(top + p)), "EACCES")
        same(f"{what}: that of the mount's user", os.stat(f"{k.mnt}/raw/ours").st_uid, 0)

    as_alice("makes one", lambda: os.mkdir(top))
    as_alice("runs code", lambda: write(f"{top}/in", "echo text > f; echo out\n"))
    as_alice("reads", lambda: read(f"{top}/exit_code"), b"0\n")
    as_alice("saves", lambda: os.mkdir(f"{top}/checkpoints/c"))
    as_alice("waits", lambda: read(f"{top}/checkpoints/c/wait"), b"whole\n")
    k.make("ours").run("true\n")
    look("before", "idle")
    k.again(None, OTHERS)
    look("unmounted", "asleep")
    as_alice("goes on", lambda: (write(f"{top}/in", "cat f\n"), read(f"{top}/stdout"))[1], b"text\n")
    k.again(signal.SIGTERM, OTHERS)
    look("terminated", "asleep")

    # Without others it is none that may be shown, and stays what it is.
    k.again()
    s = k.there("hers")
    same("without others", (s.word(), os.stat(top).st_uid), ("failed", 0))
    has("why", s.text("error"), "it belongs to another user")
    same("it has nothing", as_user(ALICE, lambda: os.listdir(k.mnt)), "EACCES")
    k.again(None, OTHERS)
    look("with others again", "asleep")

    k.written("hers")
    k.power_cut()
    k.begin(OTHERS)
    look("cut", "asleep")
    as_alice("goes back", lambda: write(f"{top}/ctl", "restore c\n"))
    as_alice("goes on", lambda: (write(f"{top}/in", "cat f\n"), read(f"{top}/stdout"))[1], b"text\n")
    same("it ends", k.end(), 0)


main(owners)
