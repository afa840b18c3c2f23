#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""survive = yes where there is no place for what the daemon has: it says so, and all else is as without."""
# backends: local process
# timeout: 60
import resource
import signal

from xsbx import *


def no_place():
    """What it leaves is a file with holes, 34 GiB long, and this user may not make any as long as that."""
    mnt, log = f"{SCRATCH}/small", f"{SCRATCH}/small.log"
    os.makedirs(mnt)
    guard = start_daemon(mnt, "survive=yes", log=log, preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_FSIZE, (1 << 30, 1 << 30)))
    has("it says so", read(log, "r"), "if this daemon dies, the mount ends: there is no place for what it has: File too large")
    s = Session("s", mnt=mnt)
    same("a run", s.run("echo there > f; echo ran").out, "ran\n")
    same("its file", read(s / "files/f", "r"), "there\n")
    os.kill(kin_of(guard.pid)[1], signal.SIGKILL)
    ok("its death is the end", wait_for(lambda: guard.poll() is not None, 10))
    ok("of the mount", not os.path.ismount(mnt))
    ok("nobody was to go on", "another one goes on" not in read(log, "r"))


main(no_place)
