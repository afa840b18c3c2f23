#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Code in a sandbox can't use up what the kernel counts for the one who made the sandbox: the same
attempt, made here, gets further, and still does while the sandbox has all that it can get."""
# backends: process
# timeout: 60
from xsbx import *

MOST = 2000

# Takes as many as it can get, says how many, and keeps them.
INOTIFY = f"""
import ctypes
libc = ctypes.CDLL(None)
n = 0
while n < {MOST} and libc.inotify_init1(0) >= 0:
    n += 1
print(n, flush=True)
"""
TIMERS = f"""
import ctypes
libc = ctypes.CDLL(None)
n, timer = 0, ctypes.c_long()
while n < {MOST} and libc.timer_create(1, None, ctypes.byref(timer)) == 0:
    n += 1
print(n, flush=True)
"""


def outside(code):
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return int(done.stdout)


def counters():
    for what, code, most in (("inotify", INOTIFY, 16), ("timers", TIMERS, 1024)):
        before = outside(code)
        ok(f"control: {what}: there are more outside", before > most, before)
        s = Session(what, "python")
        n = int(s.run(code).out)
        ok(f"{what}: a sandbox gets some, and has a limit", most // 2 < n <= most, n)
        ok(f"{what}: those outside have theirs", outside(code) > most, (before, n))


def no_ipv6():
    s = Session("network", config="network = yes\n")
    has("control: there is a card", s.run("cat /proc/net/dev\n").out, "eth0:")
    same("no card has IPv6", "eth0" in s.run("cat /proc/net/if_inet6\n").out, False)


# What each of these gives is written as WORD=RESULT, where a result is a number or the name of an error.
CALLS = r"""
import ctypes, errno, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]

def tell(what, value):
    bad = value is None or value in (-1, 2 ** 64 - 1)
    print(f"{what}={errno.errorcode[ctypes.get_errno()] if bad else 'done'}", flush=True)

def attach(what, kind, option, value):
    s = socket.socket(socket.AF_INET, kind)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind(("127.0.0.1", 0))
    try:
        s.setsockopt(socket.SOL_SOCKET, option, value)
        print(f"{what}=done")
    except OSError as error:
        print(f"{what}={errno.errorcode[error.errno]}")

code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0xffffffff))
program = struct.pack("HxxxxxxP", 1, ctypes.addressof(code))
attach("filter", socket.SOCK_DGRAM, 26, program)
attach("reuseport", socket.SOCK_DGRAM, 51, program)
attach("ebpf", socket.SOCK_DGRAM, 50, struct.pack("i", -1))
attach("reuseport-ebpf", socket.SOCK_DGRAM, 52, struct.pack("i", -1))
attach("ordinary", socket.SOCK_DGRAM, socket.SO_BROADCAST, 1)

HUGE = 2 << 20
tell("mmap", libc.mmap(None, HUGE, 3, 0x40000 | 0x4000 | 0x22, -1, 0))
tell("mmap-ordinary", libc.mmap(None, HUGE, 3, 0x4000 | 0x22, -1, 0))
tell("memfd", libc.memfd_create(b"huge", 4))
tell("memfd-ordinary", libc.memfd_create(b"small", 1))
shm = libc.shmget(0, HUGE, 0o1000 | 0o600 | 0o10000 | 0x800)
tell("shm", shm)
libc.shmctl(shm, 0, None)
shm = libc.shmget(0, HUGE, 0o1000 | 0o600)
tell("shm-ordinary", shm)
libc.shmctl(shm, 0, None)

# In a process of its own: they are for ever.
import os
os.system("true")
if os.fork() == 0:
    libc.prctl(38, 1, 0, 0, 0)
    allow = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
    program = struct.pack("HxxxxxxP", 1, ctypes.addressof(allow))
    tell("prctl", libc.prctl(22, 2, program, 0, 0))
    tell("seccomp", libc.syscall(317 if os.uname().machine == "x86_64" else 277, 1, 0, program))
    os._exit(0)
