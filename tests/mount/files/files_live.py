#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""files/ is live: what one side writes the other sees at once, also in the middle of a run."""
# timeout: 90
# backends: local vm
from xsbx import *


def both_ways():
    s = Session("both")
    write(s / "files/in.txt", "from outside")
    same("in", s.run("cat in.txt; echo from inside > out.txt\n").out, "from outside")
    same("out", read(s / "files/out.txt"), b"from inside\n")
    for i in range(30):
        write(s / "files/n", str(i))
        same("in, again", s.run("cat n; echo $(($(cat n) * 2)) > m\n").out, str(i))
        same("out, again", read(s / "files/m"), b"%d\n" % (i * 2))
    same("size and time at once", os.stat(s / "files/m").st_size, 3)
    s.run("rm m; mkdir d; mv n d/n\n")
    ok("removed", not os.path.exists(s / "files/m"))
    same("moved", read(s / "files/d/n"), b"29")
    os.unlink(s / "files/d/n")
    same("removed from outside", s.run("ls d | wc -l\n").out, "0\n")


def during_a_run():
    s = Session("during", config="timeout_s = 120\n")
    s.run("true\n")
    s.submit("echo ready > flag; until [ -e answer ]; do sleep 0.02; done; cat answer; "
             "i=0; until [ -e enough ]; do echo $((++i)) > counter; sleep 0.01; done; echo done\n")
    ok("a file appears", wait_for(lambda: os.path.exists(s / "files/flag")))
    same("its text", wait_for(lambda: read(s / "files/flag")), b"ready\n")
    write(s / "files/answer.tmp", "42\n")
    os.rename(s / "files/answer.tmp", s / "files/answer")
    seen = set()

    def look():
        with contextlib.suppress(FileNotFoundError):
            seen.add(read(s / "files/counter"))
        return len(seen) > 4

    ok("a counter moves", wait_for(look), seen)
    write(s / "files/enough", "")
    same("the answer arrived", s.result().out, "42\ndone\n")


def taken_at_once():
    """What is removed as soon as it is made was made all the same."""
    s = Session("taken", "python", config="timeout_s = 60\n")
    s.run("import os\n")
    s.submit("n = 0\nwhile not os.path.exists('stop'):\n    try:\n        os.unlink('job')\n        n += 1\n"
             "    except FileNotFoundError:\n        pass\nprint(n)\n")
    s.wait_state("running")
    end, made, wrong = time.monotonic() + 2 * SLOW, 0, set()
    while time.monotonic() < end:
        try:
            os.close(os.open(s / "files/job", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            made += 1
        except FileExistsError:
            pass
        except OSError as error:
            wrong.add(errno.errorcode[error.errno])
    wait_for(lambda: not os.path.exists(s / "files/job"), 10)
    write(s / "files/stop", "")
    same("nothing else is said", wrong, set())
    same("each was taken", s.result().out, f"{made}\n")


def grows():
    """An open descriptor follows a file that grows, and one that shrinks."""
    s = Session("grows")
    s.run("echo one > log\n")
    fd = os.open(s / "files/log", os.O_RDONLY)
    same("first", os.read(fd, 100), b"one\n")
    same("end", os.read(fd, 100), b"")
    s.run("echo two >> log\n")
    same("second", os.read(fd, 100), b"two\n")
    same("size", os.fstat(fd).st_size, 8)
    s.run("echo x > log\n")
    same("shrunk", (os.pread(fd, 100, 0), os.fstat(fd).st_size), (b"x\n", 2))
    s.run("echo y > log2; mv log2 log\n")
    same("replaced: the old one is still open", os.pread(fd, 100, 0), b"x\n")
    same("and the new one has the name", read(s / "files/log"), b"y\n")
    os.close(fd)
    n = s.runs()[-1] + 1
    s.submit("for i in 1 2 3 4; do echo $i; sleep 0.3; done > follow\n")
    wait_for(lambda: os.path.exists(s / "files/follow"))
    child = subprocess.Popen(["tail", "-s", "0.1", "-n", "+1", "-f", s / "files/follow"],
                             stdout=subprocess.PIPE)
    s.wait_run(n, "done")
    got = child.stdout.read(8)  # until the end of them, or of the time that the test has
    child.terminate()
    same("tail -f", got + child.communicate()[0], b"1\n2\n3\n4\n")


def mtimes():
    s = Session("times")
    s.run("date > f\n")
    ok("times are close to ours", abs(os.stat(s / "files/f").st_mtime - time.time()) < 30)
    before = os.stat(s / "files/f").st_mtime_ns
    s.run("sleep 0.05; echo x > f\n")
    ok("and move on", os.stat(s / "files/f").st_mtime_ns > before)


def lazily():
    """Reading files/ of a session without a sandbox shows it empty; writing starts one."""
    s = Session("lazy")
    same("empty", os.listdir(s / "files"), [])
    with raises("nothing in it", errno.ENOENT):
        os.stat(s / "files/x")
    same("still new", s.word(), "new")
    os.mkdir(s / "files/d")
    same("mkdir starts it", (s.word(), os.listdir(s / "files")), ("idle", ["d"]))
    t = Session("lazy2")
    same("cp starts it", shell(f"cp /etc/hostname {t / 'files/h'}")[0], 0)
    same("and the file is there", t.run("cat h\n").stdout, read("/etc/hostname"))


def stale():
    s = Session("stale")
    s.run("echo x > f; mkdir d\n")
    fd = os.open(s / "files/f", os.O_RDWR)
    folder = os.open(s / "files/d", os.O_RDONLY)
    s.ctl("close")
    s.wait_state("closed")
    for what, action in {
            "list": lambda: os.listdir(s / "files"), "read": lambda: os.read(fd, 10),
            "write": lambda: os.pwrite(fd, b"x", 0), "stat": lambda: os.stat(s / "files/f"),
            "create": lambda: write(s / "files/new", "x"), "mkdir": lambda: os.mkdir(s / "files/n"),
            "open": lambda: os.open(s / "files/f", os.O_RDONLY),
            "openat": lambda: os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=folder),
            "statfs": lambda: os.statvfs(s / "files/d")}.items():
        with raises(what, errno.ESTALE):
            action()
    for f in (fd, folder):
        try:
            os.close(f)
        except OSError:
            pass
    s.ctl("reset")
    same("a new sandbox has new files", s.run("ls\n").out, "")
    same("which can be listed", os.listdir(s / "files"), [])
    write(s / "files/f", "again")
    same("and written", read(s / "files/f"), b"again")


main(both_ways, during_a_run, taken_at_once, grows, mtimes, lazily, stale)
