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


way = StandIn()
main(*over(way), other_server)
