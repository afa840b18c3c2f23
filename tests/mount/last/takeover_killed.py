#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""survive = yes and --takeover: the daemon that has just taken the mount over is killed, before it has done anything, or while it
does its first things. Another one goes on; nobody who waits is told of any of it."""
# backends: local process vm
# option: survive=yes
# option: max_deaths=1000000
# timeout: 180
# log-allow: the daemon died|is not taken over now|was not taken over
import select
import threading

from aim import Aim, PROGRAM
from deaths import *

TIMES = 12
# What the one that follows says is passed by no other; the others may end the one before as well.
POINTS = ("was taken over", "turn: written", "turn: committed", "turn: answered", "turn: sent", "request: begun", "request: handled")
guard = guard_of()


def kill_heir(delay):
    """Kill the next daemon as soon as it is one: the one before is killed then. Return: the thread, and a list that gets its number."""
    spawner, before = kin_of(guard)
    fd, killed = os.pidfd_open(before), []

    def heirs():
        try:
            return [p for p in children_of(spawner) if p != before and name_of(p) == "xsbxfs-daemon"]
        except OSError:
            return []

    def hunt():
        wait_for(heirs, 30)
        [heir] = heirs()
        select.select([fd], [], [])
        time.sleep(delay)
        os.kill(heir, signal.SIGKILL)
        killed.append(heir)
        os.close(fd)
    thread = threading.Thread(target=hunt)
    thread.start()
    return thread, killed


def at_once():
    s = Session("s")
    s.run("x=1")
    for n in range(TIMES):
        s.submit(f"sleep 0.3; x=$((x + 1)); echo {n} $x")
        thread, killed = kill_heir(n // 4 * 0.002)
        reader = subprocess.Popen(["cat", s / "stdout"], stdout=subprocess.PIPE)
        subprocess.run([os.environ["XSBXFS"], "--takeover", "-c", os.environ["CONF"], MNT], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=60 * SLOW, check=False)
        thread.join()
        ok(f"{n}: it was killed", wait_for(lambda k=killed: not alive(k[0]), 10))
        same(f"{n}: who reads hears of nothing", reader.communicate(timeout=60 * SLOW)[0], f"{n} {n + 2}\n".encode())
        same(f"{n}: and was told of no error", reader.returncode, 0)
    ok("it survives", json.loads(read(f"{MNT}/status.json"))["survives"])
    s.remove()


def at_points():
    """... or dies at a named point, the one before or the one that follows."""
    aim, mnt = Aim(), f"{SCRATCH}/aimed"
    own = aim.start(mnt, "survive=yes", "max_deaths=1000000")
    s = Session("s", mnt=mnt)
    s.run("x=1")
    for n, point in enumerate(POINTS):
        s.submit(f"sleep 0.5; x=$((x + 1)); echo {n} $x")
        reader = subprocess.Popen(["cat", s / "stdout"], stdout=subprocess.PIPE)
        ok(f"{point}: it runs", s.wait_run(n + 2, "running", 20))
        aim.at(point)
        subprocess.run([PROGRAM, "--takeover", "-c", os.environ["CONF"], mnt], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       stdin=subprocess.DEVNULL, timeout=60 * SLOW, env=aim.env, check=False)
        same(f"{point}: who reads hears of nothing", reader.communicate(timeout=60 * SLOW)[0], f"{n} {n + 2}\n".encode())
        same(f"{point}: and was told of no error", reader.returncode, 0)
        same(f"{point}: one has died", aim.rest(), 1)
    ok("it survives", json.loads(read(f"{mnt}/status.json"))["survives"])
    own.terminate()
    ok("it ends", wait_for(lambda: own.poll() is not None, 60))
    same("as it should", own.returncode, 0)


main(at_once, at_points)
