#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--takeover: another daemon serves the mount, and nobody notices."""
# backends: local vm
# timeout: 240
# log-allow: was not taken over|is not taken over now|permits sandboxes other things
import fcntl
import re
import select
import shutil
from deaths import *

CONF = os.environ["CONF"]


def take_over(mnt=MNT, conf=CONF, program=None):
    """Return the pid of the daemon that serves now, or what was said."""
    done = subprocess.run([program or os.environ["XSBXFS"], "--takeover", "-c", conf, mnt], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=120 * SLOW, check=False)
    found = re.search(r"process (\d+) serves it now", done.stdout.decode())
    return int(found[1]) if done.returncode == 0 and found else done.stderr.decode()


def taken(what, *args):
    pid = take_over(*args)
    ok(what, isinstance(pid, int), pid)
    return pid


def plain():
    before = {name: os.stat(f"{MNT}/{name}").st_ino for name in os.listdir(MNT)}
    requests = int(re.search(r"requests\S* (\d+)", read(f"{MNT}/metrics", "r"))[1])
    first = taken("the first")
    same("the same names and numbers", {name: os.stat(f"{MNT}/{name}").st_ino for name in os.listdir(MNT)}, before)
    ok("it goes on counting", int(re.search(r"requests\S* (\d+)", read(f"{MNT}/metrics", "r"))[1]) > requests)
    second = taken("the second")
    ok("they are processes of their own", first != second and alive(second) and wait_for(lambda: not alive(first)))


def shared():
    """What sleeps as a checkpoint does, and was reset, has its files as well."""
    s = Session("shared")
    s.run("echo precious >f")
    os.mkdir(s / "checkpoints/c")
    same("it is saved", read(s / "checkpoints/c/wait"), b"whole\n")
    s.ctl("restore c")
    s.ctl("reset")
    taken("with that")
    same("all is there", (s.word(), read(s / "files/f"), read(s / "checkpoints/c/files/f")),
         ("asleep", b"precious\n", b"precious\n"))
    same("it wakes", s.run("cat f").out, "precious\n")


