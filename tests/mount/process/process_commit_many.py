#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An end in the middle of a commit of many files waits for it."""
# backends: process
# night: process
# timeout: 300
# mount: none
import time

from hosts import *

MANY = 20000
TEMPLATE = "[template shown]\nlanguage = raw\nmemory_mb = 1024\nwork = {}\n"


def many():
    top = folder("many")
    for number in range(MANY):
        if number % 200 == 0:
            os.mkdir(f"{top}/{number // 200:03}")
        write(f"{top}/{number // 200:03}/{number}", "x" * 100)
    host = Host("many.daemon", TEMPLATE.format(top))
    s = host.session("one", config="timeout_s = 200\nfiles_mb = 500\nfiles_inodes = 100000\n")
    same("all changed", s.run("for f in */*; do echo y >> $f; done; echo ok\n").out, "ok\n")
    s.ctl("commit")
    ok("it has begun", wait_for(lambda: os.path.getsize(f"{top}/000/0") == 102))
    with raises("a reset would let go on what was stopped", errno.EBUSY):
        s.ctl("reset")
    begun = time.monotonic()
    host.daemon.terminate()
    same("the daemon ends", host.daemon.wait(3 * SOON), 0)
    print(f"ended after {time.monotonic() - begun:.1f} s")
    sizes = [os.path.getsize(f"{d}/{f}") for d, _, files in os.walk(top) for f in files]
    same("each file is new, and whole", (len(sizes), set(sizes)), (MANY, {102}))


main(many)
