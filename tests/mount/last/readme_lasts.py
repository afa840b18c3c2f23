#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples of README.md that mount, kill the daemon and mount again, as they stand there, in a home of their own."""
# backends: local vm
# timeout: 240
# mount: none
from examples import *

HOME, TOOLS = f"{SCRATCH}/home", f"{SCRATCH}/tools"
MEMORY = "print(x * 7)"  # what only a machine remembers from one mount to the next

# With options of this test, and without what it says of this host alone.
MOUNT = """#!/bin/sh
"$XSBXFS" -c "$CONF" -o "$OPTIONS" "$@" 2> "$SCRATCH/said"
status=$?
cat "$SCRATCH/said" >> "$LOG"
grep "found in state_dir" "$SCRATCH/said"
exit $status
"""
# As the README says it, that means all daemons of this host: here it means the one of this home.
PKILL = """#!/bin/sh
[ "$*" = "-KILL xsbxfs-daemon" ] || exit 2
for p in /proc/[0-9]*; do
	[ "$(cat "$p/comm" 2> /dev/null)" = xsbxfs-daemon ] || continue
	tr '\\0' '\\n' < "$p/cmdline" | grep -qx "$HOME/sbx" && kill -KILL "${p#/proc/}" && found=yes
done
[ "$found" ]
"""


def tool(name, text):
    write(f"{TOOLS}/{name}", text)
    os.chmod(f"{TOOLS}/{name}", 0o755)


def daemons():
    return [p for p in map(int, filter(str.isdigit, os.listdir("/proc")))
            if name_of(p) == "xsbxfs-daemon" and f"{HOME}/sbx" in command_of(p)]


def clean_up():
    if mounted(f"{HOME}/sbx"):
        same("unmounted", shell(f"fusermount3 -u {HOME}/sbx")[0], 0)
    ok("no daemon is left", wait_for(lambda: not daemons(), 30), daemons())


def each_of_them():
    done = 0
    os.makedirs(TOOLS)
    os.makedirs(f"{HOME}/sbx")
    tool("xsbxfs", MOUNT)
    tool("pkill", PKILL)
    for i, steps in enumerate(filter(mounts, examples())):
        if not VM and any(MEMORY in command for command, _ in steps):
            print(f"left out, a process has no memory to keep: {steps[0][0]}", flush=True)
            continue
        got = type_in(steps, 4 * SOON, HOME=HOME, PATH=f"{TOOLS}:{os.environ['PATH']}",
                      OPTIONS=",".join([*OPTIONS, f"state_dir={SCRATCH}/state{i}"]))
        if not shows(steps, got):
            print(read(os.environ["LOG"], "r")[-2000:], flush=True)
        clean_up()
        done += 1
    ok("some were done", done >= (3 if VM else 2), done)


main(each_of_them)
