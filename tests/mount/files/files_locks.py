#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""files/: locks hold between programs of this host and of the sandbox: flock, fcntl, and those of open files."""
# timeout: 90
# backends: local vm
import select

from xsbx import *

need_language("python")

# What each side can do with a file called `name`; the same text runs in the sandbox and on the host.
TOOLS = """
import errno, fcntl, os, signal, struct
KINDS = {"flock": None, "posix": (fcntl.F_SETLK, fcntl.F_SETLKW), "ofd": (37, 38)}
held = {}
def take(name, kind, how, start=0, length=0, wait=False, key=None):
    key = key or name
    fd = held.get(key)
    if fd is None:
        fd = held[key] = os.open(name, os.O_RDWR | os.O_CREAT)
    try:
        if kind == "flock":
            fcntl.flock(fd, {"r": 1, "w": 2, "u": 8}[how] | (0 if wait else 4))
        else:
            fcntl.fcntl(fd, KINDS[kind][wait], struct.pack("hhqqi4x", {"r": 0, "w": 1, "u": 2}[how],
                                                         0, start, length, 0))
    except OSError as e:
        return errno.errorcode[e.errno]
    return "ok"
def test(name, how, start=0, length=0):
    fd = held.get(name)
    if fd is None:
        fd = held[name] = os.open(name, os.O_RDWR | os.O_CREAT)
    kind, _, start, length, pid = struct.unpack("hhqqi4x", fcntl.fcntl(
        fd, fcntl.F_GETLK, struct.pack("hhqqi4x", {"r": 0, "w": 1}[how], 0, start, length, 0)))
    return "rwu"[kind], start, length, pid
def drop(key):
    os.close(held.pop(key))
    return "closed"
"""

SERVE = TOOLS + """
import sys, threading
def begin(*args, **kwargs):
    global thread, got
    got = []
    thread = threading.Thread(target=lambda: got.append(take(*args, **kwargs)), daemon=True)
    thread.start()
def end():
    thread.join()
    return got[0]
for line in sys.stdin:
    try:
        answer = eval(line)
    except BaseException as e:
        answer = repr(e)
    print(repr(answer), flush=True)
"""


