#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Types the examples of README.md into a shell, and wants what the README says; those that mount: last/readme_lasts."""
# backends: local vm
# timeout: 120
import shutil

from examples import *


def clean_up():
    """Sandboxes wait their turn: give their places back."""
    for session in sessions():
        os.rmdir(session)


def show_errors():
    for session in sessions():
        for node in ("error", "stderr"):
            print(f"{session}/{node}: {read(f'{session}/{node}')}", flush=True)


def every_example():
    for steps in examples():
        if mounts(steps):
            continue
        if "/javascript/" in steps[0][0] and not VM and not shutil.which("bun"):
            print("left out, bun is not here: " + steps[0][0], flush=True)
            continue
        if not shows(steps, type_in(steps, 2 * SOON)):
            show_errors()
        clean_up()


main(every_example)
