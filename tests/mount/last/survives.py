#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""survive = yes: the daemon dies, another one goes on, and nobody notices; but not for ever."""
# backends: local process vm
# option: survive=yes
# option: max_deaths=1000000
# timeout: 300
# log-allow: the daemon died|died of the same|died too often|was killed by signal|that is too often|daemon died \d+ times|nothing survives
import fcntl
import re
import select

from deaths import *

daemon = Mortal(guard_of())


def own(name, *lines, options=()):
    """A mount of its own. Return (mnt, its guard, conf, log)."""
    mnt, conf, log = f"{SCRATCH}/{name}", f"{SCRATCH}/{name}.conf", f"{SCRATCH}/{name}.log"
    os.makedirs(mnt, exist_ok=True)
    write(conf, "".join(f"{line}\n" for line in ("survive = yes", *lines)) + read(os.environ["CONF"], "r"))
    return mnt, start_daemon(mnt, *options, log=log, conf=conf), conf, log


def idle():
    """With nothing going on: the same names, the same numbers, as many processes and descriptors as before."""
    def tree():
        return {name: os.stat(f"{MNT}/{name}").st_ino for name in os.listdir(MNT)}

    def holds():
        return len(os.listdir(f"/proc/{daemon.now()}/fd")), len(children_of(daemon.guard))
    before = tree()
    requests = int(re.search(r"requests\S* (\d+)", read(f"{MNT}/metrics", "r"))[1])
    daemon.die()
    same("the same names and numbers", tree(), before)
    ok("it goes on counting", int(re.search(r"requests\S* (\d+)", read(f"{MNT}/metrics", "r"))[1]) > requests)
    has("it is an event", read_ready(f"{MNT}/events").decode(), "another one goes on")
    held = holds()
    for _ in range(10):
        daemon.die()
        tree()
    ok("nothing is held that was not before", wait_for(lambda: max(map(int.__sub__, holds(), held)) <= 0), (holds(), held))


def sandboxes():
    """They go on: what runs in them, what they remember, what is open in them."""
    s = Session("living", config="timeout_s = 0\n")
    same("a run", s.run("x=kept; echo hello > f; mkdir d").code, 0)
    pid = s.pid()
    daemon.die()
    same("its state", (s.word(), s.pid()), ("idle", pid))
    same("what it remembers", s.run("echo $x; cat f").out, "kept\nhello\n")
    feeder = os.open(s / "stdin", os.O_WRONLY)
    s.submit("for ((n = 0; n < 30; n++)); do echo line $n; sleep 0.1; done; read -r answer; echo $answer; exit 5")
    out, code = Later(lambda: read(s / "stdout")), Later(lambda: read(s / "exit_code"))
    for _ in range(6):
        daemon.die()
        time.sleep(0.3)
    same("it runs", s.word(), "running")
    os.write(feeder, b"an answer\n")
    daemon.die()
    os.close(feeder)
    same("its output", out.get(), "".join(f"line {n}\n" for n in range(30)).encode() + b"an answer\n")
    same("its exit status", code.get(), b"5\n")
    same("the same sandbox", s.pid(), pid)
    s.ctl("reset")
    daemon.die()
    same("after a reset", s.run("echo $x; echo fresh").out, "\nfresh\n")
    s.remove()
    ok("its processes go with it", wait_for(lambda: not alive(pid)))


def shared():
    """What sleeps as a checkpoint or another session does, and was reset, shares its files with that."""
    for how in "restore", "checkpoint", "copy":
        s = t = Session(f"shared-{how}")
        s.run("echo precious >f")
        if how == "restore":
            os.mkdir(s / "checkpoints/c")
            same("it is saved", read(s / "checkpoints/c/wait"), b"whole\n")
            s.ctl("restore c")
        else:
            s.ctl("sleep")
            ok("it sleeps", s.wait_state("asleep"))
            if how == "copy":
                t = Session("shared-and-copied", config=f"from = shared-{how}\n")
            else:
                os.mkdir(s / "checkpoints/c")
        t.ctl("reset")
        for _ in range(2):
            daemon.die()
            same(f"{how}: all is there", (t.word(), read(t / "files/f"), read(s / "files/f"), t.text("error")),
                 ("asleep", b"precious\n", b"precious\n", ""))
        same(f"{how}: it wakes", t.run("cat f").out, "precious\n")


