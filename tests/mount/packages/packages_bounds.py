#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an installation can take of the host while it goes on, whatever it was made to do: of the disk, and of the
time of others."""
# backends: local vm
# timeout: 120
# mount: none
# log-allow: did not start
# log-allow: packages-failed|packages
from layers import *

need_language("python")
DISK = 64 << 20
# In the place of the installer: each package is something that one may do. `wait` goes on while there is a
# file of its name in the mirror.
SCRIPT = f"""#!/bin/bash
set -euo pipefail
mkdir /layer/tree
cd /layer/tree
for package in $XSBX_PACKAGES; do
	case $package in
	fill==*) for ((n = 0; ; n++)); do head -c 262144 /dev/zero >$n; sleep 0.02; done ;;
	late==*) for n in 1 2 3; do head -c 3000000 /dev/zero >../$n; done ;;
	file==*) head -c 8000000 /dev/zero >file ;;
	names==*) head -c 3000000 /dev/zero >file; for n in 1 2 3 4 5 6 7 8; do ln file $n; done; sleep 3 ;;
	two==*) for n in 1 2; do head -c 3000000 /dev/urandom >$n; done ;;
	unnamed==*) exec 3>file; rm file; head -c {DISK - (600 << 10)} /dev/zero >&3; sleep 30 ;;
	wait*) while [ -e "$XSBX_MIRROR/${{package%==*}}" ]; do sleep 0.1; done ;;
	esac
done
echo 'VALUE = 1' >made.py
"""


class Own(Host):
    """A mount with such an installer, and, if there is a limit, a disk of its own."""

    def __init__(self, name, limit=None):
        self.tools, self.cache = folder(f"{name}.tools"), folder(f"{name}.cache")
        write(f"{self.tools}/install", SCRIPT)
        os.symlink(f"{PACKAGES}/prepare", f"{self.tools}/prepare")
        self.disk = limit is not None
        if self.disk and libc.mount(b"tmpfs", self.cache.encode(), b"tmpfs", 0, f"size={DISK}".encode()):
            skip("no file system could be mounted")
        link_images(self.cache)
        super().__init__(name, f"[template python]\npool = 0\n[packages]\ninstaller = {self.tools}\n"
                               f"offline = {MIRROR}\npython_list = any\nlayer_limit = {limit or 0}\n",
                         f"cache_dir={self.cache}", f"agent={os.path.abspath(BUILD)}/xsbx-agent")

    def session(self, name, packages):
        return Session(name, template="python", config=f"packages = {packages}\n", mnt=self.mnt)

    def refused(self, name, *words):
        """The installation ends before it has done what it would, and says why."""
        s = self.session(name, f"{name}==1.0")
        same(f"{name}: refused", s.run("1\n").code, "EIO")
        for word in ("code: packages-failed", *words):
            has(f"{name}: {word}", s.text("error"), word)
        same(f"{name}: nothing is left", [n for n in layers(self.cache) if n.startswith(".")], [])
        s.remove()

    def told(self):
        found = [json.loads(line) for line in read_ready(f"{self.mnt}/events").splitlines()]
        return [json.dumps(e) for e in found if "packages" in json.dumps(e)]

    def close(self):
        super().close()
        if self.disk:
            libc.umount2(self.cache.encode(), 2)


def disk():
    host = Own("disk", "4M")
    host.refused("fill", "layer_limit", "twice what all layers may have")
    host.refused("file", "layer_limit", "a file that is larger")
    host.refused("late", "layer_limit", "twice what all layers may have")  # and is done before the next look
    s = host.session("names", "names==1.0")
    same("what has many names counts once", s.run("print(1)\n").out, "1\n")
    s.remove()
    host.close()


def nearly_full():
    """Without a limit there is still what others need of the disk."""
    host = Own("nearly", "0")
    host.refused("unnamed", "there is no room for packages", "No space left")
    host.close()


def packed():
    """The file system that is made for machines has its bound, too. None of them has to boot for that."""
    host = Own("packed", "4M")
    host.refused("two", "layer_limit", "a file that is larger")
    s = host.session("small", "small==1.0")
    s.submit("print(1)\n")
    ok("a small one is made", wait_for(lambda: "small==1.0: there after" in "".join(host.told()), 60), host.told())
    host.close()


def removed():
    """What nobody waits for any more is not installed; what has begun is."""
    host = Own("queue")
    write(f"{MIRROR}/wait-1", "")
    sessions = [host.session(f"s{i}", f"wait-{i}==1.0") for i in range(1, 5)]
    for s in sessions:
        s.submit("print(1)\n")
    ok("the first has begun", wait_for(lambda: any(n.startswith(".tmp-") for n in layers(host.cache)), 20))
    for s in sessions[:3]:
        s.remove()
    os.unlink(f"{MIRROR}/wait-1")
    same("the last one's turn", sessions[3].result().out, "1\n")
    told = "\n".join(host.told())
    for i, made in (1, True), (2, False), (3, False), (4, True):
        same(f"wait-{i} was made", f"wait-{i}==1.0: there after" in told, made)
    again = host.session("again", "wait-2==1.0")
    same("whoever asks later has it made", again.run("print(1)\n").out, "1\n")
    host.close()


main(*([packed] if VM else [disk, nearly_full, removed]))
