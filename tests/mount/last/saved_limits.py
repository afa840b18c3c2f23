#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is saved takes room: when there is none left, nothing is lost, it is said, and it works again when there is."""
# backends: local
# conf: checkpoint_limit = 16M
# conf: [limits]
# conf: max_saved = 32M
from xsbx import *

FILL = "head -c 10000000 /dev/urandom > big; echo {} > f\n"


def filled(name, what):
    s = Session(name, config="idle_timeout_s = 0\n")
    same("filled", s.run(FILL.format(what)).code, 0)
    return s


def checkpoints():
    s = filled("points", 1)
    os.mkdir(s / "checkpoints/a")
    same("the first", read(s / "checkpoints/a/wait"), b"whole\n")
    s.run(FILL.format(2))
    os.mkdir(s / "checkpoints/b")
    with raises("the second is too much", errno.EIO):
        read(s / "checkpoints/b/wait")
    info = s.json("checkpoints/b/status.json")
    same("it has failed", (info["state"], info["problem"]["code"]), ("failed", "too-much-saved"))
    has("... in words", s.text("error"), "of this session")
    has("... its own", s.text("checkpoints/b/error"), "code: too-much-saved\n")
    has("... in a line", s.text("summary"), "; checkpoints/b failed\n")
    same("... for programs", s.json()["checkpoints_failed"], ["b"])
    with raises("the kernel asks nobody whether there is one of that name", errno.EEXIST):
        os.mkdir(s / "checkpoints/b")
    with raises("there is nothing to go back to", errno.ENOENT):
        s.ctl("restore b")
    with raises("nor to begin from", errno.EINVAL):
        write(Session("ofb") / "config", "from = points@b\n")
    same("the session goes on", s.run("cat f\n").out, "2\n")
    same("the first is what it was", read(s / "checkpoints/a/files/f"), b"1\n")
    os.rmdir(s / "checkpoints/a")
    s.ctl("checkpoint b")
    same("then there is room, and it is begun anew", read(s / "checkpoints/b/wait"), b"whole\n")
    same("... which is all that is said", (s.text("summary").count("checkpoint"), s.text("checkpoints/b/error"),
                                           s.json()["checkpoints_failed"]), (0, "", []))
    with raises("one that is whole is not begun anew", errno.EEXIST):
        s.ctl("checkpoint b")
    shell(f"rm -r {s.path}")


def sleepers():
    all_of_them = [filled(f"sleeper{i}", i) for i in range(4)]
    for s in all_of_them[:3]:
        s.ctl("sleep")
        ok("asleep", s.wait_state("asleep"), s.text("error"))
    last = all_of_them[3]
    last.ctl("sleep")
    ok("it can't sleep", wait_for(lambda: "too-much-saved" in last.text("error")), last.word())
    same("... and goes on", (last.word(), last.run("cat f\n").out), ("idle", "3\n"))
    copy = Session("copy")
    write(copy / "config", "from = sleeper3\n")
    ok("nor be copied", copy.wait_state("closed"), copy.word())
    has("... in words", copy.text("error"), "too-much-saved")
    copy.ctl("reset")
    same("it is a session all the same", copy.run("echo mine\n").out, "mine\n")
    with raises("of one that sleeps there is a copy without more room, in the limit", errno.EBUSY):
        write(copy / "config", "from = sleeper0\n")
    other = Session("other")
    write(other / "config", "from = sleeper0\n")
    same("its files are there", other.run("cat f\n").out, "0\n")
    all_of_them[0].remove()
    last.ctl("sleep")
    ok("with room it sleeps", last.wait_state("asleep"), last.text("error"))
    same("and wakes", last.run("cat f\n").out, "3\n")


main(checkpoints, sleepers)
