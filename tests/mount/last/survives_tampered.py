#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""survive = yes: what a daemon could write that a guest has taken over does not say what the next one does with all its rights."""
# backends: local
# timeout: 60
# log-allow: the daemon died|was killed by signal
from deaths import *

BLOCK = 1 << 16


def estate_of(pid):
    """A descriptor of its estate, to write to; as root, which the daemon is not any more."""
    for name in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{name}"
        if "memfd:xsbxfs-estate" in os.readlink(path):
            return os.open(path, os.O_RDWR)
    raise RuntimeError("it has no estate")


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
    holders = [p for p in children_of(kin_of(guard.pid)[0]) if read(f"/proc/{p}/comm", "r") == "xsbxfs-holder\n"]
    same("there is one holder", len(holders), 1)
    status = read(f"/proc/{holders[0]}/status", "r").splitlines()
    ok("it has no rights", {"CapEff:\t" + 16 * "0", "NoNewPrivs:\t1", "Seccomp:\t2"} <= set(status), status)
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


if os.geteuid():
    skip("only root may look into the daemon")
main(tampered)
