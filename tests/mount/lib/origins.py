# SPDX-License-Identifier: Apache-2.0
"""For tests of user.xsbxfs.origin: what it says, and runs that no clock can take for another."""

from xsbx import *

ORIGIN = "user.xsbxfs.origin"


def origin(path):
    """What it says, or the errno."""
    try:
        return os.getxattr(path, ORIGIN).decode()
    except OSError as e:
        return e.errno


def apart():
    """What follows is not of the same step of any kernel's clock for files."""
    time.sleep(0.05)


def run_apart(s, code):
    apart()
    r = s.run(code)
    apart()
    return r
