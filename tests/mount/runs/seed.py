#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`seed = N`: random numbers are the same in another session that does the same, however they are drawn; without, and with another
seed, they differ. Copies, what went back, and what slept go on as the original would have."""
# backends: local process vm
# night: vm
# timeout: 240
from xsbx import *

SHELL = """
echo $RANDOM $RANDOM $SRANDOM
head -c 8 /dev/urandom | od -An -tx1
head -c 8 /dev/urandom | od -An -tx1
dd if=/dev/urandom bs=300000 count=1 2>/dev/null | cksum
head -c 8 < /dev/random | od -An -tx1
bash -c 'echo $RANDOM $SRANDOM'
mktemp -u
shuf -i 1-1000 -n 5 | tr '\\n' ' '
for i in 1 2 3; do bash -c 'echo $SRANDOM' & done | sort
"""
PYTHON = """
import os, random, secrets, subprocess, sys, tempfile, uuid
print(os.urandom(8).hex(), random.random(), uuid.uuid4(), secrets.token_hex(4), tempfile.mktemp())
print(hash('a'), {'a', 'b', 'c', 'd'}, open('/proc/self/maps').readline().split('-')[0])
with open('/dev/urandom', 'rb') as one, open('/dev/urandom', 'rb', buffering=0) as other:
	print(one.read(4).hex(), len(other.read(200000)), os.read(other.fileno(), 4).hex())
child = "import os, random; print(random.random(), os.urandom(3).hex(), hash('b'))"
print(*(subprocess.run([sys.executable, '-c', child], capture_output=True).stdout for _ in range(2)))
"""
JAVASCRIPT = """
const c = require('node:crypto');
console.log(Math.random(), c.randomBytes(8).toString('hex'), c.randomUUID(), crypto.getRandomValues(new Uint8Array(4)).join());
console.log(require('node:child_process').execSync("head -c 4 /dev/urandom | od -An -tx1").toString());
"""
ONE = {"raw": "echo $RANDOM $SRANDOM\n", "python": "import os, random; print(random.random(), os.urandom(8).hex())\n"}
names = iter(range(1000))


def begin(template, seed, more=""):
    """What is cut short on a busy host would differ."""
    return Session(f"s{next(names)}", template, config=(f"seed = {seed}\n" if seed else "") + more + "timeout_s = 200\n")


def outputs(template, seed, *codes):
    s = begin(template, seed)
    out = [s.run(code).out for code in codes]
    ok(f"{template}: the runs say something", all(out), (out, s.text("error")))
    s.remove()
    return out


def drawn(template, code):
    one = outputs(template, 42, code, code)
    same(f"{template}: another session with the seed", outputs(template, 42, code, code), one)
    other = outputs(template, 43, code, code)
    none = outputs(template, None, code, code)
    again = outputs(template, None, code, code)
    for what, a, b in (("a later run", one[0], one[1]), ("another seed", one[0], other[0]), ("no seed", one[0], none[0]),
                       ("no seed, again", none[0], again[0])):
        for i, (x, y) in enumerate(zip(a.split("\n"), b.split("\n"))):
            # What hashes and addresses are made of does not change with each run; control: nor without a seed, of a copy.
            if x.strip() and not (template == "python" and i == 1):
                ok(f"{template}: {what} has others, line {i}", x != y, (x, y))
    if template == "python":
        ok("hashes of strings are the seed's", one[0].split("\n")[1].split()[0] != other[0].split("\n")[1].split()[0], (one, other))


def shells():
    drawn("raw", SHELL)


def pythons():
    need_language("python")
    drawn("python", PYTHON)


def scripts():
    need_language("javascript")
    drawn("javascript", JAVASCRIPT)


def whatever_was_before():
    """What a run draws does not depend on how much those before it have drawn; and a fresh interpreter is as good as any."""
    a, b = begin("raw", 7), begin("raw", 7)
    a.run("head -c 1000 /dev/urandom > x; for i in 1 2 3 4 5; do mktemp -u; done\n")
    b.run("true\n")
    code = "head -c 8 /dev/urandom | od -An -tx1; mktemp -u; echo $SRANDOM\n"
    same("the second run of both", a.run(code).out, b.run(code).out)
    same("a shell that ends", (a.run("exit 3\n").code, b.run("kill -9 $$\n").code), (3, 137))
    same("the run behind", a.run(SHELL).out, b.run(SHELL).out)


EDGES = """
import ctypes, errno, mmap, os, resource, threading
libc = ctypes.CDLL(None, use_errno=True)
def draw(at, length, flags=0):
	ctypes.set_errno(0)
	n = libc.syscall(ctypes.c_long({"x86_64": 318}.get(os.uname().machine, 278)), ctypes.c_void_p(at), ctypes.c_size_t(length), ctypes.c_uint(flags))
	return n if n >= 0 else errno.errorcode[ctypes.get_errno()]
