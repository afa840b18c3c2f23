#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is written below files/ while a session is being saved waits, and is what was written then: others write meanwhile,
also to another session. Who is interrupted while his waits costs the others nothing."""
# backends: local process vm
# timeout: 120
import multiprocessing
import signal

from xsbx import *

ROUNDS = 40 if not VM else 6
OF_EACH = 3                             # what each writer has to write meanwhile, however slow it is


def pattern(who, n, size):
    return (f"{who}:{n}|" * size)[:size].encode()


def writes(session, who, sizes, end, wrong, rounds, nr):
    os.mkdir(session / f"files/{who}")
    os.chdir(session / f"files/{who}")
    while not end.is_set():
        for size in sizes:
            fd = os.open(f"f{size}", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            want = pattern(who, rounds[nr], size)
            written = os.write(fd, want)
            got = os.pread(fd, size + 10, 0)
            os.close(fd)
            if written != size or got != want:
                wrong.put(f"{who}, {rounds[nr]}: wrote {want[:40]}, is {got[:40]} of {len(got)} bytes")
        rounds[nr] += 1
    os.chdir("/")
    wrong.put(None)


def held():
    a, b = Session("a"), Session("b")
    for s in a, b:
        s.run("true")
    end, wrong = multiprocessing.Event(), multiprocessing.Queue()
    write = [(a, "one", (30, 500)), (a, "two", (4096,)), (a, "long", (30, 100000)), (b, "other", (30, 4096, 200000))]
    rounds = multiprocessing.Array("Q", len(write))
    writers = [multiprocessing.Process(target=writes, args=(s, who, sizes, end, wrong, rounds, nr))
               for nr, (s, who, sizes) in enumerate(write)]
    for w in writers:
        w.start()
    n = 0
    while n < ROUNDS or min(rounds) < OF_EACH and all(w.is_alive() for w in writers):
        os.mkdir(a / f"checkpoints/c{n}")
        same("saved", read(a / f"checkpoints/c{n}/wait"), b"whole\n")
        os.rmdir(a / f"checkpoints/c{n}")
        n += 1
    end.set()
    ended = 0
    while ended < len(writers):
        said = wrong.get(timeout=60)
        if said is None:
            ended += 1
        else:
            ok(said, False)
    for w in writers:
        w.join()
        same("a writer", w.exitcode, 0)
    found = a.run("cat */f30 | tr -d '0-9:|\\n' | tr -s a-z")
    same("what there is of it", (found.code, bool(found.out)), (0, True))
    ok(f"nothing of another session: {found.out[:80]}", set(found.out) <= set("onelongtw"))


CREATES = "import os, sys; os.write(os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY), b'x')"


def interrupted():
    """While the session begins, or wakes."""
    s = Session("c")
    for n, after in enumerate((0.3, 0.1, 0.05, 0.2) if VM else (0.03, 0.035, 0.04, 0.05, 0.06, 0.08, 0.1, 0.02)):
        p = subprocess.Popen([sys.executable, "-S", "-c", CREATES, s / f"files/i{n}"], stderr=subprocess.DEVNULL)
        time.sleep(after)
        p.send_signal(signal.SIGINT if n % 2 else signal.SIGKILL)
        ok(f"the writer ends, {n}", wait_for(lambda: p.poll() is not None, 10), after)
        ok(f"the mount answers, {n}", os.listdir(MNT))
        wait_for(lambda: s.word() != "starting", 20)
        ok(f"the session goes on, {n}", s.word() in ("idle", "new", "asleep"), s.text("error"))
        if s.word() == "idle":
            s.ctl("sleep")
            ok(f"it sleeps, {n}", s.wait_state("asleep", 10), s.text("error"))
    s.remove()


main(held, interrupted)
