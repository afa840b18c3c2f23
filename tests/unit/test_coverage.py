#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/coverage: a folder below its floor is named, and so is one without a floor or a floor without a folder."""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What gcov prints, one file compiled twice.
SEEN = """File 'vm/base/buf.c'
Lines executed:40.00% of 10

File 'vm/base/buf.c'
Lines executed:60.00% of 10

File '/usr/include/x.h'
Lines executed:1.00% of 10

File 'fs/main.c'
Lines executed:90.00% of 10
"""
failures = []


def floors(text, status, *words, seen=SEEN):
    with tempfile.NamedTemporaryFile("w", suffix=".floor") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([f"{ROOT}/tests/coverage", file.name], input=seen, check=False, encoding="utf-8",
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said = done.stderr
    if done.returncode != status or len(said.splitlines()) != len(words) or any(w not in said for w in words):
        failures.append(f"with {text!r}: exit status {done.returncode}, want {status} and {words}: {said}")


floors("# per cent\nvm/base 60\nfs 80\n", 0)
floors("vm/base 61\nfs 80\n", 1, "of vm/base/ 60.0 % are run, and 61 % were")
floors("vm/base 60\n", 1, "fs/ has no floor: add the line `fs 90`")
floors("vm/base 60\nfs 80\nvm/gone 1\n", 1, "vm/gone/ is not there any more")
floors("fs 80\n", 1, "no coverage data found", seen="")
for line in failures:
    print(line)
sys.exit(1 if failures else 0)
