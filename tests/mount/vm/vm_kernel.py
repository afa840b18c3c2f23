#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The guest's own kernel: what was left out of it is not there. That the probes find what there is
is shown by the same probes on the distribution's kernel, where each must find something."""
# mount: none
# backends: vm
# timeout: 300
# log-allow: snapshot of
import http.server
import socket
import threading

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
# User code is refused these, whatever the kernel has.
FILTERED = {
    "32-bit system calls": signal.SIGSYS, "AF_PACKET": "EAFNOSUPPORT",
    **dict.fromkeys("""
        bpf io_uring_setup userfaultfd init_module finit_module delete_module kexec_load
        kexec_file_load add_key request_key keyctl modify_ldt ioperm iopl fanotify_init quotactl acct
    """.split(), "EPERM")}
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


@contextlib.contextmanager
def mount(name, kernel, conf=""):
    """A daemon with this kernel: its mount, and what `doctor` calls the kernel."""
    mnt = f"{SCRATCH}/{name}"
    os.mkdir(mnt)
    write(f"{mnt}.conf", read(os.environ["CONF"], "r") + conf)
    daemon = start_daemon(mnt, f"cache_dir={CACHE}", f"kernel={kernel}", conf=f"{mnt}.conf")
    try:
        line = [x for x in read(f"{mnt}/doctor", "r").splitlines() if " kernel: " in x][0]
        if line.startswith("fail"):
            daemon.terminate()
            daemon.wait(SOON)
            skip(f"no own kernel is built (scripts/images --kernel own): {line}")
        has(f"doctor tells of the {kernel} kernel", line, f"kernel: {kernel} ")
        yield mnt, line
    finally:
        daemon.terminate()
        daemon.wait(SOON)


def probe(kernel):
    """What a sandbox with this kernel finds."""
    with mount(kernel, kernel) as (mnt, line):
        s = Session("probe", "python", mnt=mnt)
        result = s.run(code())
        same(f"{kernel}: the probes themselves work", (result.code, result.err), (0, ""))
        same(f"{kernel}: and do no harm", s.run("print('fine')\n").out, "fine\n")
        release = s.run("import os; print(os.uname().release)\n").out.strip()
        has(f"{kernel}: the release is the one that doctor tells", line, release)
        s.remove()
        return json.loads(result.out)


def left_out():
    own, stock = probe("own"), probe("stock")
    for name in own:
        if name in FILTERED:
            same(f"refused: {name}", (own[name], stock[name]), (FILTERED[name],) * 2)
            continue
        absent = {"AF_": "EAFNOSUPPORT", "/": "absent"}
        gone = next((word for start, word in absent.items() if name.startswith(start)), "ENOSYS")
        ok(f"control: the distribution's kernel has {name}", stock[name] != gone, stock[name])
        same(f"left out: {name}", own[name], gone)


class Web(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"a page from the host")

    def log_message(self, *words):
        pass


GET = """
import os, socket, urllib.request
def get(name):
    try:
        return urllib.request.urlopen(f"http://{name}:PORT/", timeout=20).read().decode()
    except OSError as error:
        return type(getattr(error, "reason", error)).__name__
print(os.uname().release, *sorted(os.listdir("/sys/class/net")))
print(get("allowed.xsbx.test"))
print(get("refused.xsbx.test"))
"""
ECHO = """
with socket.create_server(("", 8080)) as server:
    peer, _ = server.accept()
    with peer:
        peer.sendall(peer.recv(100).upper())
"""


def echoed(s):
    """What comes back through the session's port, once somebody listens inside."""
    port = int(s.text("ports").split()[1])
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 20) as sock:
        sock.sendall(b"hello")
        return sock.recv(100)
    return b""


def networked():
    """The driver of the card is built into the own kernel: out by a name on the list, in by a port;
    in a machine that has booted, and in one that was cloned."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    write(f"{SCRATCH}/hosts",
          read("/etc/hosts", "r") + "\n127.0.0.1 allowed.xsbx.test refused.xsbx.test\n")
    subprocess.run(["mount", "--bind", f"{SCRATCH}/hosts", "/etc/hosts"], check=True)
    config = f"allow = allowed.xsbx.test:{port} 127.0.0.1:{port}\nports = 8080\n"
    conf = f"\n[limits]\nmax_allow = * 127.0.0.1:{port}\n[template python]\nnetwork = on\npool = 0\n"
    with mount("networked", "own", conf) as (mnt, line):
        for name in "first", "second":
            s = Session(name, "python", config, mnt=mnt)
            lines = s.run(GET.replace("PORT", str(port))).out.splitlines()
            same(f"{name}: the own kernel, and its card", lines[0].split()[1:], ["eth0", "lo"])
            has(f"{name}: the release", line, lines[0].split()[0])
            same(f"{name}: an allowed name, and another", lines[1:],
                 ["a page from the host", "gaierror"])
            s.submit(ECHO)
            same(f"{name}: a port", wait_for(lambda s=s: echoed(s), 30), b"HELLO")
            same(f"{name}: which was served", s.result().code, 0)
            started = s.json()["sandbox"]["start"]
            s.remove()
            ok("a snapshot of it", wait_for(lambda mnt=mnt: [
                k for k in json.loads(read(f"{mnt}/status.json"))["snapshots"]
                if k["network"] and k["state"] == "ready"], 30))
        same("the second one is a clone", started, "snapshot")
    server.shutdown()


main(left_out, networked)
