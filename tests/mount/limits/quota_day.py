#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A user has so many seconds of processors a day: what counts, what is refused then, and what becomes of what goes on."""
# timeout: 300
# conf: [quota]
# conf: cpu_s_day = 1
from quotas import *

def words(what, text):
    for part in ("code: over-quota\n", "seconds of processors today, of 1; it begins anew at 00:00 UTC, in ",
                 "the administrator sets the quota (cpu_s_day)"):
        has(f"{what}: it says", text, part)


def is_used_up():
    same("nothing was used", quota_lines()["cpu_s_day"].split(",")[0], "0.000 of 1")
    s = Session("a")
    s.run("true\n")
    before = used()
    s.run(BURN)
    ok("a run is counted at its end", used() > before, (before, used()))
    ok("some fit", use_up(s) > 0)
    ok("all of it was used", used() >= 1, used())
    words("code", s.text("error"))
    ok("what ran has its result", s.state_of(1) == "done")
    other = Session("b")
    with raises("nor in another session", errno.EDQUOT):
        other.submit("echo x\n")
    os.mkdir(other / "jobs/j")
    with raises("nor as a job", errno.EDQUOT):
        write(other / "jobs/j/in", "echo x\n")
    words("the job", other.text("jobs/j/error"))
    write(s / "files/f", "text")
    same("files are there all the while", read(s / "files/f"), b"text")
    quota = json.loads(read(f"{MNT}/status.json"))["quota"]
    ok("programs see it, too", quota["cpu_s_day"]["used"] >= 1 and quota["cpu_s_day"]["limit"] == 1, quota)
    ok("until when", 0 <= quota["anew_s"] <= 86400, quota)
    metrics = read(f"{MNT}/metrics", "r")
    ok("refusals are counted", float(metrics.split("\nxsbxfs_over_quota_total ")[1].split()[0]) >= 3)
    ok("nobody is named there", "uid" not in metrics and "user=" not in metrics)


def ended_at_once():
    """Sandboxes that last for one run are counted as well: nobody looks at them in between."""
    with quota_mount("fresh", "") as mnt:
        s = Session("s", config="fresh = yes\n", mnt=mnt)
        s.run(BURN)
        ok("the first", wait_for(lambda: used(mnt) > 0), used(mnt))
        before = used(mnt)
        s.run(BURN)
        ok("the second", wait_for(lambda: used(mnt) > before), (before, used(mnt)))
        gone = Session("gone", config="timeout_s = 0\n", mnt=mnt)
        before = used(mnt)
        gone.submit("while :; do :; done\n")
        gone.wait_state("running")
        time.sleep(0.5)
        gone.remove()
        ok("one that was removed in the midst of it", wait_for(lambda: used(mnt) > before), (before, used(mnt)))


def goes_on():
    """A run that goes on is ended when it has used some more, and what was queued behind it is refused."""
    with quota_mount("on", "[quota]\ncpu_s_day = 1\n") as mnt:
        s = Session("s", config="timeout_s = 0\n", mnt=mnt)
        s.submit("echo begun; while :; do :; done\n")
        s.wait_state("running")
        s.submit("echo never\n")
        os.mkdir(s / "jobs/j")
        ok("it is killed", s.wait_run(1, "killed", 60 * slack()), (s.state_of(1), quota_lines(mnt)))
        ok("when it had used more than it might", used(mnt) >= 3, used(mnt))
        same("... with what it had said", (read(s / "runs/1/stdout"), read(s / "runs/1/exit_code")), (b"begun\n", b"137\n"))
        ok("what came behind it is refused", s.wait_run(2, "refused"), s.state_of(2))
        words("the session", s.text("error"))
        same("and the run", s.json("runs/1/status.json")["problem"]["code"], "over-quota")
        has("who follows it sees why", read(s / "summary", "r") + s.text("error"), "today, of 1")


def behind_runs():
    """What goes on behind the runs falls asleep with its sandbox."""
    with quota_mount("behind", "[quota]\ncpu_s_day = 1\n") as mnt:
        s = Session("s", config="timeout_s = 0\n", mnt=mnt)
        idle = Session("idle", mnt=mnt)
        idle.run("true\n")
        same("the run ends", s.run("echo x > kept; (while :; do :; done) > /dev/null 2>&1 &\n").code, 0)
        ok("it sleeps", wait_for(lambda: s.word() in ("asleep", "closed"), 60 * slack()), (s.word(), quota_lines(mnt)))
        if s.word() == "asleep":
            same("with its files", read(s / "files/kept"), b"x\n")
            with raises("and is not woken", errno.EDQUOT):
                write(s / "files/kept", "y")
            words("it", s.text("error"))
        at = used(mnt)
        time.sleep(1.5)
        ok("nothing is used any more", used(mnt) - at < 0.5, (at, used(mnt)))


main(is_used_up, ended_at_once, goes_on, behind_runs)
