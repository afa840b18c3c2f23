#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""User code that changes files/ under the hands of whoever looks: directories that turn into links
and back, files that turn into pipes, trees without end. Whoever reads or writes through files/ must
never get anywhere else, and never wait. The same swaps are made outside, where they must lead away:
otherwise the test could not tell."""
# backends: local process vm
# night: process vm
# timeout: 240
import threading

from xsbx import *

SECONDS = 12 if VM else 4
DEPTH = 200 if VM else 3000

# Swaps two names until a file named "stop" appears, in pairs given as arguments.
SWAP = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
end = time.monotonic() + 60
pairs = [pair.encode().split(b':') for pair in sys.argv[1:]]
n = 0
open('started', 'w').close()
while time.monotonic() < end and not (n % 64 == 0 and os.path.exists('stop')):
    for a, b in pairs:
        libc.renameat2(-100, a, -100, b, 2)
    n += 1
    if n % 16 == 0:
        time.sleep(0.0005)
print(n)
"""
EXPECTED = (errno.ENOENT, errno.EPERM, errno.EACCES, errno.ELOOP, errno.ENOTDIR, errno.ESTALE,
            errno.EEXIST, errno.ENXIO, errno.EISDIR, errno.EINVAL, errno.ENOTEMPTY, errno.EOPNOTSUPP,
            errno.EXDEV, errno.EIO)

away = f"{SCRATCH}/away"


def prepare(top):
    """A directory to look at, and a link that is swapped with it."""
    os.makedirs(f"{top}/d", exist_ok=True)
    write(f"{top}/d/secret", "of the sandbox")


def look(top):
    """Everything that goes through d, over and over. Return: what was read, and unexpected errors."""
    seen, strange = set(), set()
    end = time.monotonic() + SECONDS
    i = 0

    def attempt(what):
        try:
            return what()
        except OSError as error:
            if error.errno not in EXPECTED:
                strange.add(errno.errorcode.get(error.errno, error.errno))
            return None

    def put(name):
        fd = os.open(f"{top}/d/{name}", os.O_WRONLY | os.O_CREAT, 0o666)
        os.write(fd, b"put")
        os.close(fd)

    while time.monotonic() < end:
        i += 1
        seen.add(attempt(lambda: read(f"{top}/d/secret")))
        attempt(lambda: put(f"put{i % 8}"))
        attempt(lambda: os.unlink(f"{top}/d/precious{i % 8}"))
        attempt(lambda: os.mkdir(f"{top}/d/dir{i % 8}"))
        attempt(lambda: os.rmdir(f"{top}/d/dir{i % 8}"))
        attempt(lambda: os.rename(f"{top}/d/put{i % 8}", f"{top}/d/moved{i % 8}"))
        attempt(lambda: os.chmod(f"{top}/d/secret", 0o600 + i % 2 * 0o44))
        attempt(lambda: os.truncate(f"{top}/d/precious", 0))
        attempt(lambda: os.listdir(f"{top}/d"))
    return seen - {None}, strange, i


def fill_away():
    shutil.rmtree(away, ignore_errors=True)
    os.mkdir(away)
    os.chmod(away, 0o777)
    write(f"{away}/secret", "of the host")
    write(f"{away}/precious", "precious")
    for i in range(8):
        write(f"{away}/precious{i}", "precious")
    return sorted(os.listdir(away)), os.stat(f"{away}/secret").st_mode


def control():
    """In an ordinary directory, the same leads to where the link leads."""
    before = fill_away()
    top = f"{SCRATCH}/control"
    prepare(top)
    os.symlink(away, f"{top}/link")
    swap = subprocess.Popen([sys.executable, "-c", SWAP, "d:link"], cwd=top,
                            stdout=subprocess.DEVNULL)
    wait_for(lambda: os.path.exists(f"{top}/started"), 20)
    seen, _, rounds = look(top)
    write(f"{top}/stop", "")
    swap.wait()
    ok("control: outside, reading gets there", b"of the host" in seen, (seen, rounds))
    ok("control: so do writing and removing", sorted(os.listdir(away)) != before[0])


