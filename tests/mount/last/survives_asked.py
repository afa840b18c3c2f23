#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""survive = yes: what is asked for, or happens, while one daemon follows another is not forgotten: the end, an unmount, a child's end."""
# backends: local process vm
# night: vm
# timeout: 240
# log-allow: the daemon died|ending: |was killed by signal
import ctypes
import errno

from deaths import *
from kept import *


def begin(name):
    k = Kept(name, wait=False)
    k.begin("survive=yes")
    s = k.make("s")
    same("a run", s.run("echo kept > f").code, 0)
    return k, s, Mortal(k.daemon.pid)


def ended(k, what):
    same(f"{what}: it ends well", k.daemon.wait(60 * SLOW * slack()), 0)
    ok(f"{what}: nothing is left", wait_for(lambda: not mounted(k.mnt), 5))


def is_kept(k, what, last):
    k.begin()
    s = k.there("s")
    same(f"{what}: it sleeps", s.word(), "asleep")
    same(f"{what}: its run was let come to its end", (s.runs()[-1], read(s / "exit_code")), last)
    same(f"{what}: its files", read(s / "files/f"), b"kept\n")
    same(f"{what}: the end", k.end(), 0)


def endings(k):
    return read(k.log, "r").count("ending: ")


def the_end():
    """It waits for a run, and the daemon is killed meanwhile. Whom the signal was for is all the same, and it came but once."""
    for name in ("daemon", "guard"):
        k, s, mortal = begin(name)
        s.submit("sleep 4; exit 3")
        ok("it runs", s.wait_run(2, "running", 20))
        os.kill(mortal.pid if name == "daemon" else k.daemon.pid, signal.SIGTERM)
        ok("it ends", wait_for(lambda k=k: endings(k) == 1, 10))
        time.sleep(0.1)
        ok("another one goes on", mortal.die())
        same("and serves", read(s / "runs/2/state"), b"running\n")
        ok("it goes on ending", wait_for(lambda k=k: endings(k) == 2, 10))
        ended(k, name)
        is_kept(k, name, (2, b"3\n"))


def detach(mnt):
    """As umount(8) -l, which asks those who don't answer what is there."""
    if os.geteuid() != 0:
        shell(f"fusermount3 -u -z {mnt}")
    elif ctypes.CDLL(None, use_errno=True).umount2(mnt.encode(), 2):
        raise OSError(ctypes.get_errno(), mnt)


class Stopped:
    """The next daemon, as soon as it is started; most of the time before it can serve."""

    def __init__(self, mortal):
        self.spawner = kin_of(mortal.guard)[0]
        self.old = children_of(self.spawner)
        os.kill(mortal.pid, signal.SIGKILL)
        ok("another one has begun", wait_for(self.find, 10))

    def find(self):
        for pid in children_of(self.spawner):
            with contextlib.suppress(OSError):
                if pid not in self.old and read(f"/proc/{pid}/comm", "r").strip() in ("xsbxfs", "xsbxfs-daemon"):
                    os.kill(pid, signal.SIGSTOP)
                    self.pid = pid
                    return True
        return False

    def go_on(self):
        os.kill(self.pid, signal.SIGCONT)


def while_it_loads():
    for name in ("terminated", "unmounted", "detached"):
        k, s, mortal = begin(name)
        if name == "detached":
            s.submit("sleep 2; exit 1")
            reader = subprocess.Popen(["cat", s / "stdout"], stdout=subprocess.DEVNULL)
            ok("it runs", s.wait_run(2, "running", 20))
        heir = Stopped(mortal)
        if name == "terminated":
            k.daemon.terminate()
        else:
            detach(k.mnt)
        time.sleep(0.3)
        heir.go_on()
        if name == "detached":
            same("who reads hears of nothing", reader.wait(60 * SLOW), 0)
        ended(k, name)
        is_kept(k, name, (2, b"1\n") if name == "detached" else (1, b"0\n"))


def another_mount():
    """What is mounted there by somebody else, when the daemon comes that knows nothing of it, is not its own."""
    if os.geteuid() != 0:
        return
    k, s, mortal = begin("other")
    fd = os.open(s / "files/f", os.O_RDONLY)
    heir = Stopped(mortal)
    detach(k.mnt)
    # No other process may have that file open, and flush it when it closes it.
    if ctypes.CDLL(None).mount(b"other", k.mnt.encode(), b"tmpfs", 0, None):
        heir.go_on()  # not permitted here
    else:
        write(f"{k.mnt}/own", "own")
        heir.go_on()
        same("it serves who has a file open", os.read(fd, 10), b"kept\n")
        k.daemon.terminate()
        same("it ends well", k.daemon.wait(60 * SLOW * slack()), 0)
        same("what is there now is there still", os.listdir(k.mnt), ["own"])
        detach(k.mnt)
    with contextlib.suppress(OSError):
        os.close(fd)
    k.daemon.wait(60 * SLOW * slack())


def covered():
    """What is mounted over ours is not ours either: it stays, and ours is dead below it."""
    if os.geteuid() != 0:
        return
    k = begin("covered")[0]
    if ctypes.CDLL(None).mount(b"other", k.mnt.encode(), b"tmpfs", 0, None):
        detach(k.mnt)  # not permitted here
        k.daemon.wait(60 * SLOW * slack())
        return
    write(f"{k.mnt}/own", "own")
    k.daemon.terminate()
    same("it ends well", k.daemon.wait(60 * SLOW * slack()), 0)
    ok("it says so", "mounted over it" in read(k.log, "r"))
    same("what is above is there still", os.listdir(k.mnt), ["own"])
    detach(k.mnt)
    with raises("what is below is dead", errno.ENOTCONN):
        os.listdir(k.mnt)
    detach(k.mnt)


def children():
    """One that ends is reaped then, and its session hears of it afterwards."""
    k, s, mortal = begin("children")
    spawner = kin_of(k.daemon.pid)[0]
    agents = [p for p in children_of(spawner) if p != mortal.pid and read(f"/proc/{p}/comm", "r") != "xsbxfs-holder\n"]
    heir = Stopped(mortal)
    for pid in agents:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    ok("they are reaped", wait_for(lambda: not any(os.path.exists(f"/proc/{p}") for p in agents), 3),
       [p for p in agents if os.path.exists(f"/proc/{p}")])
    heir.go_on()
    ok("it is told", s.wait_state("closed", 20), s.text("error"))
    s.ctl("reset")
    same("and begins anew", s.run("echo anew").out, "anew\n")
    same("the end", k.end(), 0)


main(the_end, while_it_loads, another_mount, covered, children)
