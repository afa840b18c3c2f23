#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A thousand kills at drawn moments of saving, copying, sleeping and waking."""
# mount: none
# backends: process vm
# night: process vm
# timeout: 1200
# conf: boot_timeout_s = 240
from lasting_kills import matrix

from xsbx import VM

matrix(*((250, 50) if VM else (600, 100)))