def waiting():
    """Who waits, waits on, and is answered by the next daemon; who gives up can."""
    s = Session("waiting")
    code = os.open(s / "in", os.O_WRONLY | os.O_TRUNC)
    os.write(code, b"echo done\n")
    out = Later(lambda: read(s / "stdout"))
    status = Later(lambda: read(s / "exit_code"))
    child = subprocess.Popen(["cat", s / "stdout"], stdout=subprocess.DEVNULL)
    everything = os.open(f"{MNT}/events", os.O_RDONLY | os.O_NONBLOCK)
    ok("they wait", out.waits() and status.waits(0))
    for _ in range(3):
        daemon.die()
    os.listdir(MNT)
    try:
        while os.read(everything, 65536):
            pass
    except BlockingIOError:
        pass
    poll = select.poll()
    poll.register(everything, select.POLLIN)
    polled = Later(lambda: poll.poll(SOON * 1000))
    polled.waits()
    daemon.die()
    ok("they wait still", out.waits() and status.waits(0) and child.poll() is None)
    child.kill()
    ok("one can be killed", wait_for(lambda: child.poll() is not None))
    os.mkdir(f"{MNT}/raw/other")
    ok("who polls is told", polled.get())
    os.close(everything)
    os.rmdir(f"{MNT}/raw/other")
    os.close(code)
    same("output", out.get(), b"done\n")
    same("exit status", status.get(), b"0\n")
    s.remove()


