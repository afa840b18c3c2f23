#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Symbolic links: those that stay inside are links; those made to lead out lead nowhere."""
# backends: local vm
# night: vm
from xsbx import *

s = None


def setup():
    global s
    s = Session("links")
    s.run("true\n")


def inside():
    os.makedirs(s / "files/a/b")
    write(s / "files/a/target", "content")
    for link, target in (("l1", "a/target"), ("a/l2", "target"), ("a/b/l3", "../target"),
                         ("l5", "./a/target"), ("dirlink", "a")):
        os.symlink(target, s / f"files/{link}")
        same(f"{link} is a link", os.readlink(s / f"files/{link}"), target)
        if link != "dirlink":
            same(f"{link} leads there", read(s / f"files/{link}"), b"content")
            same(f"{link} in the sandbox", s.run(f"cat {link}").out, "content")
    same("through a directory", read(s / "files/dirlink/target"), b"content")
    # Going up behind a name may lead anywhere, if the name is a link: not offered, or right.
    os.symlink("a/../a/b/../target", s / "files/l4")
    try:
        same("up and down", read(s / "files/l4"), b"content")
    except OSError as error:
        same("up and down", errno.errorcode[error.errno], "ENOENT")
    same("up and down, in the sandbox", s.run("cat l4").out, "content")
    os.symlink("nowhere", s / "files/dangling")
    with raises("a dangling link", errno.ENOENT):
        read(s / "files/dangling")
    same("can be listed", os.lstat(s / "files/dangling").st_size, len("nowhere"))
    os.unlink(s / "files/l1")
    same("unlink removes the link", read(s / "files/a/target"), b"content")
    s.run("ln -s a/target made; ln -s target a/made2\n")
    same("made in the sandbox", (read(s / "files/made"), read(s / "files/a/made2")),
         (b"content", b"content"))


def absolute_inside():
    """An absolute target below the guest's working directory is made relative."""
    s.run("ln -s /home/user/a/target abs1; ln -s /home/user/a/target a/b/abs2; "
          "ln -s /home/user abs3; ln -s /home/user/ abs4; ln -s /home/username/x abs5\n")
    got = os.readlink(s / "files/abs1")
    same("at the top", got.removeprefix("./"), "a/target")
    same("two levels down", os.path.normpath(f"a/b/{os.readlink(s / 'files/a/b/abs2')}"),
         "a/target")
    same("it leads there", read(s / "files/a/b/abs2"), b"content")
    ok("a link to the directory itself", os.readlink(s / "files/abs3") in (".", "./"),
       os.readlink(s / "files/abs3"))
    same("the sandbox has its own text", s.run("readlink abs1").out, "/home/user/a/target\n")
    same("another directory whose name begins like it", os.readlink(s / "files/abs5"),
         ".outside-files/home/username/x")


def hostile():
    """What user code makes to lead the reader out of files/."""
    secret = f"{SCRATCH}/secret"
    write(secret, "SECRET")
    os.symlink(secret, f"{SCRATCH}/control")
    same("control: an ordinary link would lead there", read(f"{SCRATCH}/control"), b"SECRET")
    targets = [secret, "/etc/passwd", "../in", "../../../..", "..", "/", "a/../../..", "//etc/passwd",
               "a/b/../../../in", "./../x", "/home/user/../../etc/passwd", f"{MNT}/status.json",
               "dirlink/../../in", "x" * 4000, "/proc/self/root/etc/passwd"]
    quoted = " ".join(f"'{t}'" for t in targets)
    s.run(f"i=0; for t in {quoted}; do ln -s \"$t\" h$i; i=$((i+1)); done\n")
    for i, target in enumerate(targets):
        path = s / f"files/h{i}"
        got = os.readlink(path)
        same(f"{target[:30]}: its size", os.lstat(path).st_size, len(got))
        inside = os.path.normpath(os.path.join("/base/files", got)).startswith("/base/files")
        ok(f"{target[:30]}: a link that is offered stays inside", inside, got)
    same("they can be listed", len([n for n in os.listdir(s / "files") if n[0] == "h"]),
         len(targets))
    same("and removed", shell(f"rm {s / 'files'}/h*")[0], 0)


