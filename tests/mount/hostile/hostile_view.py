#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What user code finds around it: files it could write, /proc and devices, descriptors it inherited,
its environment, and what others left to be found: sockets, shared memory, processes. Each look is
first taken outside, where it must find something: otherwise the test could not tell."""
# backends: process vm
# timeout: 120
import ctypes
import socket

from xsbx import *

# Lists what could be opened for writing, or, of directories, be written to. Device nodes are not
# opened: outside, that alone can have consequences.
WRITABLE = """
import os, stat
mine = ('/home', '/tmp', '/var/tmp', '/dev/shm', '/dev/pts')
found = []
def look(path, kind):
    if stat.S_ISDIR(kind) or not path.startswith('/proc/'):
        if os.access(path, os.W_OK) and not stat.S_ISCHR(kind):
            found.append(path)
    elif stat.S_ISREG(kind):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            found.append(path)
        except OSError:
            pass
for top in TOPS:
    for folder, dirs, files in os.walk(top):
        dirs[:] = [d for d in dirs if os.path.join(folder, d) not in mine
                   and not (folder == '/proc' and (d.isdigit() or d in ('self', 'thread-self')))]
        for name in ['.'] + files:
            path = os.path.normpath(os.path.join(folder, name))
            try:
                kind = os.lstat(path).st_mode
            except OSError:
                continue
            if not stat.S_ISLNK(kind):
                look(path, kind)
print(*found, sep='\\n')
"""


def listed(text):
    return {line for line in text.splitlines() if line}


def writable():
    p = Session("writable", "python")
    tops = "['/']"
    inside = listed(p.run(f"TOPS = {tops}\n{WRITABLE}").out)
    if VM:  # who writes there has the guest's kernel watch the guest
        inside -= {f"/proc/pressure/{what}" for what in ("cpu", "io", "memory")}
    same("nothing of the view can be written but what is memory of its own", sorted(inside)[:10], [])
    done = subprocess.run([sys.executable, "-c", f"TOPS = ['/proc', '/etc']\n{WRITABLE}"],
                          check=False, stdout=subprocess.PIPE, timeout=2 * SOON)
    if os.geteuid() == 0:
        found = listed(done.stdout.decode())
        ok("control: outside, the same look finds a lot", len(found) > 100, len(found))
        for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname"):
            has(f"control: {path}", found, path)


# Files with which a host can be changed or looked into; what a jail puts over one reads as empty.
ROUTES = ["/proc/sysrq-trigger", "/proc/kcore", "/proc/kmsg", "/proc/mem", "/proc/kpageflags",
          "/proc/timer_list", "/proc/keys", "/proc/sched_debug", "/proc/1/environ", "/proc/1/maps",
          "/proc/1/stack", "/proc/1/syscall", "/proc/1/mem", "/proc/1/root/etc/passwd",
          "/proc/1/cwd/etc/passwd", "/proc/1/fdinfo/0", "/proc/1/cgroup",
          "/sys/kernel/uevent_helper", "/sys/kernel/vmcoreinfo", "/sys/firmware", "/sys/kernel/debug",
          "/sys/fs/cgroup", "/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/fuse",
          "/dev/kvm", "/dev/net/tun", "/dev/loop-control", "/dev/vda", "/dev/sda", "/dev/vhost-net",
          "/dev/userfaultfd", "/etc/shadow", "/etc/hostname", "/root", "/boot", "/var/log",
          "/var/lib/dpkg/status", "/run/systemd", "/run/dbus", "/opt", "/mnt", "/srv"]
READABLE = """
import os
for path in ROUTES:
    try:
        if os.path.isdir(path):
            there = bool(os.listdir(path))
        else:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                there = path.startswith('/dev/') or bool(os.read(fd, 1))
            except OSError:
                there = True
    except OSError:
        there = False
    if there:
        print(path)
