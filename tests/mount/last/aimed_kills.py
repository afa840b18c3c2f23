#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon dies at named points of runs, calls below files/, copies, sleep and all else. aimed_kills_night has a thousand of them."""
# mount: none
# backends: local vm
# timeout: 180
# log-allow: the daemon died|died of the same
from aimed import matrix

from xsbx import VM

matrix(6 if VM else 40)
