# SPDX-License-Identifier: Apache-2.0
"""For tests in Python: sessions, runs, and checks that go on after a failure."""

import contextlib
import errno
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback

from patience import slack, wait_until

MNT = os.environ["MNT"]
BUILD = os.environ["BUILD"]
SCRATCH = os.environ["SCRATCH"]
BACKEND = os.environ["BACKEND"]
VM = BACKEND == "vm"

# Under emulation everything takes its time; what a test waits for is scaled by this.
SLOW = 4 if VM else 1

# Seconds in which what waits for nothing is done, however busy the host is. No test says that something was quick:
# what it could wait for by mistake is to have its end seen, or to last longer than any test.
SOON = 30 * SLOW * slack()

# What a mount of a test's own needs, as tests/run gives it to those it makes.
OPTIONS = ["prepare=no"]
if BACKEND == "process":
    OPTIONS += ["allow_process=yes", "backend=process", "accel=tcg", "image_builder=none"]

# Users of this host who have no name.
ALICE, BOB = 12001, 12002

checks = 0
failures = 0


def skip(reason):
    print(reason, flush=True)
    os._exit(77)


def vm_only():
    """For tests whose programs would harm this host if no machine kept them in."""
    if not VM:
        skip("only for microVMs: what it does would harm this host")


def link_images(cache):
    """A cache of a test's own has the host's images, of whatever architecture."""
    for name in os.listdir(os.environ["IMAGES"]):
        if name.startswith("images") and not os.path.lexists(f"{cache}/{name}"):
            os.symlink(f"{os.environ['IMAGES']}/{name}", f"{cache}/{name}")


def need(*tools):
    for tool in tools:
        if not shutil.which(tool):
            skip(f"{tool} is not installed")


def has_language(language):
    """Local sandboxes use the interpreters of this host."""
    program, driver = {"javascript": ("bun", "repl.mjs"), "python": ("python3", "repl.py"),
                       "raw": ("bash", "repl.sh")}[language]
    return VM or shutil.which(program) and os.path.exists(f"{BUILD}/drivers/{driver}")


def need_language(language):
    if not has_language(language):
        skip(f"there is no interpreter for {language} on this host")


def fail(what, detail=""):
    global failures
    failures += 1
    print(f"not ok: {what}" + (f": {detail}" if detail else ""), flush=True)


def ok(what, condition, detail=""):
    global checks
    checks += 1
    if not condition:
        fail(what, detail)
    return bool(condition)


def short(value):
    text = repr(value)
    return text if len(text) < 300 else f"{text[:140]}...{text[-140:]}"


def same(what, got, want):
    return ok(what, got == want, f"got {short(got)}, want {short(want)}")


def has(what, text, part):
    return ok(what, part in text, f"{short(part)} is not in {short(text)}")


@contextlib.contextmanager
def raises(what, *numbers):
    """The block must fail with one of these errnos."""
    global checks
    checks += 1
    names = "/".join(errno.errorcode[n] for n in numbers)
    try:
        yield
    except OSError as error:
        if error.errno not in numbers:
            fail(what, f"got {error}, want {names}")
    else:
        fail(what, f"succeeded, want {names}")


def wait_for(condition, seconds=5.0):
    """Wait until the condition holds; return its last value. A host that has much else to do, or is
    slow, takes a multiple of the seconds that are enough elsewhere."""
    return wait_until(condition, 4 * seconds * SLOW, 0.01)


@contextlib.contextmanager
def together(action, count, seconds=120 * slack()):
    """Run action(0), action(1), ... at the same time, beside the block; then wait for them. Gives a list
    of what went wrong in them."""
    problems = []

    def one(n):
        try:
            action(n)
        except Exception as error:
            problems.append(f"{n}: {error!r}")

    threads = [threading.Thread(target=one, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    yield problems
    for n, thread in enumerate(threads):
        thread.join(seconds)
        if thread.is_alive():
            problems.append(f"{n}: no end after {seconds} s")


def read(path, mode="rb"):
    with open(path, mode) as file:
        try:
            return file.read()
        except OSError as error:
            if os.path.basename(path) == "wait":  # what it waited for has failed
                with contextlib.suppress(OSError), open(f"{os.path.dirname(path)}/error") as why:
                    error.add_note(why.read())
            raise


def write(path, data):
    """One open, one write, one close, errors from each of them."""
    if isinstance(data, str):
        data = data.encode()
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CREAT, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view):]
    finally:
        os.close(fd)


