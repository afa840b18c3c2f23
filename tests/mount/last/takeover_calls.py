#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--takeover while the agent is silent, and has been asked for changes below files/: each is made once, and nobody sees an error."""
# backends: local process vm
# night: vm
# timeout: 360
import fcntl
import itertools
from calls import *

TIMES = 12 if not VM else 5
WRITERS = 6 if not VM else 2


def take_over():
    done = subprocess.run([os.environ["XSBXFS"], "--takeover", "-c", os.environ["CONF"], MNT], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=120 * SLOW, check=False)
    ok("taken over while requests are on their way", done.returncode == 0, done.stderr.decode())


def at_work(name, before=lambda: None):
    """@before: each time that it is taken over."""
    s = Session(name)
    s.run("true")
    agent = s.pid()
    crew = Crew(s, WRITERS)
    for n in range(TIMES):
        crew.get_on()
        os.kill(agent, signal.SIGSTOP)
        try:
            crew.rest()
            for _ in range(1 + n % 3):  # the second, too, has its calls from a record
                before()
                take_over()
        finally:
            os.kill(agent, signal.SIGCONT)
    crew.end()
    s.remove()


def exactly_once():
    at_work("calls")


def estate_kib(pid):
    """Of what it would leave."""
    sizes, of_it = [0], False
    for line in read(f"/proc/{pid}/smaps", "r").splitlines():
        if "-" in line.split(" ", 1)[0]:
            of_it = "memfd:xsbxfs-estate" in line
        elif of_it and line.startswith("Rss:"):
            sizes.append(int(line.split()[1]))
    return sum(sizes)


def each_way():
    """From one that survives to one that does not, and back, and from each to one like it: what was long is left where it is by
    the one, and copied by the other."""
    text = read(os.environ["CONF"], "r")
    ways = itertools.cycle(("no", "no", "yes", "yes"))
    survives = []

    def change():
        write(os.environ["CONF"], f"survive = {next(ways)}\n{text}")
        survives.append(json.loads(read(f"{MNT}/status.json"))["survives"])

    try:
        at_work("ways", change)
        write(os.environ["CONF"], f"survive = no\n{text}")
        take_over()
        ok("who leaves nothing has no memory for it", wait_for(lambda: estate_kib(daemon_of()) < 64, SOON), estate_kib(daemon_of()))
    finally:
        write(os.environ["CONF"], text)
    take_over()
    ok("both have been taken over", True in survives and False in survives, survives)
    ok("and in the end it survives", json.loads(read(f"{MNT}/status.json"))["survives"])


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
    holder = aside(locked, s / "files/f", ready, let_go[0])
    ok("one has the lock", ready.acquire(timeout=SOON) and ready.acquire(timeout=SOON))
    killed = aside(locked, s / "files/f", ready, let_go[1])
    ok("one wants it", ready.acquire(timeout=SOON))
    waits = aside(locked, s / "files/f", ready, let_go[2])
    mkdir = aside(maker, s / "files/made", ready, go)
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
    again = aside(locked, s / "files/f", ready, let_go[2])
    ok("nobody else has it", ready.acquire(timeout=SOON) and ready.acquire(timeout=SOON))
    again[1].join(SOON)
    same("the files are as they were", set(os.listdir(s / "files")) - {"made"}, {"f"})
    s.remove()


main(exactly_once, each_way, callers_gone)