os.wait()
"""

# Inside, and outside where it is something else than "done": no program of that kind is given, or only
# some users may.
REFUSED = {"filter": "EPERM", "reuseport": "EPERM", "ebpf": "EPERM", "reuseport-ebpf": "EPERM",
           "mmap": "ENOMEM", "memfd": "EPERM", "shm": "EPERM", "prctl": "EINVAL",
           "seccomp": "ENOSYS"}
OUTSIDE = {"ebpf": "EBADF", "reuseport-ebpf": "EBADF",
           "shm": "done" if os.geteuid() == 0 else "EPERM"}
ORDINARY = ("ordinary", "mmap-ordinary", "memfd-ordinary", "shm-ordinary")


def results(text):
    return dict(line.split("=") for line in text.splitlines())


def calls():
    done = subprocess.run([sys.executable, "-c", CALLS], check=True, capture_output=True, text=True)
    outside = results(done.stdout)
    inside = results(Session("calls", "python").run(CALLS).out)
    for what, error in REFUSED.items():
        same(f"control: outside: {what}", outside[what], OUTSIDE.get(what, "done"))
        same(f"in a sandbox: {what}", inside[what], error)
    for what in ORDINARY:
        same(f"in a sandbox: {what}", (inside[what], outside[what]), ("done", "done"))


SETTINGS = {
    "user/max_fanotify_groups": 0, "user/max_fanotify_marks": 0, "user/max_user_namespaces": 0,
    "user/max_net_namespaces": 0, "user/max_pid_namespaces": 0, "net/core/somaxconn": 128,
    "net/ipv4/tcp_max_tw_buckets": 1024, "net/ipv4/tcp_orphan_retries": 1,
}


def settings():
    s = Session("settings")
    s.run("true\n")
    for name, want in SETTINGS.items():
        if not os.path.exists(f"/proc/sys/{name}"):
            continue
        ok(f"control: {name} is another outside", int(read(f"/proc/sys/{name}")) != want)
        same(name, s.run(f"cat /proc/sys/{name}\n").out.strip(), str(want))
    for name, want in (("tcp_rmem", 1 << 20), ("tcp_wmem", 1 << 18)):
        def most(text):
            return int(text.split()[2])
        ok(f"control: {name}", most(read(f"/proc/sys/net/ipv4/{name}", "r")) > want)
        same(name, most(s.run(f"cat /proc/sys/net/ipv4/{name}\n").out), want)


# Bytes that wait in connections on loopback, of which nobody reads any.
BUFFERS = """
import socket
server = socket.create_server(("127.0.0.1", 0), backlog=4096)
keep, total = [], 0
for n in range(100):
    client = socket.create_connection(server.getsockname())
    keep += [client, server.accept()[0]]
    client.setblocking(False)
    try:
        while True:
            total += client.send(bytes(65536))
    except BlockingIOError:
        pass
print(total >> 20)
"""


# How long the queues of these sockets are once they were asked to be longer, and what waits in the one
# of netlink when it takes no more.
QUEUES = """
import socket, struct
LINK = struct.pack("IHHII", 32, 18, 1, 1, 0) + struct.pack("BxHiII", 0, 0, 1, 0, 0)
for family, kind in ((socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_NETLINK, socket.SOCK_RAW)):
    s = socket.socket(family, kind)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        s.setsockopt(socket.SOL_SOCKET, option, 40000)
        print(s.getsockopt(socket.SOL_SOCKET, option))
s.setblocking(False)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
for n in range(300):
    s.send(LINK)
print(struct.unpack("I", s.getsockopt(socket.SOL_SOCKET, 55, 4))[0])
"""


def queues():
    default = int(read("/proc/sys/net/core/rmem_default"))
    done = subprocess.run([sys.executable, "-c", QUEUES], check=True, capture_output=True)
    *sizes, waiting = map(int, done.stdout.split())
    same("control: outside, sockets do as they are told", sizes, [80000] * 4)
    *sizes, waiting_inside = map(int, Session("queues", "python").run(QUEUES).out.split())
    same("in a sandbox, they stay as the host made them", 80000 in sizes, False)
    ok("what waits at netlink has a limit", waiting_inside <= default + 8192,
       (waiting_inside, waiting, default))


def buffers():
    before = outside(BUFFERS)
    inside = int(Session("buffers", "python", config="memory_mb = 128\n").run(BUFFERS).out)
    # Of 100 connections; with a control group for memory, a quarter of that is the limit of all.
    ok("what is in TCP's buffers stays below memory_mb", inside < 64, inside)
    ok("control: it does not outside", before > 128, before)


def processes():
    """There is a limit without anything in `config`."""
    s = Session("processes")
    lines = s.run("cat /proc/self/limits\n").out.splitlines()
    [words] = [line.split() for line in lines if line.startswith("Max processes")]
    same("the default", words[2:4], ["512", "512"])
    control = [line.split()[2] for line in read("/proc/self/limits", "r").splitlines()
               if line.startswith("Max processes")]
    ok("control: another outside", control != ["512"], control)


main(counters, no_ipv6, calls, settings, queues, buffers, processes)
