# SPDX-License-Identifier: Apache-2.0
"""How long to wait for what should have happened: a deadline only ends what hangs, and a host that has much else to
do is given more of them. Also on the path of tests in Python; those in C find it in the environment, as PATIENCE."""

import os
import time


def slack():
    """How many times as long as on a quiet host things take here, now: at least 1."""
    return max(1.0, max(os.getloadavg()[:2]) / os.cpu_count())


def wait_until(condition, seconds, pause=0.005):
    """Return the condition's last value. The load is looked at again when the time is up: it may have come since."""
    begin = time.monotonic()
    while True:
        value = condition()
        if value or time.monotonic() > begin + seconds and time.monotonic() > begin + seconds * slack():
            return value
        time.sleep(pause)
