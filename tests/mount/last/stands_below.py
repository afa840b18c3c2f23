#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who stands in a directory below files/, or has it open, when the session falls asleep or wakes up, goes on there; so do
programs whose own first change wakes it."""
# backends: local process vm
# night: vm
# timeout: 240
import shutil
import tempfile

from xsbx import *

CODE = "mkdir -p sub/deep many; echo a > sub/a; echo d > sub/deep/d; ln -s a sub/l\n" \
       "i=0; while [ $i -lt 300 ]; do echo $i > many/$i; i=$((i + 1)); done\n"


def asleep(s):
    s.ctl("sleep")
    ok(f"{s.path}: it sleeps", s.wait_state("asleep"), s.text("error"))
    return s


def forks():
    """Each begins asleep."""
    s = Session("of")
    same("made", s.run(CODE).code, 0)
    os.mkdir(s / "checkpoints/c")
    same("whole", s.word("checkpoints/c/wait"), "whole")
    with tempfile.TemporaryDirectory() as top:
        shell(f"mkdir {top}/e; echo n > {top}/e/n; echo x > {top}/x; tar -C {top} -cf {top}/t e x")
        for n, (line, then, out) in enumerate((
                (f"cp {top}/x files/sub/", "cat sub/x", "x\n"),
                (f"cp -r {top}/e files/sub/deep/", "cat sub/deep/e/n", "n\n"),
                (f"rsync -r {top}/ files/sub/deep/", "cat sub/deep/e/n sub/deep/x", "n\nx\n"),
                (f"tar -C files/sub/deep -xf {top}/t", "cat sub/deep/e/n sub/deep/x", "n\nx\n"),
                ("rm -r files/sub", "ls", "many\n"),
                ("rm -r files/many", "ls", "sub\n"),
                ("find files/sub -name d -type f -delete", "ls sub/deep", ""),
                ("mv files/sub/deep files/many/", "cat many/deep/d; ls sub", "d\na\nl\n"),
                ("mv files/sub files/other", "cat other/deep/d", "d\n"),
                ("mkdir -p files/sub/deep/e/f", "ls sub/deep", "d\ne\n"),
                ("cd files/sub/deep && echo w > w && mv w ../v && cat ../v", "cat sub/v", "w\n"),
                ("ln -s ../a files/sub/deep/m", "cat sub/deep/m", "a\n"),
                ("sed -i s/a/b/ files/sub/a", "cat sub/a", "b\n"),
                ("perl -pi -e s/d/e/ files/sub/deep/d", "cat sub/deep/d", "e\n"),
                ("touch files/sub/deep/t files/sub/a", "ls sub/deep", "d\nt\n"))):
            copy = Session(f"copy{n}", config="from = of@c\n")
            code, output, _ = shell(f"cd {copy.path} && {line} 2>&1")
            same(line, (code, output if code else b"", copy.run(then).out), (0, b"", out))
            copy.remove()
        copy = Session("tree", config="from = of@c\n")
        shutil.rmtree(copy / "files/sub")
        same("shutil.rmtree", copy.run("ls").out, "many\n")


def stands():
    """A shell that goes on where it is, through all that becomes of the session."""
    s = Session("stands")
    same("made", s.run(CODE).code, 0)
    here = os.open(s / "files/sub/deep", os.O_RDONLY | os.O_DIRECTORY)
    path = os.open(s / "files/sub", os.O_PATH)
    for n in range(3):
        asleep(s)
        for fd, name in ((here, "d"), (path, "a")):
            f = os.open(name, os.O_RDONLY, dir_fd=fd)
            same("it is read, asleep", os.read(f, 9), f"{name}\n".encode())
            os.close(f)
        same("listed from there", "d\n" in shell(f"ls /proc/{os.getpid()}/fd/{here}/")[1].decode(), True)
        same("and it sleeps still", s.word(), "asleep")
        os.mkdir(f"new{n}", dir_fd=here)
        os.rename(f"new{n}", f"moved{n}", src_dir_fd=here, dst_dir_fd=path)
        same("it has woken, and what was made is there", s.run("ls sub").out.split().count(f"moved{n}"), 1)
    asleep(s)
    same("code", s.run("mv sub/deep sub/elsewhere; mkdir sub/deep; echo o > sub/deep/o").code, 0)
    with raises("it was moved in the sandbox, and is nowhere that anybody knows", errno.ESTALE):
        os.open("o", os.O_RDONLY, dir_fd=here)
    asleep(s)
    same("code", s.run("rm -r sub; echo file > sub").code, 0)
    for fd in here, path:
        with raises("one that is none any more", errno.ESTALE):
            os.mkdir("x", dir_fd=fd)
        os.close(fd)
    same("nothing came of that", s.run("cat sub").out, "file\n")


def is_known():
    """Somebody else comes by there: who stands there stays in the same directory, which has a path, and moves with it."""
    s = Session("known")
    same("made", s.run("mkdir one; echo mine >one/whose").code, 0)
    before = os.getcwd()
    os.chdir(s / "files/one")
    try:
        for name, wakes in ("one", False), ("one", True), ("two", False), ("two", True):
            asleep(s)
            if wakes:
                same("awake", s.run("true").code, 0)
            same("it is looked up by its path", read(s / f"files/{name}/whose"), b"mine\n")
            same("it has a path", shell("/bin/pwd")[1].decode(), f"{s.path}/files/{name}\n")
            if name == "one" and wakes:
                os.rename(s / "files/one", s / "files/two")
                os.mkdir(s / "files/one")
        asleep(s)
        same("it is the one that was moved", read("whose"), b"mine\n")
        write("made", "x")
        same("and stays so", s.run("ls one two").out, "one:\n\ntwo:\nmade\nwhose\n")
    finally:
        os.chdir(before)


COUNT = 1200


def make_big(s):
    same("made", s.run(f"mkdir big; for i in $(seq {COUNT}); do : >big/name-that-is-not-short-$i; done; ls big | wc -l").out, f"{COUNT}\n")


def listed():
    """A directory that is being read when its session falls asleep, or wakes up: no name is lost, none comes twice."""
    s = Session("listed")
    make_big(s)
    for n in range(2):
        for how in "sleep", "wake", "both", "again":
            with os.scandir(s / "files/big") as entries:
                names = [next(entries).name for _ in range(100)]
                if how != "wake":
                    asleep(s)
                if how != "sleep":
                    same("awake", s.run("true").code, 0)
                names += [next(entries).name for _ in range(COUNT // 2)]
                if how == "again":
                    asleep(s)
                names += [e.name for e in entries]
            same(f"{n} {how}: each of them once", (len(names), len(set(names))), (COUNT, COUNT))
        if s.word() != "asleep":
            asleep(s)
    held = os.open(s / "files/big", os.O_RDONLY | os.O_DIRECTORY)
    same("asleep", len(os.listdir(held)), COUNT)
    same("code", s.run("rm big/*1; : >big/one").code, 0)
    same("from the beginning it is what there is", len(os.listdir(held)), COUNT - COUNT // 10 + 1)
    asleep(s)
    same("once more", len(os.listdir(held)), COUNT - COUNT // 10 + 1)
    os.close(held)
    same("and it sleeps", s.word(), "asleep")


def listed_by_tools():
    """What they do first wakes the session, in the middle of what they read."""
    s = Session("tools")
    make_big(s)
    for line, then, out in (("find files/big -name '*7' -delete", "ls big | wc -l", f"{COUNT - COUNT // 10}\n"),
                            ("cp -r files/big files/copy", "ls copy | wc -l", f"{COUNT - COUNT // 10}\n"),
                            ("rm -r files/big", "ls", "copy\n")):
        asleep(s)
        code, output, _ = shell(f"cd {s.path} && {line} 2>&1")
        same(line, (code, output if code else b"", s.run(then).out), (0, b"", out))


def opened_first():
    """Before there is a sandbox, `files/` is empty; whoever looks again there, sees what there is by then."""
    s = Session("first")
    held = os.open(s / "files", os.O_RDONLY | os.O_DIRECTORY)
    same("nothing is there", os.listdir(held), [])
    same("made", s.run("echo a >a; mkdir b").code, 0)
    same("what is there", sorted(os.listdir(held)), ["a", "b"])
    asleep(s)
    same("asleep", sorted(os.listdir(held)), ["a", "b"])
    s.ctl("close")
    with raises("there is nothing any more", errno.ESTALE):
        os.listdir(held)
    os.close(held)


main(forks, stands, is_known, listed, listed_by_tools, opened_first)
