#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Links that stay inside at one place and lead out at another: the guest gives one link two names, and
moves directories up and down, while the host reads, writes, creates and renames through all of them.
Whatever the climb, something lies there that must be neither read nor changed. The same links in an
ordinary directory do lead there."""
# backends: local process vm
# night: vm
# timeout: 120
import inspect
import random
import threading

from xsbx import *

SECONDS = 10 if VM else 5
NAME = "leads"
DEEP = "a/b/c/d/e/f/g/h/i"
SHALLOW = [".", "s", "s/t"]  # by depth
CLIMBS = range(1, 7)
EXPECTED = (errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ESTALE, errno.EEXIST, errno.EXDEV,
            errno.EISDIR, errno.EAGAIN, errno.ENOTEMPTY, errno.EACCES, errno.EINVAL)
outside = f"{SCRATCH}/outside"

# In the sandbox: moves things until a file named "stop" appears.
GUEST = """
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
def swap(a, b):
    libc.renameat2(-100, a.encode(), -100, b.encode(), 2)
end = time.monotonic() + 60
n = 0
open('started', 'w').close()
while time.monotonic() < end and not (n % 16 == 0 and os.path.exists('stop')):
    n += 1
    swap('s/m', DEEP + '/m')
    swap('top', DEEP + '/up')
    for name in os.listdir('s')[:4]:
        if name[0] == 'l':
            os.unlink('s/' + name)
            try:
                os.link(DEEP + '/' + name, 's/' + name, follow_symlinks=False)
            except FileExistsError:
                pass  # the host, who writes by that name, has made a file just then
    if n % 8 == 0:
        time.sleep(0.0005)
print(n)
"""


def leads(above):
    """For each climb out of a directory with these above it, nearest first: what leads to a secret
    and to a name that nothing has."""
    tails = {}
    for climb in CLIMBS:
        start = above[min(climb, len(above)) - 1]
        to = secrets[0] if climb <= 3 and start in above[:3] else secrets[1]
        tails[climb] = os.path.relpath(to, start)
    return tails


def texts(depth, tails):
    for climb, tail in tails.items():
        yield f"l{depth}.{climb}", "../" * (depth + climb) + tail
        yield f"l{depth}.{climb}n", "../" * (depth + climb) + tail + ".new"


def parents(path):
    above = []
    while path != "/":
        path = os.path.dirname(path)
        above.append(path)
    return above


def lay(top, tails):
    """The tree: each link where it leads nowhere else, and once more where it leads out."""
    os.makedirs(f"{top}/{DEEP}/m")
    os.makedirs(f"{top}/s/t")
    os.makedirs(f"{top}/s/m")
    os.makedirs(f"{top}/top")
    os.makedirs(f"{top}/{DEEP}/up")
    for depth, shallow in enumerate(SHALLOW):
        for name, text in texts(depth, tails):
            os.symlink(text, f"{top}/{DEEP}/{name}")
            os.link(f"{top}/{DEEP}/{name}", f"{top}/{shallow}/{name}", follow_symlinks=False)
    for name, text in texts(2, tails):
        os.symlink(text, f"{top}/{DEEP}/m/{name}")
    for name, text in texts(1, tails):
        os.symlink(text, f"{top}/{DEEP}/up/{name}")


def attempt(what, strange):
    try:
        return what()
    except OSError as error:
        if error.errno not in EXPECTED:
            strange.add(errno.errorcode.get(error.errno, error.errno))
        return None


def put(path, dir_fd=None):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666, dir_fd=dir_fd)
    os.write(fd, b"CHANGED")
    os.close(fd)


def get(path, dir_fd):
    fd = os.open(path, os.O_RDONLY, dir_fd=dir_fd)
    try:
        return os.read(fd, 100)
    finally:
        os.close(fd)


def look(top, tails, until, seen, strange, shown):
    """One of several who go through all of the links, by every way."""
    names = [[name for name, _ in texts(depth, tails)] for depth in range(3)]
    dirs = [(f"{top}/{shallow}", depth) for depth, shallow in enumerate(SHALLOW)]
    dirs += [(f"{top}/{DEEP}", depth) for depth in range(3)]
    dirs += [(f"{top}/s/m", 2), (f"{top}/{DEEP}/m", 2), (f"{top}/top", 1), (f"{top}/{DEEP}/up", 1)]
    chance = random.Random(threading.get_ident())
    kept = []
    while time.monotonic() < until:
        place, depth = chance.choice(dirs)
        name = chance.choice(names[depth])
        path = f"{place}/{name}"
        what = chance.randrange(8)
        if what < 3:
            seen.add(attempt(lambda: read(path), strange))
        elif what == 3:
            shown.add(attempt(lambda: os.readlink(path), strange))
        elif what == 4:
            attempt(lambda: put(path), strange)
        elif what == 5:
            attempt(lambda: os.truncate(path, 3), strange)
        elif what == 6:
            fd = attempt(lambda: os.open(place, os.O_PATH | os.O_DIRECTORY), strange)
            if fd is not None:
                kept.append((fd, depth))
        elif kept:
            fd, depth = chance.choice(kept)
            name = chance.choice(names[depth])
            seen.add(attempt(lambda: get(name, fd), strange))
            attempt(lambda: put(name, fd), strange)
            if len(kept) > 20:
                os.close(kept.pop(0)[0])
    for fd, _ in kept:
        os.close(fd)


def move(top, tails, until, seen, strange, counts):
    """The host's own moves: directories with links, up and down, while others read through them."""
    n = 0
    while time.monotonic() < until or (counts["moved"] <= 2 and time.monotonic() < until + 30):  # a busy host moves few in its time
        n += 1
        there, here = f"{top}/{DEEP}/w{n}", f"{top}/s/w{n}"
        attempt(lambda: os.mkdir(there), strange)
        for name, text in texts(2, tails):
            attempt(lambda: os.symlink(text, f"{there}/{name}"), strange)
        done = threading.Event()

        def reader():
            while not done.is_set():
                for name, _ in texts(2, tails):
                    for place in (there, here):
                        seen.add(attempt(lambda: read(f"{place}/{name}"), strange))

        thread = threading.Thread(target=reader)
        if n % 2:  # else nobody has been shown one yet
            thread.start()
            time.sleep(0.02)
        for a, b in ((there, here), (here, there), (there, here)):
            try:
                os.rename(a, b)
                counts["moved"] += 1
            except OSError as error:
                counts[errno.errorcode[error.errno]] = counts.get(errno.errorcode[error.errno], 0) + 1
            if not n % 2 and not thread.is_alive() and thread.ident is None:
                thread.start()
        time.sleep(0.02)
        done.set()
        thread.join()
        attempt(lambda: shutil.rmtree(there if os.path.exists(there) else here), strange)


