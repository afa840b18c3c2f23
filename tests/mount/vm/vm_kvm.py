#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""KVM as hosts have it: whoever owns /dev/kvm, machines run with it where doctor says so; a busy host does
not make it broken; and guests have no virtualisation of their own."""
# mount: none
# backends: vm
# timeout: 200
import signal
import stat

from xsbx import *

vm_only()

KVM = "/dev/kvm"
BURNERS = 3 * os.cpu_count()


def mount(name, *options):
    mnt = f"{SCRATCH}/{name}"
    os.makedirs(mnt, exist_ok=True)
    return mnt, start_daemon(mnt, "prepare=no", *options)


def unmount(daemon):
    daemon.terminate()
    same("the daemon's end", daemon.wait(SOON), 0)


def verdict(mnt):
    """What `doctor` says of KVM, when it is decided."""
    def line():
        lines = read(f"{mnt}/doctor", "r").splitlines()
        return next(x for x in lines if " kvm: " in x)
    ok("decided", wait_for(lambda: "tried out" not in line(), 20))
    return line()


def burn():
    """Processes that compute. To be killed."""
    pids = []
    for _ in range(BURNERS):
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            while True:
                pass
        pids.append(pid)
    return pids


def busy():
    """As the daemon chooses by itself: KVM, on a host with other things to do."""
    pids = burn()
    try:
        mnt, daemon = mount("busy", "accel=auto")
        has("KVM is taken", verdict(mnt), "ok")
        unmount(daemon)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def quiet():
    """A machine with KVM, and what its guest sees of the processor."""
    mnt, daemon = mount("quiet", "accel=kvm")
    s = Session("flags", mnt=mnt)
    r = s.run("grep -c -E '^flags.* (svm|vmx)( |$)' /proc/cpuinfo; grep -c hypervisor /proc/cpuinfo\n")
    same("no virtualisation for guests", r.out.split()[0], "0")
    pid = s.json()["sandbox"]["pid"]
    with open(f"/proc/{pid}/status") as file:
        groups = next(x.split()[1:] for x in file if x.startswith("Groups:"))
    if os.getuid() == 0:
        same("QEMU's groups", groups, [])
    unmount(daemon)


def node_of_our_own():
    """In the place of the host's, which nobody else sees: the test has mounts of its own."""
    node = f"{SCRATCH}/kvm"
    if not os.path.exists(node):
        os.mknod(node, 0o600 | stat.S_IFCHR, os.stat(KVM).st_rdev)
    same("a node of our own", shell(f"mount --bind {node} {KVM}")[0], 0)
    return node


def owners():
    """Root's daemon gives its machines the device, whatever the rights of the host's node."""
    if os.getuid():
        return
    node = node_of_our_own()
    for mode, group in (0o600, 0), (0o660, 12345):
        os.chown(node, 0, group)
        os.chmod(node, mode)
        mnt, daemon = mount(f"mode{mode:o}-{group}", "accel=kvm")
        has(f"doctor, {mode:o} {group}", verdict(mnt), "ok")
        s = Session("one", mnt=mnt)
        same(f"a run, {mode:o} {group}", s.run("echo $((6 * 7))\n").out, "42\n")
        unmount(daemon)
    shell(f"umount {KVM}")


def refused():
    """Who has no rights is told what to do, and served all the same."""
    if os.getuid():
        return
    node_of_our_own()
    # Where the build is, others may not be allowed to go.
    shutil.copy(os.environ["XSBXFS"], f"{SCRATCH}/xsbxfs")
    _, out, err = shell("setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/nonexistent "
                        f"{SCRATCH}/xsbxfs --check -o accel=auto,cache_dir={SCRATCH}")
    line = next((x for x in out.decode().splitlines() if " kvm: " in x), (out + err).decode())
    has("told", line, "QEMU may not open /dev/kvm: Permission denied")
    has("what to do", line, "usermod -aG kvm")
    shell(f"umount {KVM}")


if not os.path.exists(KVM):
    skip("this host has no KVM")
first, process = mount("first", "accel=auto")
found = verdict(first)
unmount(process)
if not found.startswith("ok"):
    skip(found)
main(quiet, refused, owners, busy)
