#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a commit makes on the host is what was read in files.changes, whatever goes on in the sandbox."""
# backends: process
# timeout: 180
# mount: none
from hosts import *

TEMPLATE = "[template shown]\nlanguage = raw\nwork = {}\n"


def scene(name):
    top = folder(name)
    write(f"{top}/text", "hello\n")
    host = Host(f"{name}.daemon", TEMPLATE.format(top))
    return top, host, host.session("one")


def commit(s):
    """Whether it was made; waits until that is known."""
    fd = os.open(s / "files.changes", os.O_RDONLY)
    try:
        s.ctl("commit")
        os.read(fd, 1)  # a list, which waits for the commit
    finally:
        os.close(fd)
    return "code: changed" not in s.text("error")


def changed_since():
    """A process in the background changes a file after its list was read. (Control: commit 7b8c989 put EVIL
    on the host.)"""
    top, host, s = scene("since")
    s.run("echo good > script; (until [ -e files-were-read ]; do sleep .05; done; echo EVIL > script; : > done) &\n")
    has("the list", s.text("files.changes"), "A script\n")
    write(s / "files/files-were-read", "")
    ok("it was changed", wait_for(lambda: os.path.exists(s / "files/done")))
    same("refused", commit(s), False)
    has("in words", s.text("error"), "A script")
    same("nothing was made", os.listdir(top), ["text"])
    has("once read, ", s.text("files.changes"), "A script\n")
    same("it can be", commit(s), True)
    same("what was read last", read(f"{top}/script"), b"EVIL\n")
    host.close()


def each_kind():
    """Content, mode, kind, target, what came and what went: each is another version; none other is."""
    top, host, s = scene("kinds")
    s.run("echo a > a; ln -s a link; mkdir d; rm text; truncate -s 1M holes\n")
    for what in ("echo b > a", "chmod 700 a", "ln -sfn d link", "rm a; mkdir a", "rmdir a",
                 "chmod 700 d", ": > text", "rm text", "printf x | dd of=holes bs=1 seek=9000 conv=notrunc",
                 ": > new"):
        s.text("files.changes")
        s.run(what + "\n")
        same(f"{what}: refused", commit(s), False)
        same(f"{what}: nothing was made", os.listdir(top), ["text"])
    s.text("files.changes")
    s.run("touch new; cat a holes > /dev/null\n")
    same("times and readers make no difference", commit(s), True)
    ok("made", os.path.exists(f"{top}/new") and not os.path.exists(f"{top}/text"))
    s.run("echo more > more\n")
    same("what was not read since is not made", commit(s), False)
    same("not there", os.path.exists(f"{top}/more"), False)
    host.close()


def never_read():
    top, host, s = scene("blind")
    s.run("echo x > x\n")
    s.ctl("commit")
    ok("without a list, what is there is made", wait_for(lambda: os.path.exists(f"{top}/x")))
    host.close()


def marks():
    """What programs of the host run by themselves is marked."""
    _, host, s = scene("marks")
    s.run("mkdir -p .git/hooks a/.VSCode; echo x > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit\n"
          "echo > a/.envrc; echo > a/envrc; cp /bin/true suid; chmod 4755 suid; cp /bin/true plain; echo > x.pth\n")
    same("the list", s.text("files.changes"),
         "A! .git\nA! .git/hooks\nA! .git/hooks/pre-commit\nA a\nA! a/.VSCode\nA! a/.envrc\nA a/envrc\n"
         "A plain\nA! suid\nA! x.pth\n")
    host.close()


main(changed_since, each_kind, never_read, marks)
