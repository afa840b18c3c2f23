#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Process sandboxes where there is no pool: the jail that is kept in reserve is like any other one,
is nobody's before, and its loss is nobody's either."""
# backends: process
# conf: [template raw]
# conf: pool = 0
# conf: [template python]
# conf: pool = 0
from xsbx import *


def agents():
    """First processes of sandboxes: host's pid -> session, or "sandbox" for what nobody has yet."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if read(f"/proc/{pid}/cmdline").startswith(b"/run/xsbx/agent\0"):
                found[int(pid)] = shell(f"nsenter -t {pid} -u hostname")[1].decode().strip()
        except OSError:
            pass
    return found


def idle():
    return [pid for pid, name in agents().items() if name == "sandbox"]


def settled():
    """One jail in reserve, and it has come up."""
    found = wait_for(lambda: len(idle()) == 1 and idle(), 10)
    time.sleep(0.3 * SLOW)
    return found[0] if found else None


def taken():
    same("nothing is kept before anything was asked for", idle(), [])
    first = Session("first")
    same("the first", first.run("hostname\n").stdout, b"raw-first\n")
    pid = settled()
    ok("then one is kept", pid)
    second = Session("second", config="env.COLOUR = blue\n")
    same("the second has its name and variables",
         second.run("echo $(hostname) $COLOUR; ls -A; touch mark\n").stdout, b"raw-second blue\n")
    same("and is the one that was kept", second.json()["sandbox"]["pid"], pid)
    same("which is no clone", second.json()["sandbox"]["start"], "cold")
    said = [s.json()["sandbox"]["isolation"] for s in (first, second)]
    for one in said:
        one.pop("ids", None)
    same("with the same walls", said[0], said[1])
    again = settled()
    ok("another one takes its place", again and again != pid)
    for s in first, second:
        os.rmdir(s.path)


def different():
    """What differs is not handed out."""
    kept = settled()
    s = Session("larger", config="memory_mb = 300\n")
    same("it runs", s.run("echo 1\n").stdout, b"1\n")
    ok("in a jail of its own", s.json()["sandbox"]["pid"] != kept)
    os.rmdir(s.path)


def killed():
    wait_for(lambda: len(idle()) == 2)
    kept = idle()
    for pid in kept:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not [pid for pid in kept if os.path.exists(f"/proc/{pid}")])
    s = Session("after")
    same("a jail that was killed is missed by nobody", s.run("echo 1\n").stdout, b"1\n")
    os.rmdir(s.path)
    ok("and replaced", wait_for(idle, 10))


def many():
    """More at once than are kept."""
    sessions = [Session(f"many{i}") for i in range(8)]
    for s in sessions:
        s.submit("hostname\n")
    same("each is its own", [s.result().stdout for s in sessions],
         [f"raw-many{i}\n".encode() for i in range(8)])
    for s in sessions:
        os.rmdir(s.path)
    ok("and few are kept", wait_for(lambda: len(agents()) == len(idle()) <= 4, 10), agents())


main(taken, different, killed, many)
