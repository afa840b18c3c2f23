#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The mount goes away while readers wait: they get an error, and the daemon exits cleanly."""
# backends: local
# mount: none
import re

from xsbx import *

ROUNDS = 60
HOLD = """
import os, sys, time
held = [os.open(f"{sys.argv[1]}/README.md", os.O_RDONLY) for _ in range(60)]
print(len(held), flush=True)
time.sleep(600)
"""

def scene(name):
    mnt = f"{SCRATCH}/{name}"
    os.mkdir(mnt)
    daemon = start_daemon(mnt)
    s = Session("parked", mnt=mnt)
    s.run("true\n")
    s.submit("read -r x < <(sleep 600)\n")
    s.wait_run(2, "running")
    nodes = [s / "stdout", s / "exit_code", s / "output", s / "runs/2/wait", f"{mnt}/events"]
    readers = [subprocess.Popen(["cat", node], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
               for node in nodes * 3]
    time.sleep(0.3)
    same(f"{name}: readers wait", [r.poll() for r in readers], [None] * len(readers))
    return mnt, daemon, readers


def finish(name, mnt, daemon, readers):
    for reader in readers:
        try:
            reader.wait(SOON)
        except subprocess.TimeoutExpired:
            fail(f"{name}: a reader hangs")
            reader.kill()
    try:
        daemon.wait(SOON)
    except subprocess.TimeoutExpired:
        fail(f"{name}: the daemon hangs")
        daemon.kill()
    same(f"{name}: exit status", daemon.returncode, 0)
    ok(f"{name}: nothing is mounted", not mounted(mnt))
    same(f"{name}: the directory is as it was", os.listdir(mnt), [])


def by_signal():
    for number in (signal.SIGTERM, signal.SIGINT):
        name = number.name
        mnt, daemon, readers = scene(name)
        daemon.send_signal(number)
        finish(name, mnt, daemon, readers)


def busy():
    """An ordinary unmount is refused while files are open, and nothing is harmed by that."""
    mnt, daemon, readers = scene("busy")
    status, _, err = shell(f"fusermount3 -u {mnt}")
    ok("busy: refused", status != 0 and b"busy" in err, err)
    same("busy: the readers still wait", [r.poll() for r in readers], [None] * len(readers))
    for reader in readers:
        reader.kill()
        reader.wait()
    same("busy: then it works", shell(f"fusermount3 -u {mnt}")[0], 0)
    finish("busy", mnt, daemon, [])


def lazy():
    mnt, daemon, readers = scene("lazy")
    same("lazy unmount", shell(f"fusermount3 -uz {mnt}")[0], 0)
    for reader in readers:
        reader.kill()
    finish("lazy", mnt, daemon, readers)


def raced():
    """The mount goes while requests are being read: the last ones are of whoever held it open. An unmount all
    the same, for the log as well."""
    for n in range(ROUNDS):
        name = f"raced{n}"
        mnt = f"{SCRATCH}/{name}"
        os.mkdir(mnt)
        daemon = start_daemon(mnt, log=f"{SCRATCH}/raced.log")
        holder = subprocess.Popen(["python3", "-c", HOLD, mnt], stdout=subprocess.PIPE)
        holder.stdout.readline()
        same(f"{name}: lazy unmount", shell(f"fusermount3 -uz {mnt}")[0], 0)
        holder.kill()
        holder.wait()
        finish(name, mnt, daemon, [])
    ends = [line for line in read(f"{SCRATCH}/raced.log", "r").splitlines()
            if not re.search("mounted on|accelerator", line) or "ending" in line]
    same("raced: log", set(ends), {"xsbxfs: ending: unmounted"})


def followed():
    """What somebody mounts there at once is his, however late the daemon notices; device numbers are given out again."""
    if os.getuid():
        print("followed: not run: it takes root to mount something in its place")
        return
    for how in "running", "stopped", "killed":
        name = f"followed.{how}"
        mnt = f"{SCRATCH}/{name}"
        os.mkdir(mnt)
        daemon = start_daemon(mnt, "survive=no", log=f"{SCRATCH}/followed.log")
        Session("one", mnt=mnt).run("true\n")
        _, server = kin_of(daemon.pid)
        if how != "running":
            os.kill(server, signal.SIGSTOP)
        same(f"{name}: in its place",
             shell(f"umount --no-canonicalize -i {mnt} && mount -t tmpfs other {mnt}")[0], 0)
        with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
            os.kill(server, signal.SIGKILL if how == "killed" else signal.SIGCONT)
        daemon.wait(SOON)
        same(f"{name}: exit status", daemon.returncode, -signal.SIGKILL if how == "killed" else 0)
        ok(f"{name}: it stays", mounted(mnt))
        shell(f"umount {mnt}")


def aborted():
    """What an administrator does to a file system that hangs: he is rid of it, the mount itself included."""
    mnt, daemon, readers = scene("aborted")
    minor = os.minor(os.stat(mnt).st_dev)
    control = f"/sys/fs/fuse/connections/{minor}/abort"
    if not os.path.exists(control):
        shell("mount -t fusectl none /sys/fs/fuse/connections")
    write(control, "1")
    for reader in readers:
        reader.wait(SOON)
    finish("aborted", mnt, daemon, [])


main(by_signal, busy, lazy, raced, followed, aborted)
