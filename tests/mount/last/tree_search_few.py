#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/tree-search where there can be fewer sandboxes and sessions than branches: they take turns, it says what it waits
for, and it leaves nothing behind, whichever way it ends."""
# backends: local vm
# night: vm
# timeout: 120
# conf: max_sessions = 8
# conf: max_vms = 2
# conf: max_vms_user = 2
import re
import signal

from xsbx import *

need_language("python")
SEARCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../scripts/tree-search")
TOP = f"{MNT}/python"
SESSIONS = 8


def there():
    return sorted(n for n in os.listdir(TOP) if os.path.isdir(f"{TOP}/{n}"))


def begin(*options):
    """It runs, and what it says goes to a file."""
    said = f"{SCRATCH}/said.{time.monotonic_ns()}"
    with open(said, "wb") as file:
        return subprocess.Popen([SEARCH, *options, TOP], stdout=subprocess.DEVNULL, stderr=file), said


def says(said, text):
    return wait_for(lambda: text in read(said).decode(), 10)


def search(*options):
    status, out, err = shell(f"{SEARCH} {' '.join(options)} {TOP}")
    text, words = out.decode(), err.decode()
    same(f"it ends well {options}", status, 0)
    found = re.search(r"^(\S+): x = (-?\d+) by (.*)$", text, re.M)
    if not ok("it finds something", found, text + words):
        return None, words
    name, x, steps = found.groups()
    same("the best is kept, and no other", there(), [name])
    same("its result", read(f"{TOP}/{name}/files/x"), x.encode())
    os.rmdir(f"{TOP}/{name}")
    return (x, steps, re.findall(r"level \d: \d+", text)), words


def usage():
    for option in ("--width", "--levels"):
        for value, words in (("0", "0 is less than 1"), ("-3", "-3 is less than 1"), ("x", "invalid count value: 'x'")):
            status, out, err = shell(f"{SEARCH} {option} {value} {TOP}")
            same(f"{option} {value}", (status, out), (2, b""))
            has("why", err.decode(), f"argument {option}: {words}")
            ok("no traceback", b"Traceback" not in err, err)
    same("nothing was made", there(), [])


def in_turns():
    found, words = search("--width 6", "--levels 2")
    same("it says why it takes turns, once", words.count("2 sandboxes may be there at once, and 6 branches take turns"), 1)
    again, _words = search("--again", "--width 6", "--levels 2")
    same("the same by starting over", again, found)
    same("nothing is left", there(), [])


def few_sessions():
    """So few that not all that were to be kept can be."""
    others = [Session(f"other{i}", "raw") for i in range(SESSIONS - 3)]
    found, words = search("--width 4", "--levels 2")
    ok("it finds something", found, words)
    same("it says that it keeps fewer, once", words.count("keeps fewer than 4 of a level"), 1)
    for other in others:
        other.remove()


def no_session():
    """None but the first: it waits until there may be another."""
    others = [Session(f"other{i}", "raw") for i in range(SESSIONS - 1)]
    run, said = begin("--width", "2", "--levels", "1")
    ok("it says what it waits for", says(said, "waits until another session may be there"), read(said))
    for _ in range(2):
        others.pop().remove()
    same("it goes on", run.wait(60 * SLOW), 0)
    same("once", read(said).decode().count("waits until"), 1)
    for other in others:
        other.remove()
    for name in there():
        os.rmdir(f"{TOP}/{name}")


def ended():
    """While it waits for a place: by ^C, by a signal, and because a session of it is gone."""
    holders = [Session(f"holder{i}", "raw") for i in range(2)]
    for holder in holders:
        holder.run("true\n")
    for what in (signal.SIGINT, signal.SIGTERM, None):
        run, said = begin("--width", "2", "--levels", "1")
        ok(f"{what}: it says what it waits for", says(said, "waits for a place for a sandbox: "), read(said))
        if what:
            run.send_signal(what)
        else:
            os.rmdir(f"{TOP}/{there()[0]}")
        status = run.wait(30 * SLOW)
        ok(f"{what}: it ends", status == 128 + what if what else status, status)
        same(f"{what}: and leaves nothing", there(), [])
    holders[0].remove()
    run, said = begin("--width", "6", "--levels", "3")
    ok("it takes turns", says(said, "take turns"), read(said))
    ok("in the midst of it", wait_for(lambda: len(there()) > 2, 20))
    run.send_signal(signal.SIGINT)
    same("it ends", run.wait(30 * SLOW), 128 + signal.SIGINT)
    same("and leaves nothing", there(), [])
    holders[1].remove()


main(usage, in_turns, few_sessions, no_session, ended)
