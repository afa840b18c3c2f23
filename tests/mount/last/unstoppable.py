#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A checkpoint where a process can't be stopped, for it waits in the kernel for a child of vfork(2): that is what is said."""
# backends: local vm
# night: local vm
# timeout: 120
from xsbx import *

need_language("python")
VFORK = """
import ctypes, os, subprocess, sys, time
code = "import ctypes; libc = ctypes.CDLL(None); libc.vfork() or libc.pause()"
child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
def state():  # until it has become another program, it is not seen in a machine
    try:
        return open(f"/proc/{child.pid}/stat").read().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return ""
while state() != "D":
    time.sleep(0.01)
print(child.pid, open(f"/proc/{child.pid}/comm").read())
"""


def waits():
    s = Session("waits", "python", "timeout_s = 60\n")
    pid, name = s.run(VFORK).out.split()
    os.mkdir(s / "checkpoints/a")
    with raises("it is not saved", errno.EIO):
        read(s / "checkpoints/a/wait")
    why = s.json("checkpoints/a/status.json")["problem"]["cause"]
    has("who it was", why, f"process {pid} ({name}) of the sandbox could not be stopped within ")
    has("and why", why, ": it waits in the kernel")
    has("in the session's error as well", s.text("error"), f"process {pid} ({name})")
    same("it goes on", s.run("child.kill(); subprocess.run(['pkill', '-KILL', '-P', str(child.pid)]); print(1)").code, 0)
    s.ctl("checkpoint a")
    same("without that one it is", read(s / "checkpoints/a/wait"), b"whole\n")


main(waits)
