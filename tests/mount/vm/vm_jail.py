#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cell QEMU runs in, looked at from outside. Each look is first taken at the daemon, where it
must show the opposite: otherwise the test could not tell."""
# backends: vm
# timeout: 240
# conf: [template raw]
# conf: pool = 0
from xsbx import *


vm_only()


def status(pid):
    lines = open(f"/proc/{pid}/status").read().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def number(pid, key):
    return int(status(pid)[key].split()[0], 16 if key.startswith("Cap") else 10)


def exists(pid, path):
    return os.path.lexists(f"/proc/{pid}/root{path}")


def interfaces(pid):
    return {line.split(":")[0].strip() for line in open(f"/proc/{pid}/net/dev").readlines()[2:]}


def programs(pid):
    """Programs that this process sees, outside of directories for libraries."""
    found = set()
    for top in "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt", "/home", "/root":
        for _, _, files in os.walk(f"/proc/{pid}/root{top}"):
            found.update(files)
    return found


def look(pid, daemon):
    """Return: what is wrong with the cell of this process, by name."""
    wrong = {}
    for name in "user", "mnt", "pid", "ipc", "uts", "net", "cgroup":
        if os.readlink(f"/proc/{pid}/ns/{name}") == os.readlink(f"/proc/{daemon}/ns/{name}"):
            wrong[f"namespace {name}"] = "the host's"
    for key in "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb":
        if number(pid, key):
            wrong[key] = status(pid)[key]
    if number(pid, "NoNewPrivs") != 1:
        wrong["no_new_privs"] = "not set"
    if number(pid, "Seccomp") != 2:
        wrong["seccomp"] = "no filter"
    if os.getuid() == 0 and number(pid, "Uid") == 0:
        wrong["uid"] = "root's"
    for path in "/etc/passwd", "/etc/hostname", "/var", "/tmp", "/sys", "/run":
        if exists(pid, path):
            wrong[path] = "in sight"
    more = {name for name in programs(pid) if not name.startswith("qemu-system-")}
    if more:
        wrong["programs"] = short(sorted(more)[:5])
    if interfaces(pid) - {"lo"}:
        wrong["network"] = interfaces(pid)
    return wrong


def writable(pid):
    """File systems that can be written, but for devices and what is of the process itself."""
    found = []
    for line in open(f"/proc/{pid}/mounts"):
        _, target, kind, options = line.split()[:4]
        if options.split(",")[0] == "rw" and kind != "devtmpfs" and target != "/proc" and \
                not target.startswith("/dev/"):
            found.append(target)
    return found


def machine():
    session = f"{MNT}/raw/cell"
    os.mkdir(session)
    write(f"{session}/in", "echo here\n")
    same("a run in a machine", read(f"{session}/stdout"), b"here\n")
    return json.load(open(f"{session}/status.json"))["sandbox"]["pid"]


def cell():
    [daemon] = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                if name_of(pid) == "xsbxfs-daemon" and
                MNT in read(f"/proc/{pid}/cmdline", "r").split("\0")]
    control = look(os.getpid(), os.getppid())
    for name in "no_new_privs", "seccomp", "/etc/passwd", "/tmp", "programs":
        ok(f"the same look at this test finds: {name}", name in control, control)
    ok("the same look at this test finds something to write to", writable(daemon))
    pid = machine()
    same("nothing is wrong with QEMU's cell", look(pid, daemon), {})
    same("it can write nowhere", writable(pid), [])


main(cell)
