#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""survive = yes where something else is gone as well: the directory of the start, the holder, the spawner, the mount."""
# backends: local
# option: survive=yes
# timeout: 120
# log-allow: the daemon died|the mount ends|was killed by signal|nothing survives|the spawner died|holds descriptors
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


def without_holder():
    """It is said what has happened, and that the next death is the end."""
    mnt, guard, log = own("alone")
    ok("it survives", survives(mnt))
    [holder] = [p for p in children_of(kin_of(guard.pid)[0]) if name_of(p) == "xsbxfs-holder"]
    os.kill(holder, signal.SIGKILL)
    time.sleep(0.2)
    s = Session("s", mnt=mnt)
    same("a run", s.run("echo there").out, "there\n")
    ok("it does not survive", wait_for(lambda: not survives(mnt), 5))
    has("it says why", read(log, "r"), "the mount ends from now on: the process that holds its descriptors has ended")
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


main(from_nowhere, without_holder, in_between, without_spawner)
