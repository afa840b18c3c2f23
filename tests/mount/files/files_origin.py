#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""user.xsbxfs.origin says which run or job changed a file last, or that it was a client; code inside can't have it say another."""
# backends: local process vm
# timeout: 240
from origins import *

def names(path):
    """Of those that can have been it; a host whose clock for files has steps may name who came right before or behind."""
    said = origin(path)
    return set(said.split(" or ")) if isinstance(said, str) else said


def one_of(what, path, want):
    """It is @want; not more than one other, who was active within the same step of the clock."""
    got = names(path)
    ok(what, isinstance(got, set) and want in got and len(got) <= 2, got)


def runs():
    s = Session("runs")
    same("nothing yet", origin(s / "files"), errno.ENODATA)
    same("1", run_apart(s, "echo 1 >a; echo 1 >b; mkdir d; echo 1 >d/c").code, 0)
    same("by the first", {name: origin(s / f"files/{name}") for name in ("a", "b", "d", "d/c")},
         dict.fromkeys(("a", "b", "d", "d/c"), "run 1"))
    run_apart(s, "echo 2 >>b; cat a d/c >/dev/null")
    same("appended to", origin(s / "files/b"), "run 2")
    same("read", origin(s / "files/a"), "run 1")
    run_apart(s, "mv a e; ln d/c f; chmod 600 b; : >d/c")
    same("renamed, linked, changed, cut", [origin(s / f"files/{n}") for n in ("e", "f", "b", "d/c")], ["run 3"] * 4)
    run_apart(s, "rm b; echo 4 >b")
    same("made anew", origin(s / "files/b"), "run 4")
    apart()
    s.submit("echo 5 >b; sleep 1000")
    ok("it is active", wait_for(lambda: read(s / "files/b") == b"5\n"))
    same("known meanwhile", origin(s / "files/b"), "run 5")
    s.ctl("kill")


def clients():
    s = Session("clients")
    run_apart(s, "echo 1 >a; echo 1 >b")
    write(s / "files/c", "client\n")
    os.mkdir(s / "files/d")
    same("written through the mount", [origin(s / f"files/{n}") for n in "cd"], ["client"] * 2)
    os.rename(s / "files/a", s / "files/d/a")
    os.chmod(s / "files/b", 0o600)
    os.utime(s / "files/b", (1, 1))
    os.link(s / "files/b", s / "files/l")
    same("renamed and the like: who wrote it", [origin(s / f"files/{n}") for n in ("d/a", "b", "l")], ["run 1"] * 3)
    with open(s / "files/d/a", "a", encoding="utf-8") as f:
        f.write("more\n")
    same("appended to", origin(s / "files/d/a"), "client")
    os.truncate(s / "files/b", 0)
    same("cut", origin(s / "files/l"), "client")
    run_apart(s, "echo 2 >>c")
    same("and by a run again", origin(s / "files/c"), "run 2")


def jobs():
    s = Session("jobs")
    run_apart(s, ":")
    os.mkdir(s / "jobs/build")
    write(s / "jobs/build/in", "echo 1 >a; until [ -e go ]; do sleep 0.02; done; echo 1 >b\n")
    ok("it is active", wait_for(lambda: os.path.exists(s / "files/a")))
    apart()
    same("a job", origin(s / "files/a"), "job build")
    run_apart(s, "echo 2 >c")
    same("both can have been it", names(s / "files/c"), {"run 2", "job build"})
    same("it is known still", origin(s / "files/a"), "job build")
    apart()
    write(s / "files/go", "")
    same("its end", read(s / "jobs/build/exit_code"), b"0\n")
    one_of("until its end", s / "files/b", "job build")
    os.rmdir(s / "jobs/build")
    apart()
    run_apart(s, "echo 3 >c")
    same("it can have been only one again", origin(s / "files/c"), "run 3")


