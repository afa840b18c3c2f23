#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that no process has mapped: files in memory, segments, what is on its way through pipes and
sockets. A sandbox gets no more of it than it has memory, the session goes on, and after a reset it
has all of it again. A part of it is taken outside and inside first, which must be possible."""
# backends: process vm
# timeout: 200
# log-allow: guest-panic|out-of-memory
import textwrap

from xsbx import *

LIMIT = 160

# Each takes N MiB, one by one, and says after each how many it has. What it took stays taken.
KINDS = {
    "anonymous": "keep.append(mmap.mmap(-1, 1 << 20)); keep[-1].write(block)",
    "memfd": "fd = os.memfd_create('x'); keep.append(fd); os.write(fd, block)",
    "unlinked file in /dev/shm": "fd = os.open(f'/dev/shm/{n}', os.O_CREAT | os.O_RDWR); os.unlink("
                                 "f'/dev/shm/{n}'); keep.append(fd)\nif os.write(fd, block) < len("
                                 "block): raise OSError('full')",
    "unlinked file in /tmp": "fd = os.open(f'/tmp/{n}', os.O_CREAT | os.O_RDWR); os.unlink(f'/tmp/{n}')"
                             "; keep.append(fd)\nif os.write(fd, block) < len(block): raise OSError("
                             "'full')",
    "System V segments": "i = libc.shmget(0, 1 << 20, 0o1600)\nif i < 0: raise OSError('full')\n"
                         "a = libc.shmat(i, None, 0)\nif a == ctypes.c_void_p(-1).value: raise OSError"
                         "('full')\nctypes.memmove(a, block, 1 << 20); libc.shmdt(ctypes.c_void_p(a))",
    "pipes": "done = 0\nwhile done < 1 << 20:\n    r, w = os.pipe(); keep.append((r, w)); "
             "os.set_blocking(w, False); done += os.write(w, block)",
    "sockets": "done = 0\nwhile done < 1 << 20:\n    a, b = socket.socketpair(); keep.append((a, b)); "
               "a.setblocking(False)\n    try:\n        while True: done += a.send(block[:65536])\n"
               "    except BlockingIOError: pass",
    "TCP": "done, tries = 0, 0\nwhile done < 1 << 20:\n    tries += 1\n    if tries > 200: raise OSError("
           "'full')\n    a = socket.create_connection(port.getsockname()); b, _ "
           "= port.accept(); keep.append((a, b)); a.setblocking(False)\n    try:\n        while True: "
           "done += a.send(block)\n    except BlockingIOError: pass",
}


def program(kind, most):
    return f"""
import ctypes, mmap, os, socket
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
block, keep = os.urandom(1 << 20), []
port = socket.socket()
port.bind(('127.0.0.1', 0))
port.listen(4096)
try:
    for n in range(1, {most} + 1):
{textwrap.indent(KINDS[kind], ' ' * 8)}
        print(n, flush=True)
except OSError as error:
    print('#', error)
"""


def reached(text):
    return max([int(line) for line in text.splitlines() if line.isdigit()], default=0)


def got(session):
    """What the program wrote, or None: the sandbox ended, before it was asked or while it was."""
    try:
        text = session.text("files/got")
    except OSError as error:
        if error.errno != errno.ESTALE:
            raise
        session.wait_state("closed")
        return None
    return None if session.word() == "closed" else text


def kinds():
    # Emulated, each takes its time; and a guest's kernel counts its memory itself.
    for kind in ("memfd", "System V segments", "TCP") if VM else KINDS:
        # System V's segments would stay; so little of them is taken outside that it does not matter.
        part = 1 if kind == "System V segments" else 8
        control = subprocess.run([sys.executable, "-c", program(kind, part)], check=False,
                                 stdout=subprocess.PIPE, timeout=2 * SOON)
        same(f"control: {kind}: a part of it outside", reached(control.stdout.decode()), part)
        s = Session(kind.replace(" ", "-").replace("/", ""), "python",
                    config=f"memory_mb = {LIMIT}\ntimeout_s = {60 * SLOW}\n")
        write(s / "files/some.py", program(kind, part))
        write(s / "files/more.py", program(kind, 4 * LIMIT))
        run = "import subprocess, sys; subprocess.run([sys.executable, '{}.py'], " \
              "stdout=open('got', 'w'))\n"
        s.run(run.format("some"))
        same(f"control: {kind}: a part of it inside", reached(s.text("files/got")), part)
        s.run(run.format("more"))
        # Where nobody is left to kill, while the last one is still ending, a guest's kernel gives up, and
        # a jail's first process ends: the sandbox says so.
        text = got(s)
        gave_up = text is None
        if gave_up:
            text = ""
            has(f"{kind}: the sandbox ended", s.text("error"),
                "deadlocked on memory" if VM else "memory was full")
        print(f"# {kind}: {reached(text)} MiB of {LIMIT}: {text.strip().splitlines()[-1:]} "
              f"{s.state_of(s.runs()[-1])}", flush=True)
        # What has ended has no isolation any more.
        said = "" if gave_up else s.json()["sandbox"]["isolation"]["limit.memory"]
        if gave_up:
            print(f"# {kind}: the sandbox ended: {s.text('error')!r}", flush=True)
        elif "none" in said:
            print(f"# {kind}: not limited, as isolation says: {said}", flush=True)
        else:
            ok(f"{kind}: no more than there is", part < reached(text) <= LIMIT + 8, text)
        s.ctl("reset")
        same(f"{kind}: after a reset there is room again",
             s.run("b = b'x' * (40 << 20); print(len(b) >> 20)\n").out, "40\n")
        s.remove()


need_language("python")
main(kinds)
