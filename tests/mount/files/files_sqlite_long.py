#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""files/: files_sqlite, with ten thousand transactions in each mode."""
# timeout: 900
# backends: local vm
# night: local process vm
import os
import runpy

os.environ["TRANSACTIONS"] = "10000"
runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "files_sqlite.py"),
               run_name="__main__")
