#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HumanEval's problems: with their canonical solutions all pass, with empty ones none does."""
# backends: process vm
# night: process vm
# timeout: 1200
from suites import *

WHERE = f"{pip('inspect')}:{pip('humaneval', '--no-deps')}"


def solved():
    example("humaneval", environment(WHERE, "raw"), "164 of 164\n")


def empty():
    example("humaneval", environment(WHERE, "raw"), "0 of 164\n", "--empty")


main(solved, empty)
