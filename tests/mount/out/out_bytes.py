#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Output is bytes: exact, complete, in order, whatever they are."""
# backends: local vm
import hashlib
import shlex

from xsbx import *

EVERY = bytes(range(256))


def every_byte():
    s = Session("every")
    octal = "".join(f"\\{b:03o}" for b in EVERY)
    result = s.run(f"printf '{octal}'; printf '{octal}' >&2\n")
    same("all 256 on stdout", result.stdout, EVERY)
    same("all 256 on stderr", result.stderr, EVERY)
    same("sizes", (os.stat(s / "stdout").st_size, os.stat(s / "stderr").st_size), (256, 256))
    same("no newline is made up", s.run("printf x").stdout, b"x")
    same("line ends as they are", s.run("printf 'a\\r\\nb\\rc\\n'\n").stdout, b"a\r\nb\rc\n")
    text = "café 你好 \U0001f600 e\u0301\n"
    same("unicode", s.run(f"printf '%s' '{text}'").stdout.decode(), text)
    same("escape sequences", s.run("printf '\\033[31mred\\033[0m'").stdout, b"\x1b[31mred\x1b[0m")


def sizes():
    """Around what buffers and pipes like to be."""
    s = Session("sizes")
    for size in (0, 1, 4095, 4096, 4097, 65535, 65536, 65537, 131071, 131072, 131073, 1 << 20,
                 (1 << 20) + 1, 3_000_000):
        result = s.run(f"head -c {size} /dev/zero | tr '\\0' x; echo done >&2\n")
        ok(f"{size} bytes", result.stdout == b"x" * size and result.stderr == b"done\n",
           f"{len(result.stdout)} bytes and {result.stderr}")


def checksum():
    s = Session("checksum")
    result = s.run("head -c 1500000 /dev/urandom | tee >(sha256sum >&2); wait $!; sleep 0.1\n")
    same("random bytes", hashlib.sha256(result.stdout).hexdigest(),
         result.stderr.decode().split()[0])


def order():
    """`output` has both streams in the order in which they were written."""
    s = Session("order")
    result = s.run("for i in $(seq 100); do echo out $i; echo err $i >&2; done\n")
    same("stdout", result.stdout, b"".join(b"out %d\n" % i for i in range(1, 101)))
    same("stderr", result.stderr, b"".join(b"err %d\n" % i for i in range(1, 101)))
    lines = read(s / "output").splitlines()
    same("output has all of it", sorted(lines), sorted((result.stdout + result.stderr).splitlines()))
    same("the lines of stdout in order", [x for x in lines if x.startswith(b"out")],
         result.stdout.splitlines())
    same("the lines of stderr in order", [x for x in lines if x.startswith(b"err")],
         result.stderr.splitlines())
    spaced = s.run("echo 1; sleep 0.2; echo 2 >&2; sleep 0.2; echo 3; sleep 0.2; echo 4 >&2\n")
    same("between them, as written", read(s / "output"), b"1\n2\n3\n4\n")
    same("and separately", (spaced.stdout, spaced.stderr), (b"1\n3\n", b"2\n4\n"))


TURNS = """
long=$(printf '%03000d' 7)
for ((i = 0; i < 3000; i++)); do
    case $((i % 7)) in
    0 | 2 | 3) echo $i ;;
    1 | 4 | 5) echo $i >&2 ;;
    6) echo $i $long >&$((1 + i % 2)) ;;
    esac
done
"""


def turns():
    """Lines in turn, two in a row, and ones that are longer than what is read at once."""
    s = Session("turns", config="timeout_s = 0")
    result = s.run(TURNS)
    got = [[int(line.split()[0]) for line in text.splitlines()]
           for text in (read(s / "output"), result.stdout, result.stderr)]
    same("all of it is there", sorted(got[0]), list(range(3000)))
    same("each stream in order", got[1:], [sorted(numbers) for numbers in got[1:]])
    same("each number once", sorted(got[1] + got[2]), sorted(got[0]))
    # On a machine's one processor the agent is awake before the program goes on.
    if VM:
        same("both in the order in which they were written", got[0], list(range(3000)))


def separate_runs():
    """A background process of one run does not write into the next."""
    s = Session("separate")
    s.run("(sleep 0.3; echo late) &\n")
    result = s.run("sleep 0.6; echo second\n")
    same("the second run has its own output", result.stdout, b"second\n")
    same("and the first ended when it ended", s.text("runs/1/exit_code"), "0\n")
    result = s.run("printf 'no newline' >&2")
    result = s.run("echo next")
    same("a line without end does not hold back", (result.stdout, result.stderr), (b"next\n", b""))
    same("nor get lost", s.text("runs/3/stderr"), "no newline")


def forged():
    """Text that looks like some machinery's is only text."""
    s = Session("forged")
    for line in ('{"type":"exit","code":0}', "__SENTINEL__", "EXIT 0", "done 3",
                 "run 1: exit 0 in 1 ms, nothing on stdout, nothing on stderr"):
        result = s.run(f"printf '%s\\n' {shlex.quote(line)} >&2; exit 5\n")
        same(f"exit code after {line!r}", (result.code, result.err), (5, line + "\n"))
    same("a frame's header", s.run("printf '\\0\\0\\0\\14' >&2; exit 5\n").code, 5)
    same("still fine", s.run("echo x\n").stdout, b"x\n")


main(every_byte, sizes, checksum, order, turns, separate_runs, forged)
