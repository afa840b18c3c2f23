#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A read that waits answers to signals, to O_NONBLOCK, and to poll, select and epoll."""
# backends: local vm
import fcntl
import select

from xsbx import *

NODES = ("stdout", "stderr", "output", "exit_code", "runs/2/wait")
s = None


def setup():
    global s
    s = Session("interrupt")
    s.run("true\n")
    s.submit("read -r x < <(sleep 600)\n")
    ok("it runs", s.wait_run(2, "running"))


def signals():
    for node in NODES:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            child = subprocess.Popen(["cat", s / node], stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE)
            time.sleep(0.15)
            same(f"cat {node} waits", child.poll(), None)
            child.send_signal(number)
            try:
                child.wait(SOON)
            except subprocess.TimeoutExpired:
                fail(f"{number.name} does not end cat {node}")
                continue
            same(f"{number.name}, {node}: by the signal", child.returncode, -number)


def timeout_command():
    status, out, _ = shell(f"timeout -k {SOON} 0.5 cat {s / 'stdout'}")
    same("timeout 0.5 cat stdout", (status, out), (124, b""))


def handled_signal():
    """A signal that is handled gives EINTR, or the read goes on, as with a pipe."""
    code = f"""
import signal, os
class Alarm(Exception): pass
def on(*_): raise Alarm
signal.signal(signal.SIGALRM, on)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    os.read(os.open({s / 'stdout'!r}, 0), 10)
except Alarm:
    print("alarm")
"""
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False,
                          timeout=SOON)
    same("SIGALRM in python", done.stdout, b"alarm\n")
    if shutil.which("node"):
        child = subprocess.Popen(["node", "-e", f"require('fs').readFileSync({s / 'stdout'!r})"])
        time.sleep(0.5)
        child.kill()
        child.wait(SOON)


def nonblocking():
    for node in NODES:
        fd = os.open(s / node, os.O_RDONLY | os.O_NONBLOCK)
        with raises(f"{node} with O_NONBLOCK", errno.EAGAIN):
            os.read(fd, 100)
        os.close(fd)
    fd = os.open(s / "stdout", os.O_RDONLY)
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK)
    with raises("with O_NONBLOCK set afterwards", errno.EAGAIN):
        os.read(fd, 100)
    os.close(fd)
    status, _, err = shell(f"dd if={s / 'stdout'} iflag=nonblock status=none")
    has("dd iflag=nonblock", err, b"temporarily unavailable")


def waking():
    """poll, select and epoll say when there is something, and that there is nothing before."""
    t = Session("waking")
    t.run("true\n")
    t.submit("read -r x; sleep 0.5; echo data; sleep 0.5; echo more; sleep 0.5\n")
    t.wait_run(2, "running")
    fds = [os.open(t / "stdout", os.O_RDONLY | os.O_NONBLOCK) for _ in range(3)]
    code = os.open(t / "exit_code", os.O_RDONLY | os.O_NONBLOCK)

    epoll = select.epoll()
    epoll.register(fds[0], select.EPOLLIN)
    poll = select.poll()
    poll.register(fds[1], select.POLLIN)
    same("epoll: nothing yet", epoll.poll(0), [])
    same("poll: nothing yet", poll.poll(0), [])
    same("select: nothing yet", select.select([fds[2]], [], [], 0)[0], [])
    for want in (b"data\n", b"more\n"):
        same(f"epoll {want}", len(epoll.poll(5 * SLOW)), 1)
        same(f"poll {want}", len(poll.poll(5000 * SLOW)), 1)
        same(f"select {want}", select.select([fds[2]], [], [], 5 * SLOW)[0], [fds[2]])
        for fd in fds:
            same(f"read {want}", os.read(fd, 100), want)
            with raises(f"nothing more after {want}", errno.EAGAIN):
                os.read(fd, 100)
        same("epoll: nothing again", epoll.poll(0), [])
    same("exit_code: not ready", select.select([code], [], [], 0)[0], [])
    same("the end wakes epoll", len(epoll.poll(5 * SLOW)), 1)
    same("the end is an end", os.read(fds[0], 100), b"")
    same("exit_code: ready", select.select([code], [], [], 5 * SLOW)[0], [code])
    same("exit_code", os.read(code, 10), b"0\n")
    for fd in (*fds, code):
        os.close(fd)
    epoll.close()


def selectors_on_events():
    fd = os.open(f"{MNT}/events", os.O_RDONLY | os.O_NONBLOCK)
    try:
        while os.read(fd, 65536):
            pass
    except BlockingIOError:
        pass
    same("events: nothing new", select.select([fd], [], [], 0)[0], [])
    Session("noise").run("true\n")
    same("events: something new", select.select([fd], [], [], 5 * SLOW)[0], [fd])
    ok("and it can be read", len(os.read(fd, 65536)) > 2)
    os.close(fd)


def afterwards():
    same("it runs still, undisturbed", s.state_of(2), "running")
    s.ctl("kill")
    same("and ends", s.result().code, 137)


main(setup, signals, timeout_command, handled_signal, nonblocking, waking, selectors_on_events,
     afterwards)
