#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make install PREFIX=... after a build for another prefix: what was built knows the new places."""
import os
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


main()
