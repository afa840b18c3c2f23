#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What kills daemon after daemon: a request, what a sandbox says, and what nobody asks for. The first two are refused by the third
daemon, and all else goes on; of the last the mount ends in good order."""
# mount: none
# backends: local process vm
# night: vm
# timeout: 120
# log-allow: the daemon died|died of the same|died too often|that is too often|two daemons have died|was killed by signal|daemons had died
from aim import *
from deaths import Mortal

MKDIR, READ = 9, 15  # of the kernel's requests


def own(name, *options):
    """Return (aim, mnt, its guard, log)."""
    aim, mnt, log = Aim(f"{name}.aim"), f"{SCRATCH}/{name}", f"{SCRATCH}/{name}.log"
    return aim, mnt, aim.start(mnt, *options, log=log), log


def ended(guard, mnt, status):
    ok("it ends", wait_for(lambda: guard.poll() is not None, 60))
    same("and says how", guard.returncode, status)
    ok("nothing is left", wait_for(lambda: not mounted(mnt)))


def by_request():
    """It is answered with an error, and nobody else notices."""
    aim, mnt, guard, log = own("asked")
    s = Session("s", mnt=mnt)
    same("a run", s.run("x=kept; echo there >f").code, 0)
    s.submit("sleep 1; echo $x")
    reader = subprocess.Popen(["cat", s / "stdout"], stdout=subprocess.PIPE)
    aim.at(f"request: begun, {MKDIR}", signal.SIGABRT, times=100)
    with raises("refused", errno.EIO):
        os.mkdir(f"{mnt}/raw/poison")
    same("two have died of it", aim.rest(), 2)
    same("who waited is answered", reader.communicate(timeout=SOON)[0], b"kept\n")
    same("all others go on", (s.run("echo $x; cat f").out, read(s / "files/f")), ("kept\nthere\n", b"there\n"))
    os.mkdir(f"{mnt}/raw/harmless")
    has("the same of another one is none", " ".join(os.listdir(f"{mnt}/raw")), "harmless")
    ok("what was refused is not there", "poison" not in os.listdir(f"{mnt}/raw"))
    has("it is said", read(log, "r"), "is answered with an error: two daemons have died of it")
    guard.terminate()
    ended(guard, mnt, 0)


def by_sandbox():
    """It is ended, and no other."""
    aim, mnt, guard, log = own("heard")
    good, evil = Session("good", mnt=mnt), Session("evil", mnt=mnt)
    for s in (good, evil):
        same("a run", s.run("x=kept").code, 0)
    aim.at("frame: begun, raw/evil", signal.SIGABRT, times=100)
    evil.submit("echo poison")
    ok("it is closed", evil.wait_state("closed", 20), evil.word())
    same("two have died of it", aim.rest(), 2)
    has("why", evil.text("error"), "agent-protocol")
    has("in words", evil.text("error"), "two daemons have died of what the agent in the sandbox has sent")
    same("its run has an end", evil.state_of(2), "lost")
    same("the other one goes on", good.run("echo $x").out, "kept\n")
    evil.ctl("reset")
    same("and this one, with another sandbox", evil.run("echo fine").out, "fine\n")
    guard.terminate()
    ended(guard, mnt, 0)


def by_what_is_written():
    """What a request or a frame has changed kills when it is written down. The first that dies of it knows nothing; its heir writes
    down one thing after the other."""
    aim, mnt, guard, log = own("written", "max_deaths=20")
    good, evil = Session("good", mnt=mnt), Session("evil", mnt=mnt)
    for s in (good, evil):
        same("a run", s.run("x=kept").code, 0)
    good.submit("sleep 1; echo $x")
    reader = subprocess.Popen(["cat", good / "stdout"], stdout=subprocess.PIPE)
    aim.at("commit: session raw/poison", signal.SIGABRT, times=100)
    with raises("refused", errno.EIO):
        os.mkdir(f"{mnt}/raw/poison")
    same("three have died of it", aim.rest(), 3)
    same("who waited is answered", reader.communicate(timeout=SOON)[0], b"kept\n")
    ok("what was refused is not there", "poison" not in os.listdir(f"{mnt}/raw"))
    has("it is said", read(log, "r"), "is answered with an error: two daemons have died of it")
    evil.submit("echo begun; sleep 2; echo poison")
    # Nothing is written down of it any more before the agent has said something.
    with open(evil / "stdout", "rb", buffering=0) as output:
        same("it runs", output.read(6), b"begun\n")
        aim.at("commit: session raw/evil", signal.SIGABRT, times=3)
        ok("it is closed", evil.wait_state("closed", 30), evil.word())
    same("three have died of it", aim.rest(), 3)
    has("in words", evil.text("error"), "two daemons have died of what the agent in the sandbox has sent")
    same("the other one goes on", good.run("echo $x").out, "kept\n")
    guard.terminate()
    ended(guard, mnt, 0)


def by_killer():
    """Somebody who kills it may find it at anything: that is nobody's poison."""
    aim, mnt, guard, _ = own("killed")
    aim.at(f"request: begun, {MKDIR}", signal.SIGKILL, times=4)
    os.mkdir(f"{mnt}/raw/innocent")
    same("four have died", aim.rest(), 4)
    guard.terminate()
    ended(guard, mnt, 0)


def by_nobody():
    """It dies of nothing that anybody asked for, again and again: sessions are put to sleep where they are kept, and come back."""
    keeps = ("max_deaths=4", "keep=yes", f"state_dir={SCRATCH}/state")
    aim, mnt, guard, log = own("often", *keeps)
    s = Session("s", mnt=mnt, config="timeout_s = 0\nidle_timeout_s = 0\n")
    same("a run", s.run("x=remembered; echo file >f").code, 0)
    aim.at("turn: committed", signal.SIGABRT, times=4)
    ended(guard, mnt, 1)
    same("so many have died", aim.rest(), 4)
    has("it is said", read(log, "r"), "died too often")
    aim, mnt, guard, _ = own("often", *keeps)
    there = Session.__new__(Session)
    there.path = f"{mnt}/raw/s"
    same("asleep", there.word(), "asleep")
    same("with its results", there.text("runs/1/exit_code"), "0\n")
    same("and its files", there.run("cat f").out, "file\n")
    # One that has served is followed at once, however many have died before the mount that was.
    Mortal(guard.pid).die()
    same("it goes on", there.run("cat f").out, "file\n")
    guard.terminate()
    ended(guard, mnt, 0)


main(by_request, by_sandbox, by_what_is_written, by_killer, by_nobody)
