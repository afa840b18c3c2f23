#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many sessions that are asleep on one mount, and some that are woken and put back. many_asleep_night has more of them."""
# backends: local vm
# timeout: 120
# conf: max_sessions = 0
# conf: boot_timeout_s = 240
from sleepers import *


def asleep():
    if VM:
        many(12, 4, step=4)
    else:
        many(150, 30)


main(asleep)