"""


def routes():
    p = Session("routes", "python")
    inside = listed(p.run(f"ROUTES = {ROUTES}\n{READABLE}").out)
    if VM:  # the guest's own
        inside = {r for r in inside if not r.startswith(("/sys/", "/etc/", "/var/"))}
    same("nothing of the host is there to be read", sorted(inside), [])
    # Opening a device can have consequences by itself.
    outside = [r for r in ROUTES if not r.startswith("/dev/")]
    done = subprocess.run([sys.executable, "-c", f"ROUTES = {outside}\n{READABLE}"], check=False,
                          stdout=subprocess.PIPE, timeout=SOON)
    found = listed(done.stdout.decode())
    ok("control: outside, the same look finds some", len(found) > (8 if os.geteuid() == 0 else 3),
       sorted(found))


def covered():
    """What a jail lays over files of /proc reads as empty; a machine has its own."""
    if VM:
        return
    s = Session("covered")
    for name in ("buddyinfo", "cmdline", "diskstats", "interrupts", "locks", "modules", "partitions",
                 "schedstat", "softirqs", "swaps", "timer_list", "zoneinfo"):
        path = f"/proc/{name}"
        if not os.path.exists(path):
            continue
        same(f"{path} is empty", s.run(f"cat {path}\n").out, "")
        if name not in ("modules", "partitions", "diskstats", "locks", "schedstat", "timer_list"):
            ok(f"control: {path} is not", read(path))


def processors():
    """Of what /proc/stat says, only how many processors there are and when the host was started."""
    if VM:
        return
    s = Session("processors", "python")

    def parts(text):
        lines = [line.split() for line in text.splitlines()]
        return ([words[0] for words in lines], [words for words in lines if words[0] == "btime"],
                {n for words in lines if words[0] != "btime" for n in words[1:]})

    outside, inside = parts(read("/proc/stat", "r")), parts(s.run(
        "print(open('/proc/stat').read(), end='')\n").out)
    same("the same lines", set(inside[0]) - {"softirq"}, set(outside[0]) - {"softirq"})
    same("the same boot", inside[1], outside[1])
    same("nothing else", inside[2], {"0", "1"})
    ok("control: of this host there is more", len(outside[2]) > 5, outside[2])
    same("nothing is left of how it was made", s.run("import os; print('stat' in os.listdir('/'))\n").out,
         "False\n")
    if has_language("javascript"):
        s = Session("cpus", "javascript")
        same("a runtime counts processors", s.run("console.log(require('os').cpus().length)\n").out,
             f"{os.cpu_count()}\n")


def devices():
    s = Session("devices")
    names = listed(s.run("cd /dev; find . -mindepth 1 -not -path './shm/*' -not -path './pts/*'\n").out)
    own = {"./" + n for n in ("null", "zero", "full", "random", "urandom", "tty", "fd", "stdin",
                              "stdout", "stderr", "ptmx", "pts", "shm")}
    same("devices", sorted(names - own), [])
    same("block devices", s.run("find / -xdev -type b 2>/dev/null; find /dev -type b\n").out, "")
    same("there are some to use", s.run("head -c 3 /dev/zero | wc -c; head -c 8 /dev/urandom | wc -c; "
                                        "echo x > /dev/null && echo y\n").out, "3\n8\ny\n")
    if VM:
        return
    before = os.stat("/dev/null")
    result = s.run("touch /dev/null; chmod 600 /dev/null; chown 1000 /dev/null; ln -f /dev/null "
                   "/dev/shm/n; mv /dev/null /dev/nil; rm -f /dev/null\n")
    after = os.stat("/dev/null")
    same("a device of the host's keeps its times, mode and owner",
         (after.st_mtime_ns, after.st_mode, after.st_uid),
         (before.st_mtime_ns, before.st_mode, before.st_uid))
    ok("and all that was refused", result.err.count("\n") >= 6, result)
    os.utime("/dev/null")
    ok("control: outside, a touch is seen", os.stat("/dev/null").st_mtime_ns > after.st_mtime_ns)


def terminals():
    """Of terminals the whole host has so many; a sandbox gets a few."""
    if VM:
        return
    p = Session("terminals", "python")
    count = int(p.run("import os\nn = 0\ntry:\n    while n < 3000:\n        os.open('/dev/ptmx', 2); "
                      "n += 1\nexcept OSError:\n    pass\nprint(n)\n").out)
    ok("some terminals", 10 <= count <= 256, count)
    q = Session("terminals2", "python")
    same("another sandbox has its own", q.run("import os; m, s = os.openpty(); os.write(s, b'x'); "
                                              "print(os.read(m, 1))\n").out, "b'x'\n")


FDS = """
import os, stat
for name in os.listdir('/proc/self/fd'):
    try:
        kind, to = os.stat(int(name)).st_mode, os.readlink(f'/proc/self/fd/{name}')
    except OSError:
        continue
    print(name, stat.filemode(kind)[0], to)
