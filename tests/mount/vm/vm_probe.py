#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A QEMU that is killed when it is asked for its version: no verdict for good."""
# backends: vm
# mount: none
# timeout: 100
from xsbx import *

vm_only()

QEMU = shutil.which("qemu-system-x86_64")
FIRST = f"{SCRATCH}/first"  # in front of all others in PATH
ASKED = f"{FIRST}/qemu-system-x86_64"
DIES = "#!/bin/sh\nkill -9 $$\n"


@contextlib.contextmanager
def mount(name, script):
    os.makedirs(FIRST, exist_ok=True)
    if os.path.islink(ASKED):
        os.unlink(ASKED)
    write(ASKED, script)
    os.chmod(ASKED, 0o755)
    with own_mount(name, f"cache_dir={os.environ['IMAGES']}", "accel=tcg",
                   env={**os.environ, "PATH": f"{FIRST}:{os.environ['PATH']}"}) as mnt:
        yield mnt


def once():
    with mount("once", f"#!/bin/sh\nln -sf {QEMU} \"$0\"\nkill -9 $$\n") as mnt:
        s = Session("s", mnt=mnt)
        result = s.run("echo hi")
        same("it ran", (result.out, result.code), ("hi\n", 0))
        ok("after the first answer was lost", os.path.islink(ASKED))


def always():
    with mount("always", DIES) as mnt:
        s = Session("s", mnt=mnt)
        same("refused", s.run("echo hi").code, "EIO")
        has("with the cause", s.text("error"), "killed by signal 9")
        line = [x for x in read(f"{mnt}/doctor", "r").splitlines() if " qemu: " in x][0]
        has("which doctor knows, too", line, "killed by signal 9")
        os.unlink(ASKED)
        os.symlink(QEMU, ASKED)
        # Not asked more than once in a few seconds, whoever asks.
        ok("mended, it works without a new mount", wait_for(lambda: again(s), 15))


def again(s):
    s.ctl("reset")
    return s.run("echo hi").code == 0


main(once, always)
