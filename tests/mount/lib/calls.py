# SPDX-License-Identifier: Apache-2.0
"""Programs that change files below files/, and notice if anything was done twice, or not at all."""
import fcntl
import multiprocessing
from xsbx import *

BIG = 300 * 1024  # three pieces
stop = multiprocessing.Event()
steps = multiprocessing.Value("L", 0)


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


def counts(files, who):
    """Counts under a lock, which others want as well. Half of them are interrupted all the time while they wait."""
    n = 0
    if who % 2:
        signal.signal(signal.SIGALRM, lambda *_: None)
    while not stop.is_set():
        fd = os.open(f"{files}/n", os.O_RDWR)
        signal.setitimer(signal.ITIMER_REAL, 0.003 * (who % 2), 0.003)
        fcntl.lockf(fd, fcntl.LOCK_EX)
        signal.setitimer(signal.ITIMER_REAL, 0)
        value = int(os.pread(fd, 20, 0))
        if os.pwrite(fd, str(value + 1).encode(), 0) != len(str(value + 1)):
            return "a short write"
        if n % 2:
            fcntl.lockf(fd, fcntl.LOCK_UN)
        os.close(fd)
        n += 1
        step()
    return n


class Crew:
    """Several of each at work in a session's files."""

    def __init__(self, s, writers):
        stop.clear()
        self.s, self.writers = s, writers
        self.at_work = [aside(action, s / "files", who) for who in range(writers) for action in (appends, names)]
        self.at_work += [aside(action, s / "files", who) for who in range(2) for action in (big, reads)]
        write(s / "files/n", "0")
        self.at_work += [aside(counts, s / "files", who) for who in range(4)]

    def get_on(self, least=20):
        before = steps.value
        ok("they get on", wait_for(lambda: steps.value > before + least, SOON))

    def rest(self):
        """Wait until nobody gets any further."""
        before = -1
        while before != steps.value:
            before = steps.value
            time.sleep(0.2)

    def end(self):
        stop.set()
        got = {}
        for name, process, pipe in self.at_work:
            result = pipe.recv() if pipe.poll(SOON) else "it hangs"
            ok(name, isinstance(result, int) and result > 0, result)
            got.setdefault(name, []).append(result)
            process.join(SOON)
        print(got)
        same("none was counted twice, or not at all", int(read(self.s / "files/n")), sum(got["counts"]))
        lines = read(self.s / "files/log", "r").splitlines()
        for who in range(self.writers):
            mine = [int(line.split()[1]) for line in lines if line.split()[0] == str(who)]
            same(f"each line of {who} is there once, in its order", mine, list(range(got["appends"][who])))