"""


def descriptors():
    """What user code holds is its output and its driver's; none leads to a file of anybody's."""
    for language in ("raw", "python", "javascript"):
        if not has_language(language):
            continue
        s = Session("descriptors", language)
        write(s / "files/fds.py", FDS)
        code = {"raw": "for f in /proc/$$/fd/*; do echo ${f##*/} $(stat -Lc %A $f | cut -c1) "
                       "$(readlink $f); done\n",
                "python": FDS,
                "javascript": "const fs = require('fs'); for (const n of fs.readdirSync("
                              "'/proc/self/fd')) { try { const k = fs.fstatSync(+n); console.log(n, "
                              "k.isDirectory() ? 'd' : k.isFile() ? '-' : k.isBlockDevice() ? 'b' : "
                              "k.isCharacterDevice() ? 'c' : '?', fs.readlinkSync('/proc/self/fd/' + "
                              "n)) } catch (e) {} }\n"}[language]
        for line in listed(s.run(code).out):
            number, kind, target = (line + "  ").split(" ", 2)
            if not target.strip():
                continue  # closed by the time it was looked at
            target = target.strip()
            harmless = kind != "d" and not (kind == "-" and target.startswith("/") and
                                            not target.startswith(("/memfd:", "/home/user/"))) and \
                not (kind == "c" and target != "/dev/null" and target != "/dev/urandom")
            # The list itself is read by a descriptor; the program may have its own open.
            ok(f"{language}: descriptor {number} leads to nothing", harmless or
               target.startswith(("/proc/", "/usr/", "/run/xsbx/")), line)
    if VM:
        return
    # The agent's own, looked at from outside: it must not hold a directory of the host's.
    s = Session("agent")
    s.run("true\n")
    agent = s.pid()
    host = {os.stat(path).st_dev for path in ("/", "/usr", "/tmp", "/dev", SCRATCH)}
    for number in os.listdir(f"/proc/{agent}/fd"):
        path = f"/proc/{agent}/fd/{number}"
        try:
            info, target = os.stat(path), os.readlink(path)
        except OSError:
            continue
        ok(f"the agent's {number} is no file of the host", info.st_dev not in host or
           target.rsplit("/", 1)[-1] == "null", target)


def environment():
    ok("control: the daemon has an environment", "TEST_DIR" in os.environ)
    for language in ("raw", "python"):
        s = Session("environment", language)
        code = "cat /proc/*/environ /proc/self/environ 2>/dev/null | tr '\\0' '\\n'; env\n"
        if language == "python":
            code = f"import subprocess; print(subprocess.run({code!r}, shell=True, " \
                   "capture_output=True, text=True).stdout)\n"
        out = s.run(code).out
        has(f"{language}: it has its own", out, "HOME=/home/user")
        for name in ("TEST_DIR", "XSBX_", "SCRATCH", "XDG_", "TMPDIR", "ASAN_OPTIONS"):
            ok(f"{language}: nothing of the host's: {name}", f"\n{name}" not in f"\n{out}", short(out))
        ok(f"{language}: nor a path of the host", MNT not in out, short(out))


REACH = """
import ctypes, os, signal, socket
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, what):
    try:
        what()
        print(name)
    except OSError:
        pass
def connect(family, address):
    def what():
        with socket.socket(family) as s:
            s.settimeout(2)
            s.connect(address)
    return what
def sysv():
    if libc.shmget(KEY, 0, 0) < 0:
        raise OSError
def queue():
    lib = ctypes.CDLL('librt.so.1')
    if lib.mq_open(QUEUE.encode(), os.O_RDONLY) < 0:
        raise OSError
