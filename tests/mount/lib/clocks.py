# SPDX-License-Identifier: Apache-2.0
"""How far off a sandbox's clock is."""

from xsbx import *

CLOCKS = {
    "python": "import time; print(time.time())\n",
    "javascript": "console.log(Date.now() / 1000)\n",
    "raw": "echo $EPOCHREALTIME\n",
}
OFF = 0.05  # seconds that it may be, at most
REST_S = 2.5  # how long a sandbox is to stand still, for a clock that stood still with it to be far off


def drift(template, s):
    """Seconds between the guest's clock and ours, as far as it is beyond doubt."""
    best = None
    for _ in range(5):
        before = time.time()
        out = s.run(CLOCKS[template]).out
        after = time.time()
        guest = float(out)
        off = max(before - guest, guest - after, 0)
        best = off if best is None else min(best, off)
    return best


__all__ = ["CLOCKS", "OFF", "REST_S", "drift"]
