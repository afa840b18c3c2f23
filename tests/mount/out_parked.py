#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hundreds of readers wait, and hold up nobody."""
import threading

from xsbx import *

READERS = 300


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

    begin = time.monotonic()
    for i in range(200):
        read(f"{MNT}/status.json")
        os.stat(s / "stdout")
        os.listdir(s.path)
    ok("others are served", time.monotonic() - begin < SOON, time.monotonic() - begin)
    other = Session("other")
    same("another session runs code", other.run("echo fine\n").stdout, b"fine\n")
    write(other / "files/x", b"data")
    same("and has files", read(other / "files/x"), b"data")
    other.remove()
    same("still waiting", got, [])

    begin = time.monotonic()
    s.ctl("kill")
    for thread in threads:
        thread.join(SOON)
    ok("all are woken at once", time.monotonic() - begin < SOON, time.monotonic() - begin)
    same("each of them", len(got), READERS)
    same("with the right answer", {node: data for node, data in got},
         {"stdout": b"", "exit_code": b"137\n", "output": b"", "runs/2/wait": b"137\n"})


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


main(parked, none_left)
