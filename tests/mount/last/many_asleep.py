#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many sessions that are asleep on one mount, and some that are woken and put back. many_asleep_night has more of them."""
# backends: local vm
# timeout: 120
# conf: max_sessions = 0
# conf: boot_timeout_s = 240
# conf: history_runs = 20
from sleepers import *


def asleep():
    if VM:
        many(12, 4, step=4)
    else:
        many(150, 30)


def slept_again():
    """Many times; sleeps_night has that of machines."""
    if not VM:
        again(40, 10)


main(asleep, slept_again)