def left():
    """A process that a run has left behind is of that run, as long as there is one."""
    s = Session("left")
    run_apart(s, "(until [ -e go ]; do sleep 0.02; done; echo 1 >late; sleep 0.2) >/dev/null 2>&1 &")
    run_apart(s, "echo 2 >a")
    same("it could have been that", names(s / "files/a"), {"run 1", "run 2"})
    write(s / "files/go", "")
    ok("it writes", wait_for(lambda: os.path.exists(s / "files/late")))
    ok("it is named", "run 1" in names(s / "files/late"), origin(s / "files/late"))
    ok("it ends", wait_for(lambda: s.run("pgrep -f 'until \\[ -e' || jobs -r").out == ""))
    run_apart(s, "wait")
    run_apart(s, "echo 3 >a")
    same("not any more", len(names(s / "files/a")), 1)


FORGE = """
import os
def attempt(what):
    try:
        what(); return "done"
    except OSError as e:
        return e.strerror
for name in "user.xsbxfs.origin", "trusted.xsbxfs.origin":
    print(name, attempt(lambda: os.setxattr("a", name, b"run 1")))
try:
    print(os.getxattr("a", "user.xsbxfs.origin").decode())
except OSError as e:
    print(e.strerror)
st = os.stat("old")
os.utime("a", ns=(st.st_atime_ns, st.st_mtime_ns))
os.rename("a", "x"); os.rename("x", "a")
print(os.stat("a").st_mtime_ns == os.stat("old").st_mtime_ns)
import time
print(attempt(lambda: time.clock_settime(time.CLOCK_REALTIME, st.st_ctime)) if os.getuid() else "user")
"""


def forged():
    """Attributes that code sets are not shown, and times that it sets are not believed. That the probe works: an attribute is
    what code inside reads again where its file system has some, and the time that it has set is shown."""
    need_language("python")
    s = Session("forged", "python")
    run_apart(s, "open('a', 'w').write('1'); open('old', 'w').write('1')")
    said = run_apart(s, FORGE).out.splitlines()
    ok("it was tried", len(said) >= 4, said)
    if "user.xsbxfs.origin done" in said:
        same("its own is there, inside", said[2], "run 1")
    same("the time that it has set", os.stat(s / "files/a").st_mtime_ns, os.stat(s / "files/old").st_mtime_ns)
    same("shown is who did it", origin(s / "files/a"), "run 2")
    same("and of the other", origin(s / "files/old"), "run 1")
    # What is mapped can be written to without a time: whoever had it mapped is named.
    run_apart(s, "import mmap, os; m = mmap.mmap(os.open('a', os.O_RDWR), 1); m[0] = 65")
    with open(s / "files/a", "r+b") as f:
        f.write(b"x")
    apart()
    run_apart(s, "m[0] = 66")
    same("it was written to", read(s / "files/a"), b"B")
    if BACKEND != "local":  # whose files may be on a disk
        ok("who had it mapped is named", "run 3" in names(s / "files/a") or "run 4" in names(s / "files/a"), origin(s / "files/a"))


def by_descriptor(path):
    with open(path, "rb") as f:
        return origin(f.fileno())


def asked():
    s = Session("asked")
    run_apart(s, "echo 1 >a; ln -s a l")
    a = s / "files/a"
    with raises("it can't be set", errno.EPERM):
        os.setxattr(a, ORIGIN, b"run 9")
    has("in words", s.text("error"), "origin-fixed")
    with raises("nor removed", errno.EPERM):
        os.removexattr(a, ORIGIN)
    for name in "user.other", "security.capability", "system.posix_acl_access":
        with raises(f"{name}: there is none", errno.EOPNOTSUPP):
            os.getxattr(a, name)
    with raises("others can't be set", errno.EOPNOTSUPP):
        os.setxattr(a, "user.other", b"1")
    with raises("it is not listed", errno.EOPNOTSUPP):
        os.listxattr(a)
    for node in "in", "config", "runs", ".", "..":
        same(f"{node}: nobody knows", origin(s / node), errno.ENODATA)
    same("by descriptor", by_descriptor(a), "run 1")
    os.unlink(s / "files/l")
    copy = f"{SCRATCH}/copied"
    same("copies take none along", shell(f"cp -a {a} {copy}")[0], 0)
    same("and there is none", [n for n in os.listxattr(copy) if "xsbxfs" in n], [])
    write(s / "files/long", "x")
    same("a short buffer is told how long it is", len(os.getxattr(s / "files/long", ORIGIN)), 6)


main(runs, clients, jobs, left, forged, asked)
