#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--takeover in the middle of something: a start, a reset, a pause, a checkpoint, a sleep, a waking up. Each comes to its end, as
if nothing had been, and none is waited for."""
# backends: local process vm
# night: vm
# timeout: 240
# log-allow: is not taken over now
import re

from midway import *


def take_over():
    done = subprocess.run([os.environ["XSBXFS"], "--takeover", "-c", os.environ["CONF"], MNT], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=120 * SLOW, check=False)
    ok("taken over", done.returncode == 0 and re.search(r"process \d+ serves it now", done.stdout.decode()),
       done.stderr.decode())


main(*Midway(take_over).tests())
