#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""smolagents' CodeAgent with xsbx_smolagents.py."""
# backends: process vm
# night: process vm
# timeout: 300
# conf: output_limit = 2M
from suites import *

WHERE = pip("smolagents")


def agent():
    example("with_smolagents", environment(WHERE, "python"),
            "answer: 12\nExecution logs:\n[2, 4, 6]\nLast output from code snippet:\nNone\n")


def ours():
    checks("smolagents", environment(WHERE, "python"))


main(agent, ours)
