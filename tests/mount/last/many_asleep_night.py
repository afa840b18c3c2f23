#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ten thousand sessions that are asleep on one mount, and a thousand that are woken and put back; a hundred machines."""
# backends: process vm
# night: process vm
# timeout: 900
# conf: max_sessions = 0
# conf: boot_timeout_s = 240
from sleepers import *


def asleep():
    if VM:
        many(100, 20, step=4)
    else:
        many(10000, 1000)


main(asleep)