attempt('an abstract socket', connect(socket.AF_UNIX, '\\0' + NAME))
attempt('a socket by path', connect(socket.AF_UNIX, PATH))
attempt('a port of the host', connect(socket.AF_INET, ('127.0.0.1', PORT)))
attempt('shared memory', sysv)
attempt('a message queue', queue)
attempt('a file in /dev/shm', lambda: open('/dev/shm/' + NAME))
attempt('a file in /tmp', lambda: open(PATH + '.file'))
attempt('processes', lambda: [os.kill(pid, 0) for pid in PIDS])
attempt('processes in /proc', lambda: [open(f'/proc/{pid}/cmdline') for pid in PIDS])
attempt('the working directory of a process', lambda: [os.listdir(f'/proc/{p}/cwd/') for p in PIDS])
"""


def reach():
    name = f"xsbx-probe-{os.getpid()}"
    abstract, path = socket.socket(socket.AF_UNIX), f"/tmp/{name}"
    abstract.bind("\0" + name)
    bound, port = socket.socket(socket.AF_UNIX), socket.socket()
    bound.bind(path)
    port.bind(("127.0.0.1", 0))
    for s in (abstract, bound, port):
        s.listen(8)
    os.chmod(path, 0o777)
    libc = ctypes.CDLL(None, use_errno=True)
    key = 0x78736278
    segment = libc.shmget(key, 4096, 0o1666)
    queue = f"/{name}"
    libc.mq_open(queue.encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
    for file in (f"/dev/shm/{name}", f"{path}.file"):
        write(file, "secret")
        os.chmod(file, 0o644)
    # By chance the sandbox has a process of the same number, but not of all these.
    sleepers = [subprocess.Popen(["sleep", "60"]) for _ in range(12)]
    code = f"NAME, PATH, PORT, KEY, QUEUE, PIDS = {name!r}, {path!r}, {port.getsockname()[1]}, {key}, " \
           f"{queue!r}, {[sleeper.pid for sleeper in sleepers]}\n{REACH}"
    try:
        done = subprocess.run([sys.executable, "-c", code], check=False, stdout=subprocess.PIPE)
        same("control: outside, all of it is within reach", len(listed(done.stdout.decode())), 10)
        result = Session("reach", "python").run(code)
        same("inside, nothing", (result.out, result.code), ("", 0))
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()
        libc.shmctl(segment, 0, None)
        libc.mq_unlink(queue.encode())
        for file in (f"/dev/shm/{name}", f"{path}.file", path):
            os.unlink(file)


def others():
    """Two sandboxes of one user: neither sees the other."""
    a, b = Session("a", "python"), Session("b", "python")
    a.run("import socket, os, ctypes\nk = socket.socket(socket.AF_UNIX); k.bind('\\0between'); "
          "k.listen(1)\nt = socket.socket(); t.bind(('127.0.0.1', 40404)); t.listen(1)\n"
          "open('/tmp/between', 'w').write('x'); open('/dev/shm/between', 'w').write('x')\n"
          "ctypes.CDLL(None).shmget(77, 4096, 0o1666)\n"
          "import subprocess; subprocess.Popen(['sleep', '7010'])\n")
    look = ("import socket, os, ctypes, subprocess\n"
            "def there(f, a):\n    with socket.socket(f) as s:\n        return s.connect_ex(a) == 0\n"
            "print(there(socket.AF_UNIX, '\\0between'), there(socket.AF_INET, ('127.0.0.1', 40404)), "
            "os.path.exists('/tmp/between'), os.path.exists('/dev/shm/between'), "
            "ctypes.CDLL(None).shmget(77, 0, 0) >= 0, "
            "any(b'7010' in open(f'/proc/{p}/cmdline', 'rb').read() for p in os.listdir('/proc') "
            "if p.isdigit()))\n")
    same("control: whose they are sees them", a.run(look).out, "True True True True True True\n")
    same("another does not", b.run(look).out, "False False False False False False\n")


SIGNALS = """
import os, signal
sent = 0
for number in range(1, 65):
    for target in (1, 2):
        try:
            os.kill(target, number)
            sent += 1
        except OSError:
            pass
print('tried')
"""


def signals():
    """Any signal to the agent, and one to all there is: the session goes on, and nobody else notices."""
    bystander = subprocess.Popen(["sleep", "60"])
    p, s = Session("signals", "python"), Session("signals")
    other = Session("bystander")
    other.run("x=1\n")
    p.run(SIGNALS)
    wait_for(lambda: p.word() == "idle", 10)
    same("all signals to the agent", p.run("print('on')\n").out, "on\n")
    for code in ("kill -9 -1\n", "kill -STOP -1\n", "kill -9 1; kill -STOP 1; kill -9 $PPID\n",
                 "kill -9 0\n"):
        s.submit(code)
        if not wait_for(lambda: s.word() in ("idle", "closed"), 5):
            s.ctl("reset")
        same(f"{code.strip()}: the session goes on", s.run("echo on\n").out, "on\n")
    same("who stands by", bystander.poll(), None)
    same("another session has kept all it had", other.run("echo $x\n").out, "1\n")
    bystander.kill()


need_language("python")
main(writable, routes, covered, processors, devices, terminals, descriptors, environment, reach, others, signals)
