#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""images/shared.sh and scripts/lib.sh: what root makes for all users is made where nobody else can have put anything, and nothing of
somebody else's is followed before that is known."""
import os
import shutil
import stat
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOP, SECRET, BOB = "/srv/top", "/srv/secret", 12345
SETTINGS = f"set -euo pipefail; . {ROOT}/scripts/lib.sh; . {ROOT}/images/shared.sh; "


def bash(script, shared=""):
    done = subprocess.run(["bash", "-c", SETTINGS + script], env=dict(os.environ, XSBXFS_SHARED=shared), check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def anew():
    for path in TOP, SECRET:
        shutil.rmtree(path, ignore_errors=True)
        os.mkdir(path)
    os.chmod(SECRET, 0o700)


def refused(what, shared=f"{TOP}/shared"):
    before = sorted(path for path, _dirs, _names in os.walk("/srv"))
    status, said = bash("make_shared", shared)
    wrong = []
    if not status or f"{shared} would not be trusted" not in said:
        wrong.append(f"{what}: exit status {status}: {said}")
    if stat.S_IMODE(os.stat(SECRET).st_mode) != 0o700:
        wrong.append(f"{what}: what is behind a link was opened to all")
    if sorted(path for path, _dirs, _names in os.walk("/srv")) != before:
        wrong.append(f"{what}: something was made before")
    return wrong


def make_shared():
    wrong = []
    anew()
    os.mkdir(f"{TOP}/shared")
    os.symlink(SECRET, f"{TOP}/shared/images")
    os.chown(f"{TOP}/shared", BOB, BOB)
    wrong += refused("another user's, with a link")
    for link in "images", "layers":
        anew()
        for name in {"images", "layers", "snapshots"} - {link}:
            os.makedirs(f"{TOP}/shared/{name}")
        os.symlink(SECRET, f"{TOP}/shared/{link}")
        os.chown(f"{TOP}/shared/{link}", BOB, BOB, follow_symlinks=False)
        wrong += refused(f"another user's {link}")
    anew()
    os.chown(TOP, BOB, BOB)
    wrong += refused("below another user's directory")
    anew()
    os.symlink(SECRET, f"{TOP}/link")
    os.chown(f"{TOP}/link", BOB, BOB, follow_symlinks=False)
    wrong += refused("through another user's link", f"{TOP}/link/shared")
    anew()
    os.chmod(TOP, 0o775)
    wrong += refused("where a group may write")
    anew()
    os.symlink(TOP, "/srv/way")
    status, said = bash('make_shared; echo "$XSBXFS_CACHE"', "/srv/way/a/shared")
    made = sorted(os.listdir(f"{TOP}/a/shared")) if not status else said
    if (made, said) != (["images", "layers", "snapshots"], f"{TOP}/a/shared\n"):
        wrong.append(f"root's own: {made} {said}")
    return wrong


def is_roots():
    """As vm/base/trusted.c has it, see test_trusted.c."""
    anew()
    for name, owner, mode in ("a", 0, 0o755), ("b", 0, 0o755), ("bobs", BOB, 0o755), ("group", 0, 0o775):
        os.mkdir(f"{TOP}/{name}")
        os.chmod(f"{TOP}/{name}", mode)
        os.chown(f"{TOP}/{name}", owner, 0)
    for path, target, owner in (("a/link", "../b", 0), ("loop", "loop", 0), ("top", f"{TOP}/b", 0), ("his", "b", BOB), ("bobs/link", "../b", 0),
                                ("a/far", "../bobs/link", 0)):
        os.symlink(target, f"{TOP}/{path}")
        os.chown(f"{TOP}/{path}", owner, 0, follow_symlinks=False)
    with open(f"{TOP}/b/file", "w", encoding="utf-8"):
        pass
    wanted = {"": True, "a": True, "a/link": True, "a/link/file": True, "/b//file/": True, "a/./../b": True, "top/file": True, "loop": False,
              "his/file": False, "bobs": False, "bobs/link/file": False, "a/far/file": False, "none": False, "group": False,
              "group/../b": False}
    script = "; ".join(f"is_roots '{TOP}/{path}' && echo '{path}' || :" for path in wanted)
    got = bash(script)[1].split("\n")[:-1]
    want = [path for path in wanted if wanted[path]]
    return [f"trusted are {got}, not {want}"] if got != want else []


def main():
    if os.geteuid():
        print("only root has something for all")
        sys.exit(77)
    if sys.argv[1:] != ["own"]:
        os.execvp("unshare", ["unshare", "-m", sys.executable, __file__, "own"])
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", "/srv"], check=True)  # /tmp is everybody's
    os.umask(0o022)
    wrong = make_shared() + is_roots()
    print("\n".join(wrong) or "what is for all is root's")
    sys.exit(bool(wrong))


main()
