#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mounting again on the same directory, at once, time after time: nothing of the last is in the way."""
# mount: none
from xsbx import *


def again_and_again():
    mnt = f"{SCRATCH}/mnt"
    os.mkdir(mnt)
    for i in range(60):
        done = subprocess.run([os.environ["XSBXFS"], "-c", os.environ["CONF"], mnt], check=False,
                              stderr=subprocess.PIPE, timeout=2 * SOON)
        same(f"mount {i}", (done.returncode, done.stderr), (0, b""))
        ok(f"mounted {i}", mounted(mnt))
        same(f"unmount {i}", shell(f"fusermount3 -u {mnt}")[0], 0)


def while_it_saves():
    """With keep, one that is unmounted gives a run ten seconds, and writes its sessions: the next one waits for that."""
    mnt = f"{SCRATCH}/kept"
    os.mkdir(mnt)
    command = [os.environ["XSBXFS"], "-c", os.environ["CONF"], "-o",
               ",".join([*OPTIONS, "keep=yes", f"state_dir={SCRATCH}/state"]), mnt]
    same("mounted", subprocess.run(command, check=False, timeout=2 * SOON).returncode, 0)
    s = Session("demo", mnt=mnt)
    s.submit("echo begun; exec sleep 1000\n")
    ok("it runs", s.wait_run(1, "running"), s.text("error"))
    same("unmounted", shell(f"fusermount3 -u {mnt}")[0], 0)
    done = subprocess.run(command, check=False, stderr=subprocess.PIPE, timeout=4 * SOON)
    same("mounted again at once", (done.returncode, done.stderr),
         (0, b"xsbxfs: 1 session found in state_dir\n"))
    same("with what it has saved", (s.word(), read(s / "runs/1/stdout")), ("asleep", b"begun\n"))
    same("unmounted again", shell(f"fusermount3 -u {mnt}")[0], 0)


main(again_and_again, while_it_saves)