buf = ctypes.create_string_buffer(1 << 20)
at = ctypes.addressof(buf)
print(draw(at, 0), draw(at, 1), draw(at, 256), draw(at, 1, 8), draw(at, 1, 6), draw(at, 16, 1), draw(8, 16))
page = mmap.mmap(-1, 8192)
base = ctypes.addressof(ctypes.c_char.from_buffer(page))
libc.munmap(ctypes.c_void_p(base + 4096), 4096)
print(draw(base + 4080, 64))
resource.setrlimit(resource.RLIMIT_NOFILE, (2000, 2000))
many = [os.open('/dev/urandom', os.O_RDONLY) for _ in range(300)]
print({len(os.read(fd, 70000)) for fd in many}, len({os.read(fd, 16) for fd in many}))
for fd in many:
	os.close(fd)
fd = os.open('/dev/urandom', os.O_RDONLY | os.O_NONBLOCK)
print(len(os.read(fd, 10)), os.get_inheritable(fd), os.path.exists('/dev/urandom'))
try:
	os.write(fd, b'x')
except OSError as e:
	print(errno.errorcode[e.errno])
threads = [threading.Thread(target=lambda: [os.urandom(8) for _ in range(200)]) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
print(os.urandom(8).hex())
"""


def edges():
    """As the kernel has it, where somebody asks for what can't be; a device that is open very often; many threads."""
    need_language("python")
    a, b = begin("python", 3), begin("python", 3)
    one = a.run(EDGES)
    lines = one.out.split("\n")
    same("calls", lines[:1], ["0 1 256 EINVAL EINVAL 16 EFAULT"])
    ok("half of it can be written", lines[1] in ("16", "EFAULT"), lines[1])
    same("devices", lines[2:5], ["{70000} 300", "10 False True", "EPIPE"])
    two = b.run(EDGES)
    same("the other ends well", two.code, 0)
    same("the main thread has its own", two.out.split("\n")[-2], lines[-2])
    same("it all went well", (one.code, one.err), (0, ""))


def jobs():
    def job(s, name):
        os.mkdir(s / f"jobs/{name}")
        write(s / f"jobs/{name}/in", "head -c 8 /dev/urandom | od -An -tx1; mktemp -u\n")
        return read(s / f"jobs/{name}/stdout").decode()

    a, b = begin("raw", 5), begin("raw", 5)
    a.run("true\n")
    b.run("true\n")
    one = [job(a, "x"), job(a, "y")]
    same("the jobs of both", [job(b, "x"), job(b, "y")], one)
    ok("two jobs have others", one[0] and one[0] != one[1], one)


def lasting(template):
    """A copy, and what went back, draw what the original would have drawn; sleep makes no difference."""
    code = ONE[template] if BACKEND == "vm" or template == "raw" else "import os; print(0, os.urandom(8).hex())\n"
    a = begin(template, 11)
    first = a.run(code).out
    os.mkdir(a / "checkpoints/one")
    read(a / "checkpoints/one/wait")
    copy = Session(f"s{next(names)}", template)
    write(copy / "config", f"from = {os.path.basename(a.path)}@one\n")
    second = a.run(code).out
    ok("a run draws others than the one before", first and first != second, (first, second))
    expected = second if BACKEND == "vm" else second.split()[1]
    part = (lambda text: text) if BACKEND == "vm" else (lambda text: text.split()[1])  # processes come back with a fresh interpreter
    same("a copy", part(copy.run(code).out), expected)
    a.ctl("restore one")
    same("going back", part(a.run(code).out), expected)
    b = begin(template, 11)
    same("another session", b.run(code).out, first)
    b.ctl("sleep")
    b.wait_state("asleep", 60)
    same("which has slept", part(b.run(code).out), expected)


def lasts():
    if BACKEND == "local":
        return
    lasting("raw")
    if has_language("python"):
        lasting("python")


def words():
    s = Session("words", "raw")
    for text, part in (("-1", "seed"), ("1x", "seed"), ("18446744073709551616", "2^64"), ("", None)):
        if part is None:
            write(s / "config", f"seed = {text}\n")
            continue
        with raises(f"seed = {text}", errno.EINVAL):
            write(s / "config", f"seed = {text}\n")
        has("... in words", s.text("error"), part)
    write(s / "config", "seed = 18446744073709551615\n")
    has("the largest", s.text("config"), "\nseed = 18446744073709551615\n")
    ok("it counts", s.run("echo $RANDOM\n").out)
    with raises("it cannot change while the sandbox runs", errno.EBUSY):
        write(s / "config", "seed = 3\n")
    with raises("code for all machines, whose interpreter it will not have", errno.EINVAL):
        write(begin("raw", None) / "config", "seed = 3\nwarmup = X=1\n")


main(shells, pythons, scripts, whatever_was_before, edges, jobs, lasts, words)
