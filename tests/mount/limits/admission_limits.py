#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each limit of who is let in: what the host can spare, what is promised, the queue, a user's share.
Who waits can see for what, and who is refused, why."""
# backends: local
# mount: none
from xsbx import *


def refused(s, code, words):
    with raises(f"{code}: refused", errno.EIO):
        read(s / "exit_code")
    same("state", (s.word(), s.state_of(1)), ("failed", "refused"))
    has("the code", s.text("error"), f"code: {code}\n")
    has("the cause", s.text("error"), words)
    has("what to do about it", s.text("error"), "\nfix: ")


def admission(mnt):
    return json.loads(read(f"{mnt}/status.json"))["admission"]


def metric(mnt, name):
    for line in read(f"{mnt}/metrics", "r").splitlines():
        if line.startswith(f"xsbxfs_{name} "):
            return float(line.split()[1])
    return None


def nothing_to_spare():
    with own_mount("spare", "memory_reserve=16T", "admission_timeout_s=1") as mnt:
        s = Session("s", mnt=mnt)
        s.submit("echo never\n")
        w = wait_for(lambda: s.json()["waiting"])
        same("it waits for a place", (w["for"], w["turn"], w["of"]), ("place", 1, 1))
        # Why is only known once it was looked at.
        wait_for(lambda: admission(mnt)["waiting_for"] == "host-memory", 0.5)
        w = s.json()["waiting"]
        has("and says why", w["reason"], "MiB of memory to spare")
        same("so does the root", admission(mnt)["waiting_for"], "host-memory")
        refused(s, "no-place", "MiB of memory to spare")
        same("it is counted", (admission(mnt)["refused"], metric(mnt, "sandboxes_refused_total")),
             (1, 1.0))
        same("nobody waits any more", s.json()["waiting"], None)


def promised():
    """A session asks for more than half of what may be promised, and another one likewise."""
    with own_mount("promised", "admission_timeout_s=1", "memory_overcommit=100") as mnt:
        budget = admission(mnt)["memory_mb"]["budget"]
        half = f"memory_mb = {budget * 6 // 10}\n"
        if admission(mnt)["host"]["available_mb"] < budget * 7 // 10:
            print("# the host is too full for this part")
            return
        a, b = Session("a", config=half, mnt=mnt), Session("b", config=half, mnt=mnt)
        c = Session("c", config=f"memory_mb = {budget + 1}\n", mnt=mnt)
        same("one", a.run("echo a\n").stdout, b"a\n")
        b.submit("echo b\n")
        refused(b, "no-place", "are promised to others")
        c.submit("echo c\n")
        refused(c, "no-place", "can never have a place")
        ok("what is promised is counted", admission(mnt)["memory_mb"]["promised"] >=
           budget * 6 // 10, admission(mnt))
        a.ctl("close")
        same("the other when the first is gone", b.run("echo b\n").stdout, b"b\n")


def queue():
    with own_mount("queue", "max_vms=1", "admission_queue=2") as mnt:
        a = Session("a", mnt=mnt)
        a.run("true\n")
        waiting = [Session(n, mnt=mnt) for n in "bc"]
        for s in waiting:
            s.submit("echo me\n")
        d = Session("d", mnt=mnt)
        d.submit("echo too many\n")
        refused(d, "too-many-waiting", "2 others wait")
        turns = [s.json()["waiting"]["turn"] for s in waiting]
        same("the others have their turns", turns, [1, 2])
        same("in the queue", admission(mnt)["waiting"], 2)
        for s in [a] + waiting:
            if s is not a:
                same("one after the other", s.result().stdout, b"me\n")
            s.remove()
        same("safe to try again", d.run("echo me too\n").stdout, b"me too\n")


def of_one_user():
    with own_mount("share", "max_vms=5", "max_vms_user=1", "admission_timeout_s=1") as mnt:
        a, b = Session("a", mnt=mnt), Session("b", mnt=mnt)
        a.run("true\n")
        b.submit("echo b\n")
        has("it says so", wait_for(lambda: b.json()["waiting"])["reason"], "the most for one")
        refused(b, "no-place", "the user has 1 sandbox")


def doctor():
    with own_mount("doctor") as mnt:
        text, told = read(f"{mnt}/doctor", "r"), admission(mnt)["host"]["memory_pressure"]
        has("the doctor looks at memory pressure", text, "memory pressure: ")
        same("and says if nobody tells", "does not tell" in text, told is None)


main(nothing_to_spare, promised, queue, of_one_user, doctor)
