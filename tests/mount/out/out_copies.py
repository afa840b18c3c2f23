#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who copies or reads the output of a run that is active gets all of it or an error: never less without a word."""
from xsbx import *

WANT = b"".join(b"line %d\n" % n for n in range(1, 4001)) + b"end\n"
COPY = f"{SCRATCH}/copy"
JAVA = f"{SCRATCH}/Copy.java"

# What leaves a copy, and what prints what it has read.
TOOLS = {
    "cat": "cat {0} > {1}", "cp": "cp {0} {1}", "dd": "dd if={0} of={1} bs=64K status=none",
    "head -c": "head -c 100000 {0} > {1}", "tail -n +1": "tail -n +1 {0} > {1}",
    "python shutil": "python3 -c \"import shutil; shutil.copyfile('{0}', '{1}')\"",
    "python copy": "python3 -c \"import shutil; shutil.copy2('{0}', '{1}')\"",
    "python read": "python3 -c \"open('{1}', 'wb').write(open('{0}', 'rb').read())\"",
    "node copyFile": "node -e \"require('fs').copyFileSync('{0}', '{1}')\"",
    "node readFileSync": "node -e \"let f = require('fs'); f.writeFileSync('{1}', f.readFileSync('{0}'))\"",
    "node readFile": "node -e \"let f = require('fs').promises; f.readFile('{0}').then(d => f.writeFile('{1}', d))\"",
    "rsync": "rsync -L {0} {1}",
    "tar": "tar -cf - -C $(dirname {0}) $(basename {0}) > {1}.tar && tar -xOf {1}.tar > {1}",
    "git hash-object": "git hash-object {0} > {1}.hash && test $(cat {1}.hash) = $(git hash-object " f"{SCRATCH}/want)"
                       " && cp " f"{SCRATCH}/want" " {1}",
    "perl": "perl -MFile::Copy -e 'copy(\"{0}\", \"{1}\") or die'", "ruby": "ruby -e 'IO.copy_stream(\"{0}\", \"{1}\")'",
    "java": f"java {JAVA} {{0}} {{1}}", "sendfile": "python3 " f"{SCRATCH}/sendfile.py" " {0} {1}",
    "bash": "echo \"$(<{0})\" > {1}", "sort": "sort -k2n {0} | grep . | sed '1{{/^end$/d}}' > {1}; echo end >> {1}",
    "wc": "test $(wc -c < {0}) = " f"{len(WANT)}" " && cp " f"{SCRATCH}/want" " {1}",
    "tail -n 2": "test \"$(tail -n 2 {0} | tr '\\n' ' ')\" = 'line 4000 end ' && cp " f"{SCRATCH}/want" " {1}",
}

SENDFILE = """import os, sys
a, b = os.open(sys.argv[1], os.O_RDONLY), os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
while os.sendfile(b, a, None, 1 << 20):
    pass
"""
COPY_JAVA = """import java.nio.file.*;
class Copy { public static void main(String[] a) throws Exception {
    Files.copy(Path.of(a[0]), Path.of(a[1]), StandardCopyOption.REPLACE_EXISTING); } }
"""


def try_all(s, tools, start, node="stdout"):
    right = []
    for name, command in tools.items():
        program = {"java": "java", "sendfile": "python3"}.get(name, name.split()[0])
        if not shutil.which({"python": "python3"}.get(program, program)):
            continue
        for path in (COPY, f"{COPY}.tar", f"{COPY}.hash"):
            if os.path.exists(path):
                os.unlink(path)
        start()
        try:
            status, _, err = shell(command.format(s / node, COPY), timeout=2 * SOON)
        except subprocess.TimeoutExpired:
            fail(f"{name}: no end")
            continue
        got = read(COPY) if os.path.exists(COPY) else None
        if status == 0:
            same(f"{name} succeeds, so it has all of it", got, WANT)
            right.append(name)
    return right


