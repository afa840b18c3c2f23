# SPDX-License-Identifier: Apache-2.0
"""Servers as they are found, in the lab's internet: nginx and what else Debian has, with certificates of an authority."""

import os
import shutil
import subprocess
import time

from netlab import LIMIT, skip

SBIN = os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin"


def find(program):
    """Where it is; a test without it is skipped."""
    return shutil.which(program, path=SBIN) or skip(f"SKIP: there is no {program} here")


def start(lab, scratch, *args, **more):
    """Return: a server in the internet, which ends with the test; what it says is in a file called as it is, with .log."""
    program = find(args[0])
    with lab.internet.entered(), open(f"{scratch}/{os.path.basename(program)}.log", "ab") as log:
        return subprocess.Popen([find("setpriv"), "--pdeathsig", "KILL", program, *args[1:]], stdin=subprocess.DEVNULL,
                                stdout=log, stderr=log, **more)


def await_port(lab, address, port):
    end = time.monotonic() + LIMIT
    while True:
        try:
            lab.internet.connect(address, port).close()
            return
        except OSError:
            assert time.monotonic() < end, f"nobody listens at {address} {port}"
            time.sleep(0.05)


def start_nginx(lab, scratch, http):
    """@http: what is in that section of its configuration, besides where it keeps its files. One that serves already goes on."""
    paths = " ".join(f"{name}_temp_path {scratch}/tmp_{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    with open(f"{scratch}/nginx.conf", "w", encoding="ascii") as file:
        file.write(f"""
            daemon off; master_process off; pid {scratch}/nginx.pid; error_log {scratch}/nginx.err;
            events {{ }}
            http {{ {paths} {http} }}""")
    return start(lab, scratch, "nginx", "-c", f"{scratch}/nginx.conf")


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, stderr=subprocess.DEVNULL)


def make_authority(scratch, *names):
    """An authority, as authority.pem, and a certificate that it gives to servers of these names, as server.pem and server.key."""
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    openssl("req", "-x509", *new, "-keyout", f"{scratch}/authority.key", "-out", f"{scratch}/authority.pem",
            "-subj", "/CN=an authority", "-addext", "keyUsage=critical,keyCertSign")
    openssl("req", "-x509", *new, "-keyout", f"{scratch}/server.key", "-out", f"{scratch}/server.pem",
            "-CA", f"{scratch}/authority.pem", "-CAkey", f"{scratch}/authority.key", "-subj", f"/CN={names[0]}",
            "-addext", "subjectAltName=" + ",".join(f"DNS:{name}" for name in names),
            "-addext", "basicConstraints=critical,CA:FALSE")
    return f"{scratch}/authority.pem"
