#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A thousand deaths of the daemon at named points; 300 with machines."""
# mount: none
# backends: process vm
# night: process vm
# timeout: 1500
# log-allow: the daemon died|died of the same
from aimed import matrix

from xsbx import VM

matrix(300 if VM else 1000)
