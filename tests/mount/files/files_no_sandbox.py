#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file of a session whose sandbox does not come up: the errno that the manual says, and `error` says why; once it does,
the next write makes it."""
# backends: local process
# mount: none
# log-allow: boot-failed|did not start|exited
from xsbx import *

BUILT = os.path.abspath(BUILD)


def no_sandbox():
    mnt, programs = f"{SCRATCH}/mnt", f"{SCRATCH}/programs"
    agent = f"{programs}/xsbx-agent"
    os.mkdir(mnt)
    os.mkdir(programs)
    shutil.copytree(f"{BUILT}/drivers", f"{programs}/drivers")
    shutil.copy("/bin/true", agent)
    daemon = start_daemon(mnt, f"agent={agent}", env=dict(os.environ, XSBX_AGENT=agent))
    try:
        s = Session("n", mnt=mnt)
        for n in 1, 2:
            with raises(f"try {n}", errno.EIO):
                write(s / "files/f", "x\n")
            has("why", s.text("error"), "code: boot-failed")
            same("state", s.word(), "failed")
        with raises("no sandbox to pause", errno.EBUSY):
            s.ctl("pause")
        has("what helps", s.text("error"), "run again")
        os.unlink(agent)
        shutil.copy(f"{BUILT}/xsbx-agent", agent)
        write(s / "files/f", "x\n")
        same("it is there", read(s / "files/f"), b"x\n")
        s.ctl("close")
        with raises("closed", errno.ESTALE):
            write(s / "files/f", "x\n")
    finally:
        daemon.terminate()
        daemon.wait(SOON)


main(no_sandbox)
