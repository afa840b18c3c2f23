#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of a microVM: more than there is, if it can be compressed; an end in good time if not."""
# backends: vm
# night: vm
# timeout: 900
from xsbx import *

vm_only()

HAS = 192
CONF = f"memory_mb = {HAS}\ntimeout_s = 300\n"

# A third of it is noise.
BLOCK = """
import os
def block(i):
    noise = os.urandom(4096)
    return b"".join(noise[n:n + 64] + bytes([i % 251]) * 128 for n in range(0, 4096, 64))
"""
DATA = BLOCK + """
with open("/proc/meminfo") as file:
    more = int(file.readline().split()[1]) * 6 // 5 >> 10
blocks = [block(i) for i in range(more * 1024 // 12)]
"""
EAT = """
import os
keep = []
while True:
    keep.append(os.urandom(1 << 20))
"""


def compresses(s):
    return s.run("import os; print(os.path.exists('/sys/block/zram0'))").out == "True\n"


def fresh(s):
    result = s.run("print('keep' in globals(), 6 * 7)")
    same("a fresh interpreter", (result.code, result.out), (0, "False 42\n"))
    same("it has memory again", s.run("print(len(bytearray(64 << 20)))").out, f"{64 << 20}\n")


def more_than_there_is():
    s = Session("more", "python", config=CONF)
    if not compresses(s):
        skip("the guest's kernel can't compress memory: scripts/images builds one that can")
    result = s.run(DATA + """
print(more - (sum(len(block) for block in blocks) >> 20))
print([i for i, block in enumerate(blocks) if block[-128:].count(i % 251) != 128])
del blocks
""")
    same("it gets to its end", (result.code, result.out), (0, "1\n[]\n"))
    same("the next one has the memory again", s.run("print(len(bytearray(64 << 20)))").out,
         f"{64 << 20}\n")


def without_end():
    """What can't be compressed, and what can, but is too much all the same."""
    compressible = BLOCK + "keep = []\nwhile True:\n    keep.append(block(len(keep)))\n"
    for name, eat in (("noise", EAT), ("data", compressible)):
        s = Session(name, "python", config=CONF)
        s.run("keep = None")
        begin = time.monotonic()
        result = s.run("print('so far', flush=True)" + eat)
        took = time.monotonic() - begin
        same(f"{name}: what it wrote is kept", result.out, "so far\n")
        same(f"{name}: why it ended", (result.code, s.state_of(s.runs()[-1])), (137, "oom"))
        print(f"{name} without end: {took:.1f} s")
        fresh(s)
        s.remove()


def many_children():
    s = Session("children", "python", config=CONF)
    begin = time.monotonic()
    result = s.run("import os\nfor i in range(12):\n    if os.fork() == 0:\n        break\n" + EAT)
    took = time.monotonic() - begin
    print(f"children: {took:.1f} s")
    same("why it ended", (result.code, s.state_of(s.runs()[-1])), (137, "oom"))
    fresh(s)


def from_a_run_before():
    s = Session("before", "python", config=CONF)
    eater = s.run("import os, time\npid = os.fork()\nif pid == 0:\n    time.sleep(1)\n"
                  + EAT.replace("\n", "\n    ").rstrip() + "\nprint(pid)\n").out.strip()

    # A run that is under way is ended first, and only then what still takes the memory: it may outlive several.
    def gone():
        return s.run(f"""
try:
    with open("/proc/{eater}/stat") as file:
        print(file.read().rsplit(")")[-1].split()[0])
except OSError:
    print("gone")
""").out in ("gone\n", "Z\n")

    ok("what an earlier run left behind is ended", wait_for(gone, 60))
    fresh(s)


def a_shell():
    s = Session("shell", "raw", config=CONF)
    begin = time.monotonic()
    result = s.run("head -c 1G /dev/urandom | tail -n 1000000000 | wc -c\n")
    print(f"shell: {time.monotonic() - begin:.1f} s, {result.code}")
    ok("it ends", result.code is not None, result)
    same("the session goes on", s.run("echo fine\n").out, "fine\n")


def no_false_alarm():
    s = Session("busy", "python", config=CONF)
    result = s.run("""
import asyncio, concurrent.futures, ctypes, decimal, email.mime.multipart, http.server, json
import logging.handlers, multiprocessing.pool, sqlite3, ssl, unittest.mock, urllib.request, xml.dom.minidom
import ast, glob, os
n = 0
for path in sorted(glob.glob(os.path.dirname(os.__file__) + '/*.py'))[:60]:
    with open(path, 'rb') as file:
        ast.parse(file.read()); n += 1
print('parsed', n > 10)
""")
    same("imports and compiles", (result.code, result.out), (0, "parsed True\n"))


main(more_than_there_is, without_end, many_children, from_a_run_before, a_shell, no_false_alarm)
