#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""survive = yes where something else is gone as well: the directory of the start, the holder, the spawner, the mount."""
# backends: local
# option: survive=yes
# timeout: 120
# log-allow: the daemon died|the mount ends|was killed by signal|nothing survives|the spawner died|holds descriptors|holds its
from deaths import *


def own(name, *options, **popen):
    mnt, log = f"{SCRATCH}/{name}", f"{SCRATCH}/{name}.log"
    if not mounted(mnt):  # what is dead can't be asked
        os.makedirs(mnt, exist_ok=True)
    return mnt, start_daemon(mnt, "survive=yes", *options, log=log, **popen), log


def finished(guard, mnt, seconds):
    began = time.monotonic()
    ok(f"{mnt}: it ends", wait_for(lambda: guard.poll() is not None, 40))
    took = time.monotonic() - began
    ok(f"{mnt}: soon", took < seconds * slack(), took)
    ok(f"{mnt}: nothing is left", wait_for(lambda: not mounted(mnt), 5))


def survives(mnt):
    return json.loads(read(f"{mnt}/status.json"))["survives"]


def from_nowhere():
    """The directory where the mount was made has been removed; its arguments are words, which need none."""
    top = f"{SCRATCH}/gone"
    os.mkdir(top)
    mnt, guard, _ = own("nowhere", cwd=top)
    os.rmdir(top)
    mortal = Mortal(guard.pid)
    for _ in range(2):
        before = mortal.pid
        ok("another one goes on", mortal.die() != before)
        ok("and serves", "status.json" in os.listdir(mnt))
    done = subprocess.run([os.environ["XSBXFS"], "--takeover", "-c", os.environ["CONF"], mnt], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60 * slack(), check=False)
    same("it is taken over", (done.returncode, done.stdout if done.returncode else b""), (0, b""))
    ok("it survives again", survives(mnt))
    guard.terminate()
    finished(guard, mnt, 10)


def holder_of(guard):
    """Return: its number, or None."""
    for pid in children_of(kin_of(guard.pid)[0]):
        try:
            if name_of(pid) == "xsbxfs-holder" and read(f"/proc/{pid}/stat", "r").split()[2] != "Z":
                return pid
        except OSError:
            pass
    return None


def the_holder(guard):
    """Wait for one: it is named by itself, and on a busy host that may be later than the mount is there."""
    ok("there is a holder", wait_for(lambda: holder_of(guard), 10))
    return holder_of(guard)


def another(guard, before):
    """Wait for another holder, and that it has all."""
    mnt = guard.args[-1]
    ok("there is another one", wait_for(lambda: holder_of(guard) not in (None, before), 10))
    ok("it survives again", wait_for(lambda: survives(mnt), 10))


def without_holder():
    """The holder is followed by another one, which is given all that the daemon has lent: then a death costs nothing."""
    mnt, guard, log = own("alone")
    ok("it survives", survives(mnt))
    has("doctor names it", read(f"{mnt}/doctor", "r"), "ok   death of the daemon: another one goes on: xsbxfs-spawner starts it, and xsbxfs-holder")
    has("so does isolation", read(f"{mnt}/isolation", "r"), "xsbxfs-holder: has a copy of the daemon's descriptors, for the next daemon; "
        "seccomp: sends, receives, waits and closes; capabilities: none\n")
    holder = f"/proc/{the_holder(guard)}"
    seccomp = 0 if "libasan" in read(f"{holder}/maps", "r") else 2  # see vm/spawn/holder.c
    for task in os.listdir(f"{holder}/task"):
        said = read(f"{holder}/task/{task}/status", "r")
        ok("and is right", f"\nSeccomp:\t{seccomp}\n" in said and "\nCapEff:\t0000000000000000\n" in said, said)
    s = Session("s", mnt=mnt)
    same("a run", s.run("x=1; echo there >file; head -c 100000 /dev/zero").code, 0)
    for signum in signal.SIGKILL, signal.SIGKILL:
        before = the_holder(guard)
        os.kill(before, signum)
        another(guard, before)
        same("a run", s.run("echo $((x += 1))").code, 0)
        Mortal(guard.pid).die()
        same("nothing is lost", s.run("echo $x; cat file").out[-6:], "there\n")
        same("an output is there", len(read(s / "runs/1/stdout")), 100000)
        ok("it survives", survives(mnt))
    same("runs", s.run("echo $x").out, "3\n")
    has("it is said", read(log, "r"), "has ended; another one follows")
    events = read_ready(f"{mnt}/events").decode()
    has("that it would have been the end", events, "the daemon's death would end the mount, for a while")
    has("and is not any more", events, "the daemon's death does not end the mount any more")
    guard.terminate()
    finished(guard, mnt, 10)