def locks():
    """Locks are held, and waited for, on nodes and below files/."""
    s = Session("locks")
    s.run("echo > f")
    for path in (s / "in", s / "files/f"):
        mine = os.open(path, os.O_RDWR)
        fcntl.lockf(mine, fcntl.LOCK_EX, 10, 5)
        code = ("import fcntl, os, sys; fd = os.open(sys.argv[1], os.O_RDWR); "
                "fcntl.lockf(fd, fcntl.LOCK_EX, 1, 7); print('got it', flush=True); sys.stdin.read()")
        other = subprocess.Popen([sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        time.sleep(0.5)
        for _ in range(3):
            daemon.die()
        ok(f"{path}: it waits", select.select([other.stdout], [], [], 0.3)[0] == [])
        fcntl.lockf(mine, fcntl.LOCK_UN, 10, 5)
        ok(f"{path}: it gets it", select.select([other.stdout], [], [], SOON)[0])
        daemon.die()
        with raises(f"{path}: and has it", errno.EAGAIN, errno.EACCES):
            fcntl.lockf(mine, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 7)
        other.stdin.close()
        ok(f"{path}: until it ends", wait_for(lambda p=other: p.poll() == 0))
        fcntl.lockf(mine, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 7)
        os.close(mine)
    s.remove()


def appends():
    """Each exactly once, in their order, whoever was killed in the middle of it."""
    s = Session("appends")
    s.run("echo -n > f")
    n = 3000 if not VM else 500
    stop = threading.Event()

    def kill():
        while not stop.is_set():
            daemon.die()
            time.sleep(0.05 * SLOW)
    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    fd = os.open(s / "files/f", os.O_WRONLY | os.O_APPEND)
    for i in range(n):
        os.write(fd, f"{i}\n".encode())
    os.close(fd)
    stop.set()
    killer.join(SOON)
    same("all of them", read(s / "files/f"), "".join(f"{i}\n" for i in range(n)).encode())
    s.remove()


def edited():
    """The configuration is that of the mount, whatever has become of its file."""
    mnt, guard, conf, _ = own("edited", "max_sessions = 3")
    write(conf, "nonsense\n")
    Mortal(guard.pid).die()
    for name in "abc":
        os.mkdir(f"{mnt}/raw/{name}")
    with raises("the limit of before", errno.EDQUOT):
        os.mkdir(f"{mnt}/raw/d")
    guard.terminate()
    ok("it ends", wait_for(lambda: guard.poll() is not None, 10))
    same("as it should", guard.returncode, 0)


def ends():
    """The end is that of the mount, whoever serves it."""
    for how in ("unmount", "term", "guard"):
        mnt, guard, _, _ = own("end")
        pid = Mortal(guard.pid).die()
        os.listdir(mnt)
        if how == "unmount":
            subprocess.run(["fusermount3", "-u", mnt], check=True)
        elif how == "term":
            guard.terminate()
        else:
            guard.kill()
        ok(f"{how}: it ends", wait_for(lambda g=guard: g.poll() is not None, 10))
        same(f"{how}: as the daemon", guard.returncode, -signal.SIGKILL if how == "guard" else 0)
        ok(f"{how}: nothing is left", wait_for(lambda m=mnt, p=pid: not mounted(m) and not alive(p), 10))
    mnt, guard, _, _ = own("end")
    pid = Mortal(guard.pid).pid
    guard.terminate()
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    ok("killed while it ends: it ends", wait_for(lambda: guard.poll() is not None, 10))
    ok("killed while it ends: nothing is left", wait_for(lambda: not mounted(mnt), 10))


def too_often():
    """In the end the mount ends, and nobody waits any more."""
    for signum in (signal.SIGKILL, signal.SIGSEGV):
        mnt, guard, _, log = own("often", "max_deaths = 2")
        s = Session("s", mnt=mnt)
        code = os.open(s / "in", os.O_WRONLY | os.O_TRUNC)
        out = Later(lambda p=s.path: read(f"{p}/stdout"))
        out.waits()
        mortal = Mortal(guard.pid)
        pid = mortal.die(signum)
        os.listdir(mnt)
        os.kill(pid, signum)
        ok("it ends", wait_for(lambda g=guard: g.poll() is not None, 20))
        same("and says that this was no good end", guard.returncode, 1)
        ok("who waits is answered", not out.waits(SOON))
        has("it says why", read(log, "r"), "died too often")
        ok("nothing is left", not mounted(mnt))
        with contextlib.suppress(OSError):
            os.close(code)


def asleep():
    """... with sessions asleep, where they are kept."""
    lines = ("keep = yes", f"state_dir = {SCRATCH}/state", "max_deaths = 2")
    mnt, guard, _, _ = own("kept", *lines)
    s = Session("s", mnt=mnt, config="timeout_s = 0\n")
    same("a run", s.run("x=remembered; echo file > f").code, 0)
    pid = Mortal(guard.pid).die()
    os.listdir(mnt)
    os.kill(pid, signal.SIGKILL)
    ok("it ends", wait_for(lambda: guard.poll() is not None, 60))
    mnt, guard, _, _ = own("kept", *lines)
    s = Session.__new__(Session)
    s.path = f"{mnt}/raw/s"
    ok("it is there", os.path.isdir(s.path), os.listdir(f"{mnt}/raw"))
    same("asleep", s.word(), "asleep")
    same("with its files", s.run("cat f").out, "file\n")
    Mortal(guard.pid).die()
    same("and goes on", s.run("cat f").out, "file\n")
    guard.terminate()
    ok("and ends", wait_for(lambda: guard.poll() is not None, 60))


def taken_over():
    """One that has taken the mount over dies as well; one that goes on is taken over."""
    mnt, guard, conf, _ = own("taken")
    mortal = Mortal(guard.pid)
    s = Session("s", mnt=mnt)
    same("a run", s.run("x=kept").code, 0)
    for n in range(3):
        mortal.die()
        same(f"it remembers {n}", s.run("echo $x").out, "kept\n")
        before = mortal.now()
        done = subprocess.run([os.environ["XSBXFS"], "--takeover", "-c", conf, mnt], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=120 * SLOW, check=False)
        same(f"it is taken over {n}", done.returncode, 0)
        ok(f"by another one {n}", mortal.now(before) != before, done.stderr)
        same(f"and remembers {n}", s.run("echo $x").out, "kept\n")
    guard.terminate()
    ok("it ends", wait_for(lambda: guard.poll() is not None, 10))


main(idle, sandboxes, shared, waiting, locks, appends, edited, ends, too_often, asleep, taken_over)
