#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A session belongs to who made it; the kernel keeps the others out."""
# option: allow_other
from xsbx import *


def ownership():
    if os.getuid():
        skip("needs root, to be two users")
    path = f"{MNT}/raw/alice"
    same("alice makes a session", as_user(ALICE, lambda: os.mkdir(path)), None)
    info = os.stat(path)
    same("it is hers", (info.st_uid, info.st_gid, info.st_mode & 0o777), (ALICE, ALICE, 0o700))
    for node in ("in", "stdout", "files", "runs", "status.json"):
        info = os.stat(f"{path}/{node}")
        same(f"{node} too", (info.st_uid, info.st_gid), (ALICE, ALICE))
    same("she runs code", as_user(ALICE, lambda: write(f"{path}/in", "echo $((6*7))\n")), None)
    same("and reads the result", as_user(ALICE, lambda: read(f"{path}/stdout")), b"42\n")
    same("and has files", as_user(ALICE, lambda: write(f"{path}/files/x", "data")), None)
    info = os.stat(f"{path}/files/x")
    same("which are hers", (info.st_uid, info.st_gid), (ALICE, ALICE))

    for what, action in {
            "list": lambda: os.listdir(path),
            "stat within": lambda: os.stat(f"{path}/in").st_size,
            "read": lambda: read(f"{path}/stdout"),
            "write": lambda: write(f"{path}/in", "echo bob\n"),
            "append to config": lambda: write(f"{path}/config", "timeout_s = 1\n"),
            "ctl": lambda: write(f"{path}/ctl", "kill\n"),
            "files": lambda: read(f"{path}/files/x"),
            "create": lambda: write(f"{path}/new", "x"),
            "chmod": lambda: os.chmod(path, 0o777),
            "open by O_PATH and openat": lambda: os.open(
                "stdout", os.O_RDONLY, dir_fd=os.open(path, os.O_PATH)),
    }.items():
        ok(f"bob cannot: {what}", as_user(BOB, action) in ("EACCES", "EPERM"),
           as_user(BOB, action))
    ok("bob cannot remove it", as_user(BOB, lambda: os.rmdir(path)) in ("EACCES", "EPERM"))
    same("nothing of bob's ran", as_user(ALICE, lambda: sorted(os.listdir(f"{path}/runs"))),
         ["1", "latest"])
    same("bob has his own", as_user(BOB, lambda: os.mkdir(f"{MNT}/raw/bob")), None)
    same("and cannot take alice's name", as_user(BOB, lambda: os.mkdir(path)), "EEXIST")
    for node in ("README.md", "status.json", "metrics", "doctor", "isolation"):
        ok(f"everybody reads {node}", isinstance(as_user(BOB, lambda n=node: read(f"{MNT}/{n}")),
                                                 bytes))
    ok("bob's temporary file cannot become alice's code", as_user(BOB, lambda: (
        write(f"{MNT}/raw/bob/t", "echo bob\n"),
        os.rename(f"{MNT}/raw/bob/t", f"{path}/in"))) in ("EACCES", "EXDEV", "EPERM"))
    same("alice removes hers", as_user(ALICE, lambda: os.rmdir(path)), None)


def control():
    """On an ordinary directory of mode 0777 the same bob gets in: the test can tell."""
    folder = f"{SCRATCH}/open"
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    same("bob writes where he may", as_user(BOB, lambda: write(f"{folder}/x", "x")), None)


def passed_on():
    """A descriptor that was opened by the owner may be handed to others."""
    path = f"{MNT}/raw/alice2"
    as_user(ALICE, lambda: os.mkdir(path))
    as_user(ALICE, lambda: write(f"{path}/in", "echo x\n"))
    as_user(ALICE, lambda: read(f"{path}/exit_code"))
    fd = os.open(f"{path}/stdout", os.O_RDONLY)
    same("read by another user", as_user(BOB, lambda: os.read(fd, 10)), b"x\n")
    os.close(fd)


def bind_mount():
    """Bind-mounting one session directory hands out exactly that session."""
    path, target = f"{MNT}/raw/alice2", f"{SCRATCH}/bound"
    os.mkdir(target)
    if shell(f"mount --bind {path} {target}")[0]:
        print("(no bind mount possible here)")
        return
    try:
        same("through the bind mount", (write(f"{target}/in", "echo bound\n"),
                                        read(f"{target}/stdout")), (None, b"bound\n"))
        same("its parent is not the template",
             sorted(os.listdir(f"{target}/..")) == sorted(os.listdir(f"{MNT}/raw")), False)
    finally:
        shell(f"umount {target}")


main(ownership, control, passed_on, bind_mount)