def active():
    write(f"{SCRATCH}/want", WANT)
    write(f"{SCRATCH}/sendfile.py", SENDFILE)
    write(JAVA, COPY_JAVA)
    s = Session("active")
    code = "for i in $(seq 4000); do echo line $i; [ $i != 2000 ] || sleep 0.15; done; echo end\n"
    right = try_all(s, TOOLS, lambda: s.submit(code))
    for name in ("cat", "cp", "dd", "python shutil", "python read", "node readFileSync", "node readFile", "wc",
                 "tail -n 2", "perl", "java"):
        ok(f"{name} is right", name in right or not shutil.which(
            {"python": "python3"}.get(name.split()[0], name.split()[0])))
    print("right:", ", ".join(right))
    # Afterwards everybody is.
    s.submit(code)
    same("the whole", read(s / "stdout"), WANT)
    later = {n: TOOLS[n] for n in ("python shutil", "node copyFile", "rsync", "tar", "git hash-object", "sendfile")}
    right = try_all(s, later, lambda: None)
    same("of a run that has ended", [n for n in later if n not in right and shutil.which(
        {"python": "python3", "sendfile": "python3"}.get(n.split()[0], n.split()[0]))], [])
    same("and of its place in the history", try_all(
        s, {"rsync": TOOLS["rsync"]}, lambda: None, "runs/latest/stdout"),
         ["rsync"] if shutil.which("rsync") else [])


def status():
    """The exit status of a run that is active is copied whole or not at all, too."""
    s = Session("status")
    for name, command in {n: TOOLS[n] for n in ("cat", "python shutil", "rsync", "tar", "node copyFile")}.items():
        if not shutil.which({"python": "python3"}.get(name.split()[0], name.split()[0])):
            continue
        if os.path.exists(COPY):
            os.unlink(COPY)
        s.submit("sleep 0.5; exit 7\n")
        if shell(command.format(s / "exit_code", COPY))[0] == 0:
            same(f"{name} of exit_code", read(COPY), b"7\n")


def forked_writer():
    """A child holds `in` open after its parent has closed it: nobody is shown the run before."""
    s = Session("forked")
    same("first", s.run("echo first\n").stdout, b"first\n")
    fd = os.open(s / "in", os.O_WRONLY | os.O_TRUNC)
    os.write(fd, b"echo second\n")
    r, w = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(w)
        os.read(r, 1)  # as long as it is not told to go
        os._exit(0)
    os.close(r)
    os.close(fd)
    with raises("O_NONBLOCK is told to come again", errno.EAGAIN):
        os.read(os.open(s / "stdout", os.O_RDONLY | os.O_NONBLOCK), 100)
    same("runs/ does not wait", read(s / "runs/latest/stdout"), b"first\n")
    with together(lambda _: same("a reader waits for it", s.result().stdout, b"second\n"), 1) as problems:
        time.sleep(1.2)  # longer than the second for which a reader waits where nothing was written
        os.close(w)
    same("nothing went wrong", problems, [])
    os.waitpid(child, 0)
    same("appended code runs alone", shell(f"echo 'echo third' >> {s / 'in'}; cat {s / 'stdout'}")[1], b"third\n")
    same("and is what in shows", read(s / "in"), b"echo third\n")


def kept_open():
    s = Session("kept", config="timeout_s = 2\n")
    s.run("echo before\n")
    fd = os.open(s / "in", os.O_WRONLY | os.O_TRUNC)
    os.write(fd, b"echo later\n")
    with raises("a reader waits as long as a run may take", errno.ETIMEDOUT):
        read(s / "stdout")
    has("error", s.text("error"), "in-open")
    os.close(fd)
    same("then it runs", s.result().stdout, b"later\n")


def errors():
    s = Session("errors", config="timeout_s = 1\n")
    same("a timeout", s.run("sleep 60\n").code, 124)
    has("is in error", s.text("error"), "code: timeout\n")
    has("and in the run's status.json", s.json("runs/1/status.json")["problem"]["code"], "timeout")
    with raises("a bad setting", errno.EINVAL):
        write(s / "config", "timeout_s = x\n")
    ok("is in error", "timeout_s" in s.text("error"))
    write(s / "config", "timeout_s = 5\n")
    same("which a good one empties", s.text("error"), "")


def tail_events():
    for i in range(30):
        os.mkdir(f"{MNT}/raw/e{i}")
        os.rmdir(f"{MNT}/raw/e{i}")
    tail = subprocess.Popen(["tail", "-n", "2", "-f", f"{MNT}/events"], stdout=subprocess.PIPE)
    same("tail -n 2 begins with the last two", [b'raw/e29"' in tail.stdout.readline() for _ in range(2)], [True] * 2)
    os.mkdir(f"{MNT}/raw/news")
    has("and follows", tail.stdout.readline(), b'raw/news"')
    tail.kill()
    tail.wait()
    ok("what can be read back is as long as the size says",
       len(read_ready(f"{MNT}/events")) == os.stat(f"{MNT}/events").st_size)


main(active, status, forked_writer, kept_open, errors, tail_events)
