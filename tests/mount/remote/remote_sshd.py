#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A mount of another host over sshfs, with scripts/xsbx-remote and OpenSSH's sshd; scp and sftp as well."""
# night: local process
# timeout: 120
from far import *


def finds_it():
    """Without a path it asks the host, which has one mount of xsbxfs."""
    os.makedirs(FAR, exist_ok=True)
    status, text = command(f"{REMOTE} {way.options} box {FAR}", env=way.env)
    found = [line.split()[1] for line in read("/proc/mounts", "r").splitlines() if line.split()[2] == "fuse.xsbxfs"]
    if len(found) == 1:
        same("mounted", (status, text), (0, ""))
        ok("the right one", os.path.exists(f"{FAR}/status.json"))
        command(f"{REMOTE} -u {FAR}", env=way.env)
    else:
        has("which one", text, "has several mounts; say which:")
        has("this is one of them", text, MNT)


def copies():
    s = Session("copies")
    for tool in (f"scp -q {way.options} box:{s.path}/stdout {SCRATCH}/got",
                 f"sftp -q {way.options} box:{s.path}/stdout {SCRATCH}/got",
                 f"ssh {way.options} box cat {s.path}/stdout > {SCRATCH}/got"):
        s.submit("for i in 1 2 3; do echo $i; sleep 0.2; done\n")
        status, text = command(tool)
        same(tool.split()[0], (status, read(f"{SCRATCH}/got")), (0, b"1\n2\n3\n"))


def internal():
    """The SFTP server that is a part of sshd."""
    way.close()
    os.unlink(f"{SCRATCH}/host")
    os.unlink(f"{SCRATCH}/user")
    inner = Sshd("internal-sftp")
    try:
        with client(inner):
            s = Session("internal")
            s.submit("sleep 0.5; echo hello\n")
            same("all of it", read(f"{FAR}/raw/internal/stdout"), b"hello\n")
            status, text = command(f"{REMOTE} {inner.options} -o IdentityFile=/dev/null box:{MNT} {SCRATCH}/far3")
            has("nobody's key", text, "is no directory")
        os.mkdir(f"{SCRATCH}/far3")
        write(f"{SCRATCH}/user.pub", "")
        status, text = command(f"{REMOTE} {inner.options} box:{MNT} {SCRATCH}/far3")
        has("the key is not known there", text, "Permission denied (publickey")
        same("fails", (status, mounted(f"{SCRATCH}/far3")), (1, False))
    finally:
        inner.close()


way = Sshd()
main(*over(way), finds_it, copies, internal)
