#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What one user's texts take of the daemon's memory is limited, whatever way they come; another user goes on."""
# night: local process
# option: allow_other
# timeout: 90
import resource

from sleepers import SANITIZED
from xsbx import *

MIB = 1 << 20


def daemon_mib(of="RssAnon"):
    return kib_of(daemon_of(), of) >> 10


def copies_of_in():
    """Each open of a long text holds it as it was then."""
    s = Session("copies")
    s.run("sleep 0 #" + "x" * (MIB - 100))
    held, refused = [], None
    try:
        for _ in range(600):
            held.append(os.open(s / "in", os.O_RDONLY))
    except OSError as error:
        refused = error.errno
    same("not without end", refused, errno.EDQUOT)
    ok("but many", 100 < len(held) < 400, len(held))
    has("in words", s.text("error"), "too-much-text")
    ok("the daemon stays small", daemon_mib() < 600, daemon_mib())
    ok("and what it leaves if it dies", daemon_mib("RssShmem") < 2 * 600, daemon_mib("RssShmem"))
    if os.getuid() == 0:
        same("another user is not concerned", as_user(ALICE, lambda: os.mkdir(f"{MNT}/raw/alice") or
             write(f"{MNT}/raw/alice/in", "echo alice\n") or read(f"{MNT}/raw/alice/stdout")), b"alice\n")
    for fd in held:
        os.close(fd)
    same("and all is well afterwards", s.run("echo fine\n").stdout, b"fine\n")


def root_nodes():
    """What the root and templates show is rendered for whoever opens it."""
    s = Session("filler")
    s.run("sleep 0 #" + "x" * (MIB - 100))
    held, refused = [], {}
    with contextlib.suppress(OSError):
        for _ in range(600):
            held.append(os.open(s / "in", os.O_RDONLY))
    for node, flags in (("metrics", os.O_RDONLY), ("README.md", os.O_RDONLY),
                        ("raw/template.json", os.O_RDONLY), ("raw", os.O_RDONLY | os.O_DIRECTORY)):
        try:
            for _ in range(400):
                held.append(os.open(f"{MNT}/{node}", flags))
        except OSError as error:
            refused[node] = error.errno
    # The last of them are short of what is free still.
    ok("nodes of the root", set(refused.values()) == {errno.EDQUOT} and "metrics" in refused, refused)
    for fd in held:
        os.close(fd)
    has("in words", read(f"{MNT}/error", "r"), "too-much-text")
    s.remove()


HOLD = """
import os, resource, sys
most = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (most + 100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
held, why = [], 0
try:
    for _ in range(most):
        held.append(os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK))
except OSError as error:
    why = error.errno
print(len(held), why, flush=True)
sys.stdin.read()
"""


