#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A store that two hosts share: one makes a snapshot, the other has it; and a store that is gone,
refuses, or has something wrong costs nothing but what it would have saved."""
# mount: none
# backends: vm
# night: vm
# timeout: 600
# log-allow: the store
from xsbx import *

from s3_server import Hole, Server, find_server  # noqa: E402

vm_only()


def mount(name, url, *lines, write="yes"):
    """A host of its own: with a cache that has images, and nothing else."""
    mnt, cache = f"{SCRATCH}/{name}", f"{SCRATCH}/{name}.cache"
    os.makedirs(mnt)
    os.makedirs(cache, exist_ok=True)
    if not os.path.exists(f"{cache}/images"):
        link_images(cache)
    conf = f"{SCRATCH}/{name}.conf"
    with open(conf, "w") as file:
        file.write("\n".join([f"cache_dir = {cache}", "[store]", f"url = {url}",
                              f"write = {write}", *lines]) + "\n")
    return mnt, start_daemon(mnt, "prepare=raw", conf=conf)


def unmount(daemon):
    daemon.terminate()
    daemon.wait(SOON)


def status(mnt):
    return json.loads(read(f"{mnt}/status.json"))


def store(mnt):
    return status(mnt)["store"]


def snapshot(mnt):
    return (status(mnt)["snapshots"] or [{"state": "", "built_ms": 0}])[0]


def works(mnt, start):
    """A session of a template whose snapshot is there starts from it, or from the pool."""
    ok("a snapshot", wait_for(lambda: snapshot(mnt)["state"] == "ready", 120), status(mnt))
    s = Session("one", mnt=mnt)
    same("it runs", s.run("echo $((6*7))\n").out, "42\n")
    ok("started by it", s.json()["sandbox"]["start"] in start, s.json()["sandbox"])


def shared():
    mnt, daemon = mount("maker", URL)
    works(mnt, ("snapshot", "warm"))
    ok("made here", snapshot(mnt)["built_ms"] > 0)
    ok("offered", wait_for(lambda: store(mnt)["put"] == 1, 60), store(mnt))
    same("first it was asked for", store(mnt)["absent"], 1)
    unmount(daemon)
    mnt, daemon = mount("taker", URL, write="no")
    works(mnt, ("snapshot", "warm"))
    same("not made here", snapshot(mnt)["built_ms"], 0)
    same("but fetched", [store(mnt)[k] for k in ("fetched", "absent", "put")], [1, 0, 0])
    metrics = read(f"{mnt}/metrics", "r")
    ok("as metrics", 'xsbxfs_store_requests_total{result="fetched"} 1\n' in metrics, metrics)
    ok("the doctor knows it", f"ok   store: {URL}: read\n" in read(f"{mnt}/doctor", "r"))
    unmount(daemon)
    keys = [sorted(n for n in os.listdir(f"{SCRATCH}/{who}.cache/snapshots") if n[0] != ".")
            for who in ("maker", "taker")]
    same("the same", keys[0], keys[1])


def damaged():
    """What the store has is wrong: a snapshot is made here, and put in its place."""
    chunk = max(server.names("pre/v1/chunk"), key=lambda n: len(server.read(n)))
    data = bytearray(server.read(chunk))
    data[1000] ^= 1
    server.write(chunk, bytes(data))
    mnt, daemon = mount("damaged", URL)
    works(mnt, ("snapshot", "warm"))
    same("seen", store(mnt)["damaged"], 1)
    ok("made here", snapshot(mnt)["built_ms"] > 0)
    ok("offered", wait_for(lambda: store(mnt)["put"] == 1, 60), store(mnt))
    unmount(daemon)


def away():
    """Nobody there; somebody who does not answer; somebody who refuses."""
    with Hole() as hole:
        for name, url in (("gone", "http://127.0.0.1:1/cache/pre"), ("hole", hole.url + "/cache/pre")):
            mnt, daemon = mount(name, url)
            s = Session("first", mnt=mnt)
            same("sessions do not wait", s.run("echo at once\n").out, "at once\n")
            works(mnt, ("snapshot", "warm"))
            ok("made here", snapshot(mnt)["built_ms"] > 0)
            ok("left alone", wait_for(lambda: store(mnt)["state"] == "left-alone", 60), store(mnt))
            ok("with a reason", store(mnt)["problem"] and store(mnt)["again_s"] > 0, store(mnt))
            ok("the doctor knows it", "warn store: " in read(f"{mnt}/doctor", "r"))
            unmount(daemon)
    os.environ["AWS_SECRET_ACCESS_KEY"] = "wrong"
    mnt, daemon = mount("refused", URL)
    works(mnt, ("snapshot", "warm"))
    ok("said so", wait_for(lambda: "credentials" in (store(mnt)["problem"] or ""), 60), store(mnt))
    ok("not in any node", not [n for n in ("status.json", "doctor", "events")
                               if server.user["AWS_ACCESS_KEY_ID"] in read(f"{mnt}/{n}", "r")])
    unmount(daemon)
    os.environ.update(server.user)


def xsbxfs(*args, cache, builder="none", conf=None):
    command = [os.environ["XSBXFS"], *args[:1 + (args[0] != "--prefetch")], "-c",
               conf or os.environ["CONF"], "-o",
               f"cache_dir={cache},runtime_dir={SCRATCH}/run,image_builder={builder}",
               *args[1 + (args[0] != "--prefetch"):]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * SOON)
    return done.returncode, done.stdout + done.stderr


def new_cache(name, images=True):
    cache = f"{SCRATCH}/{name}"
    os.makedirs(cache)
    if images:
        link_images(cache)
    return cache


def prefetched():
    """A machine is made ready without a mount: from the store, or by itself."""
    conf = f"{SCRATCH}/prefetch.conf"
    with open(conf, "w") as file:
        file.write(f"[store]\nurl = {server.url}/fresh\nwrite = yes\n")
    for name, word in (("one", ": made"), ("two", ": fetched")):
        cache = new_cache(f"prefetch.{name}")
        end, words = xsbxfs("--prefetch", "raw", cache=cache, conf=conf)
        same(name, end, 0)
        ok("said so", f"ok   raw (raw, 192 MiB, 1 CPUs){word}\n" in words, words)
    end, words = xsbxfs("--prefetch", "raw", cache=cache, conf=conf)
    ok("there", end == 0 and "was there" in words, words)
    same("only what was asked for", len([n for n in os.listdir(f"{cache}/snapshots") if n[0] != "."]), 1)
    same("no such template", xsbxfs("--prefetch", "nosuch", cache=cache)[0], 2)
    end, words = xsbxfs("--prefetch", "raw", cache=new_cache("none", images=False))
    ok("no image, and nobody to build it", end == 1 and "fail raw" in words, (end, words))


def bundled():
    """A host without a network has what another one wrote into a file."""
    cache, bundle = new_cache("bundle.from"), f"{SCRATCH}/bundle"
    end, words = xsbxfs("--export", bundle, "raw", cache=cache)
    ok("written", end == 0 and os.path.getsize(bundle) > 1 << 20, (end, words))
    other = f"{SCRATCH}/bundle.to"
    end, words = xsbxfs("--import", bundle, cache=other)
    ok("read", end == 0 and "were there" in words, (end, words))
    mnt = f"{SCRATCH}/offline"
    os.makedirs(mnt)
    daemon = start_daemon(mnt, f"cache_dir={other}", "image_builder=none", "prepare=raw")
    works(mnt, ("snapshot", "warm"))
    same("by its snapshot", snapshot(mnt)["built_ms"], 0)
    unmount(daemon)
    with open(bundle, "r+b") as file:
        file.seek(os.path.getsize(bundle) // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    end, words = xsbxfs("--import", bundle, cache=f"{SCRATCH}/bundle.bad")
    ok("a damaged one is refused", end == 5 and "damaged" in words, (end, words))


if not find_server():
    skip("no S3 server to test with; scripts/deps --test installs moto with pip")
with Server() as server:
    URL = server.url + "/pre"
    os.environ.update(server.user)
    main(shared, damaged, away, prefetched, bundled)
