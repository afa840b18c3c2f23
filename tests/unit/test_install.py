#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make install PREFIX=... after a build for another prefix: what was built knows the new places. And what is no program is put
where it belongs, with the names of these places in it, and taken away again."""
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def make(build, *args):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    done = subprocess.run(["make", "-s", "-C", ROOT, f"O={build}", "CFLAGS=-O0", *args], env=env, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(f"make {args}: {done.stdout.decode()}")


def main():
    with tempfile.TemporaryDirectory() as build:
        object_file = f"{build}/obj/fs/config/daemon.o"
        for prefix in ("/opt/one", "/opt/another"):
            make(build, f"PREFIX={prefix}", object_file)
            with open(object_file, "rb") as file:
                data = file.read()
            if f"{prefix}/libexec/xsbxfs".encode() not in data:
                sys.exit(f"after a build for another prefix, PREFIX={prefix} does not get through")
        before = os.stat(object_file).st_mtime_ns
        make(build, "PREFIX=/opt/another", object_file)
        if os.stat(object_file).st_mtime_ns != before:
            sys.exit("the same prefix again builds everything again")
    print("three builds")
    places()


# Everything that is installed beside programs, manual pages and what is below libexec and share/xsbxfs.
PLACED = """
lib/systemd/system/xsbxfs@.service lib/systemd/user/xsbxfs.service lib/tmpfiles.d/xsbxfs.conf lib/sysusers.d/xsbxfs.conf
share/bash-completion/completions/xsbxfs share/bash-completion/completions/xsbx-tty share/zsh/site-functions/_xsbxfs
""".split()


def places():
    """The recipe as make would run it, without what it needs to be built."""
    with tempfile.TemporaryDirectory() as top:
        build, dest = f"{top}/build", f"{top}/dest"
        # Nothing is built: only the recipe itself is what is looked at.
        for name in ("xsbxfs", "xsbxfs-net", "xsbxfs-dial", "xsbxfs-store", "xsbx-agent"):
            os.makedirs(build, exist_ok=True)
            open(f"{build}/{name}", "w").close()
        args = [f"DESTDIR={dest}", "PREFIX=/opt/x", "drivers=LICENSE"]
        make(build, "--old-file=all", "install", *args)
        missing = [p for p in PLACED if not os.path.exists(f"{dest}/opt/x/{p}")]
        if missing:
            sys.exit(f"not installed: {missing}")
        for unit in PLACED[:2]:
            with open(f"{dest}/opt/x/{unit}") as file:
                text = file.read()
            if "@BINDIR@" in text or "ExecStart=/opt/x/bin/xsbxfs -f" not in text or "ExecReload=/opt/x/bin/xsbxfs --takeover" not in text:
                sys.exit(f"{unit} does not name the program: {text}")
            if os.stat(f"{dest}/opt/x/{unit}").st_mode & 0o777 != 0o644:
                sys.exit(f"{unit} has another mode")
        if shutil.which("systemd-analyze"):
            verify(dest)
        else:
            print("systemd was not asked about its units: there is no systemd-analyze")
        make(build, "uninstall", *args)
        left = [f"{d}/{f}" for d, _, files in os.walk(dest) for f in files]
        if left:
            sys.exit(f"uninstall leaves {left}")
    print("installed, and taken away")


def verify(dest):
    """systemd understands each line of them. What they start is not there, which is nothing of theirs."""
    for unit, mode in (("system/xsbxfs@.service", "--system"), ("user/xsbxfs.service", "--user")):
        done = subprocess.run(["systemd-analyze", "verify", mode, "--man=no", f"{dest}/opt/x/lib/systemd/{unit}"], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wrong = [x for x in done.stdout.splitlines() if "xsbxfs" in x and "is not executable" not in x]
        if wrong:
            sys.exit(f"{unit}: {wrong}")


main()
