#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Terminals: interactive programs are used from the host, by files alone and through scripts/xsbx-tty."""
# backends: local process vm
# night: vm
import select
import shlex
import subprocess
import tempfile

from xsbx import *

XSBX_TTY = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../../scripts/xsbx-tty")
SECONDS = 20


class Screen:
    """A terminal of ours, in tmux, with a program."""
    def __init__(self, *command, size=(30, 100)):
        self.dir = tempfile.mkdtemp()
        self.tmux("new-session", "-d", "-x", str(size[1]), "-y", str(size[0]),
                  "trap : INT; " + shlex.join(command) + "; echo ended: $?; trap '' INT; exec sleep 10000")

    def tmux(self, *args):
        return subprocess.run(["tmux", "-f", "/dev/null", "-S", f"{self.dir}/socket", *args], check=True,
                              env=dict(os.environ, TERM="xterm-256color"), stdout=subprocess.PIPE).stdout.decode()

    def type(self, *keys):
        self.tmux("send-keys", *keys)

    def press(self, what, key, text):
        """Until it has worked: a shell has a moment between showing a command and letting signals through to it."""
        def pressed():
            self.type(key)
            return wait_for(lambda: text in self.text(), 1)

        ok(what, wait_for(pressed, SECONDS), f"{text!r} is not in:\n{self.text()}")

    def text(self):
        return self.tmux("capture-pane", "-p").rstrip("\n")

    def shows(self, what, text):
        ok(what, wait_for(lambda: text in self.text(), SECONDS), f"{text!r} is not in:\n{self.text()}")

    def close(self):
        self.tmux("kill-server")
        shutil.rmtree(self.dir)


def by_files():
    """One open for both ways; who looks on; what was shown can be read for ever."""
    s = Session("files")
    j = s / "jobs/cat"
    os.mkdir(j)
    ok("without tty there is none", not os.path.exists(f"{j}/tty"))
    write(f"{j}/config", "tty = yes\nargv = cat\n")
    user = os.open(f"{j}/tty", os.O_RDWR)
    write(f"{j}/ctl", "start\n")
    os.write(user, b"hello\n")
    got = b""
    while got.count(b"\n") < 2:
        got += os.read(user, 100)
    same("its echo, and what cat says", got, b"hello\r\nhello\r\n")
    same("a user who has not typed is not polled", select.select([user], [], [], 0)[0], [])
    os.write(user, b"more\n")
    ok("poll says when there is something", select.select([user], [], [], SECONDS * 4)[0] == [user])
    write(f"{j}/ctl", "eof\n")
    same("the end", read(f"{j}/exit_code"), b"0\n")
    os.close(user)
    late = os.open(f"{j}/tty", os.O_RDWR)
    ok("who opens it after the end can read", select.select([late], [], [], SECONDS * 4)[0] == [late])
    same("what was shown, and the end", (os.read(late, 100), os.read(late, 100)), (b"hello\r\nhello\r\nmore\r\nmore\r\n", b""))
    os.close(late)
    same("all of it", (read(f"{j}/tty"), read(f"{j}/stdout"), read(f"{j}/stderr")),
         (b"hello\r\nhello\r\nmore\r\nmore\r\n",) * 2 + (b"",))


def shell():
    need("tmux")
    s = Session("shell")
    screen = Screen(XSBX_TTY, s / "", "bash", "--norc", "-i")
    screen.type("PS1='> '", "Enter")
    screen.type("echo a$((1))b; stty size", "Enter")
    screen.shows("a shell", "a1b\n30 100")
    screen.type("sleep 1000", "Enter")
    screen.shows("the command", "> sleep 1000")
    screen.press("is interrupted", "C-c", "^C\n>")
    screen.type("sleep 1000", "Enter")
    wait_for(lambda: screen.text().count("> sleep 1000") == 2, SECONDS)
    screen.press("is stopped", "C-z", "Stopped")
    screen.type("kill %1; fg", "Enter")
    screen.shows("and goes on", "Terminated")
    screen.tmux("resize-window", "-x", "120", "-y", "40")
    screen.type("until [[ $(stty size) = 40* ]]; do sleep 0.1; done; stty size", "Enter")
    screen.shows("the size follows", "40 120")
    ok("no complaint", "job control" not in screen.text() and "cannot set" not in screen.text(), screen.text())
    screen.type("exit 7", "Enter")
    screen.shows("the status", "ended: 7")
    same("nothing is left", os.listdir(s / "jobs"), [])
    screen.close()