def open_without_text():
    """What is only held open takes memory as well, and everybody's time where it is walked."""
    s = Session("opener")
    s.run("echo kept >text\n")
    each = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 100, 6000)
    holders = [subprocess.Popen(["python3", "-c", HOLD, s / "stdout", str(each)],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
               for _ in range(16384 // each + 1)]
    got = [tuple(map(int, p.stdout.readline().split())) for p in holders]
    same("so many in all", sum(n for n, _ in got), 16384)
    ok("and then", {why for _, why in got} <= {0, errno.EDQUOT} and any(why for _, why in got), got)
    has("in words", s.text("error"), "too-many-open")
    with raises("nor a directory", errno.EDQUOT):
        os.listdir(f"{MNT}/raw")
    with raises("nor below files/", errno.EDQUOT):
        write(s / "files/text", "other\n")
    with raises("nor is one made", errno.EDQUOT):
        write(s / "files/new", "new\n")
    with raises("or beside the nodes", errno.EDQUOT):
        write(s / "new", "new\n")
    ok("and none is there", not os.path.exists(s / "files/new") and not os.path.exists(s / "new"))
    with raises("ctl can be opened: there is no run", errno.ESRCH):
        s.ctl("interrupt")
    if os.getuid() == 0:
        same("another user is not concerned", as_user(ALICE, lambda: os.listdir(f"{MNT}/raw") and
             read(f"{MNT}/README.md")[:1]), b"#")
    for p in holders:
        p.communicate()
    same("closed, it is as before", s.run("cat text\n").stdout, b"kept\n")
    s.remove()


def queued_stdin():
    s = Session("queued", config="timeout_s = 0\n")
    s.submit("sleep 1000\n")
    s.wait_state("running")
    refused = None
    piece = b"y" * 8192  # small writes count as well
    try:
        for _ in range(40):
            fd = os.open(s / "stdin", os.O_WRONLY | os.O_APPEND)
            try:
                for _ in range((15 * MIB) // len(piece)):
                    os.write(fd, piece)
            finally:
                os.close(fd)
            s.submit("wc -c\n")
    except OSError as error:
        refused = error.errno
    same("standard input of runs that wait", refused, errno.EDQUOT)
    has("in words", s.text("error"), "too-much-text")
    ok("the daemon stays small", daemon_mib() < 700, daemon_mib())
    ok("and what it leaves if it dies", daemon_mib("RssShmem") < 2 * 700, daemon_mib("RssShmem"))
    s.ctl("close")
    s.remove()


def small_ones():
    """Many that are small are no less."""
    sessions, refused = [Session(f"small{i}", config="timeout_s = 0\n") for i in range(6)], None
    for s in sessions:
        s.submit("sleep 1000\n")
    held, line = [], b"#" + b"c" * 16000 + b"\n"
    s = sessions[0]
    write(s / "t", line * 62)
    os.rename(s / "t", s / "in")
    try:
        for _ in range(400):
            held.append(os.open(s / "in", os.O_RDONLY))
    except OSError as error:
        refused = error.errno
    same("opens", refused, errno.EDQUOT)
    with raises("and then a small text, too", errno.EDQUOT):
        for _ in range(600):
            fd = os.open(sessions[1] / "stdin", os.O_WRONLY | os.O_APPEND)
            try:
                os.write(fd, b"z" * 8000)
            finally:
                os.close(fd)
    for fd in held:
        os.close(fd)
    for s in sessions:
        s.remove()


def files_beside():
    sessions, refused = [Session(f"beside{i}") for i in range(8)], None
    try:
        for s in sessions:
            for i in range(60):
                write(s / f"t{i}", b"z" * MIB)
    except OSError as error:
        refused = error.errno
    same("files beside the nodes", refused, errno.EDQUOT)
    for s in sessions:
        s.remove()
    s = Session("after")
    same("removed sessions give it back", s.run("echo fine\n").stdout, b"fine\n")
    s.remove()


def truncated():
    """Making a file longer takes as much as writing to it."""
    for how in "by name", "open":
        sessions, refused = [Session(f"long{i}") for i in range(8)], None
        try:
            for s in sessions:
                for i in range(60):
                    fd = os.open(s / f"t{i}", os.O_CREAT | os.O_WRONLY)
                    try:
                        os.truncate(fd if how == "open" else s / f"t{i}", MIB)
                    finally:
                        os.close(fd)
        except OSError as error:
            refused = error.errno
        same(f"truncated: {how}", refused, errno.EDQUOT)
        for s in sessions:
            s.remove()


def kept_code():
    """The code of runs that have ended is kept in memory, too."""
    sessions, refused = [Session(f"kept{i}") for i in range(4)], None
    code = "#" + "x" * (MIB - 100) + "\n"
    try:
        for s in sessions:
            for _ in range(90):
                s.run(code)
    except OSError as error:
        refused = error.errno
    same("refused in the end", refused, errno.EDQUOT)
    has("in words", s.text("error"), "rmdir runs/N")
    for number in s.runs()[:20]:
        os.rmdir(s / f"runs/{number}")
    same("old runs removed", s.run("echo fine\n").out, "fine\n")
    for s in sessions:
        s.remove()



def removed_runs():
    """What was removed but waits, or is open, is no less."""
    s = Session("taken", config="timeout_s = 0\n")
    s.submit("sleep 1000\n")
    s.wait_state("running")
    refused = None
    try:
        for number in range(2, 42):
            with open(s / "stdin", "wb", buffering=0) as file:
                file.write(b"y" * (15 * MIB))
            s.submit("wc -c\n")
            os.rmdir(s / f"runs/{number}")
    except OSError as error:
        refused = error.errno
    same("runs that wait and were removed", refused, errno.EDQUOT)
    ok("the daemon stays small", daemon_mib() < 700, daemon_mib())
    ok("and what it leaves if it dies", daemon_mib("RssShmem") < 2 * 700, daemon_mib("RssShmem"))
    s.ctl("close")
    s.remove()


def removed_sessions():
    """What nobody can get at is let go of."""
    held = []
    for i in range(40):
        s = Session(f"gone{i}")
        write(s / "stdin", b"y" * (15 * MIB))
        write(s / "beside", b"z" * MIB)
        held.append(os.open(s / "state", os.O_RDONLY))
        os.rmdir(s.path)
    ok("with their texts", daemon_mib() < (300 + 256 if SANITIZED else 300), daemon_mib())  # which keeps what was freed
    s, refused = Session("last"), None
    beside = []
    try:
        for n in range(5):
            for i in range(64):
                fd = os.open(s / f"x{i}", os.O_WRONLY | os.O_CREAT)
                beside.append(fd)
                os.write(fd, b"z" * (MIB - 4096))
            os.rmdir(s.path)
            s = Session(f"last{n}")
    except OSError as error:
        refused = error.errno
    same("what is open of them counts", refused, errno.EDQUOT)
    with raises("and does not grow", errno.ESTALE):
        os.write(beside[0], b"z")
    for fd in held + beside:
        os.close(fd)

main(copies_of_in, root_nodes, open_without_text, queued_stdin, small_ones, files_beside,
     truncated, kept_code, removed_runs, removed_sessions)
