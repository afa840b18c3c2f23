#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""survive = yes: what a daemon could write that a guest has taken over does not say what the next one does with all its rights;
and what of it can't be read costs whoever it is of."""
# backends: local
# timeout: 90
# log-allow: the daemon died|was killed by signal|can't be read|open files are lost
from deaths import *
from estate import HEAD, KEEP_RUN, KEEP_SESSION, estate_of, memory_of, records

BLOCK = 1 << 16


def goes_by(guard):
    """What the next daemon of this mount would go by."""
    fd = memory_of(kin_of(guard)[0], "conf", os.O_RDONLY)
    with os.fdopen(fd, "rb") as f:
        f.seek(0)
        return f.read().decode(errors="replace")


def blocks(fd, size):
    """Where there is something of it, in steps."""
    at, end = 0, os.fstat(fd).st_size
    while at < end:
        try:
            at = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:
            return
        yield at
        at += size


def replace(fd, old, new):
    """In all that there is of it."""
    for at in blocks(fd, BLOCK):
        block = os.pread(fd, BLOCK + len(old), at)
        found = block.find(old)
        while 0 <= found:
            os.pwrite(fd, new, at + found)
            found = block.find(old, found + 1)


def spoil_all(fd):
    """Each page that there is."""
    for at in blocks(fd, 4096):
        os.pwrite(fd, b"\xff" * 4096, at)


def spoil(pid, which):
    """Overwrite the beginning of the first record of a kind, of each session by its name."""
    os.kill(pid, signal.SIGSTOP)
    fd = estate_of(pid)
    found = records(fd)
    names = {}
    for (kind, key, sub), (at, length) in found.items():
        if (kind, sub) == (KEEP_SESSION, HEAD):
            text = os.pread(fd, length, at)
            names[text[5:5 + text[1]].decode()] = key  # its first field
    for name, kind in which.items():
        at, length = next(where for (k, key, _), where in found.items() if (k, key) == (kind, names[name]))
        os.pwrite(fd, b"\xff" * min(length, 8), at)
    os.close(fd)


def is_there(pid):
    return os.path.exists(f"/proc/{pid}")


def damaged():
    """A record of a session, and the head of another one, can't be read: those two are lost, with words, and nobody else."""
    mnt, conf, log = f"{SCRATCH}/damaged", f"{SCRATCH}/damaged.conf", f"{SCRATCH}/damaged.log"
    os.makedirs(mnt, exist_ok=True)
    write(conf, "survive = yes\n" + read(os.environ["CONF"], "r"))
    guard = start_daemon(mnt, log=log, conf=conf)
    mortal = Mortal(guard.pid)
    pids = {}
    for name in ("bad", "nameless", "good"):
        good = Session(name, mnt=mnt)
        same(f"{name}: a run", good.run(f"A={name}; echo $A").out, f"{name}\n")
        pids[name] = good.pid()
    its, mine, gone = (os.open(f"{mnt}/raw/{name}/stdout", os.O_RDONLY) for name in ("good", "bad", "nameless"))
    ok("each has a process", all(map(is_there, pids.values())), pids)
    spoil(mortal.now(), {"bad": KEEP_RUN, "nameless": KEEP_SESSION})
    mortal.die()
    same("the neighbour goes on", good.run("echo still $A").out, "still good\n")
    same("so does what is open of it", os.pread(its, 100, 0), b"good\n")
    same("one is failed", read(f"{mnt}/raw/bad/state", "r"), "failed\n")
    has("with words", read(f"{mnt}/raw/bad/error", "r"), "one of its runs is damaged")
    with raises("what is open of it is lost", errno.EIO):
        os.pread(mine, 100, 0)
    with raises("it takes no program", errno.ESTALE):
        write(f"{mnt}/raw/bad/in", "echo x")
    ok("the other one is gone", "nameless" not in os.listdir(f"{mnt}/raw"))
    with raises("and what is open of it", errno.EIO):
        os.pread(gone, 100, 0)
    fd = os.open(f"{mnt}/events", os.O_RDONLY | os.O_NONBLOCK)
    events = os.read(fd, 1 << 16).decode()
    os.close(fd)
    has("that is told", events, "the daemon died, and what it left of one of its runs can't be read")
    has("of both", events, "is gone: the daemon died, and what it left of it can't be read")
    ok("their processes are", wait_for(lambda: not is_there(pids["bad"]) and not is_there(pids["nameless"]), 10))
    ok("but not the neighbour's", is_there(pids["good"]))
    os.rmdir(f"{mnt}/raw/bad")
    again = Session("bad", mnt=mnt)
    same("there is one of that name again", again.run("echo new $A").out, "new\n")
    mortal.die()
    same("the next death costs nothing", good.run("echo again $A").out, "again good\n")
    same("nor of the new one", again.run("echo it").out, "it\n")
    for fd in (its, mine, gone):
        os.close(fd)
    guard.terminate()
    ok("and ends", wait_for(lambda: guard.poll() is not None, 30))


