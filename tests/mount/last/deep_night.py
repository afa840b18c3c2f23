#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Machines, each a copy of the one before, ten deep. generations has four of them by day."""
# backends: vm
# night: vm
# timeout: 180
# conf: boot_timeout_s = 240
from family import *
from xsbx import main

main(lambda: deep(10))
