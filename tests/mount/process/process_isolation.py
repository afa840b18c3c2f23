#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What code in a process sandbox cannot do, beside a control outside, and that it all ends."""
# backends: process
# timeout: 90
# log-allow: agent
from xsbx import *

SECRET = f"{SCRATCH}/secret"

# Each is a shell command that succeeds on the host.
ATTEMPTS = {
    "a file of the host": f"cat {SECRET}",
    "the host's accounts": "test -s /etc/shadow -a -r /etc/shadow",
    "other processes": "test \"$(ls -d /proc/[0-9]* | wc -l)\" -gt 12",
    "the daemon's environment": "tr '\\0' '\\n' < /proc/1/environ | grep -q .",
    "a write into /usr": "touch /usr/xsbx.$$ && rm /usr/xsbx.$$",
    "a write into /etc": "touch /etc/xsbx.$$ && rm /etc/xsbx.$$",
    "a mount": "unshare -m true",
    "a user namespace": "unshare -r true",
    "a remount": "unshare -m mount -o remount,bind,ro /usr",
    "being root": "test \"$(id -u)\" = 0",
    "capabilities": "! grep -q 'CapPrm:.0*$' /proc/self/status",
    "the bounding set": "! grep -q 'CapBnd:.0*$' /proc/self/status",
    "killing the first process of others": "kill -0 $PPID && test \"$(id -u)\" = 0",
    "a raw socket": "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'",
    "the kernel's settings": "test -w /proc/sys/kernel/hostname && "
                             "echo \"$(hostname)\" > /proc/sys/kernel/hostname",
}


def attempts():
    write(SECRET, "secret")
    s = Session("attempts")
    for what, command in ATTEMPTS.items():
        outside = subprocess.run(["bash", "-c", command], check=False, capture_output=True)
        if outside.returncode:
            print(f"({what}: not possible outside either)")
            continue
        run = s.run(f"{command} && echo POSSIBLE\n")
        same(what, b"POSSIBLE" in run.stdout, False)


def status():
    s = Session("status")
    s.run("true\n")
    pid = s.json()["sandbox"]["pid"]
    said = s.json()["sandbox"]["isolation"]
    for name in ("user", "mnt", "pid", "ipc", "uts", "cgroup", "net"):
        key = "mount" if name == "mnt" else name
        same(f"{name} namespace", (said[f"namespace.{key}"], os.readlink(f"/proc/{pid}/ns/{name}") !=
                                   os.readlink(f"/proc/self/ns/{name}")), ("own", True))
    kernel = dict(line.split(":\t", 1) for line in
                  read(f"/proc/{pid}/status").decode().splitlines() if ":\t" in line)
    same("seccomp", (said["seccomp"].startswith("on"), kernel["Seccomp"]), (True, "2"))
    same("no_new_privs", (said["no_new_privs"], kernel["NoNewPrivs"]), ("on", "1"))
    if os.geteuid() == 0:
        uid = kernel["Uid"].split()[0]
        same("ids", (uid != "0", uid in said["ids"]), (True, True))
    inside = s.run("grep -E 'Cap|NoNewPrivs|Seccomp:' /proc/self/status\n").stdout.decode()
    for line in inside.splitlines():
        key, value = line.split(":\t")
        want = {"NoNewPrivs": 1, "Seccomp": 2}.get(key, 0)
        same(f"of user code: {key}", int(value, 16), want)
    has("the host's list has it as well", read(f"{MNT}/isolation"), b"process.seccomp: on")


def limits():
    s = Session("limits", config="memory_mb = 128\nfiles_inodes = 2000\n")
    run = s.run("for i in $(seq 700); do sleep 30 & done 2>/dev/null; echo many; jobs -p | wc -l\n")
    same("a fork bomb has an end", b"700" in run.stdout, False)
    s.ctl("reset")
    same("and the session goes on", s.run("echo on\n").stdout, b"on\n")
    run = s.run("head -c 300000000 /dev/zero > big || echo full\n")
    has("the quota of bytes", run.stdout, b"full")
    s.run("rm -f big\n")
    has("the quota of files", s.run("for i in $(seq 2500); do : > f$i || { echo out; break; }; "
                                    "done 2>/dev/null; rm -f f*; echo done\n").stdout, b"out")


def memory():
    s = Session("memory", template="python", config="memory_mb = 128\n")
    run = s.run("x = []\nwhile True: x.append(bytearray(1 << 20))\n")
    same("a memory bomb ends", run.code != 0, True)
    same("and the session goes on", s.run("print('on')\n").stdout, b"on\n")


def escapes():
    s = Session("escapes")
    s.run("setsid -f sleep 7654; (setsid sh -c 'sleep 7654 & sleep 7654' &)\n")

    def sleepers():
        return [p for p in filter(str.isdigit, os.listdir("/proc"))
                if b"sleep\0007654" in _cmdline(p)]

    same("they run", wait_for(lambda: len(sleepers()) >= 3, 5), True)
    s.remove()
    same("they end with the session", wait_for(lambda: not sleepers(), 5), True)


def _cmdline(pid):
    try:
        return read(f"/proc/{pid}/cmdline")
    except OSError:
        return b""


main(attempts, status, limits, memory, escapes)
