#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever a run has started, and however that tries to get away: kill and timeout end it, and what it
used is charged to the run. An interrupt wakes what is stopped."""
# backends: local vm
# night: local vm
# timeout: 150
import contextlib

from xsbx import *

MARK = "kills-mark"

# Each leaves processes with the mark in their arguments, and then goes on.
WAYS = {
    "child": "start()",
    "setsid": "start(start_new_session=True)",
    "twice": "twice(start)",
    "twice, with a session": "twice(lambda: start(start_new_session=True), True)",
    "deaf": "start('trap \"\" TERM INT HUP QUIT; while :; do sleep 1; done')",
    "stopped": "os.kill(start().pid, signal.SIGSTOP)",
    "a stopped session": "os.killpg(start(start_new_session=True).pid, signal.SIGSTOP)",
    "traced": "traced()",
    "made anew by another": "start('while :; do sleep 0.1; done', start_new_session=True)",
    "with the interpreter stopped": "start(); print('ready', flush=True); "
                                    "os.kill(os.getpid(), signal.SIGSTOP)",
}

LIBRARY = f"""
import ctypes, os, signal, subprocess, sys, time

def start(code='sleep 1000; :', **options):
    return subprocess.Popen(['bash', '-c', code, {MARK!r}], **options)

def twice(do, session=False):
    if os.fork() == 0:
        if session:
            os.setsid()
        if os.fork() == 0:
            do()
        os._exit(0)
    os.wait()

def traced():
    r, w = os.pipe()
    tracer = start('exec sleep 1000')
    pid = os.fork()
    if pid == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.ptrace(0, 0, None, None) != 0:   # PTRACE_TRACEME
            os.write(w, b'no')
            os._exit(0)
        os.write(w, b'on')
        os.kill(os.getpid(), signal.SIGUSR1)     # a stop that only the tracer can end
        os.execvp('bash', ['bash', '-c', 'sleep 1000; :', {MARK!r}])
    os.read(r, 2)
    time.sleep(0.1)
"""

LEFT = f"""
import glob, os
n = 0
for path in glob.glob('/proc/[0-9]*/cmdline'):
    try:
        state = open(path[:-7] + 'stat').read().rsplit(')', 1)[1].split()[0]
        n += {MARK!r} in open(path).read() and state not in 'ZX'
    except OSError:
        pass
print(n)
"""


def end(s, how):
    """Starts something in each way, and ends it."""
    for number, (name, way) in enumerate(WAYS.items()):
        n = 3 * number + 2
        s.submit(f"{LIBRARY}{way}\nprint('ready', flush=True)\ntime.sleep(1000)\n")
        ok(f"{name}: it begins", wait_for(lambda: b"ready" in read(s / f"runs/{n}/stdout"), 20))
        if how == "kill":
            s.ctl("kill")
        result = s.result()
        same(f"{name}: {how}", (result.code, s.state_of(n)),
             (137, "killed") if how == "kill" else (124, "timeout"))
        same(f"{name}: nothing is left", s.run(LEFT).out, "0\n")
        if not VM:
            same(f"{name}: nor does the host see anything", on_host(s), 0)
        same(f"{name}: and the session is well", s.run("print('fine')").out, "fine\n")


def on_host(s):
    """How many this host sees. In a sandbox, Landlock may hide from one interpreter's code what another's
    has started."""
    found = 0
    for pid in children_of(s.pid()):
        with contextlib.suppress(OSError):
            found += MARK.encode() in read(f"/proc/{pid}/cmdline")
    return found


def left(s, number):
    """Waits until so many are left; bash counts twice in the moment in which it is about to run sleep."""
    def count():
        return int(s.run(LEFT).out) if VM else on_host(s)
    return number if wait_for(lambda: count() == number, 20) else count()


def control():
    """Control: without an end there is something left."""
    s = Session("control", "python")
    s.run("1")
    s.submit(f"{LIBRARY}start(start_new_session=True)\n")
    s.result()
    same("control: a background process stays", left(s, 1), 1)
    s.ctl("reset")
    same("until a reset", s.run(LEFT).out, "0\n")
    s.remove()


def killed():
    s = Session("killed", "python")
    s.run("1")
    end(s, "kill")
    s.remove()


def timed_out():
    s = Session("timed", "python", config=f"timeout_s = {3 * SLOW}\n")
    s.run("1")
    end(s, "timeout")
    s.remove()


def background():
    """What an earlier run left goes on, also when a later one is killed."""
    s = Session("background", "python")
    s.run(f"{LIBRARY}start(start_new_session=True)\n")
    s.submit(f"{LIBRARY}twice(start)\nprint('ready', flush=True)\ntime.sleep(1000)\n")
    wait_for(lambda: b"ready" in read(s / "runs/2/stdout"), 20)
    s.ctl("kill")
    same("killed", s.result().code, 137)
    same("the earlier one is there", left(s, 1), 1)
    s.ctl("reset")
    same("until a reset", s.run(LEFT).out, "0\n")
    s.run(f"{LIBRARY}start(start_new_session=True)\n")
    s.submit("import time; time.sleep(1000)\n")
    s.wait_state("running")
    s.ctl("reset")
    same("killed by it", s.result().code, 137)
    same("also one in the middle of a run", s.run(LEFT).out, "0\n")


def interrupted():
    s = Session("interrupted", "python")
    s.run("1")
    s.submit("import os, signal\nprint('ready', flush=True)\nos.kill(os.getpid(), signal.SIGSTOP)\n"
             "import time\ntime.sleep(1000)\n")
    wait_for(lambda: b"ready" in read(s / "runs/2/stdout"), 20)
    time.sleep(0.2)
    s.ctl("interrupt")
    same("what was stopped is interrupted", (s.result().code, s.state_of(2)), (130, "done"))
    same("and the session is well", s.run("print('fine')").out, "fine\n")


# It may not be dumped, and its first thread ends while another goes on: /proc may not show it.
HIDDEN = """
import ctypes, os, threading, time
libc = ctypes.CDLL(None)
pid = os.fork()
if pid == 0:
    os.setsid()
    libc.prctl(4, 0)  # PR_SET_DUMPABLE
    threading.Thread(target=time.sleep, args=(1000,)).start()
    libc.syscall(60 if os.uname().machine == 'x86_64' else 93, 0)  # exit of this thread
