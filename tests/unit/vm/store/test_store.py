#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbxfs-store
"""xsbxfs-store against a real S3 server that checks signatures, and bundles."""

import glob
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

from s3_server import Hole, Server, find_server  # noqa: E402

BUILD = os.environ.get("BUILD", "build")
PROGRAM = os.path.abspath(os.path.join(BUILD, "xsbxfs-store"))
DONE, FAILED, USAGE, ABSENT, AWAY, DAMAGED = range(6)
MIB = 1 << 20


user = {}  # of the server


class Run:
    """A call of the program, with its end and its words."""

    def __init__(self, *args, url=None, env=None, wait=True, before=()):
        environ = {"PATH": os.environ["PATH"]}
        environ.update(user)
        environ.update(env or {})
        argv = [*before, PROGRAM, *(["--url", url] if url else []), *map(str, args)]
        self.process = subprocess.Popen(argv, env=environ, text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        if wait:
            self.wait()

    def wait(self):
        self.out, self.err = self.process.communicate(timeout=100)
        self.end = self.process.returncode
        for secret in user.values():
            assert secret not in self.out + self.err, "credentials were printed"
        return self

    def must(self, end, *words):
        assert self.end == end, f"ended with {self.end}, not {end}: {self.out}{self.err}"
        for word in words:
            assert word in self.out + self.err, f"'{word}' is not in: {self.out}{self.err}"
        return self


class Fixture:
    """Directories with objects, and addresses."""

    def __init__(self, scratch, server):
        self.scratch, self.server, self.count = scratch, server, 0
        self.url = server.url + "/pre"

    def dir(self):
        self.count += 1
        path = f"{self.scratch}/{self.count}"
        os.mkdir(path, 0o700)
        return path

    def object(self, *, size=3 * MIB, data=((0, 256 << 10), (2 * MIB, 300000))):
        """An object with a sparse file and two others: (directory, key)."""
        path, key = self.dir(), hashlib.sha256(self.scratch.encode() + b"%d" % self.count).hexdigest()
        rng = random.Random(key)
        os.mkdir(f"{path}/{key}", 0o700)
        with open(f"{path}/{key}/ram", "wb") as file:
            for at, length in data:
                file.seek(at)
                file.write(rng.randbytes(length))
            file.truncate(size)
        with open(f"{path}/{key}/state", "wb") as file:
            file.write(rng.randbytes(5000) + bytes(70000))
        open(f"{path}/{key}/empty", "wb").close()
        return path, key

    def stored(self, part=""):
        """The names of what the server has: manifests or chunks."""
        return self.server.names("pre/v1/" + part)


def same(one, two):
    return subprocess.run(["diff", "-r", one, two], stdout=subprocess.DEVNULL).returncode == 0


def blocks(path):
    return os.stat(path).st_blocks * 512


def names(path):
    return sorted(os.listdir(path))


# ---- put and get ----

def test_put_and_get(fx):
    path, key = fx.object()
    put = Run("--chunk", 64, "put", "snapshot", key, path, url=fx.url).must(DONE, "0 KiB were there")
    Run("--chunk", 64, "put", "snapshot", key, path, url=fx.url).must(DONE, "the store has it")
    assert put.err == ""
    there = fx.dir()
    Run("get", "snapshot", key, there, url=fx.url).must(DONE, "fetched")
    assert same(f"{path}/{key}", f"{there}/{key}") and names(there) == [key]
    assert blocks(f"{there}/{key}/ram") < MIB, "the holes were filled"
    assert os.stat(f"{there}/{key}").st_mode & 0o777 == 0o700
    assert os.stat(f"{there}/{key}/ram").st_mode & 0o777 == 0o600
    Run("get", "snapshot", key, there, url=fx.url).must(DONE)
    for kind in ("layer", "image"):
        Run("put", kind, key, path, url=fx.url).must(DONE)
        there = fx.dir()
        Run("get", kind, key, there, url=fx.url).must(DONE)
        assert same(f"{path}/{key}", f"{there}/{key}")
        assert os.stat(f"{there}/{key}/ram").st_mode & 0o777 == 0o644
        assert os.stat(f"{there}/{key}").st_mode & 0o777 == 0o755


def test_many_chunks_in_parallel(fx):
    path, key = fx.object(size=40 * MIB, data=((0, 5 * MIB), (30 * MIB, 2 * MIB)))
    Run("--chunk", 64, "put", "layer", key, path, url=fx.url).must(DONE)
    there = fx.dir()
    Run("get", "layer", key, there, url=fx.url).must(DONE)
    assert same(f"{path}/{key}", f"{there}/{key}")


def test_absent(fx):
    there = fx.dir()
    Run("get", "snapshot", "0" * 64, there, url=fx.url).must(ABSENT, "does not have it")
    Run("get", "snapshot", "0" * 64, there, url=fx.server.url + "x/pre").must(ABSENT)
    assert names(there) == []


def test_kinds_are_apart(fx):
    path, key = fx.object()
    Run("put", "layer", key, path, url=fx.url).must(DONE)
    Run("get", "snapshot", key, fx.dir(), url=fx.url).must(ABSENT)


def test_credentials(fx):
    path, key = fx.object()
    wrong = {"AWS_SECRET_ACCESS_KEY": "another"}
    Run("put", "layer", key, path, url=fx.url, env=wrong).must(AWAY, "credentials")
    unknown = {"AWS_ACCESS_KEY_ID": "nobody"}
    Run("put", "layer", key, path, url=fx.url, env=unknown).must(AWAY, "credentials")
    Run("put", "layer", key, path, url=fx.url).must(DONE)
    Run("get", "layer", key, fx.dir(), url=fx.url, env=wrong).must(AWAY, "credentials")
    region = {"AWS_REGION": "eu-central-1"}
    Run("get", "layer", key, fx.dir(), url=fx.url, env=region).must(DONE)


def test_credentials_are_not_seen(fx):
    with Hole() as hole:
        run = Run("get", "layer", "a" * 64, fx.dir(), url=hole.url + "/cache/pre", wait=False,
                  env={"XSBXFS_STORE_SECRET": "very secret"})
        hole.wait()
        proc = f"/proc/{run.process.pid}"
        for name in ("cmdline", "environ"):
            with open(f"{proc}/{name}", "rb") as file:
                seen = file.read().decode()
                assert not [s for s in [*user.values(), "very secret"] if s in seen], name
        with open(f"{proc}/status") as file:
            status = file.read()
        assert "NoNewPrivs:\t1" in status
        if b"__asan_init" not in open(PROGRAM, "rb").read():
            assert "Seccomp:\t2" in status
        run.process.kill()
        run.wait()


def test_addresses(fx):
    there = fx.dir()
    for url in ("ftp://host/b", "https://user@host/b", "https://host", "https://host/b?x=1",
                "https://host/../b", "file:///etc", "https://host/b/%2e", "http://store.test/b"):
        Run("get", "layer", "a", there, url=url).must(FAILED, "the address of the store")
    for args in (("get", "layer", "../a", there), ("get", "thing", "a", there), ("get", "layer"),
                 ("put", "layer", ".part-a", there), ("dance",)):
        Run(*args, url=fx.url).must(USAGE)


def test_clock_and_limit(fx):
    path, key = fx.object()
    Run("--tsc", 2000000, "put", "snapshot", key, path, url=fx.url).must(DONE)
    Run("--tsc", 2000200, "get", "snapshot", key, fx.dir(), url=fx.url).must(ABSENT, "clock")
    Run("--limit", 100000, "get", "snapshot", key, fx.dir(), url=fx.url).must(FAILED, "allowed")
    Run("--tsc", 2000090, "get", "snapshot", key, fx.dir(), url=fx.url).must(DONE)
    Run("get", "snapshot", key, fx.dir(), url=fx.url).must(DONE)


def test_secret(fx):
    mine, other = {"XSBXFS_STORE_SECRET": "mine"}, {"XSBXFS_STORE_SECRET": "other"}
    path, key = fx.object()
    Run("put", "snapshot", key, path, url=fx.url, env=mine).must(DONE)
    Run("get", "snapshot", key, fx.dir(), url=fx.url, env=mine).must(DONE)
    Run("get", "snapshot", key, fx.dir(), url=fx.url, env=other).must(DAMAGED, "authenticated")
    Run("get", "snapshot", key, fx.dir(), url=fx.url).must(DONE)
    path, key = fx.object()
    Run("put", "snapshot", key, path, url=fx.url).must(DONE)
    Run("get", "snapshot", key, fx.dir(), url=fx.url, env=mine).must(DAMAGED, "authenticated")


# ---- a store that has something wrong ----

def change(server, name, *, flip=None, size=None, add=b""):
    data = bytearray(server.read(name))
    if flip is not None:
        data[flip] ^= 0x10
    server.write(name, bytes(data[:size]) + add)


def test_wrong_chunks(fx):
    for wrong in ({"flip": 1000}, {"size": 1000}, {"size": 0}, {"add": b"more"}):
        before = set(fx.stored("chunk"))
        path, key = fx.object()
        Run("put", "snapshot", key, path, url=fx.url).must(DONE)
        chunk = max(set(fx.stored("chunk")) - before, key=lambda n: len(fx.server.read(n)))
        change(fx.server, chunk, **wrong)
        there = fx.dir()
        Run("get", "snapshot", key, there, url=fx.url).must(DAMAGED)
        assert not os.path.exists(f"{there}/{key}")
        Run("put", "snapshot", key, path, url=fx.url).must(DONE, "the store has it")
        Run("get", "snapshot", key, there, url=fx.url).must(DAMAGED)
        Run("--anew", "put", "snapshot", key, path, url=fx.url).must(DONE)
        Run("get", "snapshot", key, there, url=fx.url).must(DONE)
        assert same(f"{path}/{key}", f"{there}/{key}") and names(there) == [key]
        fx.server.remove(chunk)
        Run("get", "snapshot", key, fx.dir(), url=fx.url).must(DAMAGED, "missing")


def test_wrong_manifests(fx):
    path, key = fx.object()
    Run("put", "snapshot", key, path, url=fx.url).must(DONE)
    place = next(p for p in fx.stored("snapshot") if key in p)
    good = fx.server.read(place)
    other_path, other = fx.object()
    Run("put", "snapshot", other, other_path, url=fx.url).must(DONE)
    of_other = fx.server.read(next(p for p in fx.stored("snapshot") if other in p))
    line = good.index(b"\n") + 1
    for text in (b"", b"x" * 100, good[:-200], of_other, good[line:], bytes(9 * MIB),
                 good.replace(b'"ram"', b'"../ram"'), good.replace(b'"bytes": 3145728',
                                                                    b'"bytes": 31457280000000000'),
                 good[:line] + b"[" * 100000, good.replace(b'"state"', b'"ram"')):
        fx.server.write(place, text)
        there = fx.dir()
        Run("get", "snapshot", key, there, url=fx.url).must(DAMAGED)
        assert names(there) == []
    # All chunks are right, and it is not the file.
    at = good.index(b'"sha256": "', good.index(b'"ram"')) + 11
    fx.server.write(place, good[:at] + b"0" * 64 + good[at + 64:])
    there = fx.dir()
    Run("get", "snapshot", key, there, url=fx.url).must(DAMAGED, "whole")
    assert names(there) == []


def test_nobody_there(fx):
    Run("get", "layer", "a" * 64, fx.dir(), url="http://127.0.0.1:1/cache").must(AWAY)
    with Hole() as hole:
        Run("--stall", 1, "get", "layer", "a" * 64, fx.dir(), url=hole.url + "/cache").must(AWAY)
        Run("--timeout", 1, "get", "layer", "a" * 64, fx.dir(), url=hole.url + "/c").must(AWAY)


# ---- cut off, and resumed ----

def test_get_is_resumed(fx):
    path, key = fx.object(size=20 * MIB, data=((0, 8 * MIB),))
    Run("--chunk", 64, "put", "snapshot", key, path, url=fx.url).must(DONE)
    there = fx.dir()
    with Hole(fx.server.port, after=4 * MIB) as hole:
        run = Run("get", "snapshot", key, there, url=hole.url + "/cache/pre", wait=False)
        hole.wait()
        part = f"{there}/.part-{key}"
        with open(f"{part}/.done") as file:
            assert len(file.readlines()) > 10
        run.process.send_signal(signal.SIGKILL)
        run.wait()
    assert names(there) == [f".part-{key}"]
    with Hole(fx.server.port, after=8 * MIB) as counted:
        Run("get", "snapshot", key, there, url=counted.url + "/cache/pre").must(DONE, "going on")
        assert counted.passed < 6 * MIB, counted.passed
    assert same(f"{path}/{key}", f"{there}/{key}") and names(there) == [key]


def test_what_was_left_is_not_trusted(fx):
    path, key = fx.object(size=20 * MIB, data=((0, 8 * MIB),))
    Run("--chunk", 64, "put", "snapshot", key, path, url=fx.url).must(DONE)
    there = fx.dir()
    with Hole(fx.server.port, after=4 * MIB) as hole:
        Run("--stall", 1, "get", "snapshot", key, there, url=hole.url + "/cache/pre").must(AWAY)
    with open(f"{there}/.part-{key}/ram", "r+b") as file:
        file.write(b"something else")
    Run("get", "snapshot", key, there, url=fx.url).must(DAMAGED, "whole")
    Run("get", "snapshot", key, there, url=fx.url).must(DONE)
    assert same(f"{path}/{key}", f"{there}/{key}")


def test_server_killed_and_put_resumed(fx):
    path, key = fx.object(size=40 * MIB, data=((0, 12 * MIB),))
    with Hole(fx.server.port, after=6 * MIB, requests=True) as hole:
        run = Run("--chunk", 64, "put", "snapshot", key, path, url=hole.url + "/cache/pre",
                  wait=False)
        hole.wait()
    run.wait().must(AWAY)
    Run("get", "snapshot", key, fx.dir(), url=fx.url).must(ABSENT)
    again = Run("--chunk", 64, "put", "snapshot", key, path, url=fx.url).must(DONE)
    assert int(again.out.split(", ")[1].split()[0]) > 3000, again.out
    there = fx.dir()
    Run("get", "snapshot", key, there, url=fx.url).must(DONE)
    assert same(f"{path}/{key}", f"{there}/{key}")


def test_two_at_once(fx):
    path, key = fx.object(size=20 * MIB, data=((0, 8 * MIB),))
    Run("--chunk", 64, "put", "snapshot", key, path, url=fx.url).must(DONE)
    there = fx.dir()
    runs = [Run("get", "snapshot", key, there, url=fx.url, wait=False) for _ in range(3)]
    for run in runs:
        run.wait().must(DONE)
    assert len([r for r in runs if "fetched" in r.out]) == 1
    assert same(f"{path}/{key}", f"{there}/{key}") and names(there) == [key]
    path, key = fx.object()
    runs = [Run("put", "snapshot", key, path, url=fx.url, wait=False) for _ in range(3)]
    for run in runs:
        run.wait().must(DONE)
    Run("get", "snapshot", key, fx.dir(), url=fx.url).must(DONE)


def test_disk_full(fx):
    path, key = fx.object(size=20 * MIB, data=((0, 8 * MIB),))
    Run("--chunk", 64, "put", "snapshot", key, path, url=fx.url).must(DONE)
    for size in ("2m", "6m"):  # seen before, and met on the way
        there = fx.dir()
        before = ["unshare", "-rm", "sh", "-c",
                  f"mount -t tmpfs -o size={size} none {there} && \"$@\"; e=$?; "
                  f"ls -A {there} | sed s/^/left:/; exit $e", "sh"]
        run = Run("get", "snapshot", key, there, url=fx.url, before=before)
        run.must(FAILED, "No space left")
        assert "left:" not in run.out, run.out


# ---- bundles ----

def make_cache(fx):
    """A cache with two snapshots and an image: (path, items)."""
    cache = fx.dir()
    items = []
    for kind, folder in (("snapshot", "snapshots"), ("snapshot", "snapshots"), ("image", "images"),
                         ("layer", "layers")):
        path, key = fx.object()
        if kind == "image":
            os.rename(f"{path}/{key}", f"{path}/python-0123")
            key = "python-0123"
        os.makedirs(f"{cache}/{folder}", exist_ok=True)
        os.rename(f"{path}/{key}", f"{cache}/{folder}/{key}")
        items.append(f"python={key}" if kind == "image" else f"{kind}:{key}")
    return cache, items


def test_bundle(fx):
    cache, items = make_cache(fx)
    bundle = f"{fx.dir()}/bundle"
    Run("export", bundle, cache, *items).must(DONE)
    assert os.path.getsize(bundle) < 4 * MIB
    other = f"{fx.dir()}/cache"
    Run("import", bundle, other).must(DONE, "imported 4 objects, 0 were there")
    assert os.readlink(f"{other}/images/templates/python") == "../python-0123"
    os.unlink(f"{other}/images/templates/python")
    os.rmdir(f"{other}/images/templates")
    os.unlink(f"{other}/images/.lock")
    assert same(cache, other)
    Run("import", bundle, other).must(DONE, "imported 0 objects, 4 were there")
    shutil.rmtree(f"{other}/snapshots")
    Run("import", bundle, other).must(DONE, "imported 2 objects, 2 were there")
    Run("export", bundle, cache, "snapshot:" + "0" * 64).must(FAILED)
    assert names(os.path.dirname(bundle)) == ["bundle"]
    Run("export", bundle, cache, "snapshot:../x").must(USAGE)


def test_bundle_unpacked(fx):
    """Files beside an image, into which it was unpacked, don't keep it from being exported."""
    cache, items = make_cache(fx)
    os.makedirs(f"{cache}/images/python-0123/tree/usr")
    bundle, other = f"{fx.dir()}/bundle", f"{fx.dir()}/cache"
    Run("export", bundle, cache, *items).must(DONE)
    Run("import", bundle, other).must(DONE, "imported 4 objects")
    assert names(f"{other}/images/python-0123") == [n for n in names(f"{cache}/images/python-0123") if n != "tree"]


def test_bundle_shared(fx):
    """What the cache has not is taken from what root has for all, if nobody else can change it."""
    if os.geteuid():
        return
    cache, items = make_cache(fx)
    for folder in "snapshots", "images":
        key = sorted(os.listdir(f"{cache}/{folder}"))[0]
        os.makedirs(f"{fx.scratch}/shared/{folder}", exist_ok=True)
        os.rename(f"{cache}/{folder}/{key}", f"{fx.scratch}/shared/{folder}/{key}")
    os.rmdir(f"{cache}/images")
    bundle = f"{fx.dir()}/bundle"
    Run("export", bundle, cache, *items).must(FAILED, "No such file")
    # Not below /tmp, where anybody may put something in its place.
    where = ["unshare", "-m", "sh", "-ec", f"mount -t tmpfs -o mode=755 none /srv; cp -a {fx.scratch}/shared /srv/; eval \"$MORE\"; exec \"$@\"", "-"]

    def export(more=""):
        return Run("--shared", "/srv/shared", "export", bundle, cache, *items, before=where, env={"MORE": more})
    export().must(DONE)
    Run("import", bundle, fx.dir()).must(DONE, "imported 4 objects, 0 were there")
    export("chmod go+w /srv/shared/images").must(FAILED, "not permitted")
    export("rm -r /srv/shared/images").must(FAILED, "No such file")


def test_bundle_secret(fx):
    mine, other = {"XSBXFS_STORE_SECRET": "mine"}, {"XSBXFS_STORE_SECRET": "other"}
    cache, items = make_cache(fx)
    bundle = f"{fx.dir()}/bundle"
    Run("export", bundle, cache, *items, env=mine).must(DONE)
    Run("import", bundle, fx.dir(), env=mine).must(DONE)
    Run("import", bundle, fx.dir()).must(DONE)
    empty = fx.dir()
    Run("import", bundle, empty, env=other).must(DAMAGED, "authenticated")
    assert not glob.glob(f"{empty}/*/*")


def test_wrong_bundles(fx):
    cache, items = make_cache(fx)
    bundle = f"{fx.dir()}/bundle"
    Run("export", bundle, cache, *items).must(DONE)
    with open(bundle, "rb") as file:
        good = file.read()
    rng = random.Random(1)
    places = [0, 16, 18, 20, 23, 24, 60, 300] + [rng.randrange(len(good)) for _ in range(25)]
    for at in places:
        with open(bundle, "wb") as file:
            file.write(good[:at] + bytes([good[at] ^ 0x11]) + good[at + 1:])
        there = fx.dir()
        run = Run("import", bundle, there)
        # Room that was left for a manifest, and its line for who has a secret, mean nothing.
        assert run.end in (DONE, DAMAGED, FAILED), run.end
        if run.end == DONE:
            assert good[at:at + 1] in b"\n-", at
        assert not glob.glob(f"{there}/*/.part-*")
        for path in glob.glob(f"{there}/*/*"):
            if "templates" not in path:
                assert same(path, path.replace(there, cache)), path
    for size in (0, 10, 16, 20, 1000, len(good) // 2, len(good) - 8, len(good) - 1):
        with open(bundle, "wb") as file:
            file.write(good[:size])
        Run("import", bundle, fx.dir()).must(DAMAGED)


def main():
    if not find_server():
        print("no S3 server to test with; scripts/deps --test installs moto with pip")
        return 77
    failed = 0
    with tempfile.TemporaryDirectory(prefix="xsbx-store-") as scratch, \
            Server() as server:
        user.update(server.user)
        for name, test in list(globals().items()):
            if not name.startswith("test_") or (sys.argv[1:] and name not in sys.argv[1:]):
                continue
            os.mkdir(f"{scratch}/{name}")
            begun = time.monotonic()
            try:
                test(Fixture(f"{scratch}/{name}", server))
                print(f"ok {name} {time.monotonic() - begun:.1f} s")
            except Exception:  # noqa: BLE001 - the next test is to have its turn
                traceback.print_exc()
                print(f"FAILED {name}")
                failed += 1
            shutil.rmtree(f"{scratch}/{name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
