#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make install PREFIX=... after a build for another prefix: what was built knows the new places. What make install
installs is what is needed there, put where it belongs, with the names of these places in it, and make uninstall takes all of
it away."""
# needs: xsbxfs xsbxfs-net xsbxfs-dial xsbxfs-store xsbxfs-trace xsbx-agent drivers
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


PLACED = """
bin/xsbxfs bin/xsbx-tty bin/xsbxfs-images libexec/xsbxfs/mounts libexec/xsbxfs/drivers/turn.so share/xsbxfs/scripts/lib.sh
share/xsbxfs/images/drivers/turn.so share/man/man1/xsbxfs-images.1 lib/tmpfiles.d/xsbxfs.conf lib/sysusers.d/xsbxfs.conf
share/bash-completion/completions/xsbxfs share/bash-completion/completions/xsbx-tty share/bash-completion/completions/xsbx-top
share/bash-completion/completions/xsbx-remote share/bash-completion/completions/xsbxfs-images share/zsh/site-functions/_xsbxfs
""".split()
UNITS = "lib/systemd/system/xsbxfs@.service lib/systemd/user/xsbxfs.service".split()


def make(build, *args):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    done = subprocess.run(["make", "-s", "-C", ROOT, f"O={build}", "CFLAGS=-O0", *args], env=env, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(f"make {args}: {done.stdout.decode()}")


def found(top):
    return {os.path.relpath(f"{place}/{name}", top) for place, dirs, names in os.walk(top) for name in
            names + [x for x in dirs if os.path.islink(f"{place}/{x}")]}


def remedies(share):
    """Where nobody is in the source's folder, what is missing is named by its packages."""
    texts = set()
    for place, _, names in os.walk(share):
        for name in set(names) - {"deps"}:
            with open(f"{place}/{name}", encoding="utf-8", errors="replace") as file:
                texts.update(re.findall(r'"([^"\n]*scripts/deps[^"\n]*)"', file.read()))
    if len(texts) < 5:
        sys.exit(f"what is there to be said? {texts}")
    for text in texts:
        said = subprocess.run(["bash", "-c", '. "$1"; die wrong "$2"', "-", f"{share}/scripts/lib.sh", text], check=False,
                              stderr=subprocess.PIPE, encoding="utf-8").stderr
        if "scripts/" in said or not re.search(r"Run: apt-get install \S|Install the package \S+[.]$", said.strip()):
            sys.exit(f"{text!r} is said as {said!r} where xsbxfs is installed")


def install():
    """Over an older version. -o: nothing is built anew while others use it."""
    with tempfile.TemporaryDirectory() as top:
        usr = f"{top}/opt/x"
        old = f"{usr}/share/xsbxfs/images/of-an-old-version.conf"
        os.makedirs(os.path.dirname(old))
        with open(old, "w", encoding="utf-8") as file:
            file.write("gone with the next one\n")
        os.umask(0o077)
        make(os.environ["BUILD"], "-o", "all", "PREFIX=/opt/x", f"DESTDIR={top}", "install")
        os.umask(0o022)
        once = found(top)
        if os.path.relpath(old, top) in once:
            sys.exit("what an older version had is still there")
        # Through links, as they are read there.
        missing = [place for place in PLACED if not os.path.isfile(f"{usr}/{place}")]
        if missing:
            sys.exit(f"not installed, or they lead nowhere: {missing}")
        for path in once:
            mode = os.lstat(f"{top}/{path}").st_mode
            if not mode & 0o4:
                sys.exit(f"others can't read {path}")
            if mode & 0o22 and not os.path.islink(f"{top}/{path}"):
                sys.exit(f"others may write to {path}")
            if "package/" in path or "__pycache__" in path:
                sys.exit(f"{path} is of no use where it is installed")
        said = subprocess.run([f"{usr}/bin/xsbxfs-images", "--help"], check=True, stdout=subprocess.PIPE, encoding="utf-8")
        if "usage: xsbxfs-images" not in said.stdout:
            sys.exit(f"xsbxfs-images does not know its name: {said.stdout}")
        remedies(f"{usr}/share/xsbxfs")
        units(usr)
        make(os.environ["BUILD"], "PREFIX=/opt/x", f"DESTDIR={top}", "uninstall")
        if found(top):
            sys.exit(f"make uninstall leaves {sorted(found(top))}")
        return len(once)


def units(usr):
    """They name the program where it is."""
    for unit in UNITS:
        with open(f"{usr}/{unit}", encoding="utf-8") as file:
            text = file.read()
        if "@BINDIR@" in text or "ExecStart=/opt/x/bin/xsbxfs -f" not in text or "ExecReload=/opt/x/bin/xsbxfs --takeover" not in text:
            sys.exit(f"{unit} does not name the program: {text}")
        if os.stat(f"{usr}/{unit}").st_mode & 0o777 != 0o644:
            sys.exit(f"{unit} has another mode")
    if shutil.which("systemd-analyze"):
        verify(usr)
    else:
        print("systemd was not asked about its units: there is no systemd-analyze")


def verify(usr):
    """systemd understands each line of them. What they start is not there, which is nothing of theirs."""
    for unit, mode in (("system/xsbxfs@.service", "--system"), ("user/xsbxfs.service", "--user")):
        done = subprocess.run(["systemd-analyze", "verify", mode, "--man=no", f"{usr}/lib/systemd/{unit}"], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wrong = [x for x in done.stdout.splitlines() if "xsbxfs" in x and "is not executable" not in x]
        if wrong:
            sys.exit(f"{unit}: {wrong}")


def foreign():
    """A folder that others use, too, is not emptied. (-n: whatever this Makefile says, nothing is.)"""
    for what, name in ("uninstall", "DATADIR"), ("uninstall", "DOCDIR"), ("install", "LIBEXECDIR"):
        done = subprocess.run(["make", "-s", "-n", "-C", ROOT, what, "PREFIX=/opt/x", f"{name}=/opt/others"], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if not done.returncode or f"{name}=/opt/others/xsbxfs".encode() not in done.stdout:
            sys.exit(f"make {what} {name}=/opt/others, which may have files of others: {done.stdout.decode()[-500:]}")


def main():
    print(f"{install()} files installed")
    foreign()
    with tempfile.TemporaryDirectory() as build:
        object_file = f"{build}/obj/fs/config/daemon.o"
        for prefix in ("/opt/one", "/opt/another"):
            make(build, f"PREFIX={prefix}", object_file)
            with open(object_file, "rb") as file:
                data = file.read()
            if f"{prefix}/libexec/xsbxfs".encode() not in data:
                sys.exit(f"after a build for another prefix, PREFIX={prefix} does not get through")
        before = os.stat(object_file).st_mtime_ns
        make(build, "PREFIX=/opt/another", object_file)
        if os.stat(object_file).st_mtime_ns != before:
            sys.exit("the same prefix again builds everything again")
    print("three builds")


main()
