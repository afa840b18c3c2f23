# SPDX-License-Identifier: Apache-2.0
"""How long to wait for an event: deadlines only end hanging tests, so a busy host gets more time. Tests in
Python can import this; tests in C get it in the environment variable PATIENCE. SLACK says how many times slower than
others the machine is by itself, as one that is emulated."""

import os
import time


def slack():
    """How many times longer things take now than on an idle host: at least 1."""
    return max(float(os.environ.get("SLACK", 1)), max(os.getloadavg()[:2]) / os.cpu_count())


def wait_until(condition, seconds, pause=0.005):
    """Return the condition's last value. The load is checked again when the time is up: it may have risen since."""
    begin = time.monotonic()
    while True:
        value = condition()
        if value or time.monotonic() > begin + seconds and time.monotonic() > begin + seconds * slack():
            return value
        time.sleep(pause)
