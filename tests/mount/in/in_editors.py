#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Editors in a terminal: one run for each time the file is saved."""
# timeout: 90
import fcntl
import pty
import select
import struct
import termios

from xsbx import *


class Terminal:
    """A program in a pseudo-terminal."""

    def __init__(self, *command):
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.environ.update(TERM="xterm", EDITOR="", VIMINIT="")
            del os.environ["VIMINIT"]
            os.execvp(command[0], command)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.screen = b""

    def look(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not select.select([self.fd], [], [], 0.05)[0]:
                continue
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                return
            if not data:
                return
            self.screen += data

    def expect(self, text, seconds=10):
        end = time.monotonic() + seconds * slack()
        while text not in self.screen and time.monotonic() < end:
            self.look(0.05)
        ok(f"the terminal shows {text!r}", text in self.screen, short(self.screen[-600:]))
        self.screen = b""

    def type(self, keys):
        os.write(self.fd, keys)
        self.look(0.3)

    def end(self, seconds=10):
        stop = time.monotonic() + seconds * slack()
        while time.monotonic() < stop:
            self.look(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        return "it does not end"


def one_save(session, what, stdout):
    n = len(session.runs())
    result = session.result()
    same(f"{what}: stdout", result.stdout, stdout)
    return n


def vim():
    if not shutil.which("vim"):
        return
    s = Session("vim")
    s.run("echo one\n")
    t = Terminal("vim", "-u", "NONE", "-N", s / "in")
    t.expect(b"echo one")
    t.type(b"Aplus\x1b")
    t.type(b":w\r")
    t.expect(b"written")
    wait_for(lambda: len(s.runs()) == 2)
    same("vim :w makes a run", s.runs(), [1, 2])
    one_save(s, "vim :w", b"oneplus\n")
    t.type(b"Amore\x1b")
    t.type(b":w\r")
    t.look(0.5)
    ok("vim does not think that the file was changed behind its back",
       b"changed since" not in t.screen, short(t.screen))
    one_save(s, "vim second :w", b"oneplusmore\n")
    t.type(b":q\r")
    same("vim ends", t.end(), 0)
    same("one run for each save, none for leaving", s.runs(), [1, 2, 3])
    same("vim leaves no files", sorted(f for f in os.listdir(s.path) if "sw" in f), [])


def vim_with_backup():
    if not shutil.which("vim"):
        return
    for option in ("backupcopy=no", "backupcopy=yes", "nowritebackup"):
        s = Session("vim-" + option.replace("=", "-"))
        s.run("echo one\n")
        status, _, err = shell(
            f"vim -u NONE -N -es -c 'set {option}' -c 's/one/two/' -c 'wq' '{s / 'in'}' </dev/null")
        same(f"vim {option}: exit status", (status, err), (0, b""))
        same(f"vim {option}: one run", s.runs(), [1, 2])
        one_save(s, f"vim {option}", b"two\n")


def nano():
    if not shutil.which("nano"):
        return
    s = Session("nano")
    s.run("echo one\n")
    t = Terminal("nano", "--ignorercfiles", "--locking", s / "in")
    t.expect(b"echo one")
    t.type(b"echo zero\r")
    t.type(b"\x0f")
    t.type(b"\r")
    t.expect(b"Wrote")
    wait_for(lambda: len(s.runs()) == 2)
    one_save(s, "nano ^O", b"zero\none\n")
    t.type(b"\x18")
    same("nano ends", t.end(), 0)
    same("nano: one run for one save", s.runs(), [1, 2])


main(vim, vim_with_backup, nano)
