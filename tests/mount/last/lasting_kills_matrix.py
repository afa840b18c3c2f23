#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills at drawn moments of saving, copying, sleeping and waking. lasting_kills_night has a thousand of them."""
# mount: none
# backends: local vm
# timeout: 180
# conf: boot_timeout_s = 240
from lasting_kills import matrix

from xsbx import VM

matrix(*((8, 2) if VM else (32, 8)))
