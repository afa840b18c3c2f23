#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever dies, and however: nothing is left behind, and no status is made up."""
# mount: none
# timeout: 120
# backends: local vm
import itertools

from xsbx import *

LOG = f"{SCRATCH}/log"


def scene(name, busy=True):
    """A daemon with one idle session, one that runs, one that has a queue, one that is new."""
    mnt = f"{SCRATCH}/{name}"
    os.mkdir(mnt)
    daemon = start_daemon(mnt, "survive=no", log=LOG)
    idle = Session("idle", mnt=mnt)
    idle.run("(sleep 6000 & ) ; echo before\n")
    if busy:
        run = Session("run", mnt=mnt)
        run.run("true\n")
        run.submit("sleep 6000 & while :; do sleep 0.1; done\n")
        run.wait_run(2, "running")
        run.submit("echo queued\n")
        Session("new", mnt=mnt)
        if not VM:
            Session("starting", mnt=mnt).submit("sleep 6000\n")
    wait_for(lambda: at_rest(mnt, daemon), 10)
    return mnt, daemon, children_of(daemon.pid)


def at_rest(mnt, daemon):
    """Nothing more is on its way: QEMU has told its version, no child of the spawner is half made."""
    if json.loads(read(f"{mnt}/status.json"))["accelerator"] == "probing":
        return False
    return [name_of(p) for p in children_of(daemon.pid) if alive(p)].count("xsbxfs-spawner") == 1


def pools_full(mnt):
    """No idle one is being made: what an exercise starts in it ends with that."""
    pools = [s["pool"] for s in json.loads(read(f"{mnt}/status.json"))["snapshots"]]
    return not any(p["filling"] for p in pools) and any(p["ready"] for p in pools)


def forget_users(pids):
    """Where not even the spawner lives to clean up, nothing ends what a program left running on
    this host, beside its agent, which may have died after it stopped them and before it killed them. In a
    machine it ends with the machine, in a jail with the jail."""
    if BACKEND == "local":
        for pid in {*pids, *children_of(os.getppid())}:
            if alive(pid) and command_of(pid).startswith("sleep "):
                os.kill(pid, signal.SIGKILL)


def nothing_left(name, mnt, daemon, pids, seconds=30):
    try:
        daemon.wait(seconds * SLOW)
    except subprocess.TimeoutExpired:
        fail(f"{name}: the daemon does not end")
        daemon.kill()
    wait_for(lambda: not any(alive(p) for p in pids), 5)
    same(f"{name}: processes", [(p, command_of(p)) for p in pids if alive(p)], [])
    ok(f"{name}: the mount is gone", wait_for(lambda: not mounted(mnt)))
    run = os.environ["XDG_RUNTIME_DIR"]
    same(f"{name}: files of the daemon", [
        os.path.join(f, n) for f, _, names in os.walk(run) for n in names], [])
    if not VM:
        same(f"{name}: spooled output", [
            os.path.join(f, n) for f, _, names in os.walk(os.environ["XDG_CACHE_HOME"])
            for n in names], [])
    if not mounted(mnt):
        same(f"{name}: the mount point is an empty directory", os.listdir(mnt), [])


def by_signal():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        name = number.name
        mnt, daemon, pids = scene(name)
        ok(f"{name}: there are processes to end", len(pids) >= 3, pids)
        daemon.send_signal(number)
        nothing_left(name, mnt, daemon, pids)
        same(f"{name}: exit status", daemon.returncode, 0)


def by_unmount():
    for name, command in (("fusermount3", "fusermount3 -u {}"), ("umount", "umount {}"),
                          ("lazily", "fusermount3 -uz {}")):
        mnt, daemon, pids = scene(name)
        status, _, err = shell(command.replace("{}", mnt))
        same(f"{name}: exit", (status, err), (0, b""))
        nothing_left(name, mnt, daemon, pids)
        same(f"{name}: exit status of the daemon", daemon.returncode, 0)