def shell(command, **options):
    """Run a shell command; return (status, stdout, stderr)."""
    options.setdefault("timeout", 180 * SLOW * slack())
    done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False, **options)
    return done.returncode, done.stdout, done.stderr


def read_ready(path):
    """What a stream has to say right now; does not wait for more."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    text = b""
    try:
        while piece := os.read(fd, 65536):
            text += piece
    except BlockingIOError:
        pass
    finally:
        os.close(fd)
    return text


def as_user(uid, action):
    """Run a function as another user; return what it returns, or the name of its errno."""
    r, w = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            answer = action()
        except OSError as error:
            answer = errno.errorcode[error.errno]
        except BaseException as error:
            answer = repr(error)
        os.write(w, repr(answer).encode())
        os._exit(0)
    os.close(w)
    with os.fdopen(r, "rb") as file:
        answer = file.read()
    os.waitpid(pid, 0)
    return eval(answer.decode())


class Result:
    def __init__(self, stdout, stderr, code):
        self.stdout, self.stderr, self.code = stdout, stderr, code

    def __repr__(self):
        return f"exit {self.code} stdout {short(self.stdout)} stderr {short(self.stderr)}"

    @property
    def out(self):
        return self.stdout.decode(errors="replace")

    @property
    def err(self):
        return self.stderr.decode(errors="replace")


class Session:
    def __init__(self, name, template="raw", config=None, mnt=None):
        self.path = f"{mnt or MNT}/{template}/{name}"
        os.mkdir(self.path)
        if config:
            write(f"{self.path}/config", config)

    def __truediv__(self, name):
        return f"{self.path}/{name}"

    def submit(self, code):
        write(self / "in", code)

    def run(self, code):
        self.submit(code)
        return self.result()

    def result(self):
        stdout, stderr = read(self / "stdout"), read(self / "stderr")
        try:
            return Result(stdout, stderr, int(read(self / "exit_code")))
        except OSError as error:
            return Result(stdout, stderr, errno.errorcode[error.errno])

    def text(self, node):
        return read(self / node).decode(errors="replace")

    def word(self, node="state"):
        return self.text(node).strip()

    def json(self, node="status.json"):
        return json.loads(self.text(node))

    def runs(self):
        return sorted(int(n) for n in os.listdir(self / "runs") if n.isdigit())

    def state_of(self, run):
        return self.word(f"runs/{run}/state")

    def wait_state(self, word, seconds=5.0):
        return wait_for(lambda: self.word() == word, seconds)

    def wait_run(self, run, word, seconds=5.0):
        def there():
            try:
                return self.state_of(run) == word
            except FileNotFoundError:
                return False
        return wait_for(there, seconds)

    def ctl(self, verb):
        try:
            write(self / "ctl", verb + "\n")
        except OSError as error:
            error.add_note(self.text("error"))
            raise

    def pid(self):
        """The process of the sandbox on this host."""
        sandbox = self.json().get("sandbox") or {}
        return sandbox.get("pid")

    def remove(self):
        os.rmdir(self.path)


def start_daemon(mnt, *options, log=None, conf=None, program=None, **popen):
    """A daemon of the test's own; returns once it is ready. The process is its guard, which ends as it does."""
    fifo = f"{SCRATCH}/ready.{os.getpid()}.{time.monotonic_ns()}"
    os.mkfifo(fifo)
    os.chmod(fifo, 0o666)
    ready = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    log = log or os.environ["LOG"]
    with open(log, "ab") as file:
        daemon = subprocess.Popen(
            [program or os.environ["XSBXFS"], "-f", "-c", conf or os.environ["CONF"],
             "-o", ",".join([f"notify={fifo}", *OPTIONS, *options]), mnt],
            stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True, **popen)

    def there():
        try:
            return os.read(ready, 1) or daemon.poll() is not None
        except BlockingIOError:
            return False

    wait_for(there, 20)
    os.close(ready)
    os.unlink(fifo)
    if daemon.poll() is not None:
        raise RuntimeError(f"the daemon ended with {daemon.returncode}: {read(log, 'r')[-2000:]}")
    return daemon


