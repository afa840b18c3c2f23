#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""keep = yes: everything is killed at drawn moments while it is written, again and again, in the same state directory: what was said
to be whole is, and no session is damaged. What a disk may lose of it is in test_store_cut and test_vault_cut."""
# backends: local process
# night: process
# timeout: 180
import glob
import random

from kept import *

ROUNDS = 5 if VM else 8
SEED = int(os.environ.get("XSBX_SEED") or random.randrange(1 << 32))
draw = random.Random(SEED)


def runs(s, stop):
    """One after the other, with long outputs, until there is nobody who runs them."""
    with contextlib.suppress(OSError):
        while not stop.is_set():
            s.run("seq 20000\n")


def cuts():
    print(f"XSBX_SEED={SEED}", flush=True)
    k = Kept("cuts")
    s = k.make("s")
    for n in range(ROUNDS):
        same(f"{n}: a run", s.run(f"echo {n} > f\n").code, 0)
        os.mkdir(s / f"checkpoints/c{n}")
        same(f"{n}: a checkpoint", read(s / f"checkpoints/c{n}/wait"), b"whole\n")
        sure, stop = s.runs()[-1], threading.Event()
        writer = threading.Thread(target=runs, args=(s, stop), daemon=True)
        writer.start()
        time.sleep(draw.random() * 2.5)
        k.power_cut()
        stop.set()
        writer.join(SOON)
        # Which is in memory, and is gone with the power: also what the last mount was removing of the one before.
        for path in glob.glob(f"{os.environ['XDG_RUNTIME_DIR']}/xsbxfs/*{k.mnt.rpartition('/')[2]}*"):
            shutil.rmtree(path)
        k.begin()
        s = k.there("s")
        # It is what it was when it was put to sleep, or went back, if that was ever; or it is closed.
        same(f"{n}: it is there", (s.word(), "damaged" in s.text("error")), ("asleep" if n else "closed", False))
        ok(f"{n}: with what was said to be", s.runs()[-1] >= sure, (sure, s.runs()))  # old ones go
        for run in s.runs():
            if run > sure and s.state_of(run) == "done":
                same(f"{n}: run {run} has all of its output", read(s / f"runs/{run}/stdout"), LINES)
        s.ctl(f"restore c{n}")
        same(f"{n}: it goes back", s.run("cat f\n").out, f"{n}\n")
        os.rmdir(s / f"checkpoints/c{n}")
    same("it ends", k.end(), 0)


LINES = "".join(f"{i}\n" for i in range(1, 20001)).encode()
main(cuts)
