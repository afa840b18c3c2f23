#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: saved under a name, looked at, gone back to, removed; how many, and when not."""
# backends: local vm
# timeout: 120
# conf: max_checkpoints = 4
import stat

from xsbx import *


def save(s, name):
    os.mkdir(s / f"checkpoints/{name}")
    try:
        same(f"{name} is saved", read(s / f"checkpoints/{name}/wait"), b"whole\n")
    except OSError:
        fail(f"{name} is not saved: {s.text(f'checkpoints/{name}/status.json')}")
    return s / f"checkpoints/{name}/files"


def tree(top):
    """All that can be seen of a tree, but for its own name and place."""
    seen = {}
    for folder, dirs, names in os.walk(top):
        for name in [".", *dirs, *names]:
            path = os.path.normpath(f"{folder}/{name}")
            st = os.lstat(path)
            what = {"mode": st.st_mode, "nlink": st.st_nlink if stat.S_ISREG(st.st_mode) else 0}
            if path != top:
                what["mtime"] = st.st_mtime_ns
            if stat.S_ISLNK(st.st_mode):
                what["target"] = os.readlink(path)
            if stat.S_ISREG(st.st_mode):
                what["data"], what["size"] = read(path), st.st_size
            seen[os.path.relpath(path, top)] = what
    return seen


MAKE = """
mkdir -p d/e "with blanks" empty
echo hello > a.txt; chmod 640 a.txt
ln a.txt d/hard; ln -s ../a.txt d/up; ln -s /etc/passwd out; ln -s nowhere dangling
head -c 300000 /dev/urandom > d/big
truncate -s 5M sparse; printf end >> sparse
printf x > "with blanks/name"; touch d/e/empty; chmod 700 d/e/empty
printf '#!/bin/sh\\n' > run.sh; chmod 755 run.sh
touch -d '2001-02-03 04:05:06.789' old
"""


def files():
    s = Session("files")
    same("made", s.run(MAKE).code, 0)
    before = tree(s / "files")
    saved = save(s, "a")
    same("the tree is what it was", tree(saved), before)
    s.run("echo more >> a.txt; rm -r d; mkfifo pipe; echo new > new\n")
    same("... and stays that", tree(saved), before)
    status, out, _ = shell(f"cp -a {saved} {SCRATCH}/copy && diff -r --no-dereference {saved} {SCRATCH}/copy")
    same("cp -a, diff -r", (status, out), (0, b""))
    same("modes, times and links of a copy", tree(f"{SCRATCH}/copy"), before)
    status, _, err = shell(f"mkdir {SCRATCH}/tar && tar -C {saved} --format=posix -cf - . | tar -C {SCRATCH}/tar -xf -")
    same("tar", (status, err), (0, b""))
    same("what tar has packed", tree(f"{SCRATCH}/tar"), before)
    same("hard links are known as such", os.stat(f"{saved}/a.txt").st_ino, os.stat(f"{saved}/d/hard").st_ino)
    same("find", shell(f"find {saved} | wc -l")[1].strip(), str(len(before)).encode())
    with open(f"{saved}/d/big", "rb") as file:
        file.seek(200000)
        same("a part of one", file.read(1000), before["d/big"]["data"][200000:201000])
    save(s, "b")
    status, out, _ = shell(f"cd {s / 'checkpoints'}; LC_ALL=C diff -rq --no-dereference a/files b/files")
    same("what has changed", (status, b"Only in b/files: new" in out, b"Only in a/files: d" in out,
                              b"a.txt" in out), (1, True, True, True))
    s.ctl("close")
    ok("closed", s.wait_state("closed"), s.word())
    same("a session without a sandbox has them", tree(saved), before)


def read_only():
    s = Session("readonly")
    s.run("mkdir d; echo a > a; echo b > d/b\n")
    saved = save(s, "a")
    tries = {
        "open to write": lambda: os.open(f"{saved}/a", os.O_WRONLY),
        "append": lambda: os.open(f"{saved}/a", os.O_WRONLY | os.O_APPEND),
        "truncate": lambda: os.truncate(f"{saved}/a", 0),
        "create": lambda: os.open(f"{saved}/new", os.O_WRONLY | os.O_CREAT),
        "mkdir": lambda: os.mkdir(f"{saved}/new"),
        "unlink": lambda: os.unlink(f"{saved}/a"),
        "rmdir": lambda: os.rmdir(f"{saved}/d"),
        "rename": lambda: os.rename(f"{saved}/a", f"{saved}/b"),
        "rename into it": lambda: os.rename(s / "files/a", f"{saved}/b"),
        "chmod": lambda: os.chmod(f"{saved}/a", 0o600),
        "utime": lambda: os.utime(f"{saved}/a"),
        "link": lambda: os.link(f"{saved}/a", f"{saved}/l"),
        "symlink": lambda: os.symlink("a", f"{saved}/l"),
    }
    for what, action in tries.items():
        with raises(what, errno.EROFS, errno.EPERM if what == "symlink" else errno.EROFS):
            action()
    same("nothing has changed", (sorted(os.listdir(saved)), read(f"{saved}/a")), (["a", "d"], b"a\n"))


