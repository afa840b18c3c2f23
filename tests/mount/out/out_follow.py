#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tail -f, on the file that grows and on the one that waits."""
# timeout: 60
from xsbx import *

CODE = "for i in $(seq 8); do echo line $i; sleep 0.25; done\n"
WANT = b"".join(b"line %d\n" % i for i in range(1, 9))


def follow(name, command, node):
    s = Session(name)
    s.run("true\n")
    s.submit(CODE)
    s.wait_run(2, "running")
    child = subprocess.Popen([*command, s / node], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    s.result()
    got = child.stdout.read(len(WANT))  # tail looks when it likes to
    child.terminate()
    same(" ".join(command), got + child.communicate()[0], WANT)


def growing():
    follow("a", ["tail", "-f", "-n", "+1"], "runs/2/stdout")
    follow("b", ["tail", "-s", "0.1", "-F", "-n", "+1"], "runs/2/stdout")


def waiting():
    follow("c", ["tail", "-f", "-n", "+1"], "stdout")


def streams():
    """A line is there when it was written, not when the run ends."""
    s = Session("d")
    s.run("true\n")
    s.submit("echo first; until [ -e go ]; do sleep 0.05; done; echo second\n")
    fd = os.open(s / "stdout", os.O_RDONLY)
    same("first", os.read(fd, 100), b"first\n")
    same("while it runs", s.state_of(2), "running")
    write(s / "files/go", "")
    same("second", os.read(fd, 100), b"second\n")
    same("end", os.read(fd, 100), b"")
    os.close(fd)


main(growing, waiting, streams)
