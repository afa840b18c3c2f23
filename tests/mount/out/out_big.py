#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""50 MB of output are exact, and do not stay in the daemon's memory."""
# timeout: 120
# backends: local vm
# asan: quarantine_size_mb=8
import hashlib

from xsbx import *

SIZE = (10 if VM else 50) * 1000 * 1000


def big():
    s = Session("big")
    want = (b"0123456789abcde\n" * (SIZE // 16 + 1))[:SIZE]
    digest = hashlib.sha256(want).hexdigest()
    for turn in range(3):
        s.submit(f"yes 0123456789abcde | head -c {SIZE}; echo done >&2\n")
        total, sha = 0, hashlib.sha256()
        with open(s / "stdout", "rb", buffering=0) as file:
            while piece := file.read(1 << 20):
                total += len(piece)
                sha.update(piece)
        same("bytes", total, SIZE)
        same("the right ones", sha.hexdigest(), digest)
        same("exit code", s.result().code, 0)
        same("size", os.stat(s / "stdout").st_size, SIZE)
        status = s.json(f"runs/{turn + 1}/status.json")
        same("not truncated", status.get("truncated") or False, False)
    same("cmp of old and new", shell(f"cmp {s / 'runs/1/stdout'} {s / 'stdout'}")[0], 0)
    same("the end", shell(f"tail -c 20 {s / 'runs/2/stdout'}")[1], want[-20:])
    rss, shared = (kib_of(daemon_of(), what) for what in ("VmRSS", "RssShmem"))
    if shell(f"ldd {os.environ['XSBXFS']} | grep -q asan")[0]:
        ok("the daemon's memory is bounded", 0 < rss < 60_000, f"{rss} kB")
    else:
        ok("the daemon's own memory is bounded", 0 < rss - shared < 100_000, f"{rss - shared} kB")
        ok("and what it leaves if it dies", shared < 60_000, f"{shared} kB")


def nobody_reads():
    """Output that nobody reads does not hold up the run."""
    s = Session("unread")
    s.submit(f"yes | head -c {SIZE // 2}; exit 7\n")
    same("exit code", read(s / "exit_code"), b"7\n")
    same("size", os.stat(s / "stdout").st_size, SIZE // 2)


def slow_reader():
    """Nor does one who reads a little and stops."""
    s = Session("slow")
    s.submit(f"yes | head -c {SIZE // 2}; exit 7\n")
    fd = os.open(s / "stdout", os.O_RDONLY)
    same("a little", os.read(fd, 4), b"y\ny\n")
    same("exit code", read(s / "exit_code"), b"7\n")
    os.close(fd)


main(big, nobody_reads, slow_reader)
