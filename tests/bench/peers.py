# SPDX-License-Identifier: Apache-2.0
"""Other programs that the table of steady use shows beside ours, as far as they are installed here."""

import contextlib
import glob
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time

from common import *
from processes import BWRAP, command

HERE = os.path.dirname(os.path.abspath(__file__))

# Of libfuse's own example programs, as libfuse3-dev brings them.
PASSTHROUGH = "/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c"

# Runs each line that it is sent, in one interpreter.
LOOP = "import sys\nfor line in sys.stdin: exec(line)\nsys.stdout.flush()"


def plain(argv):
    """A command instead of a session: a function that returns nanoseconds, or None."""
    def one(*_):
        begin = time.perf_counter_ns()
        good = subprocess.run(argv, stdout=subprocess.PIPE).stdout == b"1\n"
        return time.perf_counter_ns() - begin if good else None
    return one


def commands():
    """Name -> argv: the interpreter that sandboxes here have, without one and in another's."""
    found = {"no sandbox": command("python")}
    if shutil.which("bwrap"):
        found["bwrap"] = [shutil.which("bwrap"), *BWRAP[1:], *command("python")]
    else:
        print("(bwrap left out: apt-get install bubblewrap)")
    return found


@contextlib.contextmanager
def sandlock():
    """A function that runs the program in a sandbox of sandlock's, in a process of its own that stays; or None."""
    if not importlib.util.find_spec("sandlock"):
        print("(sandlock left out: pip install sandlock, and run the bench with that Python)")
        yield None
        return
    argv = [sys.executable, f"{HERE}/others.py", "-", *command("python")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        def one(*_):
            child.stdin.write("\n")
            child.stdin.flush()
            value = child.stdout.readline().split()[1]
            return None if value == "fail" else int(value)
        yield one
        child.stdin.close()


class Kept:
    """An interpreter that stays, in bwrap, with a pipe into it and one out of it."""

    def __init__(self):
        python = command("python")[0]
        self.child = subprocess.Popen([shutil.which("bwrap"), *BWRAP[1:], python, "-u", "-c", LOOP],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def one(self, *_):
        begin = time.perf_counter_ns()
        self.child.stdin.write(b"print(1)\n")
        self.child.stdin.flush()
        good = self.child.stdout.readline() == b"1\n"
        return time.perf_counter_ns() - begin if good else None

    def close(self):
        self.child.stdin.close()
        self.child.stdout.close()
        self.child.wait()


@contextlib.contextmanager
def passthrough():
    """A directory in memory through libfuse's example, built here; or None."""
    with tempfile.TemporaryDirectory(prefix="xsbx-bench.", dir="/dev/shm") as base:
        program, mnt, data = f"{base}/passthrough", f"{base}/mnt", f"{base}/data"
        os.mkdir(mnt)
        os.mkdir(data)
        built = glob.glob(PASSTHROUGH) and subprocess.run(
            f"cc -O2 -o {program} {PASSTHROUGH} $(pkg-config --cflags --libs fuse3)", shell=True,
            stderr=subprocess.DEVNULL, check=False).returncode == 0
        if not built or subprocess.run([program, "-o", f"source={data}", mnt], check=False).returncode:
            print("(passthrough left out: there is no example of libfuse3-dev, or it does not build or mount)")
            yield None
            return
        try:
            yield f"{mnt}/"
        finally:
            subprocess.run(["fusermount3", "-u", mnt], check=False)
            time.sleep(0.2)
