#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A machine that sleeps and wakes 300 times: nothing grows."""
# backends: vm
# night: vm
# timeout: 450
# conf: boot_timeout_s = 240
# conf: history_runs = 20
from sleepers import again
from xsbx import main


def slept_again():
    again(300, 150)


main(slept_again)
