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
    time.sleep(1.2 if "-f" in command else 0.4)
    child.terminate()
    same(" ".join(command), child.communicate()[0], WANT)


def growing():
    follow("a", ["tail", "-f", "-n", "+1"], "runs/2/stdout")
    follow("b", ["tail", "-s", "0.1", "-F", "-n", "+1"], "runs/2/stdout")


def waiting():
    follow("c", ["tail", "-f", "-n", "+1"], "stdout")


def streams():
    """A line is there when it was written, not when the run ends."""
    s = Session("d")
    s.run("true\n")
    s.submit("echo first; sleep 2; echo second\n")
    begin = time.monotonic()
    fd = os.open(s / "stdout", os.O_RDONLY)
    same("first", os.read(fd, 100), b"first\n")
    ok("at once", time.monotonic() - begin < 1.5 * SLOW)
    same("second", os.read(fd, 100), b"second\n")
    ok("later", time.monotonic() - begin > 1.5)
    same("end", os.read(fd, 100), b"")
    os.close(fd)


main(growing, waiting, streams)