@contextlib.contextmanager
def own_mount(name, *options, conf=None, **popen):
    """A mount of the test's own, with the runner's configuration or this one, until the block ends."""
    mnt = f"{SCRATCH}/{name}"
    os.mkdir(mnt)
    if conf is not None:
        write(f"{mnt}.conf", conf)
    daemon = start_daemon(mnt, *options, conf=None if conf is None else f"{mnt}.conf", **popen)
    try:
        yield mnt
    finally:
        daemon.terminate()
        daemon.wait(SOON)


def children_of(pid):
    found, table = [], {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = read(f"/proc/{name}/stat", "r").rsplit(")", 1)[1].split()
        except OSError:
            continue
        if fields[0] != "Z":
            table.setdefault(int(fields[1]), []).append(int(name))
    todo = [pid]
    while todo:
        for child in table.get(todo.pop(), []):
            found.append(child)
            todo.append(child)
    return found


def kin_of(pid):
    """(spawner, daemon) of a guard."""
    table = {p: name_of(p) for p in children_of(pid) if alive(p)}
    [daemon] = [p for p, name in table.items() if name == "xsbxfs-daemon"]
    spawner = parent_of(daemon)
    return spawner, daemon


def daemon_of(mnt=MNT):
    """The process that serves this mount."""
    [pid] = [int(p) for p in os.listdir("/proc") if p.isdigit() and name_of(p) == "xsbxfs-daemon"
             and mnt.encode() in read(f"/proc/{p}/cmdline").split(b"\0") and name_of(parent_of(p)) == "xsbxfs-spawner"]
    return pid


def status_of(pid):
    """What the kernel tells of it, by name."""
    return dict(line.split(":", 1) for line in read(f"/proc/{pid}/status", "r").splitlines())


def kib_of(pid, what):
    """Memory of that kind: VmRSS, RssAnon, RssShmem."""
    return int(status_of(pid)[what].split()[0])


def parent_of(pid):
    return int(read(f"/proc/{pid}/stat", "r").rsplit(")", 1)[1].split()[1])


def alive(pid):
    try:
        return read(f"/proc/{pid}/stat", "r").rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def name_of(pid):
    """What the kernel calls it; "": it is gone."""
    try:
        return read(f"/proc/{pid}/comm", "r").strip()
    except OSError:
        return ""


def command_of(pid):
    """The words of its command line; "": it is gone."""
    try:
        return read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


class Later:
    """Something that waits in a thread."""

    def __init__(self, action):
        self.result, self.error = None, None
        self.thread = threading.Thread(target=self.go, args=(action,), daemon=True)
        self.thread.start()

    def go(self, action):
        try:
            self.result = action()
        except OSError as error:
            self.error = error.errno

    def waits(self, seconds=0.3):
        self.thread.join(seconds)
        return self.thread.is_alive()

    def get(self):
        self.thread.join(SOON)
        return self.error or self.result


def in_child(pipe, action, *args):
    try:
        pipe.send(action(*args))
    except BaseException as error:
        pipe.send(repr(error))


def aside(action, *args):
    """In a process of its own. Return (its name, the process, where what it returns comes)."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=in_child, args=(theirs, action, *args), daemon=True)
    process.start()
    return action.__name__, process, ours


def mounted(path):
    return any(line.split()[4] == path for line in read("/proc/self/mountinfo", "r").splitlines())


def main(*tests):
    """Run the functions; a check that fails does not keep the next from being made."""
    only = sys.argv[1:]
    for test in tests:
        if only and test.__name__ not in only:
            continue
        try:
            test()
        except Exception:
            fail(test.__name__, traceback.format_exc())
    print(f"{failures} of {checks} checks failed" if failures else f"{checks} checks")
    sys.stdout.flush()
    # A test must not hang in the interpreter's own clean-up when the daemon is wedged.
    os._exit(1 if failures else 0)


__all__ = [name for name in dir() if not name.startswith("_")]
