#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a writer that is killed had written is not run; what one that exits had written is."""
# backends: local vm
from xsbx import *

WRITER = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)
os.write(fd, b"echo half a program\\n")
print("written", flush=True)
%s
"""


def writer(session, then):
    child = subprocess.Popen([sys.executable, "-c", WRITER % then, session / "in"],
                             stdout=subprocess.PIPE)
    child.stdout.readline()
    return child


def killed():
    s = Session("killed")
    s.run("echo before\n")
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV, signal.SIGINT):
        # Python would turn SIGINT into an exception and an ordinary exit.
        quiet = "import signal, resource; signal.signal(signal.SIGINT, signal.SIG_DFL);" \
            "resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); time.sleep(60)"
        child = writer(s, quiet)
        time.sleep(0.2)
        child.send_signal(number)
        child.wait()
        time.sleep(0.2)
        same(f"{number.name}: nothing ran", s.runs(), [1])
    same("the code is still that of the run before", s.text("in"), "echo before\n")
    same("stdout too", s.text("stdout"), "before\n")


def control():
    """The same writer runs its code if it is left to end by itself: the test can tell."""
    s = Session("control")
    writer(s, "").wait()
    same("exit", s.result().stdout, b"half a program\n")
    writer(s, "os._exit(1)").wait()
    same("exit with an error status is not a kill", s.result().stdout, b"half a program\n")
    same("two runs", s.runs(), [1, 2])


def closed_by_exec(groups=()):
    """A child that runs a program closes what is not for it in the midst of that, while the kernel holds a lock."""
    s = Session(f"exec{len(groups)}")
    for node in "in", "config", "stdin", "ctl":
        fd = os.open(s / node, os.O_WRONLY)  # O_CLOEXEC, as all of Python's
        if node == "in":
            os.write(fd, b"echo fine\n")
        child = os.fork()
        if not child:
            if groups:
                os.setgroups(groups)
            os.execv("/bin/true", ["true"])
        ok(f"{node}: the child ends", wait_for(lambda: os.waitpid(child, os.WNOHANG)[0], 5))
        os.close(fd)
    same("and all is well", s.result().stdout, b"fine\n")


def closed_by_exec_in_many_groups():
    """What /proc says of such a process is long."""
    if os.geteuid() == 0:
        closed_by_exec(range(100000, 101000))


def interrupted_cat():
    """^C in `cat >in` reaches the whole foreground process group."""
    s = Session("cat")
    child = subprocess.Popen(["bash", "-c", f"cat > '{s / 'in'}'"], stdin=subprocess.PIPE,
                             start_new_session=True)
    child.stdin.write(b"echo half\n")
    child.stdin.flush()
    time.sleep(0.3)
    os.killpg(child.pid, signal.SIGINT)
    child.wait()
    time.sleep(0.2)
    same("^C in cat: nothing ran", s.runs(), [])


def killed_before_rename():
    s = Session("temp")
    child = subprocess.Popen([sys.executable, "-c", f"""
import os, time
fd = os.open({s / 'part'!r}, os.O_WRONLY | os.O_CREAT)
os.write(fd, b"echo half\\n")
print(flush=True)
time.sleep(60)"""], stdout=subprocess.PIPE)
    child.stdout.readline()
    child.kill()
    child.wait()
    time.sleep(0.2)
    same("a temporary file never runs", s.runs(), [])


def survivor():
    """A descriptor that a killed process shared with another one is not poisoned for it."""
    s = Session("survivor")
    fd = os.open(s / "in", os.O_WRONLY | os.O_TRUNC)
    os.write(fd, b"echo first\n")
    os.close(fd)
    same("a later writer is not affected", s.result().stdout, b"first\n")


main(killed, control, closed_by_exec, closed_by_exec_in_many_groups, interrupted_cat, killed_before_rename, survivor)
