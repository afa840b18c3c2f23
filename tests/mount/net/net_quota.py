#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bytes that go through networks count for the day of whose sandbox it is: over resets, sandboxes, sleep, and the daemon's death."""
# mount: none
# backends: process vm
# timeout: 240
# log-allow: the daemon died|was killed by signal|snapshot of
import socket
import threading

from deaths import *
from quotas import *

BULK = 300000
listener = socket.create_server(("127.0.0.1", 0))
PORT = listener.getsockname()[1]


def serve():
    while True:
        with contextlib.suppress(OSError):
            peer = listener.accept()[0]
            peer.sendall(b"x" * BULK)
            peer.close()


threading.Thread(target=serve, daemon=True).start()
CONF = f"{SCRATCH}/conf"
write(CONF, read(os.environ["CONF"], "r") + f"\n[limits]\nhost_ports = {PORT}\n[quota]\nnet_bytes_day = 1G\n")
MNT = f"{SCRATCH}/quota"
os.mkdir(MNT)
guard = start_daemon(MNT, conf=CONF)
FETCH = f"exec 3<>/dev/tcp/host.internal/{PORT}; wc -c <&3; exec 3>&-\n"


def used():
    line = quota_lines(MNT)["net_bytes_day"]
    same("of how much", line.split(",")[0].split(" of ")[1], str(1 << 30))
    return int(line.split()[0])


def fetch(s):
    same("it is fetched", s.run(FETCH).out.strip(), str(BULK))


def counts(what, before):
    ok(f"{what} is counted", wait_for(lambda: used() >= before + BULK, 30 * slack()), (before, used()))
    now = used()
    ok(f"{what} is counted once", now < before + 2 * BULK, (before, now))
    return now


def bytes_of_a_day():
    s = Session("s", config=f"network = on\nallow = host.internal:{PORT}\n", mnt=MNT)
    same("nothing yet", used(), 0)
    fetch(s)
    at = counts("a run", 0)
    s.ctl("reset")
    fetch(s)
    at = counts("one behind a reset", at)
    Mortal(guard.pid).die()
    ok("the daemon's death is not the end of it", used() >= at, (at, used()))
    fetch(s)
    at = counts("one of the next daemon", at)
    s.ctl("sleep")
    ok("asleep", s.wait_state("asleep", 30 * slack()))
    fetch(s)
    at = counts("one that was woken for", at)
    s.ctl("close")
    s.remove()
    other = Session("t", config=f"network = on\nallow = host.internal:{PORT}\n", mnt=MNT)
    fetch(other)
    counts("another session", at)
    quota = json.loads(read(f"{MNT}/status.json"))["quota"]["net_bytes_day"]
    ok("programs see it", quota["used"] >= 5 * BULK and quota["limit"] == 1 << 30, quota)


def short_runs():
    """A sandbox that lasts for one run may be gone before anybody asks what went through its network."""
    at = used()
    s = Session("short", config=f"network = on\nallow = host.internal:{PORT}\nfresh = yes\nnet_bytes = {BULK * 5}\n", mnt=MNT)
    for i in range(4):
        same("it is fetched", s.run(f"{FETCH}sleep 0.1\n").out.strip(), str(BULK))
        at = counts(f"short run {i}", at)
    for _ in range(2):
        out = s.run(f"{FETCH}sleep 0.1\n").out.strip()
    ok("and for the session's own budget", out != str(BULK), s.text("net/refused"))
    s.remove()


def used_up():
    """When there is nothing left, connections are refused, and it is said; also of a sandbox that begins then."""
    with own_mount("up", conf=read(CONF, "r").replace("net_bytes_day = 1G", f"net_bytes_day = {BULK // 2}")) as mnt:
        s = Session("s", config=f"network = on\nallow = host.internal:{PORT}\n", mnt=mnt)
        fetch(s)
        ok("it is said", wait_for(lambda: "code: over-quota\n" in s.text("error"), 30 * slack()), s.text("error"))
        has("how much", s.text("error"), f"bytes today, of {BULK // 2}; it begins anew at 00:00 UTC, in ")
        ok("nothing is reached", s.run(FETCH).out.strip() != str(BULK), s.text("net/refused"))
        same("runs go on", s.run("echo on\n").out, "on\n")
        other = Session("t", config=f"network = on\nallow = host.internal:{PORT}\n", mnt=mnt)
        ok("nor in another session", other.run(FETCH).out.strip() != str(BULK), other.text("net/refused"))
        ok("which is told as well", wait_for(lambda: "code: over-quota\n" in other.text("error"), SOON), other.text("error"))
        for refused in (s.text("net/refused"), other.text("net/refused")):
            has("why", refused, f"host.internal {PORT} the budget is used up")
            ok("and no other reason", "not allowed" not in refused, refused)


def end():
    shell(f"fusermount3 -u {MNT}")
    same("the daemon's end", guard.wait(SOON), 0)


main(bytes_of_a_day, short_runs, used_up, end)