def one_killed():
    """SIGKILL of the daemon, or of the process that was started: the spawner sees it, and ends what there is."""
    for victim, number in itertools.product(("daemon", "guard"), (signal.SIGKILL, signal.SIGSEGV)):
        name = f"{victim}-{number.name}"
        mnt, daemon, pids = scene(name)
        pid = kin_of(daemon.pid)[1] if victim == "daemon" else daemon.pid
        reader = subprocess.Popen(["cat", f"{mnt}/raw/run/stdout"], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE)
        time.sleep(0.2)
        shell(f"prlimit --core=0 --pid={pid}")
        os.kill(pid, number)
        try:
            reader.wait(SOON)
        except subprocess.TimeoutExpired:
            fail(f"{name}: a reader hangs")
            reader.kill()
        nothing_left(name, mnt, daemon, pids)
        if number == signal.SIGKILL:
            same(f"{name}: exit status", daemon.returncode, -number)
        ok(f"{name}: that is no success", daemon.returncode, daemon.returncode)


def spawner_killed():
    """Without its spawner the daemon may go on or end, but leaves nothing when it ends."""
    name = "spawner"
    mnt, daemon, pids = scene(name)
    os.kill(kin_of(daemon.pid)[0], signal.SIGKILL)
    time.sleep(0.5)
    forget_users(pids)
    if daemon.poll() is None and mounted(mnt):
        try:
            word = read(f"{mnt}/raw/run/runs/2/state", "r").strip()
            ok("the run that was active is not done", word in ("lost", "running"), word)
            if word == "lost":
                ok("and has no status", not os.path.exists(f"{mnt}/raw/run/runs/2/exit_code")
                   or shell(f"cat {mnt}/raw/run/runs/2/exit_code")[0])
        except OSError as error:
            if not wait_for(lambda: daemon.poll() is not None, 5):
                fail("the mount is of no use any more", error)
        daemon.terminate()
    nothing_left(name, mnt, daemon, pids)
    same(f"{name}: an end that nobody asked for is no success", daemon.returncode, 1)


def everything_killed():
    """The daemon, its spawner and the guard at once, as when the machine is out of memory."""
    name = "everything"
    mnt, daemon, pids = scene(name)
    spawner, server = kin_of(daemon.pid)
    for pid in (spawner, daemon.pid, server):
        os.kill(pid, signal.SIGKILL)
    daemon.wait(SOON)
    time.sleep(0.5)
    forget_users(pids)
    wait_for(lambda: not any(alive(p) for p in pids), 5)
    same(f"{name}: no sandbox lives on", [command_of(p) for p in pids if alive(p)], [])
    ok("the mount is dead", mounted(mnt))
    with raises("and says so", errno.ENOTCONN, errno.ECONNABORTED):
        os.listdir(mnt)

    # The next start puts it in order.
    daemon = start_daemon(mnt, "survive=no", log=LOG)
    s = Session("again", mnt=mnt)
    same("the next start over a dead mount works", s.run("echo on\n").stdout, b"on\n")
    same("only one mount is there", sum(line.split()[4] == mnt for line in
                                        read("/proc/self/mountinfo", "r").splitlines()), 1)
    pids = children_of(daemon.pid)
    shell(f"fusermount3 -u {mnt}")
    nothing_left(name, mnt, daemon, pids)


def twice():
    """A second daemon on a mount point that is in use is refused, and does no harm."""
    mnt, daemon, pids = scene("twice", busy=False)
    status, _, err = shell(f"timeout {SOON:.0f} {os.environ['XSBXFS']} -f -o {','.join(OPTIONS)} "
                           f"-c {os.environ['CONF']} {mnt}")
    if status in (0, 124):
        fail("a second daemon mounted over the first", (status, err))
    ok("it says why", err.strip(), err)
    same("the first goes on", read(f"{mnt}/raw/idle/stdout"), b"before\n")
    shell(f"fusermount3 -u {mnt}")
    nothing_left("twice", mnt, daemon, pids)


def two_mounts():
    """Two daemons do not get into each other's way, also when one is killed."""
    one, first, pids = scene("one", busy=False)
    two, second, _ = scene("two", busy=False)
    if BACKEND == "process":
        ok("its pool is full", wait_for(lambda: pools_full(two), 10))
    more = {p: command_of(p) for p in children_of(second.pid)}
    os.kill(first.pid, signal.SIGKILL)
    time.sleep(0.5)
    same("the other goes on", (write(f"{two}/raw/idle/in", "echo on\n"),
                               read(f"{two}/raw/idle/stdout")), (None, b"on\n"))
    same("its processes are there", [c for p, c in more.items() if not alive(p)], [])
    shell(f"fusermount3 -u {two}")
    second.wait(SOON)
    nothing_left("two", two, second, more)
    nothing_left("one", one, first, pids)


main(by_signal, by_unmount, one_killed, spawner_killed, everything_killed, twice, two_mounts)
