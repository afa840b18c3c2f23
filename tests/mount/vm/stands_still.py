#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A machine with nothing to do stands still, and nobody notices: what was left behind is on time, the clock is right, and
what reaches the machine has it go on."""
# backends: vm
# timeout: 300
# log-allow: QEMU was killed
import signal
import socket

from xsbx import *

vm_only()

PATIENT = 30 * slack()
# What an idle machine's QEMU takes of 5 s: that which stands still next to nothing, another one an emulated kernel's timers.
IDLE_S, STILL_MS, AWAKE_MS = 5, 1, 2
LATE_S = 0.7 * slack()
HELLO = {"python": "print(1)\n", "raw": "echo 1\n", "javascript": "console.log(1)\n"}
CLOCK = {"python": "import time; print(time.time())\n", "raw": "echo $EPOCHREALTIME\n",
         "javascript": "console.log(Date.now() / 1000)\n"}
# Each writes the time at which it was left, and the time at which it did something 3 s later.
LEFT = {
    "raw": "date +%s.%N > began; (sleep 3; date +%s.%N > ended) &\n",
    "python": "import threading, time\n"
              "def note(name):\n    open(name, 'w').write(str(time.time()))\n"
              "note('began'); threading.Timer(3, note, ['ended']).start()\n",
    "javascript": "const note = (name) => require('fs').writeFileSync(name, String(Date.now() / 1000));\n"
                  "note('began'); setTimeout(note, 3000, 'ended'); 0\n",
}


def busy_ms(pid):
    """Processor time of a process so far: clock_getcpuclockid(3)."""
    return time.clock_gettime_ns(~pid << 3 | 2) / 1e6


def sandbox(s):
    return s.json()["sandbox"]


def stands(s):
    return sandbox(s)["stands_still"]


def rests(s, what):
    ok(f"{what}: it stands still", wait_for(lambda: stands(s), PATIENT), sandbox(s))


def idle_ms(s):
    before = busy_ms(s.pid())
    time.sleep(IDLE_S)
    return busy_ms(s.pid()) - before


def of_language(template):
    if not has_language(template):
        return
    s = Session("rest", template)
    same("runs", s.run(HELLO[template]).out, "1\n")
    rests(s, template)
    spent = idle_ms(s)
    ok(f"{template}: it takes nothing", spent < STILL_MS, spent)
    ok("and still stands", stands(s))
    # The clock, after more than it could have drifted.
    before = time.time()
    guest = float(s.run(CLOCK[template]).out)
    after = time.time()
    ok(f"{template}: the clock is right", before - 0.05 < guest < after + 0.05, (before, guest, after))
    # Something is left behind. Nobody asks for its file before it has to be there: that would have it go on.
    same("left", s.run(LEFT[template]).code, 0)
    time.sleep(6)
    ok(f"{template}: why it goes on, or did", sandbox(s)["goes_on_because"] or stands(s), sandbox(s))
    began, ended = float(s.text("files/began")), float(s.text("files/ended"))
    ok(f"{template}: what was left is on time", 2.9 < ended - began < 3 + LATE_S, ended - began)
    rests(s, f"{template}, behind that")
    same("runs again", s.run(HELLO[template]).out, "1\n")
    s.remove()


def python():
    of_language("python")


def javascript():
    of_language("javascript")


def raw():
    of_language("raw")


def everything_wakes():
    s = Session("wake", "raw")
    s.run("echo old > file\n")
    rests(s, "before a file is read")
    same("a file", s.text("files/file"), "old\n")
    write(s / "files/new", "from outside\n")
    same("and one from outside", s.run("cat new\n").out, "from outside\n")
    rests(s, "before a job")
    os.mkdir(s / "jobs/one")
    write(s / "jobs/one/in", "echo job\n")
    same("a job", s.text("jobs/one/stdout"), "job\n")
    os.rmdir(s / "jobs/one")
    rests(s, "before a pause")
    s.ctl("pause")
    ok("paused", s.wait_state("paused", PATIENT), s.word())
    rests(s, "paused")
    s.ctl("resume")
    same("after that", s.run("echo 2\n").out, "2\n")
    rests(s, "before a reset")
    s.ctl("reset")
    same("after a reset", s.run("echo 3\n").out, "3\n")
    # Runs in a stream are never in between.
    seen = []
    for i in range(20):
        s.run("echo x\n")
        time.sleep(0.06)
        seen.append(stands(s))
    ok("no stop within a stream of runs", not any(seen), seen)
    # Its end is noticed although nobody asks it anything.
    rests(s, "before it is killed")
    os.kill(s.pid(), signal.SIGKILL)
    ok("its end is noticed", wait_for(lambda: s.word() == "closed", PATIENT), s.word())
    has("and why", s.text("error"), "qemu-killed")
    s.remove()


def ports():
    s = Session("ports", "python", "ports = 8080 8081\n")
    same("runs", s.run("import subprocess, sys; p = subprocess.Popen([sys.executable, '-m', 'http.server', '8080'],"
                       " stderr=subprocess.DEVNULL); print('ok')\n").out, "ok\n")
    host = {int(line.split()[0]): int(line.split()[1]) for line in s.text("ports").splitlines() if line[:1].isdigit()}
    ok("a server keeps it going", wait_for(lambda: sandbox(s)["goes_on_because"], PATIENT), sandbox(s))
    time.sleep(3)
    ok("for as long as it is there", not stands(s), sandbox(s))
    got = wait_for(lambda: shell(f"curl -sS -m 20 http://127.0.0.1:{host[8080]}/")[1] or None, 60)
    has("it answers", (got or b"").decode(), "Directory listing")
    s.run("p.kill(); p.wait()\n")
    rests(s, "without the server")
    # Nobody listens there, which only the machine can say.
    begin = time.monotonic()
    with socket.create_connection(("127.0.0.1", host[8081]), 10) as c:
        c.settimeout(20)
        try:
            same("nobody there", c.recv(1), b"")
        except ConnectionResetError:
            pass
    ok("is said at once", time.monotonic() - begin < 5 * slack(), time.monotonic() - begin)
    rests(s, "after that")
    s.remove()


def pool():
    def pooled():
        status = json.loads(read(f"{MNT}/status.json"))
        ready = [(kind["image"], kind["pool"]["ready"]) for kind in status["snapshots"]]
        # This session's own as well; those of other templates are of no use to it.
        return dict(ready).get("raw") and status["still"] > sum(n for _, n in ready)
    s = Session("first", "raw")
    s.run("echo 1\n")
    ok("clones stand still", wait_for(pooled, 4 * PATIENT), read(f"{MNT}/status.json"))
    has("metrics", read(f"{MNT}/metrics").decode(), "xsbxfs_machines_still ")
    taken = Session("taken", "raw")
    before = time.time()
    guest = float(taken.run("echo $EPOCHREALTIME\n").out)
    ok("one that is taken has the right time", before - 0.05 < guest < time.time() + 0.05, (before, guest))
    same("it was one of them", sandbox(taken)["start"], "warm")
    taken.remove()
    s.remove()


def switched_off():
    """The control: what is measured above is there without it."""
    mnt = f"{SCRATCH}/off"
    os.mkdir(mnt)
    daemon = start_daemon(mnt, "stand_still=no")
    s = Session("off", "raw", mnt=mnt)
    same("runs", s.run("echo 1\n").out, "1\n")
    time.sleep(3)
    spent = idle_ms(s)
    ok("it takes processor time", spent > AWAKE_MS, spent)
    ok("and does not stand still", not stands(s))
    s.remove()
    daemon.terminate()
    daemon.wait(60)


main(raw, python, javascript, everything_wakes, ports, pool, switched_off)