class Program:
    """A program of this host that does what it is told."""

    def __init__(self, folder):
        self.child = subprocess.Popen([sys.executable, "-c", SERVE], cwd=folder,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def tell(self, line):
        self.child.stdin.write(line.encode() + b"\n")
        self.child.stdin.flush()

    def hear(self):
        if self.waits(SOON):
            return f"nothing in {SOON} s"
        return eval(self.child.stdout.readline() or b"'nothing'")

    def __call__(self, line):
        self.tell(line)
        return self.hear()

    def waits(self, seconds=0.3):
        """Does it say nothing yet?"""
        return not select.select([self.child.stdout], [], [], seconds)[0]

    def end(self):
        self.child.stdin.close()
        self.child.wait()
        self.child.stdout.close()

    def kill(self):
        self.child.kill()
        self.child.wait()


class Guest(Session):
    """One sandbox whose interpreter does the same."""

    def __init__(self, name):
        super().__init__(name, "python", "timeout_s = 120\n")
        got = self.run(TOOLS)
        same("the tools", (got.code, got.err), (0, ""))

    def __call__(self, line):
        got = self.run(f"print(repr({line}))\n")
        return eval(got.out or "''") if got.code == 0 else got


G = None


def setup():
    global G
    G = Guest("locks")


@contextlib.contextmanager
def program():
    p = Program(G / "files")
    yield p
    if p.child.poll() is None:
        p.end()


def both_ways(kind):
    """What one side holds the other can't have; reading is shared; it can be had when it was given back."""
    name = f"f_{kind}"
    with program() as host:
        for a, b, who in ((host, G, "the host"), (G, host, "the sandbox")):
            same(f"{kind}: {who} takes it", a(f"take('{name}', '{kind}', 'w')"), "ok")
            same(f"{kind}: held by {who}: w", b(f"take('{name}', '{kind}', 'w')"), "EAGAIN")
            same(f"{kind}: held by {who}: r", b(f"take('{name}', '{kind}', 'r')"), "EAGAIN")
            same(f"{kind}: {who} makes it shared", a(f"take('{name}', '{kind}', 'r')"), "ok")
            same(f"{kind}: shared", b(f"take('{name}', '{kind}', 'r')"), "ok")
            same(f"{kind}: not while shared", a(f"take('{name}', '{kind}', 'w')"), "EAGAIN")
            same(f"{kind}: the other gives it back", b(f"take('{name}', '{kind}', 'u')"), "ok")
            same(f"{kind}: {who} has it again", a(f"take('{name}', '{kind}', 'w')"), "ok")
            same(f"{kind}: {who} closes", a(f"drop('{name}')"), "closed")
            same(f"{kind}: free after close", b(f"take('{name}', '{kind}', 'w')"), "ok")
            same(f"{kind}: gives it back", b(f"drop('{name}')"), "closed")


def kinds():
    for kind in ("flock", "posix", "ofd"):
        both_ways(kind)


def ranges():
    with program() as host, program() as other:
        same("bytes 10-19", host("take('r', 'posix', 'w', 10, 10)"), "ok")
        same("before it", G("take('r', 'posix', 'w', 0, 10)"), "ok")
        same("behind it, to the end", G("take('r', 'posix', 'w', 20, 0)"), "ok")
        same("in it", G("take('r', 'posix', 'w', 19, 1)"), "EAGAIN")
        same("who is in the way, asked inside", G("test('r', 'w', 15, 100)")[:3], ("w", 10, 10))
        same("asked here", host("test('r', 'w', 0, 5)"), ("w", 0, 10, 0))
        same("a program of this host has a number", other("test('r', 'w', 12, 1)"),
             ("w", 10, 10, host.child.pid))
        same("nothing in the way", other("test('r', 'w', 10**9, 0)")[0], "w")
        same("a hole in it", host("take('r', 'posix', 'u', 13, 2)"), "ok")
        same("can be had", G("take('r', 'posix', 'w', 13, 2)"), "ok")
        same("and no more", G("take('r', 'posix', 'w', 12, 2)"), "EAGAIN")
        same("two programs of this host", other("take('r', 'posix', 'r', 15, 1)"), "EAGAIN")
        same("elsewhere", other("take('r', 'posix', 'r', 14, 0)"), "EAGAIN")
        same("given back", G("drop('r')"), "closed")
        same("the hole", other("take('r', 'posix', 'r', 13, 2)"), "ok")
        same("another descriptor closed", host("take('r', 'posix', 'u', 0, 0, key='again')"), "ok")
        same("as POSIX has it,", host("drop('again')"), "closed")
        same("takes all locks along", other("take('r', 'posix', 'w', 0, 0)"), "ok")


def waiting(kind):
    name = f"w_{kind}"
    with program() as host, program() as other:
        same(f"{kind}: inside", G(f"take('{name}', '{kind}', 'w')"), "ok")
        host.tell(f"take('{name}', '{kind}', 'w', wait=True)")
        ok(f"{kind}: waits", host.waits())
        other.tell(f"take('{name}', '{kind}', 'r', wait=True)")
        ok(f"{kind}: so does another", other.waits(0.1))
        os.stat(G / f"files/{name}")  # nothing else is held up
        same(f"{kind}: free", G(f"take('{name}', '{kind}', 'u')"), "ok")
        first = wait_for(lambda: [p for p in (host, other) if not p.waits(0)])
        same(f"{kind}: one has it", [p.hear() for p in first], ["ok"])
        last = other if first[0] is host else host
        ok(f"{kind}: the other waits on", last.waits(0.1))
        same(f"{kind}: passed on", first[0](f"drop('{name}')"), "closed")
        same(f"{kind}: the other has it", last.hear(), "ok")
        G.submit(f"print(repr(take('{name}', '{kind}', 'w', wait=True)))\n")
        time.sleep(0.2)
        same(f"{kind}: the sandbox waits", G.word(), "running")
        same(f"{kind}: goes on", last(f"drop('{name}')"), "closed")
        same(f"{kind}: inside again", G.result().out, "'ok'\n")
        G(f"drop('{name}')")


def waits():
    for kind in ("flock", "posix", "ofd"):
        waiting(kind)


def interrupted(kind):
    """A signal ends a wait, and what was not got is not held."""
    name = f"i_{kind}"
    with program() as host, program() as other:
        host("(signal.signal(signal.SIGALRM, lambda *a: 1 / 0), None)[1]")
        G(f"take('{name}', '{kind}', 'w')")
        host.tell(f"take('{name}', '{kind}', 'w', wait=True)")
        ok(f"{kind}: waits", host.waits())
        host.child.send_signal(signal.SIGALRM)
        has(f"{kind}: the handler ran", host.hear(), "ZeroDivisionError")
        host.tell(f"take('{name}', '{kind}', 'w', wait=True)")
        ok(f"{kind}: waits again", host.waits())
        host.kill()
        G(f"take('{name}', '{kind}', 'u')")
        same(f"{kind}: nobody has it", other(f"take('{name}', '{kind}', 'w')"), "ok")
        other.kill()
        ok(f"{kind}: free after SIGKILL",
           wait_for(lambda: G(f"take('{name}', '{kind}', 'w')") == "ok"))
        G(f"drop('{name}')")


def interrupts():
    for kind in ("flock", "posix", "ofd"):
        interrupted(kind)


def another_descriptor():
    """A wait is answered, although its process closes the descriptor it came with first."""
    with program() as host:
        same("shared", host("take('d', 'posix', 'r', 0, 1)"), "ok")
        same("inside", G("take('d', 'posix', 'w', 10, 1)"), "ok")
        host("begin('d', 'posix', 'w', 10, 1, wait=True, key='second')")
        host.tell("end()")
        ok("waits", host.waits())
        G("take('d', 'posix', 'u')")
        same("got", host.hear(), "ok")
        same("given back", host("take('d', 'posix', 'u', 0, 0, key='second')"), "ok")
        same("inside again", G("take('d', 'posix', 'w', 10, 1)"), "ok")
        same("shared again", host("take('d', 'posix', 'r', 0, 1)"), "ok")
        host("begin('d', 'posix', 'w', 10, 1, wait=True, key='second')")
        time.sleep(0.2)
        same("the first is closed", host("drop('d')"), "closed")
        same("free", G("take('d', 'posix', 'u')"), "ok")
        same("got in spite of that", host("end()"), "ok")
        same("and held", G("take('d', 'posix', 'r', 10, 1)"), "EAGAIN")
    G("drop('d')")


def shared_stays():
    """Who does not get it alone after all still shares it."""
    with program() as host:
        host("(signal.signal(signal.SIGALRM, lambda *a: 1 / 0), None)[1]")
        same("shared", host("take('s', 'posix', 'r')"), "ok")
        same("by both", G("take('s', 'posix', 'r')"), "ok")
        host.tell("take('s', 'posix', 'w', wait=True)")
        ok("waits", host.waits())
        host.child.send_signal(signal.SIGALRM)
        has("given up", host.hear(), "ZeroDivisionError")
        same("not alone", G("take('s', 'posix', 'w')"), "EAGAIN")
        same("closed", host("drop('s')"), "closed")
        same("alone", G("take('s', 'posix', 'w')"), "ok")
    G("drop('s')")


def deadlocks():
    with program() as one, program() as two:
        same("one has a", one("take('a', 'posix', 'w')"), "ok")
        same("two has b", two("take('b', 'posix', 'w')"), "ok")
        one.tell("take('b', 'posix', 'w', wait=True)")
        ok("one waits for b", one.waits())
        same("two can't wait for a", two("take('a', 'posix', 'w', wait=True)"), "EDEADLOCK")
        same("two gives b back", two("drop('b')"), "closed")
        same("one has it", one.hear(), "ok")


def tools():
    """flock(1), on either side."""
    if not shutil.which("flock"):
        fail("flock(1) is not installed")
        return
    f = G / "files/tool"
    write(f, "")
    G("take('tool', 'flock', 'w')")
    same("busy", shell(f"flock -n {f} true")[0], 1)
    same("for a while", shell(f"flock -w 0.2 -E 9 {f} true")[0], 9)
    G("drop('tool')")
    same("free", shell(f"flock -n {f} echo yes")[:2], (0, b"yes\n"))
    status, _, err = shell(f"for i in $(seq 20); do (flock 9; n=$(cat {f}); echo $((n + 1)) > {f}.new;"
                           f" cat {f}.new > {f}) 9< {G / 'files'}/by & done; wait",
                           cwd=G / "files") if write(G / "files/by", "") is None else (1, "", "")
    same("twenty at once", (status, err, read(f)), (0, b"", b"20\n"))


def other_nodes():
    """Nodes that are no files of the sandbox have locks among programs of this host."""
    with program() as one, program() as two:
        for node in ("config", "notes"):
            path = repr(str(G / node))
            if node == "notes":
                write(G / node, "x")
            for kind in ("flock", "posix", "ofd"):
                what = f"{node}, {kind}"
                same(f"{what}: one", one(f"take({path}, '{kind}', 'w')"), "ok")
                same(f"{what}: two", two(f"take({path}, '{kind}', 'w')"), "EAGAIN")
                two.tell(f"take({path}, '{kind}', 'w', wait=True)")
                ok(f"{what}: two waits", two.waits(0.1))
                same(f"{what}: one closes", one(f"drop({path})"), "closed")
                same(f"{what}: two has it", two.hear(), "ok")
                if kind == "posix":
                    same(f"{what}: who", one(f"test({path}, 'r', 5, 1)"), ("w", 0, 0, two.child.pid))
                    one(f"drop({path})")
                two(f"drop({path})")
        path = repr(str(G / "notes"))
        one(f"take({path}, 'flock', 'w')")
        two.tell(f"take({path}, 'flock', 'w', wait=True)")
        ok("waits", two.waits(0.1))
        two.kill()
        one.kill()
        with program() as three:
            ok("free after SIGKILL", wait_for(lambda: three(f"take({path}, 'flock', 'w')") == "ok"))
    os.unlink(G / "notes")


def the_end():
    """When the sandbox goes, who waits is told, and who held can let go."""
    with program() as host, program() as other:
        same("held", host("take('e', 'posix', 'w')"), "ok")
        same("held too", G("take('g', 'posix', 'w')"), "ok")
        same("not free", other("take('g', 'posix', 'w')"), "EAGAIN")
        other.tell("take('g', 'posix', 'w', wait=True)")
        ok("waits", other.waits())
        G.ctl("close")
        same("told", other.hear(), "ESTALE")
        same("close(2) is content", host("drop('e')"), "closed")
    G.ctl("reset")
    G.run(TOOLS)
    with program() as host:
        same("a new sandbox: free", host("take('e', 'posix', 'w')"), "ok")


main(setup, kinds, ranges, waits, interrupts, another_descriptor, shared_stays, deadlocks, tools, other_nodes, the_end)