def editor_and_pager():
    need("tmux")
    s = Session("editor")
    has_ = s.run("type vim >/dev/null 2>&1 && echo vim; type less >/dev/null 2>&1 && echo less; type top >/dev/null 2>&1 && echo top\n").out.split()
    s.run("seq 1 1000 >numbers\n")
    screen = Screen(XSBX_TTY, s / "", "bash", "--norc", "-i")
    screen.type("PS1='> '", "Enter")
    if "less" in has_:
        screen.type("less numbers", "Enter")
        screen.shows("a pager", "\n29\n")
        screen.type("G")
        screen.shows("goes to the end", "\n1000\n")
        screen.type("q")
    if "vim" in has_:
        screen.type("vim -u NONE file", "Enter")
        screen.shows("an editor", "~\n~")
        screen.type("i", "typed in vim", "Escape", ":wq", "Enter")
        ok("writes", wait_for(lambda: os.path.exists(s / "files/file") and read(s / "files/file") == b"typed in vim\n", SECONDS))
    if "top" in has_:
        screen.type("top", "Enter")
        screen.shows("top", "PID USER")
        screen.type("q")
        screen.type("", "Enter")
    # What is typed while one of them still ends is thrown away.
    screen.press("the end", "exit\n", "ended: ")
    screen.close()


def interpreter():
    need("tmux")
    s = Session("python", "python")
    screen = Screen(XSBX_TTY, s / "", "python3", "-q", "-i")
    screen.shows("a prompt", ">>>")
    screen.type("x = 6*7; print('got', x)", "Enter")
    screen.shows("Python", "got 42")
    screen.type("exec('print(\"be\" + \"gins\")\\nwhile True: pass')", "Enter")
    screen.shows("a loop", "begins")
    screen.press("is interrupted", "C-c", "KeyboardInterrupt")
    screen.type("C-d")
    screen.shows("and ends", "ended: ")
    screen.close()


def not_started():
    """One that was made, and not started: it is waited for, and can be left."""
    need("tmux")
    s = Session("later")
    j = s / "jobs/later"
    os.mkdir(j)
    write(f"{j}/config", "tty = yes\nargv = cat\n")
    screen = Screen(XSBX_TTY, j)
    screen.shows("what it waits for", "xsbx-tty: not started yet: echo start >")
    screen.press("can be left", "C-c", "ended: 130")
    same("the job is still there", read(f"{j}/state"), b"new\n")
    screen.close()
    screen = Screen(XSBX_TTY, j)
    screen.shows("waits again", "not started yet")
    screen.type("typed before", "Enter")
    write(f"{j}/ctl", "start\n")
    screen.shows("what was typed is kept", "typed before\ntyped before")
    screen.type("after", "Enter")
    screen.shows("and what is typed then", "after\nafter")
    screen.press("the end", "C-d", "ended: 0")
    screen.close()


def closed():
    need("tmux")
    s = Session("closed")
    s.run("true\n")
    s.ctl("close")
    screen = Screen(XSBX_TTY, s / "", "true")
    screen.shows("the status", "ended: 125")
    has("why", screen.text(), "xsbx-tty: the session was closed by ctl")
    ok("and nothing else", "line" not in screen.text() and "Stale" not in screen.text(), screen.text())
    same("nothing is left", os.listdir(s / "jobs"), [])
    screen.close()


main(by_files, shell, editor_and_pager, interpreter, not_started, closed)
