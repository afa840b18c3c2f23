#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whoever has taken over the daemon has its sockets to the spawner, which has all rights, and to the holder, which has none. What
he sends there starts nothing but what xsbxfs consists of."""
# mount: none
# backends: process
import array
import select
import shutil
import socket
import struct

from hosts import *

if os.geteuid():
    skip("only root can take a descriptor from another process here")
if not shutil.which("qemu-system-x86_64"):
    skip("qemu-system-x86_64 is not installed: the control asks for its version")

PIDFD_GETFD = 438
SPAWN, QEMU_VERSION = 1, 0
PROGRAMS = 16  # more than there are
EVIL = "../../../../../../bin/sh"


def sockets(pid):
    """Of the daemon's sockets those on which datagrams go, taken from it."""
    rows = [row.split() for row in read("/proc/net/unix", "r").splitlines()[1:]]
    packets = {f"socket:[{row[6]}]" for row in rows if row[4] == "0005"}
    pidfd, taken = os.pidfd_open(pid), []
    for number in os.listdir(f"/proc/{pid}/fd"):
        if os.readlink(f"/proc/{pid}/fd/{number}") not in packets:
            continue
        ours = libc.syscall(PIDFD_GETFD, pidfd, int(number), 0)
        if ours < 0:
            skip(f"a descriptor can't be taken: {os.strerror(ctypes.get_errno())}")
        taken.append(socket.socket(fileno=ours))
    os.close(pidfd)
    return taken


def send(sock, message, fds=()):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    select.select([], [sock], [], SOON)  # it is the daemon's, which never waits for it
    sock.sendmsg([message], rights)


def command(argv, env=(), flags=0):
    """A request as it was when the spawner ran whatever it was sent: a row of strings."""
    head = struct.pack("<7I16i", SPAWN, 0xfffffff0, flags, len(argv), len(env), 0, 0, *[0] * 16)
    return head + b"".join(s.encode() + b"\0" for s in (*argv, *env))


def order(program, size, body=b""):
    return (struct.pack("<2I", SPAWN, 0xfffffff1) +
            struct.pack("<I4x", program).ljust(size, b"\0")[:8] + body).ljust(8 + size, b"\0")


def version(sock, size):
    """What QEMU prints, if an order has this size."""
    r, w = os.pipe()
    send(sock, order(QEMU_VERSION, size), [w])
    os.close(w)
    with os.fdopen(r, "rb") as words:
        return words.read().decode()


def orders():
    host = Host("orders", "[template shown]\nlanguage = raw\npool = 0\n")
    mark = f"{SCRATCH}/ran"
    both = sockets(kin_of(host.daemon.pid)[1])
    # The control: the way there is open, and what is allowed is done.
    found = [(sock, n) for sock in both for n in range(8, 2048, 8) if version(sock, n)]
    same("one is the spawner's", (len(both), len(found)), (2, 1))
    sock, size = found[0]
    has("it says QEMU's version", version(sock, size), "QEMU emulator version")
    for sock in both:
        attack(sock, size, mark)
    # One is served after the other: when this one has an answer, so have they.
    s = host.session("after")
    same("it still serves", s.run("echo served\n").out, "served\n")
    s.remove()
    ok("nothing of the sender's was run", not os.path.exists(mark),
       os.path.exists(mark) and read(mark))
    host.close()


def attack(sock, size, mark):
    # Any program, as it is, as one that may gain privileges, with a library of somebody else's.
    for flags in 0, 8:
        send(sock, command(["/bin/sh", "-c", f"id -u > {mark}"], flags=flags))
        send(sock, command(["/bin/sh", "-c", f"echo $LD_PRELOAD > {mark}"], ["LD_PRELOAD=x.so"]))
    # In place of a name: a path, an option, a command, no end.
    shell = f"$(id -u > {mark})"
    bodies = [EVIL, "--help", shell, "-c\0" + shell, "x" * 300]
    for program in range(PROGRAMS):
        for body in bodies:
            for fds in 1, 2, 3, 7:
                message = order(program, size, body.encode()[:max(size - 8, 0)])
                send(sock, message, [1] * fds)


main(orders)
