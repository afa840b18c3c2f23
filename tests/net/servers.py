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


def start_squid(lab, scratch, address, *lines):
    """A proxy at port 3128 that goes everywhere, but for what @lines say. Return: its server, and the path of its access.log.
    It has to be ended: it forgets whose child it is when it becomes another user."""
    place = f"{scratch}/squid"
    os.mkdir(place)
    shutil.chown(place, "proxy")
    with open(f"{scratch}/squid.conf", "w", encoding="ascii") as file:
        file.write("\n".join([*lines, f"http_port {address}:3128", "http_access allow all", f"pid_filename {place}/pid",
                              f"access_log stdio:{place}/access", f"cache_log {place}/log", "cache deny all", f"coredump_dir {place}",
                              "cache_effective_user proxy", "pinger_enable off", "shutdown_lifetime 0 seconds", ""]))
    find("squid")
    # Another one on this host has its shared memory under the same names.
    server = start(lab, scratch, "unshare", "-m", "sh", "-c", "mount -t tmpfs none /dev/shm && PATH=$PATH:/usr/sbin exec squid -N -f $0",
                   f"{scratch}/squid.conf")
    await_port(lab, address, 3128)
    return server, f"{place}/access"
