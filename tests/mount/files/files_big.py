#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Large files, many files, several at once."""
# timeout: 180
# backends: local vm
import hashlib

from xsbx import *

SMALL = BACKEND != "local"  # there is a quota
BIG = (24 if SMALL else 200) << 20
MANY = 500 if SMALL else 5000


def large():
    s = Session("large", config="memory_mb = 256\n" if SMALL else None)
    s.run("true\n")
    source = f"{SCRATCH}/big"
    with open(source, "wb") as file:
        for _ in range(BIG >> 20):
            file.write(os.urandom(1 << 20))
    digest = hashlib.sha256(read(source)).hexdigest()
    begin = time.monotonic()
    same("cp in", shell(f"cp {source} {s / 'files/big'}", timeout=13 * SOON)[::2], (0, b""))
    print(f"(in: {BIG / 1e6 / (time.monotonic() - begin):.0f} MB/s)")
    same("in the sandbox", s.run("sha256sum < big\n").out.split()[0], digest)
    begin = time.monotonic()
    same("cp out", shell(f"cp {s / 'files/big'} {source}.2", timeout=13 * SOON)[::2], (0, b""))
    print(f"(out: {BIG / 1e6 / (time.monotonic() - begin):.0f} MB/s)")
    same("cmp", shell(f"cmp {source} {source}.2")[0], 0)
    same("in odd pieces", shell(f"dd if={source} of={s / 'files/odd'} bs=65521 status=none; "
                                f"cmp {source} {s / 'files/odd'}")[0], 0)
    same("a part of it", shell(f"dd if={s / 'files/big'} bs=1000 skip=777 count=3 status=none | "
                               f"cmp - <(dd if={source} bs=1000 skip=777 count=3 status=none)")[0],
         0)
    os.unlink(s / "files/odd")


def many():
    s = Session("many")
    s.run("true\n")
    os.mkdir(f"{SCRATCH}/many")
    for i in range(MANY):
        write(f"{SCRATCH}/many/f{i}", f"file {i}\n")
    begin = time.monotonic()
    same("cp -r in", shell(f"cp -r {SCRATCH}/many {s / 'files'}/", timeout=13 * SOON)[::2], (0, b""))
    print(f"(created: {MANY / (time.monotonic() - begin):.0f} files/s)")
    same("in the sandbox", s.run("ls many | wc -l; cat many/* | wc -l\n").out, f"{MANY}\n{MANY}\n")
    begin = time.monotonic()
    same("diff -r", shell(f"diff -r {SCRATCH}/many {s / 'files/many'}", timeout=13 * SOON)[0], 0)
    print(f"(read: {MANY / (time.monotonic() - begin):.0f} files/s)")
    same("find", int(shell(f"find {s / 'files'} -type f | wc -l")[1]), MANY)
    same("rm -r", shell(f"rm -r {s / 'files/many'}", timeout=13 * SOON)[::2], (0, b""))
    same("gone", s.run("ls\n").out, "")


def at_once():
    s = Session("atonce")
    s.run("true\n")

    def worker(n):
        data = bytes([n]) * 1_000_000
        for i in range(3):
            write(s / f"files/w{n}.{i}", data)
            if read(s / f"files/w{n}.{i}") != data:
                problems.append(f"{n}.{i} differs")

    with together(worker, 6) as problems:
        same("a run goes on beside it", s.run("echo fine\n").out, "fine\n")
    same("six writers", problems, [])
    write(s / "files/log", "")

    def appender(n):
        fd = os.open(s / "files/log", os.O_WRONLY | os.O_APPEND)
        for i in range(50):
            os.write(fd, b"%d.%d\n" % (n, i))
        os.close(fd)

    with together(appender, 4, 60) as problems:
        pass
    same("four who append", problems, [])
    lines = read(s / "files/log").split()
    same("appends do not overwrite each other", len(set(lines)), 200)


def pieces():
    """Who reads as stat(2) prefers gets a small file with a small buffer, and a large one in large pieces."""
    s = Session("pieces")
    s.run("true\n")
    path = s / "files/f"
    for size, want in ((0, 1 << 20), (1, 4096), (4096, 4096), (4097, 8192), (100_000, 1 << 17), (1 << 20, 1 << 20),
                       (3 << 20, 1 << 20)):
        write(path, os.urandom(size))
        same(f"{size} bytes", os.stat(path).st_blksize, want)
        fd = os.open(path, os.O_RDONLY)
        same(f"{size} bytes, open", os.fstat(fd).st_blksize, want)
        os.close(fd)
        same(f"cp of {size} bytes", shell(f"cp {path} {SCRATCH}/f && cmp {path} {SCRATCH}/f")[0], 0)
    same("a directory", os.stat(s / "files").st_blksize, 1 << 20)


main(large, many, at_once, pieces)