def together_at(top, tails, mover):
    until = time.monotonic() + SECONDS
    seen, strange, shown, counts = set(), set(), set(), {"moved": 0}
    threads = [threading.Thread(target=look, args=(top, tails, until, seen, strange, shown))
               for _ in range(3)]
    if mover:
        threads.append(threading.Thread(target=move, args=(top, tails, until, seen, strange, counts)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen - {None}, strange, shown - {None}, counts


def outside_now():
    return [(read(path), os.path.exists(f"{path}.new")) for path in secrets]


def control():
    """In an ordinary directory with the same above it, the same links get there."""
    global secrets
    base = f"{SCRATCH}/control"
    top = f"{base}/mnt/python/{NAME}/files"
    secrets = [f"{os.path.dirname(top)}/secret", f"{base}/outside/secret"]
    for secret in secrets:
        os.makedirs(os.path.dirname(secret), exist_ok=True)
        write(secret, "SECRET")
    tails = leads(parents(top))
    lay(top, tails)
    for depth, shallow in enumerate(SHALLOW):
        for climb in CLIMBS:
            same(f"control: {shallow}, {climb} up", read(f"{top}/{shallow}/l{depth}.{climb}"), b"SECRET")
            with raises(f"control: {DEEP}, {climb} up", errno.ENOENT):
                read(f"{top}/{DEEP}/l{depth}.{climb}")
    write(f"{top}/s/l1.4n", "CHANGED")
    same("control: and a file is made", read(f"{secrets[1]}.new"), b"CHANGED")


def hostile():
    global secrets
    s = Session(NAME, "python", "timeout_s = 120\n")
    os.mkdir(outside)
    secrets = [s / "secret", f"{outside}/secret"]
    for secret in secrets:
        write(secret, "SECRET")
    tails = leads(parents(s / "files"))
    before = outside_now()
    s.run(f"import os\nDEEP, SHALLOW = {DEEP!r}, {SHALLOW!r}\n" + guest_part(lay, texts)
          + f"lay('.', {tails!r})\n")
    ok("they are made", os.path.isdir(s / "files/s/m"))
    s.submit(f"DEEP = {DEEP!r}\n" + GUEST)
    ok("it moves them", wait_for(lambda: os.path.exists(s / "files/started"), 20))
    seen, strange, shown, counts = together_at(s / "files", tails, True)
    write(s / "files/stop", "")
    result = s.result()
    rounds = int(result.out or 0)
    ok("there was something to race with", rounds > 3, result)
    same("nothing outside was read", {text for text in seen if b"SEC" in text}, set())
    same("nothing outside was changed", outside_now(), before)
    same("errors are those that paths have", strange, set())
    ok("links were shown: as they are, and as leading out",
       any(text.startswith("../") for text in shown)
       and any(text.startswith(".outside-files/") for text in shown), shown)
    ok("the host moved some", counts["moved"] > 2, counts)
    same("the session is well", s.run("print('fine')\n").out, "fine\n")


def guest_part(*functions):
    return "".join(inspect.getsource(function) + "\n" for function in reversed(functions))


need_language("python")
main(control, hostile)