def links():
    for target in (away, f"../../../../../../..{away}"):
        before = fill_away()
        s = Session(f"links{len(target)}", "python", "timeout_s = 120\n")
        prepare(s / "files")
        # The same path inside, which must not be reached through files/ either.
        s.run(f"import os\ntry:\n    os.makedirs({away!r})\n    open({away + '/secret'!r}, 'w').write("
              f"'of elsewhere')\nexcept OSError:\n    pass\nos.symlink({target!r}, 'link')\n"
              "open('swap.py', 'w').write(" + repr(SWAP) + ")\n")
        s.submit("import subprocess, sys\nprint(subprocess.run([sys.executable, 'swap.py', "
                 "'d:link'], capture_output=True, text=True).stdout)\n")
        wait_for(lambda: os.path.exists(s / "files/started"), 20)
        seen, strange, rounds = look(s / "files")
        write(s / "files/stop", "")
        result = s.result()
        ok("there was something to race with", int(result.out or 0) > 10 and rounds > 5,
           (result, rounds))
        same("nothing was read but what is in files/", seen - {b"of the sandbox", b""}, set())
        same("nothing was changed elsewhere",
             (sorted(os.listdir(away)), os.stat(f"{away}/secret").st_mode), before)
        same("errors are those that paths have", strange, set())
        if BACKEND != "local":
            same("nor elsewhere in the sandbox",
                 s.run(f"import os; print(sorted(os.listdir({away!r})))\n").out.strip()
                 if "of elsewhere" in s.run(f"print(open({away + '/secret'!r}).read())\n").out
                 else "['secret']", "['secret']")


def pipes():
    """A file that is a pipe every other moment: nobody waits for a writer."""
    s = Session("pipes", "python", "timeout_s = 120\n")
    s.run("import os\nopen('f', 'w').write('x' * 100000)\nos.mkfifo('p')\n"
          "open('swap.py', 'w').write(" + repr(SWAP) + ")\n")
    s.submit("import subprocess, sys\nprint(subprocess.run([sys.executable, 'swap.py', "
             "'f:p'], capture_output=True, text=True).stdout)\n")
    done, lengths = threading.Event(), set()

    def reader():
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            for flags in (os.O_RDONLY, os.O_RDWR, os.O_WRONLY):
                try:
                    fd = os.open(s / "files/f", flags)
                    if flags == os.O_RDONLY:
                        lengths.add(len(os.read(fd, 200000)))
                    os.close(fd)
                except OSError:
                    pass
        done.set()

    thread = threading.Thread(target=reader, daemon=True)
    thread.start()
    ok("nobody waited", done.wait(SECONDS + SOON))
    write(s / "files/stop", "")
    s.result()
    ok("the file was read meanwhile", 100000 in lengths, lengths)
    same("the session is well", s.run("print('fine')\n").out, "fine\n")


def deep():
    """A tree deeper than any path is long, and one that is very wide."""
    s = Session("deep", "python", "timeout_s = 120\n")
    result = s.run("import os\nhere = os.getcwd()\nn = 0\ntry:\n    while n < " f"{DEPTH}:\n"
                   "        os.mkdir('d' * 100); os.chdir('d' * 100); n += 1\n"
                   "except OSError as error:\n    print(error)\nos.chdir(here)\nprint(n)\n")
    same("made", result.code, 0)
    path, depth = s / "files", 0
    with contextlib.suppress(OSError):
        while depth < DEPTH:
            path += "/" + "d" * 100
            os.stat(path)
            depth += 1
    ok("as deep as a path goes", depth >= 30, depth)
    status, _, _ = shell(f"timeout {2 * SOON:.0f} rm -rf {s / 'files'}/d*")
    ok("it can be removed, or not, from outside", status != 124, status)
    same("the session is well", s.run("print('fine')\n").out, "fine\n")
    s.remove()
    ok("and can be removed", not os.path.exists(s.path))


need_language("python")
main(control, links, pipes, deep)
