#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hundreds of readers wait, and hold up nobody."""
import threading

from xsbx import *

READERS = 300

# Reads of a node, as many as are asked for, in one call.
NATIVE = """
import ctypes, mmap, os, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
os.fstat(fd)
n = int(sys.argv[2])
SETUP, SUBMIT = (206, 209) if os.uname().machine == "x86_64" else (0, 2)
context = ctypes.c_ulong(0)
if libc.syscall(SETUP, n, ctypes.byref(context)):
    sys.exit(3)
page = mmap.mmap(-1, 4096)
where = ctypes.addressof(ctypes.c_char.from_buffer(page))
block = struct.pack("=QIiHhIQQqQII", 0, 0, 0, 0, 0, fd, where, 512, 0, 0, 0, 0)
blocks = [ctypes.create_string_buffer(block) for i in range(n)]
pointers = (ctypes.c_void_p * n)(*map(ctypes.addressof, blocks))
if libc.syscall(SUBMIT, context, n, pointers) != n:
    sys.exit(4)
time.sleep(1000)
"""


def parked():
    s = Session("parked")
    s.run("true\n")
    s.submit("read -r x < <(sleep 600)\n")
    s.wait_run(2, "running")
    got = []

    def reader(node):
        got.append((node, read(s / node)))

    nodes = ("stdout", "exit_code", "output", "runs/2/wait")
    threads = [threading.Thread(target=reader, args=(nodes[i % 4],), daemon=True)
               for i in range(READERS)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    same("all of them wait", got, [])

    for i in range(200):
        read(f"{MNT}/status.json")
        os.stat(s / "stdout")
        os.listdir(s.path)
    other = Session("other")
    same("another session runs code", other.run("echo fine\n").stdout, b"fine\n")
    write(other / "files/x", b"data")
    same("and has files", read(other / "files/x"), b"data")
    other.remove()
    same("still waiting", got, [])

    s.ctl("kill")
    for thread in threads:
        thread.join(SOON)
    same("each of them", len(got), READERS)
    same("with the right answer", {node: data for node, data in got},
         {"stdout": b"", "exit_code": b"137\n", "output": b"", "runs/2/wait": b"137\n"})


def parked_natively():
    """Reads by io_submit(2) with O_DIRECT, which nobody waits for: they must not be what the kernel
    has only so many of, for that is what closing a descriptor takes, and so the start of a run."""
    # The end of the run would answer them all, so that must not come by itself.
    s, other = Session("native", config="timeout_s = 600\n"), Session("beside")
    for one in (s, other):
        one.run("true\n")
    s.submit("read -r x < <(sleep 600)\n")
    s.wait_run(2, "running")
    child = subprocess.Popen([sys.executable, "-c", NATIVE, s / "stdout", "400"])
    time.sleep(1)
    same("they wait", child.poll(), None)
    # Its own descriptor may be the one whose release does not get through.
    other.submit("echo fine\n")
    ok("another session runs code", other.wait_run(2, "done", SOON / 4))
    child.kill()
    try:
        same("and they end with their program", child.wait(SOON), -9)
    except subprocess.TimeoutExpired:
        fail("their program does not end")
    s.ctl("kill")
    ok("the run ends", s.wait_run(2, "killed"))
    for one in (s, other):
        one.remove()


def none_left():
    """Readers that were interrupted are forgotten: the daemon does not grow."""
    s = Session("gone")
    s.run("true\n")
    s.submit("read -r x < <(sleep 600)\n")
    s.wait_run(2, "running")
    for _ in range(20):
        children = [subprocess.Popen(["cat", s / "stdout"], stdout=subprocess.DEVNULL)
                    for _ in range(10)]
        time.sleep(0.02)
        for child in children:
            child.kill()
            child.wait()
    s.ctl("kill")
    same("and the run's end finds nobody", s.result().code, 137)


main(parked, parked_natively, none_left)