def handles():
    """What is open stays open, at its place."""
    s = Session("handles")
    status = os.open(s / "status.json", os.O_RDONLY)
    head = os.read(status, 20)
    listing = os.open(s.path, os.O_RDONLY | os.O_DIRECTORY)
    names = set(os.listdir(listing))
    code = os.open(s / "in", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.write(code, b"echo one\n")
    scratch = os.open(s / "in.tmp", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.write(scratch, b"half of ")
    gone = Session("gone")
    orphan = os.open(gone / "status.json", os.O_RDONLY)
    gone.remove()
    numbers = [os.fstat(fd).st_ino for fd in (status, listing, code, scratch)]
    for n in range(3):
        taken(f"takeover {n}")
    same("their numbers", [os.fstat(fd).st_ino for fd in (status, listing, code, scratch)], numbers)
    ok("what was rendered goes on", json.loads(head + os.read(status, 1 << 20))["session"] == "handles")
    same("a directory", set(os.listdir(listing)), names)
    os.write(scratch, b"a file")
    os.close(scratch)
    same("a scratch file", read(s / "in.tmp"), b"half of a file")
    os.unlink(s / "in.tmp")
    has("of one that was removed", os.read(orphan, 1 << 20).decode(), '"gone"')
    os.write(code, b"echo two; cat\n")
    write(s / "stdin", "input\n")
    taken("before it runs")
    os.close(code)
    same("code that was being written", s.result().out, "one\ntwo\ninput\n")
    for fd in (status, listing, orphan):
        os.close(fd)
    s.remove()


def waiting():
    """Who waits, waits on, and is answered by the next daemon."""
    s = Session("waiting")
    code = os.open(s / "in", os.O_WRONLY | os.O_TRUNC)
    os.write(code, b"echo done\n")
    out = Later(lambda: read(s / "stdout"))
    status = Later(lambda: read(s / "exit_code"))
    log = os.open(s / "events", os.O_RDONLY)
    try:
        fcntl.fcntl(log, fcntl.F_SETFL, os.O_NONBLOCK)
        while os.read(log, 65536):
            pass
    except BlockingIOError:
        pass
    fcntl.fcntl(log, fcntl.F_SETFL, 0)
    line = Later(lambda: os.read(log, 65536))
    child = subprocess.Popen(["cat", s / "stdout"], stdout=subprocess.DEVNULL)
    ok("they wait", out.waits() and status.waits(0) and line.waits(0))
    for n in range(3):
        taken(f"takeover {n}")
    ok("they wait still", out.waits() and status.waits(0) and line.waits(0) and child.poll() is None)
    child.kill()
    ok("one can be killed", wait_for(lambda: child.poll() is not None))
    everything = os.open(f"{MNT}/events", os.O_RDONLY | os.O_NONBLOCK)
    try:
        while os.read(everything, 65536):
            pass
    except BlockingIOError:
        pass
    poll = select.poll()
    poll.register(everything, select.POLLIN)
    polled = Later(lambda: poll.poll(SOON * 1000))
    polled.waits()
    taken("while somebody polls")
    os.mkdir(f"{MNT}/raw/other")
    ok("it is told", polled.get())
    os.close(everything)
    os.rmdir(f"{MNT}/raw/other")
    os.close(code)
    same("output", out.get(), b"done\n")
    same("exit status", status.get(), b"0\n")
    has("an event", line.get().decode(), "queued")
    os.close(log)
    s.remove()


def locks():
    """Locks are held, and waited for."""
    s = Session("locks")
    path = s / "in"
    mine = os.open(path, os.O_RDWR)
    fcntl.lockf(mine, fcntl.LOCK_EX, 10, 5)
    flock = os.open(path, os.O_RDONLY)
    fcntl.flock(flock, fcntl.LOCK_EX)
    code = ("import fcntl, os, sys; fd = os.open(sys.argv[1], os.O_RDWR); "
            "fcntl.lockf(fd, fcntl.LOCK_EX, 1, 7); print('got it', flush=True); sys.stdin.read()")
    other = subprocess.Popen([sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    time.sleep(0.5)
    for n in range(3):
        taken(f"takeover {n}")
    ok("it waits", select.select([other.stdout], [], [], 0.3)[0] == [])
    another = os.open(path, os.O_RDONLY)
    with raises("of a whole file", errno.EWOULDBLOCK):
        fcntl.flock(another, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(another)
    fcntl.lockf(mine, fcntl.LOCK_UN, 10, 5)
    ok("it gets it", select.select([other.stdout], [], [], SOON)[0])
    with raises("and has it", errno.EAGAIN, errno.EACCES):
        fcntl.lockf(mine, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 7)
    taken("and again")
    with raises("still", errno.EAGAIN, errno.EACCES):
        fcntl.lockf(mine, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 7)
    other.stdin.close()
    ok("until it ends", wait_for(lambda: other.poll() == 0))
    fcntl.lockf(mine, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 7)
    os.close(mine)
    os.close(flock)
    s.remove()


def results():
    """What has run can be read, long outputs too."""
    s = Session("results")
    long = "".join(f"{n} of many lines\n" for n in range(100000))
    same("a run", s.run("seq -f '%.0f of many lines' 0 99999").out, long)
    same("another", s.run("echo err >&2; exit 3").code, 3)
    s.ctl("close")
    ok("closed", s.wait_state("closed"))
    reader = open(s / "runs/1/stdout", "rb")
    head = reader.read(1000)
    times = [os.stat(s / f"runs/{n}").st_mtime_ns for n in (1, 2)]
    for n in range(2):
        taken(f"takeover {n}")
    same("its state", (s.word(), s.runs(), s.state_of(1), s.text("stderr")), ("closed", [1, 2], "done", "err\n"))
    same("times", [os.stat(s / f"runs/{n}").st_mtime_ns for n in (1, 2)], times)
    same("long output", read(s / "runs/1/stdout").decode(), long)
    same("where it was read", (head + reader.read()).decode(), long)
    reader.close()
    s.ctl("reset")
    same("it can go on", s.run("echo again").out, "again\n")
    same("with the next number", s.runs(), [1, 2, 3])
    s.remove()


def living():
    """Sandboxes go on: what runs in them, what they remember, what is open in them."""
    s = Session("living", config="timeout_s = 0\n")
    same("a run", s.run("x=kept; echo hello > f; mkdir d").code, 0)
    pid = s.pid()
    taken("idle")
    same("its state", (s.word(), s.pid()), ("idle", pid))
    same("what it remembers", s.run("echo $x; cat f").out, "kept\nhello\n")
    feeder = os.open(s / "stdin", os.O_WRONLY)
    s.submit("for ((n = 0; n < 40; n++)); do echo line $n; sleep 0.1; done; read -r answer; echo $answer; exit 5")
    out, code = Later(lambda: read(s / "stdout")), Later(lambda: read(s / "exit_code"))
    for n in range(4):
        taken(f"while it runs, {n}")
        time.sleep(0.3)
    same("it runs", s.word(), "running")
    os.write(feeder, b"an answer\n")
    os.close(feeder)
    same("its output", out.get(), "".join(f"line {n}\n" for n in range(40)).encode() + b"an answer\n")
    same("its exit status", code.get(), b"5\n")
    same("the same sandbox", s.pid(), pid)
    s.remove()


def files():
    """Files that are open, also removed ones; directories; locks that the agent holds."""
    s = Session("files")
    same("a run", s.run("for n in {1..300}; do echo $n > f$n; done; mkdir -p a/b/c; echo deep > a/b/c/f").code, 0)
    here = os.open(s / "files/a/b", os.O_RDONLY | os.O_DIRECTORY)
    file = os.open(s / "files/f1", os.O_RDWR)
    gone = os.open(s / "files/f2", os.O_RDWR)
    os.unlink(s / "files/f2")
    os.write(gone, b"written")
    new = os.open(s / "files/new", os.O_RDWR | os.O_CREAT | os.O_EXCL)
    os.write(new, b"first ")
    fcntl.lockf(new, fcntl.LOCK_EX)
    entries = os.scandir(s / "files")
    some = [next(entries).name for _ in range(5)]
    numbers = [os.fstat(fd).st_ino for fd in (here, file, gone, new)]
    code = ("import fcntl, os, sys; fd = os.open(sys.argv[1], os.O_RDWR); "
            "fcntl.lockf(fd, fcntl.LOCK_EX); print('got it', flush=True)")
    other = subprocess.Popen([sys.executable, "-c", code, s / "files/new"], stdout=subprocess.PIPE)
    time.sleep(0.5)
    for n in range(3):
        taken(f"takeover {n}")
    same("their numbers", [os.fstat(fd).st_ino for fd in (here, file, gone, new)], numbers)
    same("a directory", os.listdir(here), ["c"])
    same("below it", read(f"/proc/self/fd/{here}/c/f"), b"deep\n")
    same("a file", os.read(file, 10), b"1\n")
    same("one without a name", os.pread(gone, 10, 0), b"written")
    os.write(new, b"second")
    same("a new one", os.pread(new, 100, 0), b"first second")
    same("a listing goes on", len(set(some + [entry.name for entry in entries])), 301)
    ok("a lock is held", select.select([other.stdout], [], [], 0.3)[0] == [], other.poll())
    fcntl.lockf(new, fcntl.LOCK_UN)
    ok("and got by who waited", select.select([other.stdout], [], [], SOON)[0])
    other.wait()
    for fd in (here, file, gone, new):
        os.close(fd)
    same("the sandbox sees it", s.run("cat new; ls | wc -l").out, "first second301\n")
    s.remove()


def jobs():
    s = Session("jobs", config="timeout_s = 0\n")
    s.run("true")
    os.mkdir(s / "jobs/j")
    write(s / "jobs/j/config", "stdin = open\n")
    write(s / "jobs/j/in", "#!/bin/sh\nwhile read -r line; do echo got $line; done; exit 4\n")
    feeder = os.open(s / "jobs/j/stdin", os.O_WRONLY)
    heard = os.open(s / "jobs/j/stdout", os.O_RDONLY)
    ok("one runs", wait_for(lambda: s.word("jobs/j/state") == "running"), s.word("jobs/j/state"))
    os.mkdir(s / "jobs/l")
    write(s / "jobs/l/config", "stdin = open\n")
    write(s / "jobs/l/in", "#!/bin/sh\nfor n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do echo $n; sleep 0.2; done\n")
    long = Later(lambda: read(s / "jobs/l/stdout"))
    tail = subprocess.Popen(["tail", "-n", "+1", "-f", s / "jobs/l/stdout"], stdout=subprocess.PIPE)
    for n in range(4):
        taken(f"takeover {n}")
        os.write(feeder, f"line {n}\n".encode())
        same(f"it reads on {n}", Later(lambda: os.read(heard, 100)).get(), f"got line {n}\n".encode())
    same("another that runs", long.get().split(), [str(n).encode() for n in range(1, 16)])
    ok("tail", wait_for(lambda: select.select([tail.stdout], [], [], 0)[0]))
    time.sleep(0.5)
    same("tail has it", os.read(tail.stdout.fileno(), 65536).split()[:15], [str(n).encode() for n in range(1, 16)])
    tail.kill()
    tail.wait()
    same("it goes on", s.word("jobs/j/state"), "running")
    for fd in (feeder, heard):
        os.close(fd)
    same("all that it was given", read(s / "jobs/j/stdout"), "".join(f"got line {n}\n" for n in range(4)).encode())
    same("how it ended", read(s / "jobs/j/exit_code"), b"4\n")
    s.remove()


def refused():
    """One that does not come to be leaves all as it was."""
    s = Session("refused")
    code = os.open(s / "in", os.O_WRONLY | os.O_TRUNC)
    os.write(code, b"echo yes\n")
    out = Later(lambda: read(s / "stdout"))
    out.waits()
    nothing = take_over(f"{SCRATCH}/nothing")
    has("where nothing is mounted", nothing, "no xsbxfs of this user is mounted")
    shutil.copy(CONF, f"{SCRATCH}/kept.conf")
    text = read(CONF, "r")
    try:
        write(CONF, text + "\nnonsense = 1\n")
        said = take_over(conf=f"{SCRATCH}/kept.conf")
        has("a configuration that is wrong", said, "was not taken over")
        has("says what", said, "nonsense")
        write(CONF, text + "\n[limits]\nmax_processes = 1234\n")
        has("one that permits other things", take_over(conf=f"{SCRATCH}/kept.conf"), "permits sandboxes other things")
        write(CONF, text + "\n[template extra]\nimage = raw\n")
    finally:
        write(CONF, text)
    if os.getuid() == 0:
        own = f"{SCRATCH}/own"
        shutil.copy(os.environ["XSBXFS"], own)
        os.chown(own, ALICE, ALICE)
        has("a program that is not root's", take_over(program=own), "only taken over by a program that is root's")
        os.unlink(own)
    ok("who waits", out.waits())
    os.close(code)
    same("nothing has changed", out.get(), b"yes\n")
    s.remove()


def limits():
    """Of time there may be less for the sessions to come; those that are there have what they had."""
    mnt, conf, text = f"{SCRATCH}/limits", f"{SCRATCH}/limits.conf", read(CONF, "r")
    os.makedirs(mnt)
    write(conf, text + "\n[limits]\nmax_timeout_s = 1000\n")
    daemon = start_daemon(mnt, log=f"{SCRATCH}/limits.log", conf=conf)
    settings = "env.A = b\ntimeout_s = 77\n"
    idle, asleep = Session("idle", config=settings, mnt=mnt), Session("asleep", config=settings, mnt=mnt)
    for s in (idle, asleep):
        same("a variable", s.run("echo $A\n").out, "b\n")
    asleep.ctl("sleep")
    ok("it sleeps", asleep.wait_state("asleep", 60 * SLOW), asleep.text("error"))
    write(conf, text + "\n[limits]\nmax_timeout_s = 50\n")
    taken("with less", mnt, conf)
    for s in (idle, asleep):
        has("its time", s.text("config"), "\ntimeout_s = 77\n")
        same("its variable", s.run("echo $A\n").out, "b\n")
        with raises("new ones have the limit", errno.EINVAL):
            write(s / "config", settings)
    subprocess.run(["fusermount3", "-u", mnt], check=True)
    ok("it ends", wait_for(lambda: daemon.poll() is not None, 30))


def images():
    """Templates that images bring along which are built meanwhile are there then; they permit nothing of the host."""
    if os.environ["BACKEND"] == "vm":
        return  # the cache is another one, without the image that machines boot from
    jails = os.environ["BACKEND"] == "process"
    mnt, conf, cache = f"{SCRATCH}/images", f"{SCRATCH}/images.conf", f"{SCRATCH}/cache"
    os.makedirs(mnt)
    os.makedirs(f"{cache}/images/templates")
    shows = "".join(f"[template {name}]\nlanguage = raw\nimage = raw\n" + f"backend = process\nro = {path}:/shown\n" * jails
                    for name, path in (("b", "/usr/share"), ("a", "/usr/lib")))
    write(conf, read(CONF, "r") + f"\n[xsbxfs]\ncache_dir = {cache}\n[limits]\nallow_process = yes\n" + shows)
    daemon = start_daemon(mnt, log=f"{SCRATCH}/images.log", conf=conf)
    s = Session("s", mnt=mnt, template="b")
    same("before", s.run("ls -d /shown/perl5\n" * jails + "true").err, "")
    before = {name: os.stat(f"{mnt}/{name}").st_ino for name in os.listdir(mnt)}
    # One is before all others, one of a name that the configuration has further behind, and one from elsewhere.
    for name, more in ("aaa", ""), ("a", ""), ("aab", "view = image\n"):
        os.mkdir(f"{cache}/images/templates/{name}")
        write(f"{cache}/images/templates/{name}/template.conf", f"[template {name}]\nlanguage = raw\nenv.A = {name}\n{more}")
    taken("with new images", mnt, conf)
    after = {name: os.stat(f"{mnt}/{name}").st_ino for name in os.listdir(mnt)}
    same("all that was there is", {name: after.get(name) for name in before}, before)
    same("and two more", set(after) - set(before), {"aaa", "aab"})
    same("a session goes on", s.run("ls -d /shown/perl5\n" * jails + "echo on").out, "/shown/perl5\n" * jails + "on\n")
    t = Session("t", mnt=mnt, template="a")
    same("another sees what it should", t.run("ls -d /shown/os-release\n" * jails + "echo $A").out,
         "/shown/os-release\n" * jails + "a\n")
    taken("again", mnt, conf)

    # An image goes whose template has a session: that goes on, and there are no others.
    u = Session("u", mnt=mnt, template="aaa")
    same("of an image's template", u.run("x=kept; echo $A").out, "aaa\n")
    for name in "aaa", "aab":
        shutil.rmtree(f"{cache}/images/templates/{name}")
    taken("without its image", mnt, conf)
    mortal = Mortal(daemon.pid)
    for what in ("it goes on", "and behind the death of that daemon"):
        same(what, u.run("echo $x").out, "kept\n")
        same("its directory is the same", os.stat(f"{mnt}/aaa").st_ino, after["aaa"])
        with raises("no new one", errno.ENOENT):
            os.mkdir(f"{mnt}/aaa/v")
        has("it says why", read(f"{mnt}/error", "r"), "was removed; sessions that there are go on")
        mortal.die()
    taken("and with that", mnt, conf)
    os.mkdir(f"{cache}/images/templates/aaa")
    write(f"{cache}/images/templates/aaa/template.conf", "[template aaa]\nlanguage = raw\nenv.A = again\n")
    taken("with an image of that name", mnt, conf)
    same("there are new ones", Session("v", mnt=mnt, template="aaa").run("echo $A").out, "again\n")
    same("beside the old one", u.run("echo $x").out, "kept\n")
    subprocess.run(["fusermount3", "-u", mnt], check=True)
    ok("it ends", wait_for(lambda: daemon.poll() is not None, 30))


def kept():
    """With keep = yes the next daemon goes on keeping: what was removed stays removed, what is there comes back."""
    mnt, state = f"{SCRATCH}/kept", f"{SCRATCH}/state"
    os.makedirs(mnt, exist_ok=True)
    conf = f"{SCRATCH}/keep.conf"
    write(conf, read(CONF, "r") + f"\nkeep = yes\nstate_dir = {state}\n")
    daemon = start_daemon(mnt, log=f"{SCRATCH}/kept.log", conf=conf)
    s, gone = Session("s", mnt=mnt), Session("gone", mnt=mnt)
    long = "".join(f"{n}\n" for n in range(50000))
    same("a run", s.run("seq 0 49999").out, long)
    gone.run("true")
    time.sleep(1.5)
    gone.remove()
    taken("a mount that is kept", mnt, conf)
    same("its output", s.text("runs/1/stdout"), long)
    same("another run", s.run("echo more").out, "more\n")
    taken("again", mnt, conf)
    subprocess.run(["fusermount3", "-u", mnt], check=True)
    ok("it ends", wait_for(lambda: daemon.poll() is not None, 30))
    same("as it should", daemon.returncode, 0)
    daemon = start_daemon(mnt, log=f"{SCRATCH}/kept.log", conf=conf)
    same("what is there then", sorted(os.listdir(f"{mnt}/raw")), ["README.md", "s", "template.json"])
    same("its runs", [read(f"{mnt}/raw/s/runs/{n}/stdout", "r") for n in (1, 2)], [long, "more\n"])
    subprocess.run(["fusermount3", "-u", mnt], check=True)
    ok("and ends", wait_for(lambda: daemon.poll() is not None, 30))


def ends():
    """The end is that of the mount, whoever serves it."""
    for how in ("unmount", "term", "kill"):
        mnt = f"{SCRATCH}/end"
        os.makedirs(mnt, exist_ok=True)
        daemon = start_daemon(mnt, *(["survive=no"] if how == "kill" else []), log=f"{SCRATCH}/end.log")
        pid = taken(f"{how}: takeover", mnt)
        same(f"{how}: whose child it is", kin_of(daemon.pid)[1], pid)
        if how == "unmount":
            subprocess.run(["fusermount3", "-u", mnt], check=True)
        elif how == "term":
            daemon.terminate()
        else:
            os.kill(pid, signal.SIGKILL)
        ok(f"{how}: it ends", wait_for(lambda d=daemon: d.poll() is not None, 10))
        same(f"{how}: as the daemon", daemon.returncode, -signal.SIGKILL if how == "kill" else 0)
        ok(f"{how}: nothing is left", not mounted(mnt))


main(plain, shared, handles, waiting, locks, results, living, files, jobs, refused, limits, images, kept, ends)
