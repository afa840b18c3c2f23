#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# backends: vm
# mount: none
# timeout: 400
"""Machines go on with another daemon, whatever is under way. By a unit test: tests/unit/vm/sandbox/test_adopt.c."""

import os
import subprocess
import sys

BUILD = os.path.abspath(os.environ["BUILD"])
sys.exit(subprocess.run([f"{BUILD}/unit/test_adopt"], env={**os.environ, "MACHINES": "1"}, check=False).returncode)