def status():
    s = Session("status")
    s.run("echo x > x\n")
    begin = time.time()
    save(s, "a")
    info = s.json("checkpoints/a/status.json")
    same("name, state and run", (info["name"], info["state"], info["run"]), ("a", "whole", 1))
    ok("time", begin - 2 <= info["time"] <= time.time() + 2, info["time"])
    same("memory is saved of machines", info["memory"], VM)
    ok("... and takes something", (info["memory_bytes"] > 0) == VM, info["memory_bytes"])
    st = os.stat(s / "checkpoints/a")
    same("its size", st.st_size, info["files_bytes"] + info["memory_bytes"])
    ok("its time", abs(st.st_mtime - info["time"]) < 0.001, st.st_mtime)
    needs = info["needs"]
    same("what it needs", [needs[key] for key in ("backend", "memory_mb", "cpus", "network", "packages")],
         ["process" if BACKEND == "process" else "microvm", 192, 1, False, ""])
    same("what goes on where it was needs no other machine that is like it", needs["machine"], None)
    has("it is listed", s.json()["checkpoints"], "a")
    same("the session goes on", (s.word(), s.run("cat x\n").out), ("idle", "x\n"))


def back():
    s = Session("back", "python")
    s.run("import os, json; os.makedirs('d'); os.chdir('d'); x = 1; open('f', 'w').write('one')")
    save(s, "one")
    same("changed", s.run("x = 2; open('f', 'w').write('two'); open('g', 'w'); raise SystemExit(7)").code, 7)
    s.ctl("restore one")
    same("asleep", s.word(), "asleep")
    same("its results stay", (s.text("exit_code"), s.runs()), ("7\n", [1, 2]))
    same("its files are those of then", (sorted(os.listdir(s / "files/d")), read(s / "files/d/f")), (["f"], b"one"))
    if VM:
        same("its variables, too", s.run("print(x, json.dumps([]), os.getcwd()[-2:], open('f').read())").out,
             "1 [] /d one\n")
    else:
        same("its interpreter is a fresh one", s.run("print('x' in globals())").out, "False\n")
    same("the next number", s.runs(), [1, 2, 3])
    same("whether it was kept, is said", s.json()["state_kept"], VM)
    s.ctl("restore one")
    os.rmdir(s / "checkpoints/one")
    same("what began from it needs it no more", s.run("print(open('d/f').read() if 'x' not in globals() else x)").out,
         "1\n" if VM else "one\n")
    with raises("it is gone", errno.ENOENT):
        s.ctl("restore one")
    has("in words", s.text("error"), "no-such-checkpoint")


def not_now():
    s = Session("notnow", config="timeout_s = 0\n")
    with raises("nothing to save", errno.EBUSY):
        os.mkdir(s / "checkpoints/a")
    s.submit("echo 1 > f; sleep 2\n")
    ok("it runs", s.wait_run(1, "running"))
    with raises("it runs: mkdir", errno.EBUSY):
        os.mkdir(s / "checkpoints/a")
    has("in words", s.text("error"), "when = idle")
    has("also the root's", read(f"{MNT}/error", "r"), "notnow")
    with raises("it runs: ctl", errno.EBUSY):
        s.ctl("checkpoint a")
    s.ctl("checkpoint a when idle")
    same("it waits", s.json("checkpoints/a/status.json")["state"], "saving")
    s.submit("echo 2 > f\n")
    same("it is saved between two runs", read(s / "checkpoints/a/wait"), b"whole\n")
    same("... which is where it says", s.json("checkpoints/a/status.json")["run"], 1)
    same("with what the first has left", read(s / "checkpoints/a/files/f"), b"1\n")
    same("the second came behind it", (s.result().code, read(s / "files/f")), (0, b"2\n"))
    os.mkdir(s / "jobs/j")
    write(s / "jobs/j/in", "sleep 600\n")
    ok("a job goes on", wait_for(lambda: s.word("jobs/j/state") == "running"))
    with raises("a job", errno.EBUSY):
        os.mkdir(s / "checkpoints/b")
    write(s / "jobs/j/ctl", "kill\n")
    read(s / "jobs/j/exit_code")
    save(s, "b")


def limits():
    s = Session("limits")
    s.run("echo x > x\n")
    for name in "abcd":
        save(s, name)
    with raises("one too many", errno.EDQUOT):
        os.mkdir(s / "checkpoints/e")
    has("in words", s.text("error"), "too-many")
    with raises("twice", errno.EEXIST):
        os.mkdir(s / "checkpoints/a")
    os.rmdir(s / "checkpoints/a")
    save(s, "e")
    with raises("a name", errno.EINVAL):
        os.mkdir(s / "checkpoints/.x")


def automatic():
    s = Session("automatic", config="checkpoint_runs = 2\n")
    for i in range(4):
        s.run(f"echo {i} > f\n")

    def there():
        return [name for name in sorted(os.listdir(s / "checkpoints"))
                if s.json(f"checkpoints/{name}/status.json")["state"] == "whole"]

    ok("those after the last two runs", wait_for(lambda: there() == ["run-3", "run-4"]), there())
    same("what was then", [read(s / f"checkpoints/run-{n}/files/f") for n in (3, 4)], [b"2\n", b"3\n"])


def at_once():
    """What is asked for before the sandbox has said all that it says at its beginning."""
    for n in range(8 if VM else 20):
        s = Session(f"at_once{n}")
        write(s / "files/f", b"soon")
        same("what was written before", read(save(s, "x") + "/f"), b"soon")
        s.remove()


def removed():
    s = Session("removed")
    s.run(MAKE)
    save(s, "a")
    save(s, "b")
    same("rm -r of one", shell(f"rm -r {s / 'checkpoints/a'}")[::2], (0, b""))
    same("it alone", os.listdir(s / "checkpoints"), ["b"])
    same("rm -r of the session", shell(f"rm -r {s.path}")[::2], (0, b""))
    ok("it is gone", not os.path.exists(s.path))


main(files, read_only, status, back, not_now, limits, automatic, at_once, removed)
