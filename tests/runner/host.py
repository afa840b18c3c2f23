# SPDX-License-Identifier: Apache-2.0
"""Processes and mounts of this host, for the test runner: listing and ending them."""

import os
import signal
import subprocess

CONNECTIONS = "/sys/fs/fuse/connections"


def processes():
    """pid -> (parent, state, command) of all processes."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", errors="replace") as file:
                text = file.read()
            with open(f"/proc/{pid}/cmdline", errors="replace") as file:
                command = file.read().replace("\0", " ").strip()
        except OSError:
            continue
        name = text[text.index("(") + 1:text.rindex(")")]
        state, parent = text[text.rindex(")") + 2:].split()[:2]
        found[int(pid)] = (int(parent), state, command or f"[{name}]")
    return found


def descendants(root, table=None):
    table = table or processes()
    children = {}
    for pid, (parent, _, _) in table.items():
        children.setdefault(parent, []).append(pid)
    todo, found = [root], []
    while todo:
        for pid in children.get(todo.pop(), []):
            found.append(pid)
            todo.append(pid)
    return found


def mounts_below(path):
    """(mount point, device minor, type) of the mounts at and below a path."""
    found = []
    with open("/proc/self/mountinfo") as file:
        for line in file:
            fields = line.split()
            point = fields[4].encode().decode("unicode_escape")
            if point == path or point.startswith(path + "/"):
                found.append((point, fields[2].split(":")[1], fields[fields.index("-") + 1]))
    return found


def abort_connection(minor):
    if not os.path.isdir(f"{CONNECTIONS}/{minor}"):
        subprocess.run(["mount", "-t", "fusectl", "none", CONNECTIONS],
                       stderr=subprocess.DEVNULL, check=False)
    try:
        with open(f"{CONNECTIONS}/{minor}/abort", "w") as file:
            file.write("1")
    except OSError:
        pass


def force_unmount(path):
    for point, minor, kind in reversed(mounts_below(path)):
        if kind.startswith("fuse"):
            abort_connection(minor)
        if subprocess.run(["umount", "-l", point], stderr=subprocess.DEVNULL,
                          check=False).returncode:
            subprocess.run(["fusermount3", "-uz", point], stderr=subprocess.DEVNULL, check=False)


def kill_all(pids, sig=signal.SIGKILL):
    for pid in pids:
        try:
            os.kill(pid, sig)
        except ProcessLookupError:
            pass


def reap():
    """Reap children that ended, including orphans reparented to us."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
