#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon is killed, again and again, at any moment, while the mount is used: every answer is right, and nobody sees an error."""
# backends: local vm
# night: vm
# option: survive=yes
# option: max_deaths=1000000
# timeout: 240
# log-allow: the daemon died|died of the same
import random

from busy import *
from deaths import *

TIMES = 40 if not VM else 10


def load():
    seed = random.randrange(1 << 32)
    print("seed", seed, flush=True)
    chance = random.Random(seed)
    daemon = Mortal(guard_of())
    busy = Busy()
    time.sleep(1)
    for _ in range(TIMES):
        daemon.die()
        # Some die before they serve, some at once, some later.
        time.sleep(chance.choice([0, 0.02, 0.1, 0.3, 0.5]) * SLOW)
    busy.end()


main(load)
