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


TREE = 2000  # files, as a source tree has them


def make_trees(base):
    """What is copied: small files in one directory; a repository's worth of them in many; one large file."""
    os.mkdir(f"{base}/small")
    for i in range(1000):
        with open(f"{base}/small/{i:04}", "wb") as file:
            file.write(os.urandom(1024))
    tree = f"{base}/tree"
    for i in range(TREE):
        folder = f"{tree}/{i % 40:02}"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/{i:04}", "wb") as file:
            file.write(os.urandom(600 + i))
    git = ["git", "-C", tree, "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for args in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *args], check=True)
    subprocess.run(["tar", "-C", base, "-cf", f"{base}/tree.tar", "tree"], check=True)
    with open(f"{base}/large", "wb") as file:
        for _ in range(100):
            file.write(os.urandom(MIB))


def tree_of(label, folder, base, times, renew=lambda: None):
    """@renew is called before files are read that were only written: what is known of them is forgotten."""
    steps = ("up", "down", "tar", "status", "rsync", "rsync again", "large up", "large down")
    series = {step: Series(f"{label}: {step}", step) for step in steps}

    def step(name, *command):
        begin = time.monotonic_ns()
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        series[name].add(time.monotonic_ns() - begin if done.returncode == 0 else None)
        if done.returncode:
            print(f"({label}: {name} failed: {done.stderr.decode(errors='replace').strip()[:200]})", flush=True)

    git = ["git", "-C", f"{folder}/tree", "status", "--porcelain"]
    for _ in range(times):
        step("up", "cp", "-r", f"{base}/small", f"{folder}/small")
        renew()
        step("down", "cp", "-r", f"{folder}/small", f"{base}/back")
        step("tar", "tar", "--no-same-owner", "-C", folder, "-xf", f"{base}/tree.tar")
        subprocess.run(git, stdout=subprocess.DEVNULL, check=False,
                       env={**os.environ, **GIT_SAFE})
        step("status", "env", *(f"{k}={v}" for k, v in GIT_SAFE.items()), *git)
        for name in "rsync", "rsync again":
            step(name, "rsync", "-a", "--no-owner", "--no-group", f"{base}/tree/", f"{folder}/synced/")
        step("large up", "cp", f"{base}/large", f"{folder}/large")
        step("large down", "cp", f"{folder}/large", f"{base}/back.large")
        subprocess.run(["rm", "-rf", f"{base}/back", f"{base}/back.large",
                        *(f"{folder}/{name}" for name in ("small", "tree", "synced", "large"))], check=False)
    for s in series.values():
        show(s)


# A repository below files/ is shown as somebody else's.
GIT_SAFE = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}


def trees(bench):
    heading("files/, whole trees",
            "up, down: 1000 files of 1 KiB, cp -r. down is of files that a run has touched.",
            f"tar: tar x of a repository of {TREE} files in 40 directories; status: the second git status in it.",
            "rsync: rsync -a of it to files/, and again with nothing to do. large: cp of 100 MiB.",
            "vm, process: xsbxfs. sshfs: over a socketpair to sftp-server, data on tmpfs, with and without its caches.",
            "tmpfs: the same on the memory file system itself: what the programs and the data take.")
    times = 1 if bench.quick else 5
    conf = "[template raw]\nmemory_mb = 768\nfiles_mb = 512\nfiles_inodes = 20000\n"
    process = f"[limits]\nallow_process = yes\n{conf}backend = process\n"
    with tempfile.TemporaryDirectory(prefix="xsbx-bench.", dir="/dev/shm") as base:
        make_trees(base)
        for label, text in (("process", process), ("vm", conf)):
            if bench.local:
                continue
            with bench.mount(text) as mount:
                path = mount.session("raw", "trees")
                run(path, ":")
                tree_of(label, f"{path}/files", base, times, lambda: run(path, "touch -a small/*"))
        for label, options in (("sshfs", []), ("sshfs, no cache", [
                "-o", "dir_cache=no,attr_timeout=0,entry_timeout=0,ac_attr_timeout=0"])):
            with sshfs(options) as folder:
                if folder:
                    tree_of(label, folder, base, times)
                else:
                    print(f"({label} left out: sshfs or sftp-server is not installed, or does not mount)")
        os.mkdir(f"{base}/direct")
        tree_of("tmpfs", f"{base}/direct", base, times)


def files(bench):
    heading("files/",
            "create: open, write 4 KiB, close. openread: open, read to the end, close. One client.",
            "write: open, 1 MiB a call, close. read: the same way, cached pages dropped before.",
            "vm: xsbxfs, over virtio-serial to the agent in a microVM.",
            "local: xsbxfs for tests, over a socketpair to the agent as a process of this host.",
            "sshfs: over a socketpair to sftp-server as a process of this host, no ssh, data on tmpfs;",
            "  so `local` and `sshfs` have the same transport. `no cache` turns off its caches of",
            "  attributes and names (xsbxfs keeps them while nothing in the sandbox can change a file).")
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
