#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Quotas of several users: each has his own, sees his own, and uses up nobody else's; who mounted sees all."""
# timeout: 120
# option: allow_other
# conf: [quota]
# conf: cpu_s_day = 1
# conf: sessions = 2
# conf: [quota 12002]
# conf: cpu_s_day = 0
# conf: sessions = 1
from quotas import *


def use_up(path):
    os.mkdir(path)
    for _ in range(500):
        write(f"{path}/in", BURN)
        read(f"{path}/exit_code")
    return "no end"


def several():
    if os.getuid():
        skip("needs root, to be two users")
    same("the configuration is about bob", BOB, 12002)
    node = f"{MNT}/quota"
    same("alice uses up hers", as_user(ALICE, lambda: use_up(f"{MNT}/raw/alice")), "EDQUOT")
    same("bob has another one", as_user(BOB, lambda: (os.mkdir(f"{MNT}/raw/bob"), write(f"{MNT}/raw/bob/in", BURN),
                                                      read(f"{MNT}/raw/bob/exit_code"))[-1]), b"0\n")
    same("of sessions, too", as_user(BOB, lambda: os.mkdir(f"{MNT}/raw/bob2")), "EDQUOT")
    has("and is told", as_user(BOB, lambda: read(f"{MNT}/error", "r")), "this user has 1 sessions of 1")
    same("alice is told of hers alone", as_user(ALICE, lambda: read(f"{MNT}/error", "r")), "")
    same("the mount's owner has used nothing", quota_lines()["cpu_s_day"].split(" of ")[0], "0.000")
    hers, his = (quota_lines(text=as_user(uid, lambda: read(node, "r"))) for uid in (ALICE, BOB))
    same("each sees himself", (hers["user"], his["user"]), (str(ALICE), str(BOB)))
    ok("what she used", float(hers["cpu_s_day"].split()[0]) >= 1, hers)
    has("who has no limit", his["cpu_s_day"], " of no limit,")
    same("and nobody else", [as_user(uid, lambda: str(uid) in read(node, "r").replace(f"user: {uid}\n", "", 1))
                             for uid in (ALICE, BOB)], [False, False])
    same("it is each one's own", as_user(ALICE, lambda: (os.stat(node).st_uid, os.stat(node).st_mode & 0o777)), (ALICE, 0o400))
    fd = os.open(node, os.O_RDONLY)
    has("who mounted sees all", os.read(fd, 65536).decode(), f"\n{ALICE} 1/2 ")
    os.close(fd)
    rows = {line.split()[0]: line.split()[1:] for line in read(node, "r").split("\n\n")[1].splitlines()}
    same("the columns", rows["user"], ["sessions", "machines", "memory_mb", "cpu_s_day", "disk", "checkpoints", "net_bytes_day"])
    column = rows["user"].index("cpu_s_day")
    spent = {who: float(row[column].split("/")[0]) for who, row in rows.items() if who != "user"}
    ok("all is the sum of them", abs(spent["all"] - spent[str(ALICE)] - spent[str(BOB)]) < 0.02, spent)
    ok("bob has used something", spent[str(BOB)] > 0, spent)


def others_inode():
    """The number of another's node: the kernel asks whose it is."""
    if os.getuid():
        skip("needs root, to be two users")
    numbers = [as_user(uid, lambda: os.stat(f"{MNT}/quota").st_ino) for uid in (ALICE, BOB)]
    ok("two users, two nodes", numbers[0] != numbers[1], numbers)
    same("a descriptor shows whose it was", as_user(ALICE, lambda: handed()), True)


def handed():
    """alice opens hers, and reads it again: the text is of the moment when it was opened."""
    with open(f"{MNT}/quota", "rb") as file:
        first = file.read()
        file.seek(0)
        return file.read() == first


main(several, others_inode)
