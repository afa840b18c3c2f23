#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""AutoGen's CodeExecutorAgent with xsbx_autogen.py."""
# backends: process vm
# night: process vm
# timeout: 300
# conf: output_limit = 2M
from suites import *

WHERE = pip("autogen")


def agent():
    example("with_autogen", environment(WHERE, "raw"),
            "exit code 0:\n[0, 1, 4, 9, 16]\n[0, 1, 4, 9, 16]\n3\nthen: These are the squares.\n")


def ours():
    checks("autogen", environment(WHERE, "raw"))


main(agent, ours)