def tampered():
    mnt, conf = f"{SCRATCH}/tampered", f"{SCRATCH}/tampered.conf"
    good, evil = f"{SCRATCH}/state-good", f"{SCRATCH}/state-evil"
    os.makedirs(mnt, exist_ok=True)
    write(conf, f"survive = yes\nkeep = yes\nstate_dir = {good}\n" + read(os.environ["CONF"], "r"))
    guard = start_daemon(mnt, log=f"{SCRATCH}/tampered.log", conf=conf)
    mortal = Mortal(guard.pid)
    os.mkdir(f"{mnt}/raw/living")
    holders = [p for p in children_of(kin_of(guard.pid)[0]) if name_of(p) == "xsbxfs-holder"]
    same("there is one holder", len(holders), 1)
    status = read(f"/proc/{holders[0]}/status", "r").splitlines()
    # AddressSanitizer does at its end what the filter forbids: a holder built with it has none, see vm/spawn/holder.c.
    filtered = "libasan" not in read(f"/proc/{holders[0]}/maps", "r")
    rights = {"CapEff:\t" + 16 * "0", "NoNewPrivs:\t1", f"Seccomp:\t{2 if filtered else 0}"}
    ok("it has no rights", rights <= set(status), status)
    estate = estate_of(mortal.now())
    mark = b"written by somebody else"
    os.pwrite(estate, mark, 2048)  # behind its head
    replace(estate, f"state_dir = {good}".encode(), f"state_dir = {evil}".encode())
    mortal.die()
    has("another one serves", " ".join(os.listdir(f"{mnt}/raw")), "living")
    its = estate_of(mortal.now())
    same("what it goes on with is its own", os.pread(its, len(mark), 2048), bytes(len(mark)))
    os.close(its)
    spoil_all(estate)  # who has it still can write there, and nobody reads it any more
    os.close(estate)
    same("it goes on", read(f"{mnt}/raw/living/state", "r"), "new\n")
    mortal.die()
    has("and another one serves", " ".join(os.listdir(f"{mnt}/raw")), "living")
    ok("its directory is the one that was said at the start", os.path.isdir(good) and not os.path.exists(evil))
    guard.terminate()
    ok("and ends", wait_for(lambda: guard.poll() is not None, 30))


def taken_over():
    """Who has taken the mount over has read his own."""
    mnt, conf = f"{SCRATCH}/taken", f"{SCRATCH}/taken.conf"
    os.makedirs(mnt, exist_ok=True)
    text = "survive = yes\n" + read(os.environ["CONF"], "r")
    write(conf, text + "# the first\n")
    guard = start_daemon(mnt, log=f"{SCRATCH}/taken.log", conf=conf)
    mortal = Mortal(guard.pid)
    os.mkdir(f"{mnt}/raw/living")
    has("as it was read", goes_by(guard.pid), "# the first")
    write(conf, text + "# the second\n")
    mortal.die()
    has("it is not read again", goes_by(guard.pid), "# the first")
    before = mortal.now()
    done = subprocess.run([os.environ["XSBXFS"], "--takeover", "-c", conf, mnt], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=120 * SLOW, check=False)
    same("it is taken over", done.returncode, 0)
    ok("by another one", mortal.now(before) != before, done.stderr)
    has("which has read it", goes_by(guard.pid), "# the second")
    has("it serves", " ".join(os.listdir(f"{mnt}/raw")), "living")  # from then on it may die
    mortal.die()
    has("and another one serves", " ".join(os.listdir(f"{mnt}/raw")), "living")
    guard.terminate()
    ok("and ends", wait_for(lambda: guard.poll() is not None, 30))


if os.geteuid():
    skip("only root may look into the daemon")
main(tampered, damaged, taken_over)
