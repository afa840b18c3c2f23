#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that read everything: grep -r, find, tar, du, rsync. Reading changes nothing."""
# timeout: 150
from xsbx import *


def picture():
    """What must not change by being read."""
    seen = {}
    for template in ("raw", "python"):
        for name in os.listdir(f"{MNT}/{template}"):
            folder = f"{MNT}/{template}/{name}"
            if os.path.isdir(folder):
                seen[folder] = (read(f"{folder}/state"), sorted(os.listdir(f"{folder}/runs")),
                                read(f"{folder}/in"), read(f"{folder}/error"),
                                sorted(os.listdir(folder)))
    return seen


def walk():
    done = Session("done")
    done.run("echo needle; echo x > file.txt; mkdir d; ln -s file.txt d/link\n")
    closed = Session("closed")
    closed.run("echo needle\n")
    closed.ctl("close")
    closed.wait_state("closed")
    Session("new", "python")
    before = picture()
    tools = {
        "find -ls": f"find {MNT} -ls > /dev/null",
        "ls -lR": f"ls -lR {MNT}",
        "du": f"du -s {MNT}",
        "grep -r": f"grep -rIs needle {MNT} --exclude='*events'",
        "cat": f"find {MNT} -type f ! -name '*events' -exec cat {{}} + > /dev/null",
        "file": f"find {MNT} -type f ! -name '*events' -exec head -c 100 {{}} + > /dev/null",
        "tar": f"tar -C {MNT} --exclude='*events' -cf - . | cat > /dev/null",
        "stat": f"find {MNT} -exec stat {{}} + > /dev/null",
        "cp -r": f"rm -rf {SCRATCH}/copy; cp -r {done.path} {SCRATCH}/copy",
        "tree": f"tree -a {MNT}" if shutil.which("tree") else "true",
        "rsync": f"rsync -a --exclude='*events' {done.path}/ {SCRATCH}/sync/"
        if shutil.which("rsync") else "true",
        "python glob": f"python3 -c \"import glob; glob.glob('{MNT}/**', recursive=True)\"",
    }
    for name, command in tools.items():
        status, out, err = shell(command)
        # A closed session's files/ is stale, and says so.
        rest = [line for line in err.splitlines() if b"tale file handle" not in line
                and b"status due to previous errors" not in line
                and b"ermission denied" not in line and b"see previous errors" not in line]
        ok(f"{name} has nothing else to complain about", not rest, rest[:5])
        same(f"{name} changed nothing", picture(), before)
    has("grep -r finds it", shell(f"grep -rIs needle {MNT} --exclude='*events'")[1],
        b"raw/done/stdout:needle")
    same("the copy is right", read(f"{SCRATCH}/copy/stdout"), b"needle\n")


def beside_a_run():
    """With a run that goes on: what waits is bounded by its deadline."""
    s = Session("active", config="timeout_s = 3\n")
    s.run("true\n")
    s.submit("echo needle; read -r x < <(sleep 600)\n")
    s.wait_run(2, "running")
    wait_for(lambda: read(s / "runs/2/stdout"))  # grep asks without waiting
    status, out, _ = shell(f"grep -rIs needle {s.path}")
    has("with what was printed", out, b"stdout:needle")
    ok("the run ended as it had to", s.wait_run(2, "timeout"), s.state_of(2))


def whole_mount_with_events():
    """`events` and `files.events` wait for the next line: not for grep -r, which asks without waiting, and whoever waits
    answers to a signal."""
    shell(f"grep -rIs needle {MNT}")
    same("it ends by the signal", shell(f"timeout 3 cat {MNT}/events")[0], 124)


main(walk, beside_a_run, whole_mount_with_events)
