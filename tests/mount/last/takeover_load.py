#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--takeover, again and again, while the mount is used: every answer is right, and nobody sees an error."""
# backends: local vm
# night: vm
# timeout: 240
# log-allow: is not taken over now
from busy import *

TIMES = 30 if not VM else 8


def take_over():
    done = subprocess.run([os.environ["XSBXFS"], "--takeover", "-c", os.environ["CONF"], MNT], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=120 * SLOW, check=False)
    return done.returncode == 0, done.stderr.decode()


def load():
    busy = Busy()
    time.sleep(1)
    taken = 0
    for n in range(TIMES):
        done, said = take_over()
        ok(f"takeover {n}", done, said)
        taken += done
        time.sleep(4 if VM else 0.3)
    print("taken over", taken, "times of", TIMES)
    busy.end()


main(load)
