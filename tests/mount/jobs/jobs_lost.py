#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs whose sandbox dies are lost, those that were not sent are refused, and nobody is told anything else."""
# backends: local process vm
import signal
import threading

from xsbx import *


def killed():
    s = Session("killed")
    s.run("true\n")
    for name, code in (("ends", "echo ended\n"), ("goes", "echo going; sleep 1000\n"), ("fed", "echo up; cat >/dev/null; sleep 1000\n")):
        os.mkdir(s / f"jobs/{name}")
        if name == "fed":
            fd = os.open(s / "jobs/fed/stdin", os.O_WRONLY)
        write(s / f"jobs/{name}/in", code)
    same("one has ended", read(s / "jobs/ends/exit_code"), b"0\n")
    out = os.open(s / "jobs/goes/stdout", os.O_RDONLY)
    same("one goes on", os.read(out, 100), b"going\n")
    wait_for(lambda: read(s / "jobs/fed/state") == b"running\n")
    seen = []
    reader = threading.Thread(target=lambda: seen.append(code_of(s / "jobs/goes/exit_code")))
    reader.start()
    os.kill(s.pid(), signal.SIGKILL)
    reader.join(60 * slack())
    same("who waits is told", seen, [errno.EIO])
    same("it is lost", read(s / "jobs/goes/state"), b"lost\n")
    same("what it had said is there", os.read(out, 100), b"")
    with raises("nobody reads its input", errno.EPIPE):
        os.write(fd, b"x")
    os.close(fd)
    os.close(out)
    same("what had ended stays", (read(s / "jobs/ends/stdout"), read(s / "jobs/ends/exit_code")), (b"ended\n", b"0\n"))
    s.wait_state("closed", 60)
    os.mkdir(s / "jobs/later")
    with raises("nothing starts", errno.ESTALE):
        write(s / "jobs/later/in", "true\n")
    for name in ("goes", "fed", "ends"):
        os.rmdir(s / f"jobs/{name}")
    s.ctl("reset")
    write(s / "jobs/later/in", "echo again\n")
    same("but in a new sandbox", read(s / "jobs/later/stdout"), b"again\n")


def code_of(path):
    try:
        return read(path)
    except OSError as error:
        return error.errno


main(killed)
