#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""LlamaIndex's FunctionAgent with xsbx_llamaindex.py."""
# backends: process vm
# night: process vm
# timeout: 300
from suites import *

WHERE = pip("llamaindex")


def agent():
    example("with_llamaindex", environment(WHERE, "python"), "run_code: 2.8\nexit status 0\nanswer: The mean is 2.8.\n")


def ours():
    checks("llamaindex", environment(WHERE, "python"))


main(agent, ours)
