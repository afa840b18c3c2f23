#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ctl: verbs, one a line; errors are those of the write."""
# backends: local vm
import time

from xsbx import *


def verbs():
    s = Session("verbs")
    for verb in ("dance", "kill me", "KILLER", "", "inter rupt", "kill\0", "x" * 5000):
        if verb:
            with raises(f"{verb[:20]!r}", errno.EINVAL):
                s.ctl(verb)
    same("nothing came of it", s.word(), "new")
    for verb in ("interrupt", "kill"):
        try:
            s.ctl(verb)
        except OSError as error:
            ok(f"{verb} with nothing running", error.errno in (errno.ESRCH, errno.EINVAL,
                                                               errno.ENOENT), error)
    for verb in ("checkpoint", "fork"):
        with raises(f"{verb} is for later", errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
            s.ctl(verb)
    has("error says what was wrong", s.text("error"), "cause:")
    same("and it works", s.run("echo fine\n").stdout, b"fine\n")


def ways_of_writing():
    s = Session("ways")
    s.run("true\n")
    for number, how in enumerate((
            "echo kill > {}", "printf kill > {}", "echo kill >> {}", "echo kill | tee {}",
            "echo kill | dd of={} status=none", "echo '  kill  ' > {}",
            "python3 -c \"open('{}', 'w').write('kill\\n')\"", "dash -c 'echo kill > {}'"), 2):
        s.submit("read -r x < <(sleep 600)\n")
        s.wait_run(number, "running")
        status, _, err = shell(how.replace("{}", s / "ctl"))
        same(f"{how}: exit", (status, err), (0, b""))
        same(f"{how}: the run", s.result().code, 137)


def pause():
    """Nothing runs from `pause` to `resume`, in the background neither."""
    s = Session("pause")
    s.run("(while :; do n=$((n+1)); echo $n > count; read -t .01 < <(:) ; done) &\n")
    ok("it counts", wait_for(lambda: os.path.exists(s / "files/count")))
    for verbs in ["resume"], ["reset"]:
        s.ctl("pause")
        ok("paused", s.wait_state("paused"))
        was = read(s / "files/count")
        s.submit("echo later\n")
        time.sleep(.2)
        same("it stands still", read(s / "files/count"), was)
        same("runs wait", s.word(), "paused")
        s.ctl(*verbs)
        same(f"after {verbs}", s.text("stdout"), "later\n")


def several():
    """Several verbs in one write, one after the other."""
    s = Session("several")
    s.run("x=1\n")
    s.submit("read -r y < <(sleep 600)\n")
    s.wait_run(2, "running")
    write(s / "ctl", "kill\nreset\n")
    same("kill", s.text("runs/2/wait"), "137\n")
    same("reset", s.run("echo ${x:-none}\n").stdout, b"none\n")


def kill_and_queue():
    """kill ends the run that is active; what waits behind it goes on."""
    s = Session("queue")
    s.run("true\n")
    s.submit("read -r x < <(sleep 600)\n")
    s.submit("echo next\n")
    s.wait_run(2, "running")
    s.ctl("kill")
    same("the next one", s.result().stdout, b"next\n")


def reset():
    s = Session("reset")
    s.run("x=1; cd /\n")
    write(s / "files/keep", b"k")
    s.ctl("reset")
    same("variables are gone, files are not", s.run("echo ${x:-none}; cat keep\n").stdout, b"none\nk")
    s.submit("read -r x < <(sleep 600)\n")
    s.wait_run(3, "running")
    try:
        s.ctl("reset")
        same("reset ends what runs", s.result().code, 137)
        same("and then", s.run("echo on\n").stdout, b"on\n")
    except OSError as error:
        same("or says that something runs", error.errno, errno.EBUSY)
        s.ctl("kill")
        s.result()


def close():
    s = Session("close")
    s.run("echo x\n")
    pid = s.pid()
    ok("it has a process", alive(pid))
    s.ctl("close")
    ok("closed", s.wait_state("closed"), s.word())
    ok("the process is gone", wait_for(lambda: not alive(pid)))
    same("results stay", (s.text("stdout"), s.text("exit_code")), ("x\n", "0\n"))
    s.ctl("close")
    same("closing twice is nothing", s.word(), "closed")
    s.ctl("reset")
    same("reset opens it", s.run("echo y; ls\n").stdout, b"y\n")
    new = Session("close-new")
    new.ctl("close")
    same("a new one can be closed", new.word(), "closed")
    with raises("and takes no code", errno.ESTALE):
        new.submit("echo x\n")


main(verbs, pause, ways_of_writing, several, kill_and_queue, reset, close)
