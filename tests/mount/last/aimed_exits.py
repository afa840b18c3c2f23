#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon dies when it has heard how a child ended, or has made up its mind to kill one, and has written nothing of it down: the
next one says the same of the end, and finds what it was killed for, or not killed. Not in jails: the first process of one takes no
signal but SIGKILL, which is what an heir would make up."""
# mount: none
# backends: local -process
# timeout: 120
# log-allow: the daemon died|was killed by signal
from aim import *

HEARD, KILLED = "child: its end is heard", "child: is to be killed"


class Scene:
    def __init__(self, name):
        self.aim, self.mnt = Aim(f"{name}.aim"), f"{SCRATCH}/{name}"
        self.guard = self.aim.start(self.mnt, "max_deaths=1000")

    def session(self, name, config=None):
        s = Session(name, mnt=self.mnt, config=config)
        same("a run", s.run("echo kept >file").code, 0)
        return s

    def died(self, deaths):
        """... so many of them: what is written down can be read before the next one makes up its mind to kill."""
        wait_for(lambda: self.aim.ended() >= deaths, 20)
        same("so many have died", self.aim.rest(), deaths)

    def end(self):
        self.guard.terminate()
        ok("it ends", wait_for(lambda: self.guard.poll() is not None, 60))


def how_it_ended():
    scene = Scene("heard")
    for deaths in 1, 3:
        s = scene.session(f"s{deaths}")
        s.submit("sleep 1000")
        ok("it runs", s.wait_run(2, "running", 20))
        scene.aim.at(HEARD, times=deaths)
        os.kill(s.pid(), signal.SIGABRT)
        ok("it is lost", s.wait_run(2, "lost", 20), s.state_of(2))
        scene.died(deaths)
        has("of what", s.text("error"), f"signal {int(signal.SIGABRT)}")
        s.ctl("reset")
        same("and anew", s.run("echo anew").out, "anew\n")
    scene.end()


def put_to_sleep():
    """What was saved is written down before its sandbox is killed."""
    scene = Scene("sleep")
    for deaths in 1, 2:
        s = scene.session(f"s{deaths}")
        scene.aim.at(KILLED, times=deaths)
        s.ctl("sleep")
        ok("it is asleep", s.wait_state("asleep", 20), (s.word(), s.text("error")))
        scene.died(deaths)
        same("with its files", read(s / "files/file"), b"kept\n")
        same("which wake with it", s.run("cat file").out, "kept\n")
        has("and nothing else was amiss", s.text("error"), "code: state-lost\n")
    scene.end()


def idle_for_long():
    scene = Scene("idle")
    s = scene.session("s", config="idle = close\nidle_timeout_s = 1\n")
    scene.aim.at(KILLED)
    ok("it is closed", s.wait_state("closed", 20), s.word())
    scene.died(1)
    has("and why", s.text("error"), "idle-timeout")
    scene.end()


main(how_it_ended, put_to_sleep, idle_for_long)
