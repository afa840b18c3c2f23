#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--takeover while the agent is silent, and has been asked for changes below files/: each is made once, and nobody sees an error."""
# backends: local process vm
# timeout: 240
import fcntl
import multiprocessing
from xsbx import *

TIMES = 12 if not VM else 5
WRITERS = 6
BIG = 300 * 1024  # three pieces
stop = multiprocessing.Event()
steps = multiprocessing.Value("L", 0)


def take_over():
    done = subprocess.run([os.environ["XSBXFS"], "--takeover", "-c", os.environ["CONF"], MNT], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=120 * SLOW, check=False)
    ok("taken over while requests are on their way", done.returncode == 0, done.stderr.decode())


def step():
    with steps.get_lock():
        steps.value += 1


def appends(files, who):
    """Lines of one file, to which others append as well."""
    n = 0
    fd = os.open(f"{files}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    while not stop.is_set():
        line = f"{who} {n}\n".encode()
        if os.write(fd, line) != len(line):
            return "a short write"
        n += 1
        step()
    os.close(fd)
    return n


def big(files, who):
    """Long appends, which are sent in pieces."""
    n = 0
    fd = os.open(f"{files}/big{who}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
    while not stop.is_set():
        if os.write(fd, bytes([n % 251]) * BIG) != BIG:
            return "a short write"
        n += 1
        step()
        if n % 20 == 0:
            os.ftruncate(fd, 0)
            n = 0
    os.close(fd)
    data = read(f"{files}/big{who}")
    if data != b"".join(bytes([i % 251]) * BIG for i in range(n)):
        return f"{n} times {BIG} became {len(data)} bytes"
    return n + 1


def names(files, who):
    """Every kind of name is made, moved and removed: a second time each would be an error."""
    n = 0
    here, there = f"{files}/here{who}", f"{files}/there{who}"
    os.mkdir(here)
    os.mkdir(there)
    while not stop.is_set():
        n += 1
        os.mkdir(f"{here}/d")
        os.rename(f"{here}/d", f"{there}/d{n}")
        os.rmdir(f"{there}/d{n}")
        os.close(os.open(f"{here}/f", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.link(f"{here}/f", f"{there}/f")
        os.unlink(f"{here}/f")
        os.symlink("f", f"{there}/s")
        if os.readlink(f"{there}/s") != "f" or os.lstat(f"{there}/s").st_size != 1:
            return "a link is another"
        os.chmod(f"{there}/f", 0o640)
        os.unlink(f"{there}/s")
        os.unlink(f"{there}/f")
        if os.listdir(here) or os.listdir(there):
            return "something is left"
        step()
    return n


def reads(files, who):
    """What reads, asks again."""
    n = 0
    data = bytes(range(256)) * 2048
    path = f"{files}/read{who}"
    with open(path, "wb") as file:
        file.write(data)
    while not stop.is_set():
        n += 1
        if read(path) != data or os.stat(path).st_size != len(data) or os.path.lexists(f"{files}/none"):
            return "it reads something else"
        step()
    return n


def child(pipe, action, *args):
    try:
        pipe.send(action(*args))
    except BaseException as error:
        pipe.send(repr(error))


def begin(action, *args):
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=child, args=(theirs, action, *args), daemon=True)
    process.start()
    return action.__name__, process, ours


def rest():
    """Wait until nobody gets any further."""
    before = -1
    while before != steps.value:
        before = steps.value
        time.sleep(0.2)


def exactly_once():
    s = Session("calls")
    s.run("true")
    agent = s.pid()
    at_work = [begin(action, s / "files", who) for who in range(WRITERS) for action in (appends, names)]
    at_work += [begin(action, s / "files", who) for who in range(2) for action in (big, reads)]
    for n in range(TIMES):
        before = steps.value
        ok("they get on", wait_for(lambda: steps.value > before + 20, SOON))
        os.kill(agent, signal.SIGSTOP)
        try:
            rest()
            for _ in range(1 + n % 3):  # the second, too, has its calls from a record
                take_over()
        finally:
            os.kill(agent, signal.SIGCONT)
    stop.set()
    got = {}
    for name, process, pipe in at_work:
        result = pipe.recv() if pipe.poll(SOON) else "it hangs"
        ok(name, isinstance(result, int) and result > 0, result)
        got.setdefault(name, []).append(result)
        process.join(SOON)
    print({name: sum(n) for name, n in got.items()})
    lines = read(s / "files/log", "r").splitlines()
    for who in range(WRITERS):
        mine = [int(line.split()[1]) for line in lines if line.split()[0] == str(who)]
        same(f"each line of {who} is there once, in its order", mine, list(range(got["appends"][who])))
    s.remove()


def locked(path, ready, let_go):
    """Has the lock until it is told to let go."""
    fd = os.open(path, os.O_RDWR)
    ready.release()
    fcntl.lockf(fd, fcntl.LOCK_EX)
    ready.release()
    let_go.wait()
    os.close(fd)
    return 1


def maker(path, ready, go):
    ready.release()
    go.wait()
    os.mkdir(path)


def callers_gone():
    """Who is killed while he waits has nothing of it: not a lock, and not a handle."""
    s = Session("gone")
    s.run("echo >f")
    agent = s.pid()
    ready, go = multiprocessing.Semaphore(0), multiprocessing.Event()
    let_go = [multiprocessing.Event() for _ in range(3)]
    holder = begin(locked, s / "files/f", ready, let_go[0])
    ok("one has the lock", ready.acquire(timeout=SOON) and ready.acquire(timeout=SOON))
    killed = begin(locked, s / "files/f", ready, let_go[1])
    ok("one wants it", ready.acquire(timeout=SOON))
    waits = begin(locked, s / "files/f", ready, let_go[2])
    mkdir = begin(maker, s / "files/made", ready, go)
    ok("all are there", ready.acquire(timeout=SOON) and ready.acquire(timeout=SOON))
    time.sleep(0.3 * SLOW)
    # From here on this process has nothing open there: what closes it would wait for the agent.
    os.kill(agent, signal.SIGSTOP)
    try:
        go.set()
        time.sleep(0.3 * SLOW)
        killed[1].kill()
        mkdir[1].kill()
        take_over()
    finally:
        os.kill(agent, signal.SIGCONT)
    ok("who was killed has gone", wait_for(lambda: not mkdir[1].is_alive() and not killed[1].is_alive(), SOON))
    take_over()
    ok("the other waits still", not ready.acquire(timeout=0.3))
    let_go[0].set()
    ok("and is next", ready.acquire(timeout=SOON))
    let_go[2].set()
    same("they end", [at[2].recv() if at[2].poll(SOON) else "it hangs" for at in (holder, waits)], [1, 1])
    again = begin(locked, s / "files/f", ready, let_go[2])
    ok("nobody else has it", ready.acquire(timeout=SOON) and ready.acquire(timeout=SOON))
    again[1].join(SOON)
    same("the files are as they were", set(os.listdir(s / "files")) - {"made"}, {"f"})
    s.remove()


main(exactly_once, callers_gone)