open('pid', 'w').write(str(pid))
time.sleep(0.2)
print('ready', flush=True)
time.sleep(1000)
"""


def hidden():
    s = Session("hidden", "python")
    s.run("1")
    s.submit(HIDDEN)
    wait_for(lambda: b"ready" in read(s / "runs/2/stdout"), 20)
    s.ctl("kill")
    same("killed", s.result().code, 137)
    same("it is not there any more", s.run("import os\ntry:\n    os.kill(int(open('pid').read()), 0)\n"
                                          "except ProcessLookupError:\n    print('gone')\n").out, "gone\n")


BURN = "import time\nwhile time.process_time() < 2: pass\n"


def charged():
    """Processor time of all that was ended, whoever its parent was, is the run's."""
    s = Session("charged", "python")
    s.run("1")
    burn = (f"{LIBRARY}burn = {BURN!r} + \"open('burnt', 'w')\\ntime.sleep(1000)\"\n"
            "def burner(): subprocess.Popen([sys.executable or 'python3', '-c', burn], "
            "start_new_session=True)\n")
    for n, way in ((2, "burner()"), (3, "twice(burner)")):
        s.submit(f"{burn}{way}\nwhile not os.path.exists('burnt'): time.sleep(0.02)\n"
                 "os.unlink('burnt')\nprint('ready', flush=True)\ntime.sleep(1000)\n")
        ok("it burns", wait_for(lambda: b"ready" in read(s / f"runs/{n}/stdout"), 30),
           s.text(f"runs/{n}/stderr"))
        s.ctl("kill")
        same("killed", s.result().code, 137)
        status = s.json(f"runs/{n}/status.json")
        used = status["user_ms"] + status["system_ms"]
        ok(f"{way}: charged", 1990 <= used < 60000, used)
    # One that ends by itself, and of which nobody waits for the end.
    result = s.run(f"{LIBRARY}burn = {BURN!r}\ndef burner(): subprocess.Popen([sys.executable or "
                   "'python3', '-c', burn + \"open('burnt', 'w')\"])\ntwice(burner)\n"
                   "while not os.path.exists('burnt'): time.sleep(0.02)\ntime.sleep(0.3)\n")
    same("done", result.code, 0)
    status = s.json("runs/4/status.json")
    ok("an orphan is charged", status["user_ms"] + status["system_ms"] >= 1990, status)
    s.run("1")
    status = s.json("runs/5/status.json")
    # In a machine, what others take of the processor looks like its own.
    ok("and not the next run", status["user_ms"] + status["system_ms"] < 1500, status)


main(control, killed, timed_out, background, interrupted, hidden, charged)
