#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A crew with xsbx_crewai.py."""
# backends: process vm
# night: process vm
# timeout: 300
from suites import *

WHERE = pip("crewai")


def agent():
    example("with_crewai", environment(WHERE, "python"), "answer: 42\n42\nexit status 0\nhere\nexit status 3\n")


def ours():
    checks("crewai", environment(WHERE, "python"))


main(agent, ours)
