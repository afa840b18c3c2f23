#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`echo code > in; cat stdout` never shows the run before: RELEASE comes before the next OPEN."""
# timeout: 120
from xsbx import *

ROUNDS = 1500


def direct():
    s = Session("direct")
    wrong = 0
    for i in range(ROUNDS):
        write(s / "in", f"echo {i}\n")
        wrong += read(s / "stdout") != b"%d\n" % i
    same("writes and reads by one process", wrong, 0)
    same("as many runs as writes", max(s.runs()), ROUNDS)


def child_writes():
    """The shell waits for its child, but nobody waits for the child's RELEASE."""
    s = Session("child")
    wrong = 0
    for i in range(ROUNDS // 5):
        pid = os.fork()
        if not pid:
            fd = os.open(s / "in", os.O_WRONLY | os.O_TRUNC)
            os.write(fd, f"echo {i}\n".encode())
            os._exit(0)
        os.waitpid(pid, 0)
        wrong += read(s / "stdout") != b"%d\n" % i
    same("a child writes, its parent reads", wrong, 0)


def under_load():
    """The same, while others keep the daemon busy."""
    s, noise = Session("load"), []
    for i in range(3):
        noise.append(subprocess.Popen([
            "bash", "-c", f"while :; do cat {MNT}/status.json {MNT}/metrics; ls {MNT}/raw; done"],
            stdout=subprocess.DEVNULL, start_new_session=True))
    wrong = 0
    for i in range(ROUNDS // 5):
        write(s / "in", f"echo {i}\n")
        wrong += read(s / "stdout") != b"%d\n" % i
    for child in noise:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    same("with three busy neighbours", wrong, 0)


main(direct, child_writes, under_load)