def deaf_holder():
    """One that does not hear is not waited for."""
    mnt, guard, _ = own("deaf")
    s = Session("s", mnt=mnt)
    s.run("true")
    before = the_holder(guard)
    os.kill(before, signal.SIGSTOP)
    began = time.monotonic()
    for n in range(200):
        more = Session(f"s{n}", mnt=mnt)
        more.run("true")
        more.remove()
        if holder_of(guard) != before:
            break
    took = time.monotonic() - began
    another(guard, before)
    ok("soon", took < 60 * slack(), took)
    Mortal(guard.pid).die()
    same("nothing is lost", s.run("echo there").out, "there\n")
    guard.terminate()
    finished(guard, mnt, 10)


def holders_end():
    """Not for ever: then the next death is the end, and that is said; so it is if both die at once."""
    mnt, guard, log = own("both")
    holder, daemon = the_holder(guard), kin_of(guard.pid)[1]
    os.kill(daemon, signal.SIGSTOP)  # which would ask for another holder at once
    os.kill(holder, signal.SIGKILL)
    os.kill(daemon, signal.SIGKILL)
    finished(guard, mnt, 10)
    has("it says why", read(log, "r"), "the process that holds descriptors for")
    mnt, guard, log = own("row")
    for _ in range(6):
        before = the_holder(guard)
        os.kill(before, signal.SIGKILL)
        another(guard, before)
    os.kill(the_holder(guard), signal.SIGKILL)
    said = "the mount ends from now on: the process that holds its descriptors has ended"
    ok("it says why", wait_for(lambda: said in read(log, "r"), 5), read(log, "r"))
    ok("it does not survive", not survives(mnt))
    has("and what it was", read(log, "r"), "once too often; nothing survives the daemon any more")
    os.kill(kin_of(guard.pid)[1], signal.SIGKILL)
    finished(guard, mnt, 10)


def in_between():
    """Unmounted while the next daemon is waited for: it is not waited for any longer."""
    mnt, guard, _ = own("between", "max_deaths=3")
    mortal = Mortal(guard.pid)
    pid = mortal.die()
    os.listdir(mnt)
    os.kill(pid, signal.SIGKILL)
    time.sleep(0.5)
    ok("there is none", guard.poll() is None and not alive(pid))
    subprocess.run(["fusermount3", "-u", "-z", mnt], check=True)
    finished(guard, mnt, 3)


def without_spawner():
    """The daemon is stopped, and the spawner killed: nobody waits for ever. With the guard gone too, the next mount clears up."""
    mnt, guard, _ = own("stopped")
    spawner, daemon = kin_of(guard.pid)
    os.kill(daemon, signal.SIGSTOP)
    os.kill(spawner, signal.SIGKILL)
    finished(guard, mnt, 15)
    ok("the daemon is gone", not alive(daemon))
    _, guard, _ = own("stopped")
    spawner, daemon = kin_of(guard.pid)
    os.kill(spawner, signal.SIGKILL)
    guard.kill()
    guard.wait()
    ok("the daemon ends", wait_for(lambda: not alive(daemon), 15))
    _, guard, _ = own("stopped")
    ok("it is mounted again", "status.json" in os.listdir(mnt))
    guard.terminate()
    finished(guard, mnt, 10)


main(from_nowhere, without_holder, deaf_holder, holders_end, in_between, without_spawner)
