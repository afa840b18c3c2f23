#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""User code says in the driver's name that its run has ended, or that one has which was never
executed: the agent does not believe it, the time limit counts, and the next run is executed.

Each attack leaves a file `sent` when it has sent its answer: without that the test has shown
nothing."""
# backends: local process vm
# timeout: 120
# night: vm
from xsbx import *

LIMIT = 3 * SLOW
FORGED, LATER = 7, 9  # statuses of the attacks

# Finds the control socket by its kind.
FIND = """
import ctypes, os, socket, struct, sys, threading, time
def find():
    for fd in range(3, 1100):
        try:
            s = socket.socket(fileno=os.dup(fd))
        except OSError:
            continue
        if s.type == socket.SOCK_SEQPACKET:
            return fd, s
        s.close()
fd, ctl = find()
def answer(nonce, status):
    return struct.pack("=II16sIi32s", 3, 0, nonce, 0, status, b"")
def report():
    open("sent", "w").close()
"""

# Takes nonces from the driver's frames, or from the stack of its native part, and has that answer.
NATIVE = FIND + """
def driver_frames():
    f = sys._getframe()
    while f:
        yield f
        f = f.f_back
def send(status):
    nonces = [f.f_locals["nonce"] for f in driver_frames() if "nonce" in f.f_locals]
    for nonce in nonces:
        ctl.send(answer(nonce, status))
    if nonces:
        return
    own = [f.f_code.co_filename for f in driver_frames() if f.f_code.co_filename.endswith("repl.py")]
    lib = ctypes.CDLL(own[0].replace("repl.py", "turn.so"))
    end = ctypes.c_void_p.in_dll(ctypes.CDLL(None), "__libc_stack_end").value
    stack = ctypes.string_at(end - 60000, 60000)
    at = stack.find(struct.pack("=I", 2))
    while at >= 0:
        lib.turn_send(answer(stack[at + 8:at + 24], status), b"")
        at = stack.find(struct.pack("=I", 2), at + 4)
"""

ENDS_EARLY = NATIVE + f"""
send({FORGED})
report()
while True:
    pass
"""

# Goes on in a loop of its own, in which it answers all that comes.
ANSWERS_LATER = NATIVE + f"""
send({FORGED})
report()
while True:
    message = ctl.recv(64)
    ctl.send(answer(message[8:24], {LATER}))
"""

CHILD_ANSWERS = NATIVE + f"""
if os.fork() == 0:
    os.dup2(ctl.fileno(), fd)
    send({FORGED})
    report()
    os._exit(0)
time.sleep(1000)
"""

# A thread puts a socket of its own in the place of the driver's, and answers from behind it.
MIDDLE = FIND + f"""
def relay():
    time.sleep({SLOW})
    os.dup2(theirs.fileno(), fd)
    ctl.send(ours.recv(64))  # the end of the next run
    while (message := ctl.recv(64))[0] != 2:
        pass
    ctl.send(answer(message[8:24], {FORGED}))
    report()
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
threading.Thread(target=relay, daemon=True).start()
"""

# Children are the first to wait for the next requests, of which one is the run.
BASH = f"""
exec 5<&1000
for n in 1 2; do
    (
        dd bs=64 count=1 <&5 >message$n
        [ "$(head -c 1 message$n)" = $'\\2' ] || exit
        {{ printf '\\3\\0\\0\\0'; head -c 28 message$n | tail -c +5
           printf '\\{FORGED}\\0\\0\\0'; tail -c 32 message$n; }} >answer
        dd bs=64 count=1 <answer >&5
        : >sent
    ) 2>/dev/null &
done
sleep {SLOW}
"""

# A timer takes the next request before the driver looks for it.
BUN = f"""
const fs = require('fs');
setTimeout(() => {{
    const message = Buffer.alloc(64);
    fs.readSync(1000, message);
    message.writeUInt32LE(3, 0);
    message.writeInt32LE({FORGED}, 28);
    fs.writeSync(1000, message);
    fs.writeFileSync('sent', '');
    for (;;) ;
}}, 500);
"""


def overrun(what, s, code):
    """A run that claims its end reaches its time limit; the next is another's."""
    s.submit(code)
    overran(what, s, s.result())


def overran(what, s, result):
    ok(f"{what}: the answer was sent", os.path.exists(s / "files/sent"), result)
    same(f"{what}: the run is not over by that", (s.state_of(s.runs()[-1]), result.code),
         ("timeout", 124))


def follow(what, s, code):
    result = s.run(code)
    same(f"{what}: the next run", (s.state_of(s.runs()[-1]), result.stdout, result.stderr),
         ("done", b"next\n", b""))


def python(what, code, *runs):
    s = Session(what, "python", f"timeout_s = {LIMIT}\n")
    for before in runs:
        same(f"{what}: a run before", s.run(before).code, 0)
    overrun(what, s, code)
    follow(what, s, "print('next')")
    s.remove()


def early():
    python("early", ENDS_EARLY)


def later():
    python("later", ANSWERS_LATER)


def child():
    python("child", CHILD_ANSWERS)


def middle():
    python("middle", "print('not executed')", MIDDLE, f"import time; time.sleep({2 * SLOW})")


def bash():
    # On a busy host the driver may be the first to wait. Then nothing was tried.
    for n in range(5):
        s = Session(f"bash{n}", "raw", f"timeout_s = {LIMIT}\n")
        same("bash: before", s.run(BASH).code, 0)
        s.submit("echo not executed\n")
        result = s.result()
        if result.stdout != b"not executed\n":
            break
        s.remove()
    overran("bash", s, result)
    follow("bash", s, "echo next\n")
    s.remove()


def bun():
    s = Session("bun", "javascript", f"timeout_s = {LIMIT}\n")
    same("bun: before", s.run(BUN).code, 0)
    time.sleep(SLOW)
    overrun("bun", s, "console.log('not executed')\n")
    follow("bun", s, "console.log('next')\n")
    s.remove()


def at_once():
    """All of them, for each mostly waits."""
    attacks = [bash]
    attacks += [early, later, child, middle] if has_language("python") else []
    attacks += [bun] if has_language("javascript") else []
    with together(lambda n: attacks[n](), len(attacks)) as problems:
        pass
    same("no attack broke off", problems, [])


main(*([early, later, child, middle, bash, bun] if VM else [at_once]))
