#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who wrote a file stays known: asleep and awake again, in checkpoints and behind restore, in copies, at the next mount, and when
the daemon dies."""
# backends: local process vm
# option: survive=yes
# option: max_deaths=1000000
# timeout: 400
# log-allow: the daemon died|died of the same|was killed by signal
from deaths import *
from kept import *
from origins import *

def origins(s, below="files"):
    return {name: origin(s / f"{below}/{name}") for name in sorted(os.listdir(s / below))}


def run(s, code):
    same(f"{s.path}: {code}", run_apart(s, code).code, 0)


def sleep(s):
    s.ctl("sleep")
    ok(f"{s.path}: it sleeps", s.wait_state("asleep"), s.text("error"))


def make(name, mnt=None):
    s = Session(name, config="", mnt=mnt)
    run(s, "echo 1 >a; mkdir d; echo 1 >h; ln h i")
    write(s / "files/c", "client\n")
    run(s, "echo 2 >b")
    return s, {"a": "run 1", "b": "run 2", "c": "client", "d": "run 1", "h": "run 1", "i": "run 1"}


def sleeps():
    s, known = make("sleeps")
    same("awake", origins(s), known)
    for n in range(2):
        sleep(s)
        same(f"{n}: asleep", origins(s), known)
        run(s, f"echo {n} >n")
        same(f"{n}: awake again", origins(s), {**known, "n": f"run {3 + n}"})
        os.unlink(s / "files/n")
    os.rename(s / "files/b", s / "files/b2")
    known["b2"] = known.pop("b")
    same("renamed by a client", origins(s), known)
    sleep(s)
    same("and asleep", origins(s), known)


def checkpoints():
    s, known = make("checkpoints")
    os.mkdir(s / "checkpoints/c")
    same("saved", read(s / "checkpoints/c/wait"), b"whole\n")
    same("there", origins(s, "checkpoints/c/files"), known)
    run(s, "for f in *; do [ -d $f ] || echo 3 >>$f; done")
    same("changed", {n: o for n, o in origins(s).items() if n != "d"}, {n: "run 3" for n in known if n != "d"})
    same("there all the same", origins(s, "checkpoints/c/files"), known)
    s.ctl("restore c")
    ok("restored", s.wait_state("asleep"), s.text("error"))
    same("as it was", origins(s), known)
    run(s, "echo 4 >n")
    same("and awake", origins(s), {**known, "n": "run 4"})


def copies():
    s, known = make("source")
    c = Session("copy", config="from = source\n")
    others = {n: o if o == "client" else f"{o} of source" for n, o in known.items()}
    run(c, "echo x >n; echo x >>a")
    number = c.runs()[-1]
    same("of the other's", origins(c), {**others, "n": f"run {number}", "a": f"run {number}"})
    same("it is the other's own", origins(s), known)
    s.remove()
    again = Session("source", config="from = copy\n")
    same("another one of its name, which has not run that", origin(again / "files/h"), "run 1 of source")
    same("and what the copy has", origin(again / "files/n"), f"run {number} of copy")


def dies():
    s, known = make("dies")
    os.mkdir(s / "jobs/build")
    write(s / "jobs/build/in", "echo 1 >j; until [ -e go ]; do sleep 0.02; done; echo 1 >k\n")
    ok("a job", wait_for(lambda: os.path.exists(s / "files/j")))
    daemon = Mortal(guard_of())
    for _ in range(2):
        daemon.die()
        same("another daemon", origins(s), {**known, "j": "job build"})
    write(s / "files/go", "")
    same("the job ends", read(s / "jobs/build/exit_code"), b"0\n")
    ok("as itself", "job build" in origin(s / "files/k").split(" or "), origin(s / "files/k"))
    os.rmdir(s / "jobs/build")
    run(s, "echo 3 >a")
    same("and the next run", origin(s / "files/a"), "run 3")
    sleep(s)
    daemon.die()
    same("asleep", origin(s / "files/a"), "run 3")


def kept():
    k = Kept("kept")
    s, known = make("demo", k.mnt)
    k.again()
    s = k.there("demo")
    same("at the next mount", origins(s), known)
    run(s, "echo 3 >n")
    same("and awake", origins(s), {**known, "n": "run 3"})
    k.end()


main(sleeps, checkpoints, copies, dies, kept)