def made_from_outside():
    """The user's own links: inside is fine, outside is refused, or never followed."""
    for target in ("/etc/passwd", "../../x", "/"):
        try:
            os.symlink(target, s / "files/mine")
        except OSError as error:
            same(f"{target}: refused", errno.errorcode[error.errno], "EPERM")
            continue
        with raises(f"{target}: not followed", errno.EPERM, errno.ENOENT):
            read(s / "files/mine")
        os.unlink(s / "files/mine")


def copied():
    """A tree with links to programs of the sandbox's own, as a virtual environment has: it can be copied
    and packed, the copy leads nowhere, and what comes back is what it was."""
    need("rsync", "tar", "git")
    s.run("mkdir -p venv/bin venv/lib; cd venv; ln -s /usr/bin/python3 bin/python3; "
          "ln -s python3 bin/python; ln -s lib lib64; ln -s ../../../.. bin/up; ln -s '/a%b' bin/odd; "
          "ln -s a/../../.. bin/mixed; cd ..; find venv -type l -printf '%P %l\\n' | sort > links\n")
    want = read(s / "files/links", "r")
    same("made", len(want.splitlines()), 6)
    venv = s / "files/venv"
    same("read", os.readlink(f"{venv}/bin/python3"), ".outside-files/usr/bin/python3")
    with raises("leads nowhere", errno.ENOENT):
        read(f"{venv}/bin/python3")
    with raises("nor does what is created through it", errno.ENOENT):
        write(f"{venv}/bin/odd", "x")
    for tool, out, back in (
            ("cp -a", "cp -a {} {}", "cp -a {} {}"),
            ("rsync -a", "rsync -a {}/ {}", "rsync -a {}/ {}"),
            ("tar", "mkdir {1} && tar -C {0} -cf - . | tar -C {1} -xf -",
             "mkdir {1} && tar -C {0} -cf - . | tar -C {1} --no-same-owner -xf -"),
            ("shutil.copytree", "python3 -c 'import shutil; shutil.copytree(\"{}\", \"{}\", True)'",
             "python3 -c 'import shutil; shutil.copytree(\"{}\", \"{}\", True)'")):
        word = tool.split()[0]
        copy, again = f"{SCRATCH}/{word}", s / f"files/{word}"
        status, _, err = shell("set -o pipefail; " + out.format(venv, copy))
        same(f"{tool} out", (status, err), (0, b""))
        same(f"{tool}: the copy", shell(f"cd {copy}; find . -type l -printf '%l\\n' | sort")[1],
             shell(f"cd {venv}; find . -type l -printf '%l\\n' | sort")[1])
        for name in ("python3", "up", "odd", "mixed"):
            ok(f"{tool}: {name} of the copy leads nowhere", not os.path.exists(f"{copy}/bin/{name}"))
        status, _, err = shell("set -o pipefail; " + back.format(copy, again))
        same(f"{tool} in", (status, err), (0, b""))
        same(f"{tool}: what comes back",
             s.run(f"find {word} -type l -printf '%P %l\\n' | sort").out, want)


def swapped():
    """A directory that is replaced by a link while somebody walks it."""
    s.run("mkdir -p race/d; echo inside > race/d/f\n")
    write(f"{SCRATCH}/f", "OUTSIDE")
    n = s.runs()[-1] + 1
    s.submit(f"for i in $(seq {50 if VM else 400}); do mv race/d race/e; ln -s {SCRATCH} race/d; "
             "rm race/d; mv race/e race/d; done\n")
    seen = set()
    while s.state_of(n) in ("queued", "running"):
        time.sleep(0.02 if VM else 0)
        try:
            seen.add(read(s / "files/race/d/f"))
        except OSError as error:
            seen.add(errno.errorcode[error.errno])
    ok("nobody got out", b"OUTSIDE" not in seen, seen)
    ok("only fitting errors", seen <= {b"inside\n", "ENOENT", "EPERM", "ESTALE", "ENOTDIR"}, seen)


def loops():
    s.run("ln -s loop2 loop1; ln -s loop1 loop2; ln -s self self; mkdir deep; cd deep; "
          "for i in $(seq 50); do mkdir d; cd d; done; cd ~ 2>/dev/null\n")
    with raises("a loop", errno.ELOOP):
        read(s / "files/loop1")
    with raises("to itself", errno.ELOOP):
        read(s / "files/self")
    status, out, _ = shell(f"find {s / 'files'} | wc -l")
    ok("a deep tree", int(out) > 50)


main(setup, inside, absolute_inside, hostile, made_from_outside, copied, swapped, loops)
