# SPDX-License-Identifier: Apache-2.0
"""A machine's network, beside QEMU's own and passt's: see tests/bench/net_vm."""

import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


def network(bench):
    """In a process of its own: it moves between network namespaces."""
    print("\nthrough the filter of a session's network, and without one (best of several):")
    done = subprocess.run([f"{HERE}/net_vm", *(["--quick"] if bench.quick else [])], check=False)
    if done.returncode:
        print("(network left out: see above)")
