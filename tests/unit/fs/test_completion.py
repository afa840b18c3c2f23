#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Completion by bash and zsh, as a terminal has it: what is typed, a tab, and what becomes of the line; and what --keys lists."""
# needs: xsbxfs
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BUILD = os.path.abspath(os.environ.get("BUILD", f"{ROOT}/build"))
FILES = f"{ROOT}/scripts/completion"

HOSTILE, QUOTED = "name$(touch PWNED) `touch PWNED`", "name\\$\\(touch\\ PWNED\\)\\ \\`touch\\ PWNED\\`"
# What is typed, and the line after the tab; in the directory of a session (S) or another (D). bash puts a space behind what is
# whole, or leaves that; it counts for nothing here.
CASES = [
    ("D", "xsbxfs --prefe", "xsbxfs --prefetch"),
    ("D", "xsbxfs --prefetch pyth", "xsbxfs --prefetch python"),
    ("D", "xsbxfs --log-format j", "xsbxfs --log-format json"),
    ("D", "xsbxfs -o acc", "xsbxfs -o accel="),
    ("D", "xsbxfs -o accel=k", "xsbxfs -o accel=kvm"),
    ("D", "xsbxfs -o max_vms=4,allow_oth", "xsbxfs -o max_vms=4,allow_other"),
    ("D", "xsbxfs -o max_vms=4,kernel=st", "xsbxfs -o max_vms=4,kernel=stock"),
    ("D", "xsbxfs -f -c oth", "xsbxfs -f -c other"),
    ("D", "xsbxfs -f dire", "xsbxfs -f directory/"),
    ("D", "xsbx-tty dire", "xsbx-tty directory/"),
    ("D", "xsbx-top --onc", "xsbx-top --once"),
    ("D", "xsbx-top -s st", "xsbx-top -s state"),
    ("D", "xsbx-top --sort n", "xsbx-top --sort name"),
    ("D", "xsbx-remote --he", "xsbx-remote --help"),
    ("D", "xsbx-top dire", "xsbx-top directory/"),
    ("D", "xsbx-remote host dire", "xsbx-remote host directory/"),
    ("D", "xsbxfs-images --shar", "xsbxfs-images --shared"),
    ("D", "xsbxfs-images --remove ap", "xsbxfs-images --remove app"),
    ("D", "xsbxfs-images jav", "xsbxfs-images java"),
    ("D", "xsbxfs-images --kernel st", "xsbxfs-images --kernel stock"),
    ("D", "xsbxfs-images --arch ar", "xsbxfs-images --arch arm64"),
    ("D", "xsbxfs-images --oci ja", "xsbxfs-images --oci jar.tar"),
    ("D", "xsbxfs-images --recipe oth", "xsbxfs-images --recipe other"),
    ("D", "echo timeou", "echo timeou"),
    ("S", "echo timeou", "echo timeout_s"),
    ("S", "echo idle = hib", "echo idle = hibernate"),
    ("S", "echo interru", "echo interrupt"),
    # A sandbox names its files as it likes: the shell that gets such a name executes nothing of it.
    ("D", "xsbxfs -c nam", "xsbxfs -c " + QUOTED),
    ("D", "xsbxfs --config nam", "xsbxfs --config " + QUOTED),
    ("D", "xsbxfs --try-config nam", "xsbxfs --try-config " + QUOTED),
    ("D", "xsbxfs --export nam", "xsbxfs --export " + QUOTED),
    ("D", "xsbxfs --import nam", "xsbxfs --import " + QUOTED),
    ("D", "xsbxfs-images --oci nam", "xsbxfs-images --oci " + QUOTED),
    ("D", "xsbxfs -o cache_dir=nam", "xsbxfs -o cache_dir=" + QUOTED),
    ("D", "xsbxfs -o max_vms=4,cache_dir=nam", "xsbxfs -o max_vms=4,cache_dir=" + QUOTED),
    ("D", "xsbxfs dir2", "xsbxfs dir2\\;touch\\ PWNED/"),
    ("D", "xsbx-tty dir2", "xsbx-tty dir2\\;touch\\ PWNED/"),
    ("D", "xsbx-top dir2", "xsbx-top dir2\\;touch\\ PWNED/"),
    ("D", "xsbx-remote host dir2", "xsbx-remote host dir2\\;touch\\ PWNED/"),
]
BASH = """PS1='>'; bind 'set enable-bracketed-paste off'; . {files}/xsbxfs.bash; complete -o default -F _xsbx_config echo
"""
ZSH = """PS1='>'; unsetopt zle_bracketed_paste always_last_prompt 2>/dev/null; bindkey -e; fpath=({fpath} $fpath)
autoload -Uz compinit && compinit -u -D && compdef '_xsbxfs config' echo
"""


