#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the first screen of README.md plays is what that types, and is answered."""
# backends: process
from xsbx import *

RECORD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../record")


def recording():
    done = subprocess.run([RECORD, "--check"], check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=4 * SOON)
    ok("man/demo.svg is what happens", done.returncode == 0, done.stdout)


main(recording)
