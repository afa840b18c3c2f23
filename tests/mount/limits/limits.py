#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each limit of a sandbox: just below it works, beyond it there is an error that programs know, the
session says so, and goes on. The same in every backend."""
# backends: local process vm
# night: vm
# timeout: 300
# conf: output_limit = 64K
from xsbx import *

# Without a sandbox around it, an agent for tests leaves the host's limits alone.
HELD = BACKEND != "local"

# Emulated machines on a busy host take their time; what is measured here is none.
PATIENT = f"timeout_s = {60 * SLOW}\n"


def held():
    if not HELD:
        print("only in a sandbox", flush=True)
    return HELD


def together_held():
    """Are there limits for all processes of a sandbox together? An ordinary user may have no control groups,
    and then what without_groups() looks at is all there is."""
    if BACKEND == "process" and held():
        s = Session("groups")
        s.run("true\n")
        said = s.json()["sandbox"]["isolation"]["limit.memory"]
        s.remove()
        if "none for all" in said:
            print(f"no control groups: {said}", flush=True)
            return False
    return held()


def usage(s):
    """What the session knows of its sandbox, asked for after the last run."""
    return s.json()["usage"] or {}


def reached(s, word, seconds=8):
    return wait_for(lambda: word in usage(s).get("reached", []), seconds)


def told(s, run):
    """The limits that the run had reached, which are known when it has ended."""
    return s.json(f"runs/{run}/status.json").get("reached")


def memory():
    if not together_held():
        return
    s = Session("memory", "python", config=PATIENT)
    same("control: a part of it", s.run("b = b'x' * (64 << 20)\nprint(len(b))\ndel b\n").out,
         f"{64 << 20}\n")
    # Of random bytes, as others can be compressed.
    result = s.run("import os\nprint('so far', flush=True)\nkeep, block = [], os.urandom(1 << 20)\n"
                   "while True: keep.append(block + b'x')\n")
    same("memory", (result.code, s.state_of(2), result.out), (137, "oom", "so far\n"))
    same("the session says it", s.json()["error"]["code"], "out-of-memory")
    same("and goes on", s.run("print('fine')").out, "fine\n")
    same("a run that ends so by itself is no such case",
         (s.run("import os\nos.kill(os.getpid(), 9)\n").code, s.state_of(4)), (137, "done"))


# A child that takes all the memory it can get.
EATER = "head -c 8M /dev/urandom > r; while cat r; do :; done 2> /dev/null | tail -c 1G"


def memory_of_children():
    if not together_held():
        return
    s = Session("child", config=PATIENT)
    result = s.run("head -c 16M /dev/urandom | tail -c 16M | wc -c\n")
    same("control: a child with some", result.out, f"{16 << 20}\n")
    result = s.run(f"{EATER} > /dev/null; echo ${{PIPESTATUS[1]}}\n")
    # A machine ends the run as a whole, before its kernel has to end anything.
    ok("a child is killed", (result.out, result.code, s.state_of(2)) in (
        ("137\n", 0, "done"), ("", 137, "oom")), result)
    result = s.run(f"{EATER} > /dev/null\n")
    same("a run that ends with it", (result.code, s.state_of(3)), (137, "oom"))
    # Two sandboxes at once: what one does is no matter of the other's.
    other = Session("other", config=PATIENT)
    other.submit("until [ -e go ]; do sleep 0.5; done; kill -9 $$\n")
    other.wait_run(1, "running")
    same("another", (s.run(f"{EATER} > /dev/null\n").code, s.state_of(4)), (137, "oom"))
    write(other / "files/go", "")
    same("is not said to be out of memory", (other.result().code, other.state_of(1)),
         (137, "done"))
    same("the session goes on", s.run("echo fine\n").out, "fine\n")


def memory_of_files():
    """All that can be written to is in memory: to fill it all takes more than there is."""
    if not held():
        return
    s = Session("tmpfs", config=PATIENT)
    s.run("head -c 8M /dev/urandom > r\n"
          "for f in ~/a /tmp/a /dev/shm/a; do while cat r; do :; done > $f; done 2> /dev/null\n")
    wait_for(lambda: s.word() in ("idle", "closed"), 5)
    word = s.state_of(1)
    ok("it ends, or there is no memory", word in ("done", "oom"), word)
    if word == "oom":
        same("and the session says it", s.json()["error"]["code"], "out-of-memory")
    # The files are still there, so nothing else can be, until they go.
    s.ctl("reset")
    same("after a reset all is well", s.run("echo fine\n").out, "fine\n")


FORKS = """
import errno, os, signal, time
pids = []
try:
    while len(pids) < {most}:
        pid = os.fork()
        if not pid:
            signal.pause()
            os._exit(0)
        pids.append(pid)
    print("no end")