class Shell:
    """An interactive shell on a terminal."""

    def __init__(self, argv, home, script):
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.environ.update(PATH=f"{home}/bin:{os.environ['PATH']}", HOME=home, XSBXFS_CACHE=home, XSBXFS_SHARED="none", TERM="dumb",
                              LC_ALL="C.UTF-8", ZDOTDIR=home, XDG_CONFIG_HOME=f"{home}/.config")
            os.execvp(argv[0], argv)
        self.type(script + "echo re''ady\n")
        self.until("\nready\r")

    def type(self, text):
        os.write(self.fd, text.encode())

    def until(self, words, limit=60):
        seen, end = "", time.monotonic() + limit
        while words not in seen:
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                sys.exit(f"not seen: {words!r} in {seen!r}")
            seen += os.read(self.fd, 4096).decode(errors="replace")
        return seen

    def complete(self, where, typed):
        self.type(f"cd {where}\n")
        # The line is not run, but shown: it becomes the argument of another command.
        self.type(typed + "\t\x01print_line '\x05'\n")
        line = re.search(r"<<(.*)>>", self.until(">>\r"))[1]
        return line.rstrip()

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def check(name, shell, home):
    bad = 0
    for place, typed, want in CASES:
        got = shell.complete(f"{home}/{place}", typed)
        if got != want and got + "/" != want:  # zsh takes the slash away again
            print(f"{name}: {typed!r} becomes {got!r}, not {want!r}")
            bad += 1
    shell.end()
    return bad


def check_keys():
    """Each line has its five fields, and the table in the source says the same."""
    text = subprocess.run([f"{BUILD}/xsbxfs", "--keys"], stdout=subprocess.PIPE, check=True, text=True).stdout
    lines = [line.split("\t") for line in text.splitlines()]
    with open(f"{ROOT}/fs/config/key.c") as file:
        rows = re.findall(r'^\t\{"(\w+)", CONF_', file.read(), re.M)
    with open(f"{ROOT}/fs/config/daemon_init.c") as file:
        builtin = re.search(r"builtin\[\] = \{(.*?)\}", file.read())[1]
    with open(f"{FILES}/xsbxfs.bash") as file:
        known = re.search(r'_XSBXFS_TEMPLATES="(.*)"', file.read())[1]
    wrong = [line for line in lines if len(line) != 5]
    listed = [line[1] for line in lines if line[0] != "ctl"]
    if wrong or sorted(listed) != sorted(rows) or ["config", "idle", "auto|hibernate|close", "auto"] not in [x[:4] for x in lines] \
            or ["ctl", "interrupt", "", "", ""] not in lines or re.findall(r"\w+", builtin) != known.split():
        print(f"--keys does not list what there is: {wrong} {set(rows) ^ set(listed)} {builtin} {known}")
        return 1
    return 0


def main():
    bad = check_keys()
    shells = ["bash"] + [x for x in ["zsh"] if shutil.which(x)]
    with tempfile.TemporaryDirectory() as home:
        for directory in ("bin", "S", "D/directory", "D/dir2;touch PWNED", "fpath", ".config"):
            os.makedirs(f"{home}/{directory}")
        for file in "S/config", "S/ctl", "S/in", "D/other", "D/jar.tar", f"D/{HOSTILE}":
            open(f"{home}/{file}", "w").close()
        with open(f"{home}/.config/xsbxfs.conf", "w") as file:
            file.write("[template $(touch PWNED)]\n")
        os.symlink(f"{BUILD}/xsbxfs", f"{home}/bin/xsbxfs")
        for name in "xsbx-top", "xsbx-remote":
            os.symlink(f"{ROOT}/scripts/{name}", f"{home}/bin/{name}")
        os.symlink(f"{ROOT}/scripts/images", f"{home}/bin/xsbxfs-images")
        os.makedirs(f"{home}/images/templates/app")
        with open(f"{home}/images/templates/app/manifest.json", "w") as file:
            file.write('{"name": "app", "hash": "0", "suite": "oci", "tools": {}}')
        os.makedirs(f"{home}/images/templates/evil")  # as a bundle may have it
        with open(f"{home}/images/templates/evil/manifest.json", "w") as file:
            file.write('{"name": "$(touch${IFS}PWNED)", "hash": "0", "suite": "oci", "tools": {}}')
        os.symlink(f"{FILES}/xsbxfs.zsh", f"{home}/fpath/_xsbxfs")
        with open(f"{home}/bin/print_line", "w") as file:
            file.write("#!/bin/sh\nprintf '<<%s>>\\n' \"$1\"\n")
        os.chmod(f"{home}/bin/print_line", 0o755)
        for name in shells:
            script = (BASH if name == "bash" else ZSH).format(files=FILES, fpath=f"{home}/fpath")
            argv = ["bash", "--norc", "-i"] if name == "bash" else ["zsh", "-f", "-i"]
            bad += check(name, Shell(argv, home, script), home)
            if any("PWNED" in names for _place, _directories, names in os.walk(home)):
                print(f"{name} executes what is in a name")
                bad += 1
    if bad:
        sys.exit(1)
    print(f"{len(CASES)} lines in {' and '.join(shells)}" + ("" if "zsh" in shells else "; zsh is not installed"))


main()
