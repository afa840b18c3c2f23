#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""keep = yes: ten thousand sessions that are asleep are there again at the next mount, soon, and take as little as before."""
# backends: process
# night: process
# timeout: 900
# conf: max_sessions = 0
from sleepers import *


def a_thousand():
    """What is there for nothing, and was replaced, is not most of it."""
    many_kept(1000, 30, "thousand")


def kept():
    many_kept(int(os.environ.get("XSBX_ROUNDS", 10000)), 30)


main(a_thousand, kept)
