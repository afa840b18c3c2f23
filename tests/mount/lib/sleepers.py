# SPDX-License-Identifier: Apache-2.0
"""Many sessions that are asleep on one mount: made, listed, looked at, woken in turn, removed."""
import itertools

from xsbx import *

MOST = 20 * 1024  # bytes of the daemon's that one may take


def daemon():
    """The one that serves this mount."""
    found = [int(p) for p in os.listdir("/proc") if p.isdigit() and serves(p)]
    [pid] = found
    return pid


def serves(pid):
    try:
        return read(f"/proc/{pid}/comm") == b"xsbxfs-daemon\n" and MNT.encode() in read(f"/proc/{pid}/cmdline")
    except OSError:
        return False


def memory(pid):
    """Bytes of its own, and descriptors."""
    [line] = [n for n in read(f"/proc/{pid}/status", "r").splitlines() if n.startswith("RssAnon:")]
    return int(line.split()[1]) * 1024, len(os.listdir(f"/proc/{pid}/fd"))


class Clock:
    def __init__(self):
        self.at = time.monotonic()

    def tell(self, what, n):
        now = time.monotonic()
        print(f"{what}: {n} in {now - self.at:.2f} s, {(now - self.at) * 1e6 / n:.0f} us each", flush=True)
        self.at = now


def put_to_sleep(sessions):
    for s in sessions:
        s.ctl("sleep")
    for s in sessions:
        ok("it falls asleep", s.wait_state("asleep", 30), (s.path, s.word(), s.text("error")))


def make(names, step=50):
    """Each has run something of its own, and sleeps with that."""
    names = iter(names)
    all_of_them = []
    while some := [Session(n, config="idle_timeout_s = 0\n") for n in itertools.islice(names, step)]:
        for s in some:
            s.submit(f"echo {os.path.basename(s.path)} > own\n")
        for s in some:
            same("it ran", s.result().code, 0)
        put_to_sleep(some)
        all_of_them += some
    return all_of_them


def wake(s, step):
    name = os.path.basename(s.path)
    same("it has what it had", s.run(f"cat own; echo {step} >> own\n").out.splitlines()[0], name)
    put_to_sleep([s])
    same("... and what was added", read(s / "files/own"), f"{name}\n{step}\n".encode())


def many(count, woken, step=50):
    pid = daemon()
    make(["first"])
    before, clock = memory(pid), Clock()
    sessions = make((f"s{i}" for i in range(count)), step)
    clock.tell("made, used, put to sleep", count)
    after = memory(pid)
    each = (after[0] - before[0]) / count
    print(f"{each:.0f} bytes of the daemon each, {(after[1] - before[1]) / count:.2f} descriptors", flush=True)
    ok("memory of one that sleeps", count < 100 or each < MOST, each)

    clock = Clock()
    names = os.listdir(f"{MNT}/raw")
    clock.tell("listed", count)
    same("all are there", set(names) >= {f"s{i}" for i in range(count)}, True)
    same("ls -l", shell(f"ls -l {MNT}/raw | grep -c '^d.* s[0-9]*$'")[1], f"{count}\n".encode())
    clock.tell("ls -l", count)
    same("all sleep", {s.word() for s in sessions}, {"asleep"})
    clock.tell("state of each", count)
    same("nobody is a copy of anybody", {len(s.json()["children"]) for s in sessions}, {0})
    clock.tell("status.json of each", count)

    chosen = sessions[::max(1, count // woken)][:woken]
    for n, s in enumerate(chosen):
        wake(s, n)
    clock.tell("woken, used, put back", len(chosen))
    for s in sessions:
        s.remove()
    clock.tell("removed", count)
    same("they are gone", [n for n in os.listdir(f"{MNT}/raw") if n.startswith("s")], [])
    # Some are those of sandboxes that are kept in reserve.
    ok("no descriptor is left", wait_for(lambda: memory(pid)[1] <= before[1] + 40, 10), (before, memory(pid)))
