# SPDX-License-Identifier: Apache-2.0
"""Runs a command N times in a sandbox of sandlock's, as its Python package does it:
others.py N PROGRAM ARG... From before run() until it has returned with the output. With `-` for N, once for each
line of standard input."""

import sys
import time

import sandlock


def main():
    sandbox = sandlock.Sandbox(fs_readable=["/usr", "/lib", "/lib64", "/bin", "/etc", "/proc"],
                               fs_writable=["/tmp"])
    for _ in sys.stdin if sys.argv[1] == "-" else range(int(sys.argv[1])):
        begin = time.monotonic_ns()
        result = sandbox.run(sys.argv[2:])
        end = time.monotonic_ns()
        print("spawn", end - begin if result.success and result.stdout else "fail", flush=True)


main()
