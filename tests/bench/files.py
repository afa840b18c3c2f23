# SPDX-License-Identifier: Apache-2.0
"""files/, beside the same over sshfs."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time

from common import *


@contextlib.contextmanager
def sshfs(options):
    """sshfs on one end of a socketpair, sftp-server on the other: no ssh between them."""
    server = next((p for p in ("/usr/lib/openssh/sftp-server", "/usr/libexec/sftp-server",
                               "/usr/lib/ssh/sftp-server") if os.path.exists(p)), None)
    if not server or not shutil.which("sshfs"):
        yield None
        return
    base = tempfile.mkdtemp(prefix="xsbx-bench.", dir="/dev/shm")
    mnt, data = f"{base}/mnt", f"{base}/data"
    os.mkdir(mnt)
    os.mkdir(data)
    here, there = socket.socketpair()
    sftp = subprocess.Popen([server], stdin=there, stdout=there, stderr=subprocess.DEVNULL)
    front = subprocess.Popen(["sshfs", f":{data}", mnt, "-f", "-o", "passive", *options], stdin=here,
                             stdout=here, stderr=subprocess.DEVNULL)
    here.close()
    there.close()
    try:
        end = time.monotonic() + 10
        while not os.path.ismount(mnt) and time.monotonic() < end:
            time.sleep(0.01)
        yield mnt if os.path.ismount(mnt) else None
    finally:
        subprocess.run(["fusermount3", "-u", mnt], check=False, stderr=subprocess.DEVNULL)
        for child in (front, sftp):
            child.terminate()
            child.wait()
        shutil.rmtree(base, ignore_errors=True)


def files_of(label, folder, quick):
    size, times = (8 if quick else 32) * MIB, 3 if quick else 8
    seq = {k: Series(f"{label}: {k} {size // MIB} MiB", k) for k in ("write", "read")}
    clock(seq, "seq", folder, size, times)
    for series in seq.values():
        rate = size / series.percentile(50) * 1e3
        print(f"{series.name:44} {rate:9.0f} MB/s at p50 of {series.tried}, "
              f"{100 * len(series.times) / max(1, series.tried):.0f} % good", flush=True)
    ops = {k: Series(f"{label}: {k}", k) for k in ("create", "stat", "openread", "rename", "unlink")}
    clock(ops, "ops", folder, 100 if quick else 1000)
    for series in ops.values():
        print(series.line("us", 1e3), f"{1e9 / series.percentile(50):9.0f} ops/s", flush=True)


def files(bench):
    heading("files/",
            "create: open, write 4 KiB, close. openread: open, read to the end, close. One client.",
            "write: open, 1 MiB a call, close. read: the same way, cached pages dropped before.",
            "vm: xsbxfs, over virtio-serial to the agent in a microVM.",
            "local: xsbxfs for tests, over a socketpair to the agent as a process of this host.",
            "sshfs: over a socketpair to sftp-server as a process of this host, no ssh, data on tmpfs;",
            "  so `local` and `sshfs` have the same transport. `no cache` turns off its caches of",
            "  attributes and names (xsbxfs keeps none that could be stale).")
    if not bench.local:
        with bench.mount() as mount:
            path = mount.session("raw", "files")
            run(path, ":")
            files_of("vm", f"{path}/files", bench.quick)
    if os.path.exists(LOCAL):
        with mounted(LOCAL, **LOCAL_ENV) as mount:
            path = mount.session("raw", "files")
            run(path, ":")
            files_of("local", f"{path}/files", bench.quick)
    for label, options in (("sshfs", []), ("sshfs, no cache", [
            "-o", "dir_cache=no,attr_timeout=0,entry_timeout=0,ac_attr_timeout=0"])):
        with sshfs(options) as folder:
            if folder:
                files_of(label, folder, bench.quick)
            else:
                print(f"({label} left out: sshfs or sftp-server is not installed, or does not mount)")