except OSError as e:
    print(errno.errorcode[e.errno])
for pid in pids:
    os.kill(pid, 9)
for pid in pids:
    os.waitpid(pid, 0)
print(len(pids))
"""

THREADS = """
import threading
stop, threads = threading.Event(), []
try:
    while len(threads) < {most}:
        t = threading.Thread(target=stop.wait)
        t.start()
        threads.append(t)
    print("no end")
except RuntimeError as e:
    print(e)
stop.set()
for t in threads:
    t.join()
print(len(threads))
"""


def processes():
    if not held():
        return
    s = Session("processes", "python", config=PATIENT + "processes = 64\nmemory_mb = 256\n")
    same("control: some", s.run(FORKS.format(most=40)).out, "no end\n40\n")
    words = s.run(FORKS.format(most=400)).out.split()
    same("fork", words[:1], ["EAGAIN"])
    ok("up to about the limit", 50 <= int(words[1]) <= 64, words)
    words = s.run(THREADS.format(most=400)).out.splitlines()
    has("threads count", words[0], "can't start new thread")
    # Where what each process has mapped is limited, so are the stacks of its threads.
    ok("up to about the limit", (50 if together_held() else 25) <= int(words[1]) <= 64, words)
    same("the session goes on", s.run("print('fine')").out, "fine\n")
    # More than by default; a machine would need more memory for that.
    most = 200 if VM else 700
    more = Session("more", "python", config=f"{PATIENT}processes = {most}\nmemory_mb = 512\n")
    words = more.run(FORKS.format(most=2000)).out.split()
    same("a higher limit", words[:1], ["EAGAIN"])
    ok("is a higher limit", most - 40 <= int(words[1]) <= most, words)


def processes_left():
    """What earlier runs left counts, and the session says so."""
    if not held():
        return
    s = Session("left", config="processes = 64\n")
    s.run("for i in $(seq 100); do sleep 1000 & done 2> /dev/null\n")
    ok("it is said that the limit is reached", reached(s, "processes"), usage(s))
    s.ctl("reset")
    same("until they end", s.run("echo fine\n").out, "fine\n")
    ok("then no more", wait_for(lambda: "processes" not in usage(s).get("reached", ["processes"]),
                                8), usage(s))


def fork_bomb():
    if not held():
        return
    s = Session("bomb", config=f"timeout_s = {5 * SLOW}\n")
    s.run(":() { : | : & }; : 2> /dev/null; sleep 1000\n")
    same("it ends", s.state_of(1), "timeout")
    s.ctl("reset")
    same("and then all is well", s.run("echo fine\n").out, "fine\n")


def open_files():
    s = Session("open", "python", config="open_files = 100\n")
    opens = ("import errno, os\nfds = []\ntry:\n    while len(fds) < {}:\n"
             "        fds.append(os.open('/dev/null', 0))\n    print('no end')\n"
             "except OSError as e:\n    print(errno.errorcode[e.errno])\n"
             "[os.close(f) for f in fds]\nprint(len(fds))\n")
    same("control: some", s.run(opens.format(60)).out, "no end\n60\n")
    words = s.run(opens.format(10000)).out.split()
    same("open", words[:1], ["EMFILE"])
    ok("up to about the limit", 80 <= int(words[1]) < 100, words)
    same("the session goes on", s.run("print('fine')").out, "fine\n")
    # By default there are more.
    words = Session("opens", "python").run(opens.format(100000)).out.split()
    same("by default", words[:1], ["EMFILE"])
    ok("there are 4096", 4000 < int(words[1]) < 4096, words)


def file_size():
    s = Session("size", "python", config="file_size_mb = 2\n")
    writes = ("import errno\ntry:\n    with open('f', 'wb') as f:\n"
              "        for _ in range({}): f.write(bytes(1 << 20))\n    print('written')\n"
              "except OSError as e:\n    print(errno.errorcode[e.errno])\n")
    same("control: as large", s.run(writes.format(2)).out, "written\n")
    same("larger", s.run(writes.format(3)).out, "EFBIG\n")
    same("as large as it may be", os.stat(s / "files/f").st_size, 2 << 20)
    same("larger by truncate", s.run("import os\ntry:\n    os.truncate('f', (2 << 20) + 1)\n"
                                     "except OSError as e:\n    print(e.errno)\n").out,
         f"{errno.EFBIG}\n")
    r = Session("signal", config="file_size_mb = 1\n")
    result = r.run("head -c 2000000 /dev/zero > g; echo $?; exit 0\n")
    same("the signal", result.out, f"{128 + signal.SIGXFSZ}\n")
    same("output is no file", r.run("head -c 60000 /dev/zero | tr '\\0' x\n").out, "x" * 60000)
    write(r / "files/outside", bytes(2 << 20))
    same("it is not for those outside", os.stat(r / "files/outside").st_size, 2 << 20)
    same("the session goes on", r.run("echo fine\n").out, "fine\n")


def room():
    if not held():
        return
    s = Session("room", config="files_mb = 10\n")
    same("control: some", s.run("head -c 9M /dev/zero > f && wc -c < f\n").out, f"{9 << 20}\n")
    ok("not reached", "files_mb" not in usage(s).get("reached", []), usage(s))
    result = s.run("LC_ALL=C head -c 11M /dev/zero > f; echo $?; wc -c < f\n")
    has("no room", result.err, "No space left on device")
    same("up to the limit", result.out, f"1\n{10 << 20}\n")
    with raises("nor from outside", errno.ENOSPC):
        write(s / "files/g", bytes(1 << 20))
    info = os.statvfs(s / "files")
    same("statfs", (info.f_blocks * info.f_frsize, info.f_bavail), (10 << 20, 0))
    same("the run says that the limit is reached", told(s, 2), ["files_mb"])
    ok("and the session", reached(s, "files_mb"), usage(s))
    same("/tmp has its own", s.run("head -c 11M /dev/zero > /tmp/f && wc -c < /tmp/f\n").out,
         f"{11 << 20}\n")
    s.run("rm f\n")
    same("a run that makes room does not", told(s, 4), [])
    ok("nor does the session, at once", "files_mb" not in usage(s)["reached"], usage(s))
    s.run("head -c 11M /dev/zero > f\n")
    os.unlink(s / "files/f")
    same("and then there is room again", s.run("head -c 9M /dev/zero > f; wc -c < f\n").out,
         f"{9 << 20}\n")
    ok("it is no more", wait_for(lambda: "files_mb" not in usage(s).get("reached", ["files_mb"]),
                                 8), usage(s))


def inodes():
    if not held():
        return
    s = Session("inodes", config="files_inodes = 200\n")
    make = "i=0; while [ $i -lt {} ] && : > f$i; do i=$((i+1)); done; echo $i\n"
    same("control: some", s.run(make.format(150)).out, "150\n")
    result = s.run(make.format(1000))
    has("no more files", result.err, "No space left on device")
    ok("up to about the limit", 190 <= int(result.out) <= 200, result.out)
    with raises("nor from outside", errno.ENOSPC):
        write(s / "files/g", b"")
    with raises("nor directories", errno.ENOSPC):
        os.mkdir(s / "files/d")
    same("statfs", os.statvfs(s / "files").f_files, 200)
    same("the run says that the limit is reached", told(s, 2), ["files_inodes"])
    ok("it is said that the limit is reached", reached(s, "files_inodes"), usage(s))
    same("there is room in what there is", s.run("echo text > f0; cat f0\n").out, "text\n")
    same("and then there are more", s.run("rm -f f?*; " + make.format(150)).out, "150\n")


def output():
    s = Session("output", "python")
    same("control: as much", len(s.run("print('x' * 65535)\n").out), 65536)
    same("is not cut", s.json("runs/1/status.json")["truncated"], False)
    result = s.run("import sys\nn = sys.stdout.write('x' * 100000)\nprint(n, file=sys.stderr)\n")
    same("more is dropped", (len(result.out), result.err, result.code), (65536, "100000\n", 0))
    status = s.json("runs/2/status.json")
    same("the run says it", (status["truncated"], status["stdout"]["dropped_bytes"],
                             status["stderr"]["truncated"]), (True, 100000 - 65536, False))


def wall_time():
    s = Session("time", config="timeout_s = 3\n")
    same("control: sooner", (s.run("sleep 0.5; echo on\n").out, s.state_of(1)), ("on\n", "done"))
    result = s.run("echo so far; sleep 1000\n")
    same("later", (result.code, result.out, s.state_of(2)), (124, "so far\n", "timeout"))
    same("the session goes on", s.run("echo fine\n").out, "fine\n")


def administrator():
    """What the administrator allows holds for the defaults, too."""
    mnt = f"{SCRATCH}/limited"
    os.mkdir(mnt)
    conf = f"{SCRATCH}/conf"
    write(conf, read(os.environ["CONF"]) +
          b"[limits]\nmax_processes = 100\nmax_open_files = 90\nmax_file_size_mb = 3\n")
    daemon = start_daemon(mnt, conf=conf)
    s = Session("s", mnt=mnt)
    for line in ("processes = 101", "open_files = 91", "file_size_mb = 4", "file_size_mb = 0"):
        with raises(line, errno.EINVAL):
            write(s / "config", line + "\n")
        has("why", s.text("error"), "limit")
    same("what code has", s.run("ulimit -n; ulimit -f\n").out, f"90\n{3 << 10}\n")
    settings = s.json()["settings"]
    same("what is said", [settings[k] for k in ("processes", "open_files", "file_size_mb")],
         [100, 90, 3])
    daemon.terminate()
    daemon.wait(SOON)


def without_groups():
    """A host that gives no control groups: what holds then holds for each process."""
    if BACKEND != "process":
        return
    mnt = f"{SCRATCH}/groupless"
    os.mkdir(mnt)
    hide = together_held()
    status, _, err = shell("mount -t tmpfs none /sys/fs/cgroup") if hide else (0, b"", b"")
    if status:
        print(f"control groups can't be hidden: {err}")
        return
    daemon = start_daemon(mnt)
    try:
        s = Session("s", "python", mnt=mnt, config="memory_mb = 256\n")
        same("control: a part of it", s.run("b = b'x' * (64 << 20)\nprint(len(b))\ndel b\n").out,
             f"{64 << 20}\n")
        isolation = s.json()["sandbox"]["isolation"]
        has("memory", isolation["limit.memory"], "260 MiB for each process, none for all")
        for layer in ("limit.processes", "limit.cpu"):
            has(layer, isolation[layer], "none")
        result = s.run("keep = []\ntry:\n    while True: keep.append(bytes(1 << 20))\n"
                       "except MemoryError:\n    keep.clear()\n    raise\n")
        same("memory", (result.code, s.state_of(2)), (1, "done"))
        has("as an exception", result.err, "MemoryError")
        # What is mapped counts as well; what is shared does not.
        has("by mmap", s.run("import mmap\nmmap.mmap(-1, 300 << 20, mmap.MAP_PRIVATE)\n").err,
            "Cannot allocate memory")
        result = s.run(FORKS.format(most=2000))
        ok("processes", result.out.startswith("EAGAIN\n"), result)
        same("the session goes on", s.run("print('fine')").out, "fine\n")
        r = Session("r", mnt=mnt, config="memory_mb = 128\n")
        result = r.run("head -c 300M /dev/zero | tail -c 300M | wc -c; echo ${PIPESTATUS[1]}\n")
        same("of a child", (result.out, r.state_of(1)), ("0\n1\n", "done"))
        has("as a message", result.err, "memory exhausted")
        same("killed is not out of memory", (r.run("kill -9 $$\n").code, r.state_of(2)),
             (137, "done"))
    finally:
        daemon.terminate()
        daemon.wait(SOON)
        if hide:
            shell("umount /sys/fs/cgroup")


def frozen():
    """They are what a sandbox is made with."""
    s = Session("frozen", config="open_files = 200\n")
    same("as written", s.run("ulimit -n\n").out, "200\n")
    for key, value in (("processes", 100), ("open_files", 100), ("file_size_mb", 1),
                       ("files_mb", 20), ("files_inodes", 500)):
        with raises(key, errno.EBUSY):
            with open(s / "config", "a") as file:
                file.write(f"{key} = {value}\n")
    s.ctl("close")
    with open(s / "config", "a") as file:
        file.write("open_files = 300\n")
    s.ctl("reset")
    same("changed", s.run("ulimit -n\n").out, "300\n")


main(memory, memory_of_children, memory_of_files, processes, processes_left, fork_bomb, open_files,
     file_size, room, inodes, output, wall_time, administrator,
     without_groups, frozen)
