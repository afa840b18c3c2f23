#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The guest's own kernel: what was left out of it is not there. That the probes find what there is
is shown by the same probes on the distribution's kernel, where each must find something."""
# mount: none
# backends: vm
# timeout: 300
# log-allow: snapshot of
from xsbx import *

vm_only()

CACHE = os.environ["IMAGES"]

# name, number, arguments that get as far as the system call's own code, or are refused there
CALLS = [
    ("bpf", 321, (0, 0, 0)),
    ("io_uring_setup", 425, (0, 0)),
    ("userfaultfd", 323, (0xffff,)),
    ("io_setup", 206, (0, 0)),
    ("init_module", 175, (0, 0, 0)),
    ("finit_module", 313, (-1, 0, 0)),
    ("delete_module", 176, (0, 0)),
    ("kexec_load", 246, (0, 0, 0, 0)),
    ("kexec_file_load", 320, (-1, -1, 0, 0, 0)),
    ("add_key", 248, (0, 0, 0, 0, 0)),
    ("request_key", 249, (0, 0, 0, 0)),
    ("keyctl", 250, (0, 0, 0, 0, 0)),
    ("modify_ldt", 154, (0, 0, 0)),
    ("ioperm", 173, (0, 1, 0)),
    ("iopl", 172, (0,)),
    ("fanotify_init", 300, (0, 0)),
    ("name_to_handle_at", 303, (-1, 0, 0, 0, 0)),
    ("kcmp", 312, (1, 1, 0, 0, 0)),
    ("quotactl", 179, (0, 0, 0, 0)),
    ("acct", 163, (0,)),
    ("mbind", 237, (0, 0, 0, 0, 0, 0)),
    ("landlock_create_ruleset", 444, (0, 0, 1)),
]
FAMILIES = {"AF_INET6": 10, "AF_PACKET": 17}
FILES = [
    "/proc/kallsyms", "/proc/modules", "/proc/kcore", "/proc/keys", "/proc/key-users",
    "/proc/sysrq-trigger", "/proc/acpi", "/proc/bus/pci", "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/unprivileged_bpf_disabled",
    "/proc/sys/kernel/kexec_load_disabled", "/proc/self/ns/user", "/proc/self/ns/time",
    "/proc/self/ns/cgroup", "/proc/self/cgroup",
    "/sys/firmware/acpi", "/sys/bus/pci", "/sys/kernel/debug", "/sys/kernel/tracing",
    "/sys/kernel/btf", "/sys/module/virtio_blk/sections", "/sys/class/input", "/sys/class/rtc",
    "/sys/power",
]

CODE = """
import ctypes, errno, json, mmap, os, socket
libc = ctypes.CDLL(None, use_errno=True)
found = {}
for name, number, args in CALLS:
    ctypes.set_errno(0)
    r = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in args])
    found[name] = "0" if r >= 0 else errno.errorcode[ctypes.get_errno()]
for name, family in FAMILIES.items():
    try:
        socket.socket(family, socket.SOCK_DGRAM).close()
        found[name] = "0"
    except OSError as e:
        found[name] = errno.errorcode[e.errno]
for path in FILES:
    found[path] = "there" if os.path.lexists(path) else "absent"

def machine_code(code):
    \"\"\"What becomes of a child that runs it.\"\"\"
    pid = os.fork()
    if pid == 0:
        m = mmap.mmap(-1, 4096, prot=7)
        m.write(code)
        ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()
        os._exit(0)
    return os.waitpid(pid, 0)[1]

found["32-bit system calls"] = machine_code(bytes.fromhex("b814000000cd80c3"))
print(json.dumps(found))
"""


def code():
    return f"CALLS = {CALLS!r}\nFAMILIES = {FAMILIES!r}\nFILES = {FILES!r}\n{CODE}"


def probe(kernel):
    """What a sandbox with this kernel finds, and what `doctor` calls the kernel."""
    mnt = f"{SCRATCH}/{kernel}"
    os.mkdir(mnt)
    daemon = start_daemon(mnt, f"cache_dir={CACHE}", f"kernel={kernel}")
    try:
        line = [x for x in read(f"{mnt}/doctor", "r").splitlines() if " kernel: " in x][0]
        if line.startswith("fail"):
            daemon.terminate()
            daemon.wait(10)
            skip(f"no own kernel is built (scripts/images --kernel own): {line}")
        has(f"doctor tells of the {kernel} kernel", line, f"kernel: {kernel} ")
        s = Session("probe", "python", mnt=mnt)
        result = s.run(code())
        same(f"{kernel}: the probes themselves work", (result.code, result.err), (0, ""))
        same(f"{kernel}: and do no harm", s.run("print('fine')\n").out, "fine\n")
        release = s.run("import os; print(os.uname().release)\n").out.strip()
        has(f"{kernel}: the release is the one that doctor tells", line, release)
        s.remove()
        return json.loads(result.out)
    finally:
        daemon.terminate()
        daemon.wait(20 * SLOW)


def left_out():
    own, stock = probe("own"), probe("stock")
    for name in own:
        absent = {"AF_": "EAFNOSUPPORT", "/": "absent", "32-": signal.SIGSEGV}
        gone = next((word for start, word in absent.items() if name.startswith(start)), "ENOSYS")
        ok(f"control: the distribution's kernel has {name}", stock[name] != gone, stock[name])
        same(f"left out: {name}", own[name], gone)


main(left_out)
