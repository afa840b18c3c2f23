#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tree of more files than the agent may have descriptors: all of it is there, and so is all else: runs, reset,
other sessions. What is open has a bound, which only who opens meets."""
# backends: process vm
# night: vm
# timeout: 300
# mount: none
import resource

from xsbx import *

# In a process sandbox the daemon's limit is the agent's. In a machine the agent has a million, and keeps 8192.
LIMIT = 600
FILES = 8700 if VM else 2000
FOLDERS = 60
CONF = "log_level = info\n" + ("" if VM else "[limits]\nallow_process = yes\n")


@contextlib.contextmanager
def mount():
    """A mount whose daemon, and so what it starts, has few descriptors."""
    mnt, conf = f"{SCRATCH}/mnt", f"{SCRATCH}/few.conf"
    os.mkdir(mnt)
    write(conf, CONF)
    few = None if VM else lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
    daemon = start_daemon(mnt, conf=conf, preexec_fn=few)
    try:
        yield mnt
    finally:
        shell(f"fusermount3 -u {mnt} || umount {mnt}")
        same("the daemon's end", daemon.wait(60 * slack()), 0)
        os.rmdir(mnt)


def content(i):
    return f"file {i}\n" * (i % 7 + 1)


def name(i):
    return f"tree/{i % FOLDERS:02}/f{i}"


def make_tree():
    for i in range(FOLDERS):
        os.makedirs(f"{SCRATCH}/tree/{i:02}")
    for i in range(FILES):
        write(f"{SCRATCH}/{name(i)}", content(i))
    same("tar", shell(f"tar -C {SCRATCH} -cf {SCRATCH}/tree.tar tree")[0], 0)


def total():
    return sum(len(content(i)) for i in range(FILES))


def whole(s, when):
    same(f"{when}: find", int(shell(f"find {s / 'files/tree'} -type f -printf 'x\\n' | wc -l")[1]), FILES)
    same(f"{when}: diff -r", shell(f"diff -r {SCRATCH}/tree {s / 'files/tree'}"), (0, b"", b""))


def runs(s, when):
    same(f"{when}: a run", s.run("find tree -type f | wc -l; cat tree/*/* | wc -c\n").out, f"{FILES}\n{total()}\n")
    same(f"{when}: error", s.text("error"), "")


def tree(s):
    """What a stranger did: extract it, look at it, run."""
    s.run("state=kept\n")
    same("tar x", shell(f"tar -C {s / 'files'} --no-same-owner -xf {SCRATCH}/tree.tar"), (0, b"", b""))
    runs(s, "extracted")
    for when in "first", "second":
        whole(s, when)
        runs(s, when)
    same("the state", s.run("echo $state\n").out, "kept\n")


def held(s, mnt):
    """Where somebody is, and what he has open, stays, also if the sandbox removes it."""
    here = os.open(s / "files/tree/07", os.O_PATH | os.O_DIRECTORY)
    fd = os.open(s / f"files/{name(7)}", os.O_RDWR)
    s.run("mv tree/08 tree/moved; rm tree/07/f7; mv tree/moved tree/08\n")
    whole_but_one = shell(f"diff -r {SCRATCH}/tree {s / 'files/tree'}")
    same("one is missing", whole_but_one[1].count(b"\n"), 1)
    same("the open file", os.read(fd, 100), content(7).encode())
    same("and its size", os.fstat(fd).st_size, len(content(7)))
    same("and that it has no name", os.fstat(fd).st_nlink, 0)
    same("a directory held by its descriptor", len(os.listdir(f"/proc/self/fd/{here}")),
         len(os.listdir(f"{SCRATCH}/tree/07")) - 1)
    same("and a file in it", read(f"/proc/self/fd/{here}/f{7 + FOLDERS}"), content(7 + FOLDERS).encode())
    os.close(here)
    os.close(fd)
    write(s / f"files/{name(7)}", content(7))
    other = Session("other", mnt=mnt)
    same("another session", other.run("echo there\n").out, "there\n")
    other.remove()


def open_files(s):
    """Who opens too many is refused, and nobody else."""
    fds, error = [], 0
    try:
        while len(fds) < LIMIT:
            fds.append(os.open(s / f"files/{name(len(fds))}", os.O_RDONLY))
    except OSError as e:
        error = e.errno
    same("it ends with", errno.errorcode.get(error), "ENFILE")
    same("after three sixteenths of the limit", len(fds), LIMIT // 16 * 3)
    with raises("nor is one made", errno.ENFILE):
        write(s / "files/new", "new\n")
    with raises("nor a directory listed", errno.ENFILE):
        os.listdir(s / "files")
    with raises("nor one emptied", errno.ENFILE):
        os.close(os.open(s / f"files/{name(0)}", os.O_WRONLY | os.O_TRUNC))
    same("what is open", {os.pread(fd, 1000, 0) for fd in fds}, {content(i).encode() for i in range(len(fds))})
    same("and what can be seen without", os.stat(s / f"files/{name(1)}").st_size, len(content(1)))
    runs(s, "meanwhile")
    ok("there is no new one", not os.path.exists(s / "files/new"))
    has("the console says so", s.text("console"), "more are refused (ENFILE)")
    for fd in fds:
        os.close(fd)
    whole(s, "afterwards")


def removed(s):
    """All at once, by the sandbox, while this kernel remembers them."""
    whole(s, "before")
    s.run("rm -r tree\n")
    same("nothing is left", os.listdir(s / "files"), [])
    same("tar x again", shell(f"tar -C {s / 'files'} --no-same-owner -xf {SCRATCH}/tree.tar"), (0, b"", b""))
    whole(s, "again")
    runs(s, "again")


def reset(s):
    """Files stay."""
    s.run("state=kept\n")
    s.ctl("reset")
    same("a new interpreter", s.run("echo ${state-none}\n").out, "none\n")
    whole(s, "after the reset")
    runs(s, "after the reset")


def all_of_it():
    make_tree()
    with mount() as mnt:
        s = Session("large", mnt=mnt, config=f"timeout_s = {30 * SLOW}\n")
        tree(s)
        if not VM:  # of a machine it is the size that matters, and that takes minutes
            held(s, mnt)
            open_files(s)
            removed(s)
        reset(s)
        s.remove()


main(all_of_it)
