#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# backends: vm
# mount: none
# timeout: 700
"""Machines go on with another daemon, whatever is under way. By unit tests: tests/unit/vm/sandbox/test_adopt.c, and
test_adopt_midway.c beside it."""

import os
import subprocess
import sys

BUILD = os.path.abspath(os.environ["BUILD"])
codes = [subprocess.run([f"{BUILD}/unit/{name}"], env={**os.environ, "MACHINES": "1"}, check=False).returncode
         for name in ("test_adopt", "test_adopt_midway")]
sys.exit(next((code for code in codes if code not in (0, 77)), codes[0]))
