#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names of files: anything but a slash and NUL."""
# backends: local vm
from xsbx import *

NAMES = ["plain", "with space", " leading", "trailing ", "new\nline", "tab\t", "quote'", 'double"',
         "back\\slash", "-dash", "*", "?", "$HOME", "`x`", ".hidden", "...", "ünïcödé", "你好",
         "\U0001f600", "e\u0301", "a" * 255, "ü" * 127, "%2e%2e", "....", "~", "#", ";rm", "\x01\x7f",
         "\\..\\", "con", "in", "stdout"]


def names():
    s = Session("names")
    for name in NAMES:
        write(s / f"files/{name}", name)
        same(f"{short(name)}: read back", read(s / f"files/{name}"), name.encode())
    same("all are listed", sorted(os.listdir(s / "files")), sorted(NAMES))
    same("the sandbox sees them", s.run("ls -A | wc -c; find . -type f | wc -l >&2\n").out.strip(),
         str(sum(len(n.encode()) + 1 for n in NAMES)))
    raw = os.fsencode(s / "files") + b"/not\xffutf8\xfe"
    write(raw, "bytes")
    same("not UTF-8", read(raw), b"bytes")
    same("in the sandbox too", s.run("ls -A | grep -ac 'not.*utf8' ; ls | LC_ALL=C grep -c '^not'\n")
         .out.split()[-1], "1")
    s.run("printf x > $'made\\nhere'; printf y > $'raw\\200'; mkdir $'d\\n'; printf z > $'d\\n/f'\n")
    same("made in the sandbox", (read(s / "files/made\nhere"),
                                 read(os.fsencode(s / "files") + b"/raw\x80"),
                                 read(s / "files/d\n/f")), (b"x", b"y", b"z"))
    with raises("256 bytes", errno.ENAMETOOLONG):
        write(s / f"files/{'a' * 256}", "x")
    with raises("an empty name", errno.ENOENT, errno.EISDIR):
        os.open(s / "files/", os.O_CREAT | os.O_WRONLY)
    for name in NAMES:
        os.unlink(s / f"files/{name}")
    same("rm -r of the rest", shell(f"rm -rf {s / 'files'}/* && ls -A {s / 'files'}"), (0, b"", b""))
    deep = s / "files/" + "/".join(["d" * 200] * 15)
    os.makedirs(deep)
    write(deep + "/f", "deep")
    same("a long path", read(deep + "/f"), b"deep")


main(names)
