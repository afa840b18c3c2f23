#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A user who fills the disk of outputs, in a mount that several use, fills his share of it: others' outputs are
kept, his own say what is wrong, and what is removed makes room."""
# backends: process
# mount: none
# timeout: 90
from xsbx import *

MIB = 1 << 20
ROOM = 40


def as_user(uid, action):
    """Do it as this user; what it returns, as text."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(r)
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.write(w, str(action()).encode())
        except BaseException as error:  # pylint: disable=broad-except
            os.write(w, repr(error).encode())
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return text


def kept(mnt, name, size):
    """A new session prints so much. How much of it can be read, and the code of what went wrong."""
    s = Session(name, mnt=mnt)
    s.submit(f"head -c {size} /dev/zero\n")
    read(s / "exit_code")
    n = 0
    with contextlib.suppress(OSError), open(s / "stdout", "rb", buffering=0) as file:
        while piece := file.read(MIB):
            n += len(piece)
    return n, s.text("error").partition("\n")[0], "quota" in s.text("error")


def shares():
    spool, mnt = f"{SCRATCH}/spool", f"{SCRATCH}/shared"
    os.mkdir(spool)
    os.mkdir(mnt)
    os.chmod(SCRATCH, 0o755)
    if os.geteuid() or shell(f"mount -t tmpfs -o size={ROOM}m none {spool}")[0]:
        skip("it needs users, and a disk of its own")
    daemon = start_daemon(mnt, f"spool_dir={spool}", "allow_other=yes")
    try:
        whole = str((8 * MIB, "", False))
        same("one has three quarters", [as_user(ALICE, lambda i=i: kept(mnt, f"a{i}", 8 * MIB))
                                        for i in range(3)], [whole] * 3)
        more = as_user(ALICE, lambda: kept(mnt, "a3", 14 * MIB))
        ok("and no more", "code: output-lost" in more and more.endswith("True)"), more)
        same("but what memory is for", as_user(ALICE, lambda: kept(mnt, "short", 1000)),
             str((1000, "", False)))
        same("another's is kept", as_user(BOB, lambda: kept(mnt, "b", 5 * MIB)),
             str((5 * MIB, "", False)))
        for name in ("a0", "a1", "a3"):
            as_user(ALICE, lambda name=name: os.rmdir(f"{mnt}/raw/{name}"))
        same("what is removed makes room", as_user(ALICE, lambda: kept(mnt, "a4", 8 * MIB)), whole)
    finally:
        daemon.terminate()
        daemon.wait()
        shell(f"umount {spool}")


main(shares)
