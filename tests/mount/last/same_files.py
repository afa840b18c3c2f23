#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file is the same file, awake and asleep: it has the same inode number, which no other has, so programs that walk through a
tree while its session wakes take none for another; and who stands in a directory is never led into another one."""
# backends: local process vm
# night: vm
# timeout: 240
import tarfile
import tempfile

from xsbx import *

PAIRS = 60


def asleep(s):
    s.ctl("sleep")
    ok(f"{s.path}: it sleeps", s.wait_state("asleep"), s.text("error"))
    return s


def awake(s):
    same(f"{s.path}: it wakes", s.run("true").code, 0)
    return s


def numbers(s):
    """By path: those that stat(2) tells, and that readdir(3) does."""
    by_stat, by_list = {}, {}
    for place, names, files in os.walk(s / "files"):
        for name in names + files:
            path = os.path.join(place, name)
            by_stat[os.path.relpath(path, s / "files")] = os.lstat(path).st_ino
        with os.scandir(place) as entries:
            by_list.update({os.path.relpath(e.path, s / "files"): e.inode() for e in entries})
    same(f"{s.path}: told twice", by_list, by_stat)
    return by_stat


def stay():
    s = Session("stay")
    s.run("mkdir -p d/e; echo a >a; ln a d/a; ln -s a d/l; for i in 1 2 3 4 5; do echo $i >d/e/$i; done; rm d/e/2; mkfifo f")
    known = numbers(s)
    same("names of one file have one", known["a"], known["d/a"])
    same("all others have their own", len(set(known.values())), len(known) - 1)
    for n in range(3):
        same(f"{n}: asleep", numbers(asleep(s)), known)
        same(f"{n}: awake again", numbers(awake(s)), known)
        s.run(f"echo new >new{n}; mkdir -p later; echo x >later/{n}")
        more = numbers(s)
        same(f"{n}: those stay", {name: more[name] for name in known}, known)
        same(f"{n}: what is new has its own", len(set(more.values())), len(more) - 1)
        known = more
    os.mkdir(s / "checkpoints/c")
    same("saved", read(s / "checkpoints/c/wait"), b"whole\n")
    s.run("rm -r later; echo 1 >other")
    s.ctl("restore c")
    ok("restored", s.wait_state("asleep"), s.text("error"))
    same("as they were", numbers(s), known)
    same("and awake", numbers(awake(s)), known)


def walked():
    """tar(1) reads a tree when the session wakes."""
    s = Session("walked", config="timeout_s = 120\n")  # which a busy host may need for all these programs
    made = s.run(f"mkdir t; for i in $(seq 100 {99 + PAIRS}); do head -c 4096 /dev/zero | tr '\\0' $((i % 10)) >t/a$i; echo $i >>t/a$i; "
                 f"ln t/a$i t/b$i; done")
    same("they are made", made.code, 0)
    asleep(s)
    with tempfile.TemporaryDirectory() as top:
        code, out, err = shell(f"cd {s / 'files'}; (tar cf - t; echo $? >{top}/code) | "
                               f"(head -c 65536; echo x >woken; cat) >{top}/t.tar; cat {top}/code")
        ok(f"{code} {err}: tar has a code", out.strip() in (b"0", b"1"), out)
        wrong = []
        with tarfile.open(f"{top}/t.tar") as archive:
            for member in archive.getmembers():
                if member.isdir():
                    continue
                text = archive.extractfile(member).read()
                if text[-4:-1].decode() != member.name[-3:]:
                    wrong.append((member.name, text[-4:-1], member.linkname))
        same("each has its own content", wrong, [])
    same("it was woken in the middle", s.run("cat woken").out, "x\n")


def deep():
    """rm(1) goes up by "..", and looks whether that is where it came from."""
    s = Session("deep")
    s.run("p=.; for i in $(seq 60); do p=$p/n; mkdir $p; echo $i >$p/f; done")
    os.mkdir(s / "checkpoints/c")
    same("saved", read(s / "checkpoints/c/wait"), b"whole\n")
    asleep(s)
    same("rm -r of a sleeper's", shell(f"rm -r {s / 'files/n'} 2>&1")[:2], (0, b""))
    same("all of it", s.run("ls").out, "")
    copy = Session("copy", config="from = deep@c\n")
    same("rm -r of a copy's", shell(f"rm -r {copy / 'files/n'} 2>&1")[:2], (0, b""))
    same("all of it", copy.run("ls").out, "")


def not_another():
    s = Session("another")
    for name, by in (("moved", "guest"), ("moved", "host"), ("replaced", "host"), ("replaced", "guest")):
        s.run("mkdir d; echo mine >d/whose")
        held = os.open(s / "files/d", os.O_RDONLY | os.O_DIRECTORY)
        asleep(s)
        line = "mv d e; mkdir d; echo other >d/whose" if name == "moved" else \
            "mkdir n; rm -r d; mv n d; echo other >d/whose"  # so that it has another number, whatever the file system
        if by == "guest":
            same(line, s.run(line).code, 0)
        else:
            same(line, shell(f"cd {s / 'files'} && {{ {line}; }}")[0], 0)
        try:
            fd = os.open("whose", os.O_RDONLY, dir_fd=held)
            whose = os.read(fd, 10)
            os.close(fd)
        except OSError as error:
            whose = errno.errorcode[error.errno].encode()
        ok(f"{name} by the {by}: {whose}", whose in ((b"mine\n", b"ESTALE") if name == "moved" else (b"ESTALE", b"ENOENT")))
        if (name, by) == ("moved", "host"):
            same("what the host moves is followed", whose, b"mine\n")
        os.close(held)
        s.run("rm -r d e")
        awake(s)


def removed():
    """A directory that the host has removed is dead to the kernel while a file below it is open; gone back to, it is there."""
    s = Session("removed")
    os.makedirs(s / "files/a/b")
    write(s / "files/a/b/f", b"saved")
    os.makedirs(s / "files/over/in")
    os.mkdir(s / "checkpoints/c")
    same("saved", read(s / "checkpoints/c/wait"), b"whole\n")
    for awake_first in False, True:
        a = os.open(s / "files/a/b/f", os.O_RDONLY)
        over = os.open(s / "files/over/in", os.O_RDONLY | os.O_DIRECTORY)
        same("rm", shell(f"cd {s / 'files'}; rm -rf a over/in/more; mkdir new; mv -T new over/in")[:2], (0, b""))
        s.ctl("restore c")
        ok("restored", s.wait_state("asleep"), s.text("error"))
        if awake_first:
            awake(s)
        same("what was saved", read(s / "files/a/b/f"), b"saved")
        same("listed", shell(f"cd {s / 'files'}; find . | sort")[1], b".\n./a\n./a/b\n./a/b/f\n./over\n./over/in\n")
        write(s / "files/a/b/more", b"x")
        write(s / "files/over/in/more", b"x")
        same("what is made there", s.run("ls a/b over/in").out, "a/b:\nf\nmore\n\nover/in:\nmore\n")
        with raises("what was open is of another time", errno.ESTALE):
            os.pread(a, 5, 0)
        os.close(a)
        os.close(over)


def begun_anew():
    """A sandbox that begins anew, and one that goes back, give numbers that others had."""
    s = Session("anew")
    s.run("mkdir old")
    os.mkdir(s / "checkpoints/c")
    same("saved", read(s / "checkpoints/c/wait"), b"whole\n")
    for how in "restore c", "close\nreset":
        s.run("mkdir d")
        held = [os.open(s / f"files/{name}", os.O_RDONLY | os.O_DIRECTORY) for name in ("d", "old")]
        for line in how.split("\n"):
            s.ctl(line)
        same(how, s.run("mkdir -p d old; ls").out, "d\nold\n")
        with raises(f"{how}: made since", errno.ESTALE, errno.ENOENT):
            os.close(os.open("wrong", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=held[0]))
        if how == "restore c":
            os.close(os.open("right", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=held[1]))
        same(f"{how}: what is there", s.run("ls d old").out, "d:\n\nold:\n" + ("right\n" if how == "restore c" else ""))
        for fd in held:
            os.close(fd)


def another_life():
    """Who stands in a directory of a sandbox that is gone is not led into that of the next one, by a checkpoint of this either."""
    s = Session("life")
    s.run("mkdir d")
    held = os.open(s / "files/d", os.O_RDONLY | os.O_DIRECTORY)
    s.ctl("close")
    s.ctl("reset")
    s.run("mkdir d")
    os.mkdir(s / "checkpoints/c")
    same("saved", read(s / "checkpoints/c/wait"), b"whole\n")
    own = os.open(s / "files/d", os.O_RDONLY | os.O_DIRECTORY)
    for turn in range(2):
        s.ctl("restore c")
        with raises("asleep", errno.ESTALE):
            os.listdir(held)
        with raises("that wakes it", errno.ESTALE):
            os.close(os.open("wrong", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=held))
        os.close(os.open("right", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=own))
        same("what is there", s.run("ls d").out, "right\n")
    os.close(held)
    os.close(own)


main(stay, walked, deep, not_another, removed, begun_anew, another_life)
