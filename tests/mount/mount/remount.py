#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mounting again on the same directory, at once, time after time: nothing of the last is in the way."""
# mount: none
from xsbx import *


def again_and_again():
    mnt = f"{SCRATCH}/mnt"
    os.mkdir(mnt)
    for i in range(60):
        done = subprocess.run([os.environ["XSBXFS"], "-c", os.environ["CONF"], mnt], check=False,
                              stderr=subprocess.PIPE, timeout=2 * SOON)
        same(f"mount {i}", (done.returncode, done.stderr), (0, b""))
        ok(f"mounted {i}", mounted(mnt))
        same(f"unmount {i}", shell(f"fusermount3 -u {mnt}")[0], 0)


main(again_and_again)
