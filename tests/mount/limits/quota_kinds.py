#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each quota but those of a day is met, and says so: sessions, machines, memory, disk, checkpoints; of one and of all."""
# mount: none
from quotas import *


def sessions():
    with quota_mount("sessions", "[quota]\nsessions = 2\n[quota all]\nsessions = 3\n") as mnt:
        Session("a", mnt=mnt)
        same("of how many", quota_lines(mnt)["sessions"], "1 of 2")
        Session("b", mnt=mnt)
        with raises("one more", errno.EDQUOT):
            Session("c", mnt=mnt)
        error = read(f"{mnt}/error", "r")
        for part in ("code: too-many-sessions", '"c": this user has 2 sessions of 2', "the administrator sets the quota"):
            has("why", error, part)
    with quota_mount("all", "[quota all]\nsessions = 1\n") as mnt:
        Session("a", mnt=mnt)
        with raises("one more than all may have", errno.EDQUOT):
            Session("b", mnt=mnt)
        has("why", read(f"{mnt}/error", "r"), "all users together have as many sessions as are allowed, 1")


def checkpoints():
    with quota_mount("checkpoints", "[quota]\ncheckpoints = 1\n") as mnt:
        a, b = Session("a", mnt=mnt), Session("b", mnt=mnt)
        for s in a, b:
            s.run("true\n")
        os.mkdir(a / "checkpoints/one")
        same("one is made", read(a / "checkpoints/one/wait"), b"whole\n")
        same("of how many", quota_lines(mnt)["checkpoints"], "1 of 1")
        with raises("of another session", errno.EDQUOT):
            os.mkdir(b / "checkpoints/two")
        for text in b.text("error"), read(f"{mnt}/error", "r"):
            has("why", text, "code: over-quota\n")
            has("why", text, "this user has 1 checkpoints of 1, as many as are allowed")
        os.rmdir(a / "checkpoints/one")
        os.mkdir(b / "checkpoints/two")
        same("there is room then", read(b / "checkpoints/two/wait"), b"whole\n")


def disk():
    with quota_mount("disk", "[quota]\ndisk = 4M\n") as mnt:
        s = Session("s", mnt=mnt)
        s.submit("head -c 10000000 /dev/zero | tr '\\0' x\n")
        same("it runs", read(s / "exit_code"), b"0\n")
        error = s.text("error")
        has("of a long output the rest is lost", error, "code: output-lost\n")
        has("why", error, "what the root's `quota` says")
        ok("it is counted", int(quota_lines(mnt)["disk"].split()[0]) > 1000000, quota_lines(mnt)["disk"])
        with raises("short ones are kept until it is used up, and then nothing runs", errno.EDQUOT):
            for _ in range(10):
                s.submit("head -c 1000000 /dev/zero | tr '\\0' x\n")
                read(s / "exit_code")
        error = s.text("error")
        has("why", error, "code: over-quota\n")
        has("how much", error, "and may take 4")
        with raises("nothing is saved", errno.EDQUOT):
            os.mkdir(s / "checkpoints/c")
        for n in s.runs()[:-1]:
            os.rmdir(s / f"runs/{n}")
        same("until there is room", s.run("echo again\n").out, "again\n")


def machines():
    with quota_mount("machines", "[quota]\nmachines = 1\n", "admission_timeout_s=1") as mnt:
        a, b = Session("a", mnt=mnt), Session("b", mnt=mnt)
        a.run("true\n")
        ok("of how many", quota_lines(mnt)["machines"].startswith("1 of 1"), quota_lines(mnt)["machines"])
        b.submit("true\n")
        has("it waits", wait_for(lambda: b.json()["waiting"])["reason"], "the user has 1 sandbox, which is the most for one")
        with raises("not for ever", errno.EIO):
            read(b / "exit_code")
        has("why", b.text("error"), "code: no-place\n")
        has("who can change that", b.text("error"), "the administrator sets the quota (machines)")
        a.ctl("close")
        b.submit("echo mine\n")
        same("then it has the place", read(b / "stdout"), b"mine\n")


def memory():
    with quota_mount("memory", "[quota]\nmemory_mb = 700\n", "admission_timeout_s=1") as mnt:
        big = Session("big", config="memory_mb = 1000\n", mnt=mnt)
        big.submit("true\n")
        with raises("more than he may ever have", errno.EIO):
            read(big / "exit_code")
        has("why", big.text("error"), "and those of this user 700")
        a, b = (Session(n, config="memory_mb = 400\n", mnt=mnt) for n in "ab")
        a.run("true\n")
        ok("of how much", quota_lines(mnt)["memory_mb"].endswith(" of 700"), quota_lines(mnt)["memory_mb"])
        b.submit("true\n")
        has("it waits", wait_for(lambda: b.json()["waiting"])["reason"], "of the 700 MiB one user may have")
        a.ctl("close")
        same("for room", read(b / "exit_code"), b"0\n")


def mistakes():
    path = f"{SCRATCH}/wrong.conf"
    for text, part in (("[quota nobody-called-that]\n", 'no user "nobody-called-that"'),
                       ("[quota]\ncpu = 3\n", 'no key "cpu" in [quota]'), ("[quota]\nsessions = many\n", "sessions")):
        write(path, text)
        status, _, err = shell(f"{os.environ['XSBXFS']} -f -c {path} {SCRATCH}")
        ok("it is refused", status != 0 and part in err.decode(), err)


main(sessions, checkpoints, disk, machines, memory, mistakes)
