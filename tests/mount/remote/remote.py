#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A mount of another host over sshfs, with scripts/xsbx-remote: the SFTP server is real, ssh is not (see remote_sshd)."""
# log-allow: the agent's process was killed
from far import *


def other_server():
    """Control: a server of another name is not known to seek before each read; sshfs takes its failure for the end."""
    shutil.copy(SFTP_SERVER, f"{SCRATCH}/other-server")
    other = StandIn(f"{SCRATCH}/other-server")
    s = Session("other")
    with client(other):
        s.submit("sleep 0.5; echo hello\n")
        same("nothing while it runs", read(f"{FAR}/raw/other/stdout"), b"")
        same("all of it later", (read(s / "exit_code"), read(f"{FAR}/raw/other/stdout")), (b"0\n", b"hello\n"))


def words():
    """What is said to ssh, and by xsbx-remote, where nothing comes of it."""
    here, bin = f"{SCRATCH}/here", f"{SCRATCH}/asked"
    os.makedirs(f"{here}/dir")
    os.mkdir(bin)
    write(f"{bin}/ssh", f"#!/bin/sh\necho \"$@\" >{bin}/words; exit 1\n")
    os.chmod(f"{bin}/ssh", 0o755)
    env = dict(os.environ, PATH=f"{bin}:{os.environ['PATH']}")
    for given, want in ("ssh/config", f"{here}/ssh/config"), ("/etc/x", "/etc/x"), ("none", "none"):
        status, text = command(f"{REMOTE} -F {given} box dir", env=env, cwd=here)
        ok(f"-F {given}", status == 1 and read(f"{bin}/words", "r").startswith(f"-F {want} box "), text)
    same("nothing is mounted", command(f"{REMOTE} -u dir", env=env, cwd=here), (1, "xsbx-remote: nothing is mounted at dir\n"))


way = StandIn()
main(*over(way), other_server, words)
