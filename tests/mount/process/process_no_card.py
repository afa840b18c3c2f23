#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Process sandboxes where /dev/net/tun can't be opened: without a network they work, with one it is
said how to have it, and once it can be had, a reset suffices."""
# mount: none
# backends: process
# log-allow: did not start|can't have a network
import stat

from hosts import *

if os.geteuid():
    skip("only root can have somebody else mount, and hide /dev/net/tun")
try:
    os.close(os.open("/dev/net/tun", os.O_RDWR))
except OSError as why:
    skip(f"nobody can open /dev/net/tun on this host: {why}")


def bind(what, over, flags=MS_BIND, kind=None):
    if libc.mount(what.encode(), over.encode(), kind, flags, None):
        raise OSError(ctypes.get_errno(), f"mounting over {over}")


def line(text, name):
    return next(x for x in text.splitlines() if x[5:].startswith(f"{name}: "))


def session(mnt, name, config=""):
    """A session of whoever calls: what it answers, its state and its error."""
    path = f"{mnt}/raw/{name}"
    os.mkdir(path)
    if config:
        write(f"{path}/config", config)
    return answer(path)


def answer(path):
    write(f"{path}/in", "cut -d: -f1 /proc/net/dev | tail -n +3\n")
    try:
        read(f"{path}/exit_code")
        out = sorted(read(f"{path}/stdout", "r").split())
    except OSError as error:
        out = errno.errorcode[error.errno]
    return out, read(f"{path}/state", "r").strip(), read(f"{path}/error", "r")


def again(path):
    write(f"{path}/ctl", "reset\n")
    return answer(path)


def no_rights():
    """Of somebody who may not open it."""
    node = f"{SCRATCH}/tun"
    os.mknod(node, 0o600 | stat.S_IFCHR, os.makedev(10, 200))
    bind(node, "/dev/net/tun")
    host = Host("rights", "", uid=MEMBER)

    def doctor():
        return line(as_user(MEMBER, lambda: read(f"{host.mnt}/doctor", "r")), "network")
    has("doctor", doctor(), "warn network: virtual machines can have one")
    has("doctor: how", doctor(), "chmod 666 /dev/net/tun")
    same("without a network", as_user(MEMBER, lambda: session(host.mnt, "a")), (["lo"], "idle", ""))
    out, word, error = as_user(MEMBER, lambda: session(host.mnt, "b", "network = on\n"))
    same("with one", (out, word), ("EIO", "failed"))
    has("why", error, "cause: the sandbox can't have a network: /dev/net/tun: Permission denied\n")
    has("how", error, "fix: As root: chmod 666 /dev/net/tun")
    os.chmod(node, 0o666)
    has("doctor: mended", doctor(), "ok   network: ")
    same("mended", as_user(MEMBER, lambda: again(f"{host.mnt}/raw/b")), (["eth0", "lo"], "idle", ""))
    as_user(MEMBER, lambda: os.kill(host.daemon.pid, 15))
    same("the daemon ends", host.daemon.wait(SOON), 0)
    libc.umount2(b"/dev/net/tun", 2)


def absent():
    """On a host that has none; not even root gets any."""
    bind("none", "/dev/net", 0, b"tmpfs")
    host = Host("absent", "")
    has("doctor", line(read(f"{host.mnt}/doctor", "r"), "network"), "modprobe tun")
    out, word, error = session(host.mnt, "a", "network = on\n")
    same("with one", (out, word), ("EIO", "failed"))
    has("why", error, "/dev/net/tun: No such file or directory\n")
    has("how", error, "modprobe tun")
    host.close()
    libc.umount2(b"/dev/net", 2)


main(no_rights, absent)
