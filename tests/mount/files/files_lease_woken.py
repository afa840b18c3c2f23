#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Code that goes on by itself, though no process of it is awake when it is looked for, is seen at work: the kernel sends
it a signal, or ends its wait for the next run."""
# timeout: 240
# backends: local vm
# night: vm
# log-allow: interpreter.* ended
from xsbx import *

NEW = b"newer, and longer\n"
# How it changes files, and then what the test is to see them before.
CHANGE = """
import atexit, ctypes, fcntl, os, platform, signal, socket, struct, sys, time
open('victim', 'w').write('old\\n')
def change(*_):
    open('made', 'w').close()
    with open('victim', 'w') as f: f.write('newer, and longer\\n')
def leave():
    change()
    while not os.path.exists('stop'): time.sleep(0.05)
"""
LIMIT = 2 * SLOW  # seconds, for a lease to be there by then


def known(s, times=8):
    """There is a lease afterwards, if there can be one, and all is known."""
    for _ in range(times):
        os.statvfs(s / "files")
    for _ in range(3):
        os.path.exists(s / "files/made")
        os.stat(s / "files/victim")
        read(s / "files/victim")


def look(s):
    return read(s / "files/victim"), os.stat(s / "files/victim").st_size, os.path.exists(s / "files/made")


def begin(name, code):
    """Runs it, and knows all of it."""
    s = Session(name, "python")
    run = s.run(CHANGE + code)
    same(f"{name}: it begins", (run.code, run.err), (0, ""))
    if "unsupported" in run.out:
        s.remove()
        return None
    for _ in range(5):
        known(s)
        time.sleep(0.05)
    return s


def changes(name, code, trigger=lambda s: None):
    """What changes is seen."""
    s = begin(name, code)
    if not s:
        return
    trigger(s)
    ok(f"{name}: the change is seen", wait_for(lambda: look(s) == (NEW, len(NEW), True)), look(s))
    write(s / "files/stop", "")
    s.remove()


def is_true(name, code):
    """What is seen is the truth, whether the agent has prevented the change or not."""
    s = begin(name, code)
    until = time.monotonic() + 3 * LIMIT
    while time.monotonic() < until:
        seen = look(s)
        time.sleep(0.1)
    s.ctl("pause")  # what it was is not kept over this
    same(name, seen, look(s))
    s.ctl("resume")
    write(s / "files/stop", "")
    s.remove()


def by_signal(name, number):
    # What asks for a new file wakes it.
    changes(name, f"""
libc = ctypes.CDLL(None)
fd = libc.inotify_init1(os.O_NONBLOCK)
libc.inotify_add_watch(fd, b'.', 0x100)
signal.signal({number}, change)
fcntl.fcntl(fd, fcntl.F_SETOWN, os.getpid())
fcntl.fcntl(fd, 10, {number})
fcntl.fcntl(fd, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
""", lambda s: os.mkdir(s / "files/trigger"))


def signals():
    """A descriptor may send any, also those that otherwise come from processes."""
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGWINCH, signal.SIGSEGV, signal.SIGRTMIN + 1):
        by_signal(f"signal{int(number)}", int(number))


def of_directories():
    """The kernel's older way to tell of changes needs no descriptor but the directory's."""
    changes("dnotify", """
signal.signal(signal.SIGTERM, change)
fd = os.open('.', os.O_RDONLY)
try:
    fcntl.fcntl(fd, 10, signal.SIGTERM)
    fcntl.fcntl(fd, fcntl.F_NOTIFY, fcntl.DN_CREATE)
except OSError as e:
    print('unsupported', e)
""", lambda s: os.mkdir(s / "files/trigger"))


def by_timer():
    """Of the kernel's, with a signal that others send otherwise."""
    changes("timer", f"""
signal.signal(signal.SIGTERM, change)
class Event(ctypes.Structure):
    _fields_ = [('value', ctypes.c_void_p), ('number', ctypes.c_int), ('how', ctypes.c_int), ('pad', ctypes.c_byte * 48)]
libc, timer = ctypes.CDLL(None), ctypes.c_void_p()
make = getattr(libc, 'timer_create', None) or ctypes.CDLL('librt.so.1').timer_create
arm = getattr(libc, 'timer_settime', None) or ctypes.CDLL('librt.so.1').timer_settime
make(1, ctypes.byref(Event(None, signal.SIGTERM, 0)), ctypes.byref(timer))
arm(timer, 0, (ctypes.c_long * 4)(0, 0, {LIMIT}, 0), None)
""")


SOCKET = "import socket, struct\nfor ctl in range(1000, 15, -1):\n    try: wait = socket.socket(fileno=os.dup(ctl)); break\n    except OSError: pass\n"
TIMES_OUT = f"setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack('ll', {LIMIT}, 0))"


def limit_of_time():
    """The driver's wait ends by itself, and what is to be done at the interpreter's end is done."""
    changes("limit", SOCKET + f"wait.{TIMES_OUT}\natexit.register(leave)\n")


def tidying(code):
    return f"""
class Finder:
    def invalidate_caches(self):
        if not os.path.exists('tidied'):
            open('tidied', 'w').close()
            self.tidy()
    def tidy(self):
{chr(10).join('        ' + line for line in code.splitlines())}
sys.path_importer_cache['/nowhere'] = Finder()
atexit.register(leave)
"""


def other_socket():
    """One in the place of the driver's, which stays open elsewhere; put there while it tidies up."""
    changes("socket", SOCKET + f"one, other = socket.socketpair()\none.{TIMES_OUT}\n" +
            tidying("os.dup2(one.fileno(), ctl)"))


# A process that shares the table of descriptors, and is gone before it can be found.
HELPER = """
number = {'x86_64': 56, 'aarch64': 220}[platform.machine()]
pid = ctypes.CDLL(None).syscall(number, 0x400 | signal.SIGCHLD, None, None, None, None)
if pid == 0:
    time.sleep(0.3)
    %s
    os._exit(0)
"""


def limit_taken_back():
    """It counts for the wait that is under way, although it can't be found any more."""
    is_true("back", SOCKET + tidying(f"wait.{TIMES_OUT}" + HELPER %
            "wait.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack('ll', 0, 0))"))


def socket_taken_back():
    is_true("return", SOCKET + f"one, other = socket.socketpair()\none.{TIMES_OUT}\n" +
            tidying("os.dup2(one.fileno(), ctl)" + HELPER % "os.dup2(wait.fileno(), ctl)"))


def tidying_up():
    """What is asked for during a run is not answered before the interpreter has tidied up, by the user's code."""
    s = Session("tidy", "python")
    s.run("pass")
    s.run(CHANGE)
    s.submit("""
class Finder:
    def invalidate_caches(self):
        while not os.path.exists('go'): time.sleep(0.05)
        change()
sys.path_importer_cache['/nowhere'] = Finder()
open('begun', 'w').close()
while not os.path.exists('end'): time.sleep(0.05)
time.sleep(1) # nobody else is busy by then
""")
    ok("it begins", wait_for(lambda: os.path.exists(s / "files/begun"), SOON))
    known(s, 30)
    write(s / "files/end", "")
    same("it ends", s.result().code, 0)
    for _ in range(5):
        known(s)
        time.sleep(0.05)
    write(s / "files/go", "")
    ok("the change is seen", wait_for(lambda: look(s) == (NEW, len(NEW), True)), look(s))
    s.remove()


if not has_language("python"):
    skip("there is no Python")
main(signals, of_directories, by_timer, limit_of_time, other_socket, limit_taken_back, socket_taken_back, tidying_up)
