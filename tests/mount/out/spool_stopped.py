#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The disk that outputs are kept on hangs: everybody is answered all the same, and nothing is missing later. Our
own files/ are the disk; its daemon is stopped."""
# mount: none
from xsbx import *

MIB = 1 << 20


def main_test():
    below, mnt = f"{SCRATCH}/below", f"{SCRATCH}/mnt"
    os.mkdir(below)
    os.mkdir(mnt)
    lower = start_daemon(below)
    disk = Session("disk", mnt=below, config="idle_timeout_s = 0\nfiles_mb = 100\n")
    same("the disk is there", disk.run("echo up\n").stdout, b"up\n")
    daemon = start_daemon(mnt, f"spool_dir={disk / 'files'}")
    a, b = Session("a", mnt=mnt), Session("b", mnt=mnt)
    kept = a.run("head -c 3000000 /dev/zero | tr '\\0' k\n").stdout
    same("before", kept, b"k" * 3000000)
    b.run("x=5\n")
    _, server = kin_of(lower.pid)
    os.kill(server, signal.SIGSTOP)
    try:
        stopped(a, b)
        reader = subprocess.Popen(["cat", a / "runs/1/stdout"], stdout=subprocess.PIPE)
        for i in range(20):  # with a reader that the disk holds up
            same("b again", b.run("echo $x\n").stdout, b"5\n")
        ok("who reads from the disk waits", reader.poll() is None)
        reader.kill()
        reader.wait()
        same("and can be killed", reader.returncode, -signal.SIGKILL)
        waiting = a.json()["runs"]["waiting_reads"]
        same("no request stays behind", waiting, 0)
    finally:
        os.kill(server, signal.SIGCONT)
    same("the run that printed goes on", a.result().stdout, b"p" * 9000000)
    same("and is whole", len(read(a / "runs/2/stdout")), 9000000)
    same("the first as well", read(a / "runs/1/stdout"), kept)
    same("no problem", a.text("error"), "")
    daemon.terminate()
    same("its daemon ends well", daemon.wait(2 * SOON), 0)
    lower.terminate()
    same("and the disk's", lower.wait(2 * SOON), 0)


def stopped(a, b):
    late = Session("late", mnt=os.path.dirname(os.path.dirname(a.path)), config="timeout_s = 1\n")
    late.submit("kept=yes; head -c 9000000 /dev/zero | tr '\\0' l\n")
    a.submit("head -c 9000000 /dev/zero | tr '\\0' p\n")
    fd = os.open(a / "stdout", os.O_RDONLY)
    got = 0
    while got < 2 * MIB:
        got += len(os.read(fd, MIB))
    os.close(fd)
    # All of this is answered while the disk is still stopped.
    same("what was printed can be read", a.word("runs/2/state"), "running")
    same("state of another", b.word(), "idle")
    same("a run of another", b.run("echo $x\n").stdout, b"5\n")
    result = b.run("head -c 300000 /dev/zero | tr '\\0' q\n")
    same("one that prints much", (result.stdout, result.code), (b"q" * 300000, 0))
    ok("a prints no more than is kept in memory",
       os.stat(a / "runs/2/stdout").st_size < 6 * MIB, os.stat(a / "runs/2/stdout").st_size)
    same("it waits", a.word("runs/2/state"), "running")
    has("doctor answers", read(f"{os.path.dirname(os.path.dirname(a.path))}/doctor", "r"), "spool directory")
    ok("a run that waits for the disk past its time ends", late.wait_run(1, "timeout", 20), late.state_of(1))
    same("and its sandbox lives", late.run("echo alive\n").stdout, b"alive\n")
    Session("c", mnt=os.path.dirname(os.path.dirname(a.path)))


main(main_test)
