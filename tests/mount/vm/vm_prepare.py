#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a mount makes ready before anybody asks: snapshots and pools of the templates to be
prepared; and kinds of sandboxes that no template names, at their second use."""
# mount: none
# backends: vm
# timeout: 600
from xsbx import *

vm_only()

CACHE = f"{SCRATCH}/cache"


def mount(name, *options):
    mnt = f"{SCRATCH}/{name}"
    os.makedirs(mnt, exist_ok=True)
    return mnt, start_daemon(mnt, f"cache_dir={CACHE}", *options)


def unmount(daemon):
    daemon.terminate()
    daemon.wait(SOON)


def status(mnt):
    return json.loads(read(f"{mnt}/status.json"))


def kind(mnt, image="raw", memory=192):
    found = [s for s in status(mnt)["snapshots"]
             if s["image"] == image and s["memory_mb"] == memory]
    return found[0] if found else None


def wait_pool(mnt, ready=1, **which):
    def there():
        k = kind(mnt, **which)
        return k and k["state"] == "ready" and k["pool"]["ready"] >= ready
    ok("a pool", wait_for(there, 120), kind(mnt, **which))


def start_of(s):
    return s.json()["sandbox"]["start"]


def prepared():
    """The first session of a mount has a sandbox waiting for it."""
    mnt, daemon = mount("first", "prepare=raw")
    wait_pool(mnt)
    k = kind(mnt)
    same("used by nobody", [k["pool"]["hits"], k["pool"]["misses"], k["prepared"]], [0, 0, True])
    same("and nothing else", {s["image"] for s in status(mnt)["snapshots"]}, {"raw"})
    s = Session("env", config="env.COLOUR = green\n", mnt=mnt)
    same("a variable", s.run("echo $COLOUR\n").out, "green\n")
    same("of a clone that knew nothing of it", start_of(s), "warm")
    wait_pool(mnt)
    pool = kind(mnt)["pool"]
    same("refills", [pool["refills"], pool["hits"], pool["misses"]], [2, 1, 0])
    ok("what they took", pool["refill_sum_ms"] >= pool["refill_ms"] > 0, pool)
    ok("as metrics", "xsbxfs_pool_refills_total 2\n" in read(f"{mnt}/metrics", "r"))
    wait_for(lambda: [n for n in os.listdir(f"{CACHE}/snapshots") if n[0] != "."], 60)
    unmount(daemon)
    # From the disk, the next time.
    mnt, daemon = mount("second", "prepare=yes")
    wait_pool(mnt)
    same("not made again", kind(mnt)["built_ms"], 0)
    unmount(daemon)


def not_prepared():
    mnt, daemon = mount("none", "prepare=no")
    time.sleep(1)
    same("nothing is made", status(mnt)["snapshots"], [])
    unmount(daemon)


def odd():
    """A kind of sandbox of its own: a snapshot at the second use."""
    mnt, daemon = mount("odd", "prepare=raw")
    wait_pool(mnt)
    for i in range(2):
        s = Session(f"large{i}", config="memory_mb = 256\n", mnt=mnt)
        total = int(s.run("awk '/MemTotal/ {print $2}' /proc/meminfo\n").out)
        ok("memory", total > 200000, total)
        same("boots", start_of(s), "cold")
        if i == 0:
            time.sleep(1)
            same("no snapshot yet", kind(mnt, memory=256)["state"], "none")
    wait_pool(mnt, memory=256)
    s = Session("large", config="memory_mb = 256\n", mnt=mnt)
    s.run("true\n")
    same("from its own pool", start_of(s), "warm")
    s = Session("usual", mnt=mnt)
    s.run("true\n")
    same("the usual one is as it was", start_of(s), "warm")
    unmount(daemon)


os.makedirs(CACHE)
link_images(CACHE)
main(prepared, not_prepared, odd)
