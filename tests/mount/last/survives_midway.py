#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon is killed in the middle of something: a start, a reset, a pause, a checkpoint, a sleep, a waking up. Each comes to
its end, as if nothing had been."""
# backends: local process vm
# night: vm
# option: survive=yes
# option: max_deaths=1000000
# timeout: 240
# log-allow: the daemon died|died of the same
from deaths import *
from midway import *

main(*Midway(Mortal(guard_of()).die).tests())
