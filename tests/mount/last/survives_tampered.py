#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""survive = yes: what a daemon could write that a guest has taken over does not say what the next one does with all its rights."""
# backends: local
# timeout: 60
# log-allow: the daemon died|was killed by signal
from deaths import *

BLOCK = 1 << 16


def memory_of(pid, what, flags):
    """A descriptor of what this process has in memory under this name; as root, which the daemon is not any more."""
    for name in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{name}"
        if f"memfd:xsbxfs-{what} " in os.readlink(path):
            return os.open(path, flags)
    raise RuntimeError(f"it has no {what}")


def estate_of(pid):
    """To be written to."""
    return memory_of(pid, "estate", os.O_RDWR)


def goes_by(guard):
    """What the next daemon of this mount would go by."""
    fd = memory_of(kin_of(guard)[0], "conf", os.O_RDONLY)
    with os.fdopen(fd, "rb") as f:
        f.seek(0)
        return f.read().decode(errors="replace")


def replace(fd, old, new):
    """In all that there is of it."""
    at, end = 0, os.fstat(fd).st_size
    while at < end:
        try:
            at = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:
            return
        block = os.pread(fd, BLOCK + len(old), at)
        found = block.find(old)
        while 0 <= found:
            os.pwrite(fd, new, at + found)
            found = block.find(old, found + 1)
        at += BLOCK


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
    os.close(estate)
    mortal.die()
    has("another one serves", " ".join(os.listdir(f"{mnt}/raw")), "living")
    estate = estate_of(mortal.now())
    same("it goes on with what was written to", os.pread(estate, len(mark), 2048), mark)
    os.close(estate)
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
main(tampered, taken_over)
