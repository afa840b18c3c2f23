#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kinds of sandboxes in the mount's status.json: those of one image that differ in nothing but their
packages, their network or their warm-up can be told apart, and each has its own pool."""
# mount: none
# backends: local
# timeout: 120
from layers import *

need_language("python")
WARMUP = "import alpha; START = alpha.VERSION"
CONF = f"""
[template plain]
language = python
image = one
backend = process
[template packed]
language = python
image = one
backend = process
packages = Alpha==1.0
[template warm]
language = python
image = one
backend = process
packages = alpha==1.0
warmup = {WARMUP}
[template networked]
language = python
image = one
backend = process
network = on
"""
TEMPLATES = ["plain", "packed", "warm", "networked"]
TELLS = ("backend", "memory_mb", "cpus", "network", "packages", "warmup")


def kinds(mnt):
    return json.loads(read(f"{mnt}/status.json"))["snapshots"]


def told_apart():
    wheel("alpha", "1.0")
    mount = Mount("kinds", CONF, options=("allow_process=yes", f"prepare={' '.join(TEMPLATES)}"))
    ok("all of them", wait_for(lambda: len(kinds(mount.mnt)) == 4, 20), kinds(mount.mnt))
    found = kinds(mount.mnt)
    same("of one image", {(k["image"], k["language"]) for k in found}, {("one", "python")})
    same("what tells them apart", sorted([tuple(k[t] for t in TELLS[3:]) for k in found], key=str),
         sorted([(False, "", None), (True, "", None), (False, "alpha==1.0", None),
                 (False, "alpha==1.0", WARMUP)], key=str))
    same("the rest is the same", len({tuple(k[t] for t in TELLS[:3]) for k in found}), 1)
    same("of processes", found[0]["backend"], "process")
    Session("one", template="warm", mnt=mount.mnt).run("1\n")
    used = [k["warmup"] for k in kinds(mount.mnt) if k["pool"]["hits"] + k["pool"]["misses"]]
    same("whose pool was asked", used, [WARMUP])
    text = read(f"{mount.mnt}/README.md", "r")
    has("README.md: packages", text, "`packed/` python, 192 MiB, 30 s a run; with alpha==1.0; as a process\n")
    has("README.md: network", text, "`networked/` python, 192 MiB, 30 s a run; with a network; as a process\n")
    has("README.md: neither", text, "`plain/` python, 192 MiB, 30 s a run; as a process\n")
    mount.close()


main(told_apart)
