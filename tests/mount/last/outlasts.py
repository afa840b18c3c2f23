#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A shell script forks a session ten ways, kills the daemon in the middle, unmounts, mounts again, and goes back."""
# backends: local process vm
# timeout: 180
import re

from kept import *

WAYS = 10

BEFORE = """set -eu
cd "$1/raw"
mkdir start
echo 'seq 10 > data' > start/in; cat start/exit_code
mkdir start/checkpoints/ready; cat start/checkpoints/ready/wait
for i in $(seq $WAYS); do mkdir way$i; echo 'from = start@ready' > way$i/config; done
for i in $(seq $WAYS); do echo "sleep 1; echo $i >> data; wc -l < data; tail -n 1 data" > way$i/in; done
for i in $(seq $WAYS); do cat way$i/stdout > "$2/got$i" & done
sleep 0.5
kill -9 "$3"
wait
cat way*/exit_code
echo 'echo changed > data' > start/in; cat start/exit_code
"""
AFTER = """set -eu
cd "$1/raw"
for i in $(seq $WAYS); do cat way$i/state; tail -n 1 way$i/files/data; cat way$i/runs/1/stdout; done
cat start/files/data
echo restore ready > start/ctl
wc -l < start/files/data
echo 'tail -n 1 data' > start/in; cat start/stdout
echo 'tail -n 1 data' > way3/in; cat way3/stdout
"""


def script(text, *args):
    done = subprocess.run(["sh", "-c", text, "sh", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, env={**os.environ, "WAYS": str(WAYS)}, timeout=2 * SOON * slack(), check=False)
    same("the script's status", done.returncode, 0)
    return done.stdout.splitlines()


def machine_of(k):
    """What the checkpoint's memory needs."""
    return k.there("start").json("checkpoints/ready/status.json")["needs"]["machine"]


def needs(machine):
    """What decides is told: of memory, and there is none of processes."""
    if not VM:
        same("no machine is needed", machine, None)
        return
    for what in ("kernel", "initrd", "rootfs"):
        ok(f"the sum of {what}", re.fullmatch("[0-9a-f]{64}", machine[what]), machine)
    ok("QEMU's version", re.match(r"\d+\.\d+", machine["qemu"]), machine)
    same("packages", machine["packages"], "none")
    ok("a processor", machine["processor"], machine)


def ten_ways():
    k = Kept("outlasts", wait=False)
    k.begin("survive=yes")
    daemon = kin_of(k.daemon.pid)[1]
    same("what the first part shows", script(BEFORE, k.mnt, SCRATCH, daemon), ["0", "whole"] + ["0"] * WAYS + ["0"])
    ok("there is another daemon", kin_of(k.daemon.pid)[1] != daemon)
    for i in range(1, WAYS + 1):
        same(f"who waited for way {i}", read(f"{SCRATCH}/got{i}", "r"), f"11\n{i}\n")
    machine = machine_of(k)
    needs(machine)
    same("it ends", k.end(), 0)
    k.begin("survive=yes")
    same("what memory needs is known without its being loaded", machine_of(k), machine)
    ways = [line for i in range(1, WAYS + 1) for line in ("asleep", str(i), "11", str(i))]
    same("what the second part shows", script(AFTER, k.mnt), [*ways, "changed", "10", "10", "3"])
    same("it ends again", k.end(), 0)


main(ten_ways)
