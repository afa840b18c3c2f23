#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever the pipes of a run are told (O_DIRECT keeps writes apart, and a short read loses the rest of one), no byte is lost."""
# backends: local vm
# night: vm
# timeout: 120
from xsbx import *

# fd, bytes of each write, how many: as dd does with oflag=direct.
DIRECT = """
import fcntl, os, sys
fd, size, n = map(int, sys.argv[1:])
fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_DIRECT)
for i in range(n):
    os.write(fd, bytes([97 + i % 26]) * size)
"""

# One process floods stdout, in lines of so many bytes, so many; another one writes to stderr now and then.
FLOOD = """
import os, sys, time
size, n, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
pid = os.fork()
if not pid:
    for i in range(n):
        os.write(1, b"x" * (size - 1) + b"\\n")
    os._exit(0)
m = 0
while os.waitpid(pid, os.WNOHANG)[0] == 0:
    os.write(2, b"e\\n")
    m += 1
    time.sleep(pause)
os.write(2, b"%d\\n" % m)
"""


def direct():
    s = Session("direct")
    write(s / "files/w.py", DIRECT)
    for fd, size, n in (1, 1500, 20), (2, 4096, 40), (1, 9000, 30):
        code = f"python3 w.py {fd} {size} {n}"
        result = s.run(f"printf first >&{fd}; {code}; sleep 0.1; {code}\n")
        want = b"".join(bytes([97 + i % 26]) * size for i in range(n))
        same(f"{n} writes of {size} bytes", (result.stdout, result.stderr)[fd - 1], b"first" + 2 * want)


def dd():
    s = Session("dd")
    for end in "", " | cat":
        result = s.run("head -c 100000 /dev/zero | tr '\\0' x | "
                       f"dd oflag=direct bs=4096 iflag=fullblock status=none{end}\n")
        same(f"dd oflag=direct{end}", len(result.stdout), 100000)


def flood():
    """Where there are several processors: the agent itself switches between the two ways."""
    s = Session("flood", config="cpus = 2\n")
    write(s / "files/f.py", FLOOD)
    for size, n, pause in (4000, 2000, .004), (3000, 2000, .003), (500, 5000, .005):
        for _ in range(1 if VM else 4):
            result = s.run(f"python3 f.py {size} {n} {pause}\n")
            same(f"{n} lines of {size} bytes", len(result.stdout), size * n)
            lines = result.stderr.split()
            same("the lines of the other one", len(lines) - 1, int(lines[-1]))


def while_it_runs():
    """What had to wait in the agent does not wait for the next write."""
    for cpus in 1, 2:
        s = Session(f"waits{cpus}", config=f"cpus = {cpus}\n")
        s.submit("head -c 9000000 /dev/zero | tr '\\0' x; until [ -e files/go ] || [ -e go ]; do sleep 0.1; done\n")
        ok(f"{cpus}: all is there", wait_for(lambda: os.stat(s / "runs/1/stdout").st_size == 9000000),
           os.stat(s / "runs/1/stdout").st_size)
        write(s / "files/go", "")
        same("and at the end", len(s.result().stdout), 9000000)


main(direct, dd, flood, while_it_runs)
