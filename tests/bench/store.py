# SPDX-License-Identifier: Apache-2.0
"""What a shared store saves: a snapshot that is fetched, beside one that is made."""

import os
import shutil
import subprocess
import sys
import time

from common import *

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../net"))
from s3_server import Server, find_server  # noqa: E402


def timed(series, argv, env=None):
    begin = time.monotonic_ns()
    done = subprocess.run(argv, env={**os.environ, **(env or {})}, capture_output=True, text=True)
    series.add(time.monotonic_ns() - begin if done.returncode == 0 else None)
    if done.returncode:
        print(f"({argv[0]}: {done.stdout[-300:]}{done.stderr[-300:]})")


def prefetch(cache, series, server=None, env=None):
    """A cache with images and nothing else, and a snapshot for it."""
    shutil.rmtree(f"{cache}/snapshots", ignore_errors=True)
    conf = f"{cache}/conf"
    with open(conf, "w") as file:
        if server:
            file.write(f"[store]\nurl = {server.url}/bench\nwrite = yes\n")
    timed(series, [f"{BUILD}/xsbxfs", "--prefetch", "-c", conf, "-o",
                   f"cache_dir={cache},runtime_dir={cache}/run,image_builder=none", "raw"], env)


def store(bench):
    heading("Store: a snapshot fetched, and made",
            "Clock: the whole of `xsbxfs --prefetch raw`, with images and their checksums there.",
            "The server is moto on this machine, in Python, and slow; `get` and `put` are",
            "xsbxfs-store alone. Nothing is verified less than with a real one.")
    if not find_server():
        print("(no S3 server: scripts/deps --test installs moto with pip)")
        return
    made, fetched = Series("raw: made", "--prefetch"), Series("raw: fetched", "--prefetch")
    put, get = Series("put, 8 MiB chunks", "xsbxfs-store"), Series("get", "xsbxfs-store")
    n = 2 if bench.quick else 5
    with empty_cache() as cache, Server() as server:
        prefetch(cache, Series("(files read once)", "--prefetch"))
        for _ in range(n):
            prefetch(cache, made)
        prefetch(cache, Series("raw: made and put", "--prefetch"), server, server.user)
        for _ in range(n):
            prefetch(cache, fetched, server, server.user)
        key = next(k for k in os.listdir(f"{cache}/snapshots") if k[0] != ".")
        tool = [f"{BUILD}/xsbxfs-store", "--url", f"{server.url}/alone"]
        for _ in range(n):
            timed(put, [*tool, "--anew", "put", "snapshot", key, f"{cache}/snapshots"], server.user)
            shutil.rmtree(f"{cache}/got", ignore_errors=True)
            timed(get, [*tool, "get", "snapshot", key, f"{cache}/got"], server.user)
        stored = sum(len(server.read(k)) for k in server.names("alone/v1/chunk/"))
        ram = os.stat(f"{cache}/snapshots/{key}/ram")
    for series in made, fetched, put, get:
        show(series)
    print(f"  ({ram.st_size >> 20} MiB of memory, {ram.st_blocks * 512 >> 20} MiB on the disk, "
          f"{stored >> 20} MiB in the store)")
