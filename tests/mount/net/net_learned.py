#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a session was let through to while it learned, as rules under which the same passes and nothing else."""
# backends: process vm
# timeout: 120
# mount: none
# log-allow: the daemon died|another one goes on
from netland import *

import signal

land = Land(conf="survive = yes\n[limits]\nallow_learn = yes\n")
PROGRAM = [("http('web.test')", WEB), ("http('web.test', port=80)", WEB), ("tls('other.test', 'other.test')", "hi"),
           ("tcp('web.test', 9000)", "answered")]


def run(s):
    return [s.probe(probe) for probe, _ in PROGRAM]


def not_by_itself():
    s = land.session("strict", "network = on\ntimeout_s = 60\n")
    ok("control: without it nothing of that passes", not set(run(s)) & {WEB, "hi", "answered"}, run(s))
    same("nothing is learnt", s.text("net/learned"), "")
    s.remove()


def learn():
    s = land.session("pupil", "network = on\nlearn = yes\nrules = deny * a.b.wild.test\ntimeout_s = 60\n")
    same("everything public passes", run(s), [want for _, want in PROGRAM])
    same("but what a rule denies", s.probe("http('a.b.wild.test')"), "told")
    ok("and nothing private", s.probe("http('private.test')") != PRIVATE)
    rules = "allow * other.test\nallow GET web.test/\nallow * web.test:9000\n"
    same("what was learnt", wait_for(lambda: s.text("net/learned") == rules and rules) or s.text("net/learned"), rules)
    s.remove()
    return rules


def under_what_was_learnt(rules):
    s = land.session("graduate", "network = on\ntimeout_s = 60\n")
    write(s / "net/rules", rules)
    same("the same passes", run(s), [want for _, want in PROGRAM])
    same("and nothing else", s.probe("http('a.b.wild.test')"), "told")
    same("nothing more is learnt", s.text("net/learned"), "")
    s.remove()


def survives():
    s = land.session("lasting", "network = on\nlearn = yes\ntimeout_s = 60\n")
    same("something is learnt", s.probe("http('web.test')"), WEB)
    same("which is", wait_for(lambda: s.text("net/learned")), "allow GET web.test/\n")
    os.kill(daemon_of(land.mnt), signal.SIGKILL)
    same("it outlives the daemon", s.text("net/learned"), "allow GET web.test/\n")
    s.remove()


def taught():
    under_what_was_learnt(learn())


def at_the_end():
    land.end()


main(not_by_itself, taught, survives, at_the_end)
