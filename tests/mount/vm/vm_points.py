#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# backends: vm
# mount: none
# timeout: 120
"""Machines are copied as they run, and go on; so do their copies. By a program of its own: tests/machine/points.c."""

import os
import subprocess
import sys

BUILD = os.path.abspath(os.environ["BUILD"])
sys.exit(subprocess.run([f"{BUILD}/test/points", f"{BUILD}/xsbx-agent"], check=False).returncode)
