#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""files/: mappings. Shared ones are refused, for two kernels' pages would differ; private ones are copies."""
# backends: local vm
# night: vm
# timeout: 120
import mmap
import signal
import sys

from xsbx import *

PAGE = mmap.PAGESIZE
# Far enough apart that the one is not read ahead with the other.
SIZE, FAR = 8 << 20, 7 << 20

# Touches the page at argv[2] when it is told to.
TOUCH = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
pages = mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
print(pages[0], flush=True)
sys.stdin.readline()
print(pages[int(sys.argv[2])], flush=True)
"""


S = None


def setup():
    global S
    S = session("mapped")


def session(name):
    s = Session(name)
    s.run(f"head -c {SIZE} /dev/zero | tr '\\0' a > file\n")
    return s


def shared():
    for what, flags, prot in (("to write", os.O_RDWR, mmap.PROT_READ | mmap.PROT_WRITE),
                              ("to read, of a file open to write", os.O_RDWR, mmap.PROT_READ),
                              ("to read", os.O_RDONLY, mmap.PROT_READ)):
        fd = os.open(S / "files/file", flags)
        with raises(what, errno.ENODEV):
            mmap.mmap(fd, PAGE, flags=mmap.MAP_SHARED, prot=prot)
        os.close(fd)
    same("the sandbox's own can", S.run("python3 - <<'END'\nimport mmap\nf = open('file', 'r+b')\n"
                                        "m = mmap.mmap(f.fileno(), 0)\nm[:2] = b'zz'\nEND\n").err, "")
    same("what it wrote is here", read(S / "files/file")[:3], b"zza")


def private():
    fd = os.open(S / "files/file", os.O_RDWR)
    first = mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE)
    same("reads the file", (first[:3], first[FAR:FAR + 2]), (b"zza", b"aa"))
    first[:4] = b"mine"
    S.run("printf bb | dd of=file conv=notrunc status=none\n")
    second = mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE)
    same("one made later shows what was changed", second[:4], b"bbaa")
    same("what is written to it stays in it", (first[:4], read(S / "files/file")[:4]),
         (b"mine", b"bbaa"))
    os.close(fd)


def touch_after(s, change):
    """What becomes of a program that touches a page of a file after @change."""
    with subprocess.Popen([sys.executable, "-c", TOUCH, s / "files/file", str(FAR)],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        same("mapped", p.stdout.readline() != "", True)
        change(s)
        rest = p.communicate("\n", timeout=2 * SOON)[0]
    return p.returncode, rest


def gone():
    """A page that cannot be had any more is a SIGBUS, and never a wait without an end."""
    same("a new interpreter has the old files", touch_after(S, lambda s: s.ctl("reset")),
         (0, f"{ord('a')}\n"))
    cut = touch_after(S, lambda s: s.run("truncate -s 1 file\n"))
    ok("cut off", cut in ((-signal.SIGBUS, ""), (0, "0\n")), cut)
    same("the session is closed", touch_after(session("closed"), lambda s: (
        s.ctl("close"), s.wait_state("closed"))), (-signal.SIGBUS, ""))
    same("the session is gone", touch_after(session("gone"), Session.remove), (-signal.SIGBUS, ""))


main(setup, shared, private, gone)
