# SPDX-License-Identifier: Apache-2.0
"""Runs a command N times in a sandbox of sandlock's, as its Python package does it:
others.py N PROGRAM ARG... From before run() until it has returned with the output."""

import sys
import time

import sandlock


def main():
    sandbox = sandlock.Sandbox(fs_readable=["/usr", "/lib", "/lib64", "/bin", "/etc", "/proc"],
                               fs_writable=["/tmp"])
    for _ in range(int(sys.argv[1])):
        begin = time.monotonic_ns()
        result = sandbox.run(sys.argv[2:])
        end = time.monotonic_ns()
        print("spawn", end - begin if result.success and result.stdout else "fail")


main()
