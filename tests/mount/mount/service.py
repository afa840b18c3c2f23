#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Under a service manager, as sd_notify(3) and the journal's protocol have it: it is ready when it is mounted, pings come from the loop
of whoever serves, one that hangs is followed by another, and entries of the journal have fields."""
# mount: none
# backends: local -process
# timeout: 120
# log-allow: the daemon died|does not get on
import select
import socket
import struct

from deaths import *


class Manager:
    """Takes datagrams, as systemd does."""

    def __init__(self, name, abstract=False):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.path = f"{SCRATCH}/{name}"
        self.address = f"@{self.path}" if abstract else self.path
        self.sock.bind(f"\0{self.path}" if abstract else self.path)
        self.senders, self.all = set(), []

    def take(self, seconds=0.0):
        """All that has come, waiting for the first for so long."""
        got = []
        while select.select([self.sock], [], [], 0 if got else seconds)[0]:
            data, aside, _, _ = self.sock.recvmsg(65536, 64)
            self.senders.add(struct.unpack("3i", aside[0][2])[0])
            got.append(data.decode())
        self.all += got
        return got

    def hear(self, message, seconds=30):
        return wait_for(lambda: message in self.take(0.1), seconds * slack())


def start(name, manager, *options, **env):
    mnt = f"{SCRATCH}/{name}"
    os.mkdir(mnt)
    env = {k: v for k, v in {**os.environ, "NOTIFY_SOCKET": manager.address if manager else None, **env}.items() if v is not None}
    return mnt, start_daemon(mnt, *options, env=env)


def end(daemon, manager=None):
    daemon.terminate()
    same("it ends", daemon.wait(SOON), 0)
    if manager:
        ok("and says so before", "STOPPING=1" in manager.take() or "STOPPING=1" in manager.all, manager.all)


def ready():
    for abstract in False, True:
        m = Manager(f"ready.{abstract}", abstract)
        watchdog = {"WATCHDOG_USEC": "8000000"} if abstract else {}
        mnt = f"{SCRATCH}/mnt.{abstract}"
        os.mkdir(mnt)
        with open(f"{SCRATCH}/log.{abstract}", "ab") as log:
            daemon = subprocess.Popen([os.environ["XSBXFS"], "-f", "-c", os.environ["CONF"], "-o", ",".join(OPTIONS), mnt],
                                      stdout=log, stderr=log, env={**os.environ, "NOTIFY_SOCKET": m.address, **watchdog})
        got = m.take(SOON)
        ok("what is said first is said of a mount", mounted(mnt) and "README.md" in os.listdir(mnt), got)
        ok("it is ready", "READY=1" in m.all or m.hear("READY=1"), m.all)
        same("said by the process that was started alone", m.senders, {daemon.pid})
        ok("a line", "STATUS=0 sessions, 0 with a sandbox" in m.all, m.all)
        same("pings, if somebody waits for them", "WATCHDOG=1" in m.all or abstract and m.hear("WATCHDOG=1"), abstract)
        os.mkdir(f"{mnt}/raw/one")
        ok("another line", not abstract or m.hear("STATUS=1 session, 0 with a sandbox"), m.all)
        same("ready once", m.all.count("READY=1"), 1)
        end(daemon, m)
        ok("why", "STATUS=terminated" in m.all, m.all)


def refused():
    m = Manager("refused")
    mnt = f"{SCRATCH}/refused.mnt"
    os.mkdir(mnt)
    done = subprocess.run([os.environ["XSBXFS"], "-f", "-c", os.environ["CONF"], "-o", f"cache_dir={mnt}/cache", mnt],
                          stderr=subprocess.PIPE, env={**os.environ, "NOTIFY_SOCKET": m.address}, check=False)
    same("it does not mount", done.returncode, 1)
    same("and is never ready", [x for x in m.take() if x == "READY=1"], [])


def deaths():
    m = Manager("deaths")
    mnt, daemon = start("deaths.mnt", m, WATCHDOG_USEC="4000000")
    s = Session("s", mnt=mnt)
    same("it runs", s.run("x=6").code, 0)
    ok("pings", m.hear("WATCHDOG=1"))
    mortal = Mortal(daemon.pid)
    mortal.die()
    m.take()
    ok("pings of the next one", m.hear("WATCHDOG=1") and m.hear("WATCHDOG=1"))
    same("what there was is there", s.run("echo $((x * 7))").out, "42\n")

    stopped = mortal.pid
    os.kill(stopped, signal.SIGSTOP)
    ok("it stands still", wait_for(lambda: "T" in status_of(stopped)["State"], SOON))
    time.sleep(0.3)
    m.take()
    silent = True
    while alive(stopped):
        silent &= "WATCHDOG=1" not in m.take(0.1) or not alive(stopped)
    ok("no ping of one that hangs", silent)
    ok("it is followed", mortal.now(stopped) != stopped)
    ok("pings of the one after it", m.hear("WATCHDOG=1"))
    same("what there was is still there", s.run("echo $((x * 8))").out, "48\n")
    same("ready once", m.all.count("READY=1"), 1)
    same("said by the process that was started alone", m.senders, {daemon.pid})
    end(daemon, m)


def taken_over():
    m = Manager("taken")
    mnt, daemon = start("taken.mnt", m, WATCHDOG_USEC="4000000")
    before = kin_of(daemon.pid)[1]
    done = subprocess.run([os.environ["XSBXFS"], "--takeover", "-c", os.environ["CONF"], mnt], stdout=subprocess.PIPE, text=True,
                          check=False)
    same("it is taken over", done.returncode, 0)
    ok("by another", kin_of(daemon.pid)[1] != before)
    m.take()
    ok("whose pings come", m.hear("WATCHDOG=1") and m.hear("WATCHDOG=1"))
    end(daemon, m)


def another_process():
    """The environment is that of a process whose child this is."""
    m = Manager("another")
    mnt, daemon = start("another.mnt", m, WATCHDOG_USEC="400000", WATCHDOG_PID="1")
    ok("ready", m.hear("READY=1") or "READY=1" in m.all)
    pid = kin_of(daemon.pid)[1]
    os.kill(pid, signal.SIGSTOP)
    ok("no ping", "WATCHDOG=1" not in m.take(1.5) + m.all, m.all)
    ok("nobody is killed", alive(pid))
    os.kill(pid, signal.SIGCONT)
    end(daemon, m)
    mnt, daemon = start("unreachable.mnt", None, NOTIFY_SOCKET="/nowhere", WATCHDOG_USEC="1000000")
    ok("without anybody who hears", "README.md" in os.listdir(mnt))
    end(daemon)


def entries(manager):
    """Entries of the journal, as dictionaries."""
    found = []
    for text in manager.all:
        entry, lines = {}, text.encode().split(b"\n")
        same("an entry ends with its last field", lines.pop(), b"")
        for line in lines:
            name, equals, value = line.partition(b"=")
            ok("a field of ours", equals and name.decode() in (
                "MESSAGE", "PRIORITY", "SYSLOG_IDENTIFIER", "SESSION", "TEMPLATE", "RUN", "PART", "CODE"), line)
            ok("each once", name.decode() not in entry, text)
            entry[name.decode()] = value.decode()
        found.append(entry)
    return found


def journal():
    m = Manager("journal")
    log = f"{SCRATCH}/stderr"
    open(log, "w").close()
    st = os.stat(log)
    mnt = f"{SCRATCH}/journal.mnt"
    os.mkdir(mnt)
    daemon = start_daemon(mnt, "log_level=debug", log=log, env={
        **os.environ, "JOURNAL_STREAM": f"{st.st_dev}:{st.st_ino}", "XSBXFS_JOURNAL": m.address})
    over = threading.Event()
    reader = threading.Thread(target=lambda: [m.take(0.1) for _ in iter(over.is_set, True)])
    reader.start()
    s = Session("demo", mnt=mnt)
    same("it runs", s.run("echo x").out, "x\n")
    with raises("a name with lines", errno.EINVAL):
        os.mkdir(f"{mnt}/raw/a\nPRIORITY=0\nb")
    for pid in children_of(daemon.pid):
        if name_of(pid) == "xsbx-agent":
            os.kill(pid, signal.SIGKILL)
    ok("its sandbox is gone", wait_for(lambda: s.word() == "closed", SOON))
    Mortal(daemon.pid).die()
    same("it runs on", Session("again", mnt=mnt).run("echo y").out, "y\n")
    s.remove()
    end(daemon)
    over.set()
    reader.join()
    m.take()
    found = entries(m)
    steps = [e for e in found if e.get("SESSION") == "raw/demo" and e.get("RUN") == "1"]
    ok("steps of a run", any(e.get("PART") == "fs" and e["PRIORITY"] == "7" for e in steps), found[:5])
    ended = [e for e in found if e.get("SESSION") == "raw/demo" and e["PRIORITY"] == "4"]
    same("how it ended", [(e["CODE"], e["MESSAGE"][:8]) for e in ended][:1], [("agent-killed", "raw/demo")])
    ok("of the next daemon", any(e.get("SESSION") == "raw/again" for e in found))
    ok("what is of no session", any("SESSION" not in e and e["PRIORITY"] == "6" for e in found))
    same("whose they are", {e["SYSLOG_IDENTIFIER"] for e in found}, {"xsbxfs"})
    ok("no entry of the name", not any(e["PRIORITY"] == "0" for e in found))


main(ready, refused, deaths, taken_over, another_process, journal)
