#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What code in a microVM cannot do. Each probe is first tried on the host, where it must succeed
(otherwise the test could not tell), and then in the sandbox, where it must fail."""
# backends: vm
# timeout: 120
from xsbx import *

vm_only()

SECRET = f"{SCRATCH}/secret"

# name, a shell command that prints YES if the thing is possible, whether the host must say YES
PROBES = [
    ("read a file of the host", f"[ \"$(cat {SECRET})\" = topsecret ] && echo YES", True),
    ("see the host's processes", f"kill -0 {os.getpid()} && grep -q python /proc/{os.getpid()}/comm && echo YES",
     True),
    ("be root", "[ $(id -u) = 0 ] && echo YES", True),
    ("have capabilities", "grep -q '^CapEff:.*[1-9a-f]' /proc/self/status && echo YES", True),
    ("gain capabilities by set-id programs", "grep -q '^NoNewPrivs:.*0' /proc/self/status && echo YES",
     True),
    ("have capabilities in the bounding set", "grep -q '^CapBnd:.*[1-9a-f]' /proc/self/status && echo YES",
     True),
    ("write to /etc", "touch /etc/xsbx-probe && rm /etc/xsbx-probe && echo YES", True),
    ("write to /usr", "touch /usr/xsbx-probe && rm /usr/xsbx-probe && echo YES", True),
    ("mount a file system", "d=$(mktemp -d); mount -t tmpfs none $d && umount $d && echo YES", True),
    ("make a device node", "d=$(mktemp -d); mknod $d/n c 1 3 && rm -r $d && echo YES", True),
    ("change the clock's permission", "date -s @$(date +%s) && echo YES", None),
    ("set the host name", "hostname \"$(hostname)\" && echo YES", None),
    ("signal init", "kill -0 1 && echo YES", True),
    ("read init's memory map", "cat /proc/1/maps | grep -q . && echo YES", True),
    ("use the magic SysRq", "[ -w /proc/sysrq-trigger ] && ! [ -c /proc/sysrq-trigger ] && echo YES", None),
    ("change kernel settings", "[ -w /proc/sys/kernel/core_pattern ] && echo YES", None),
    ("open raw memory", "head -c 1 /dev/mem | wc -c | grep -q 1 && echo YES", None),
    ("read a block device", "for d in /dev/vd* /dev/sd* /dev/nvme*n1; do [ -b $d ] && "
     "head -c 1 $d 2>/dev/null | wc -c | grep -q 1 && echo YES && break; done", None),
    ("find set-id programs", "find / -xdev -perm /6000 -type f 2>/dev/null | grep -q . && echo YES", True),
    ("reach a network", "ip route 2>/dev/null | grep -q . && echo YES; cat /proc/net/route | "
     "tail -n +2 | grep -q . && echo YES", None),
    ("raise a limit on processes", "ulimit -u unlimited && echo YES", None),
    ("read kernel addresses", "grep -v ' 0\\{8\\}' /proc/kallsyms | grep -vq '^0000000000000000' && echo YES",
     None),
]

PYTHON = [
    ("open a raw socket", "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); print('YES')",
     True),
    ("open a packet socket", "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW); print('YES')",
     True),
    ("bind port 80", "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); "
     "t = socket.socket(); t.bind(('127.0.0.1', 81)); print('YES')", True),
    ("chown to root", "import os; open('c', 'w'); os.chown('c', 0, 0); os.unlink('c'); print('YES')", True),
    ("change its user", "import os\nif not os.fork():\n    os.setuid(0); os.setgid(0); print('YES', "
     "flush=True); os._exit(0)\nos.wait()", True),
    ("trace another process", "import ctypes\nl = ctypes.CDLL(None, use_errno=True)\n"
     "print('YES' if l.ptrace(16, 1, 0, 0) == 0 else 'no')", None),
    ("make a user namespace", "import ctypes; print('YES' if ctypes.CDLL(None).unshare(0x10000000) == 0 "
     "else 'no')", None),
    ("load a program into the kernel", "import ctypes, os; b = ctypes.create_string_buffer(128); "
     "print('YES' if ctypes.CDLL(None).syscall(321 if os.uname().machine == 'x86_64' else 280, 0, b, 128) >= 0 else 'no')", None),
    ("find another file of the guest's machinery", "import os, glob\n"
     "print('YES' if any('memfd' in os.readlink(f) or 'socket' in os.readlink(f) for f in "
     "glob.glob('/proc/1/fd/*')) else 'no')", None),
]


def on_host(code, command):
    done = subprocess.run([*command, code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          check=False, cwd=SCRATCH, timeout=2 * SOON)
    return "YES" in done.stdout.decode()


def probes():
    write(SECRET, "topsecret")
    shells, pythons = Session("probe"), Session("probe", "python")
    for session, table, command in ((shells, PROBES, ["bash", "-c"]),
                                    (pythons, PYTHON, [sys.executable, "-c"])):
        for name, code, control in table:
            if control and os.getuid() == 0:
                ok(f"control: {name}", on_host(code, command), "the host cannot do it either")
            result = session.run(code + "\n")
            ok(f"refused: {name}", "YES" not in result.out, result)
            ok(f"{name}: the sandbox survives", isinstance(result.code, int), result)
            if session.word() == "closed":
                fail(f"{name}: ended the sandbox", session.text("error"))
                session.ctl("reset")
    same("still well", shells.run("echo fine\n").out, "fine\n")
    same("unprivileged", shells.run("id -u; id -g; id -G\n").out, "1000\n1000\n1000\n")


def machinery():
    """The driver's own descriptors and the protocol are out of reach."""
    s = Session("machinery", "python")
    s.run("""
import os
for fd in range(3, 1024):
    try: os.write(fd, b'\\0' * 64)
    except OSError: pass
    try: os.close(fd)
    except OSError: pass
print('tried')""")
    wait_for(lambda: s.word() in ("idle", "closed"), 10)
    if s.word() == "closed":
        s.ctl("reset")
    result = s.run("print('fine')")
    same("a forged message changed nothing", (result.out, result.code), ("fine\n", 0))
    r = Session("machinery")
    r.run("kill -9 -1\n")
    wait_for(lambda: r.word() in ("idle", "closed"), 10)
    same("kill -1 leaves the agent alive", r.word(), "idle")
    same("and the session goes on", r.run("echo fine\n").out, "fine\n")


main(probes, machinery)
