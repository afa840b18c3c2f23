# SPDX-License-Identifier: Apache-2.0
"""Many sessions that are asleep on one mount: made, listed, looked at, woken in turn, removed; kept, and there again."""
import itertools

import estate
from kept import *

MOST = 20 * 1024  # bytes of the daemon's that one may take, with what another daemon goes on from
READY_S = 3  # that ten thousand of them may take to be there again
# AddressSanitizer keeps what was freed, and knows something of all that is not.
SANITIZED = shell(f"ldd {os.environ['XSBXFS']} | grep -q asan")[0] == 0


def memory_files(pid):
    """Files in memory that it has open: their bytes, each once."""
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            path = f"/proc/{pid}/fd/{name}"
            if os.readlink(path).startswith("/memfd:"):
                st = os.stat(path)
                found[st.st_ino] = st.st_blocks * 512
    return found


class Memory:
    """Of a daemon: bytes of its own, in memory that the next daemon has as well, and of what counts there; descriptors."""

    def __init__(self, pid):
        self.own, self.shared = (kib_of(pid, what) << 10 for what in ("RssAnon", "RssShmem"))
        self.counts = estate.weight(pid)[1]
        self.fds = len(os.listdir(f"/proc/{pid}/fd"))


def check_memory(what, before, pid, count):
    """What one of so many takes. Of few of them the two MiB that are there for nothing would be most."""
    now = Memory(pid)
    own, shared, counts, fds = ((getattr(now, n) - getattr(before, n)) / count for n in ("own", "shared", "counts", "fds"))
    print(f"{what}: {own + shared:.0f} bytes of the daemon each, {shared:.0f} of them in records, of which {counts:.0f} count; "
          f"{fds:.2f} descriptors", flush=True)
    # A MiB is what malloc() keeps in reserve.
    each = own + (shared if count >= 1000 else counts) - (1 << 20) / count
    ok(f"memory of one that sleeps, {what}", count < 100 or SANITIZED or each < MOST, each)


class Clock:
    def __init__(self):
        self.at = time.monotonic()

    def tell(self, what, n):
        now = time.monotonic()
        took, self.at = now - self.at, now
        print(f"{what}: {n} in {took:.2f} s, {took * 1e6 / n:.0f} us each", flush=True)
        return took


def put_to_sleep(sessions):
    for s in sessions:
        s.ctl("sleep")
    for s in sessions:
        ok("it falls asleep", s.wait_state("asleep", 30), (s.path, s.word(), s.text("error")))


def make(names, step=50, mnt=None):
    """Each has run something of its own, and sleeps with that."""
    names = iter(names)
    all_of_them = []
    while some := [Session(n, config="idle_timeout_s = 0\n", mnt=mnt) for n in itertools.islice(names, step)]:
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
    pid = daemon_of()
    make(["first"])
    before, clock = Memory(pid), Clock()
    sessions = make((f"s{i}" for i in range(count)), step)
    clock.tell("made, used, put to sleep", count)
    check_memory("made", before, pid, count)

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
    ok("no descriptor is left", wait_for(lambda: Memory(pid).fds <= before.fds + 40, 10), (before.fds, Memory(pid).fds))


def many_kept(count, woken, name="many"):
    """They are there again at the next mount, soon, and take no more than before."""
    k = Kept(name)
    make(["first"], mnt=k.mnt)
    before, clock = Memory(daemon_of(k.mnt)), Clock()
    make((f"s{i}" for i in range(count)), mnt=k.mnt)
    clock.tell("made, used, put to sleep", count)
    check_memory("made", before, daemon_of(k.mnt), count)
    clock = Clock()
    same("it ends", k.end(), 0)
    clock.tell("unmounted", count)
    k.begin()
    took = clock.tell("ready", count)
    # A bound for what goes by their square, and not the target, which a busy host misses; make bench BENCH=kept tells.
    ok("they are there again, soon", SANITIZED or took < 5 * READY_S * slack(), took)
    same("all of them", set(os.listdir(f"{k.mnt}/raw")) >= {f"s{i}" for i in range(count)}, True)
    clock.tell("listed", count)
    sessions = [k.there(f"s{i}") for i in range(count)]
    same("all sleep", {s.word() for s in sessions}, {"asleep"})
    clock.tell("state of each", count)
    check_memory("there again", before, daemon_of(k.mnt), count)
    clock = Clock()
    chosen = sessions[::max(1, count // woken)][:woken]
    for n, s in enumerate(chosen):
        wake(s, n)
    clock.tell("woken, used, put back", len(chosen))
    same("it ends again", k.end(), 0)


def held():
    """Descriptors, memory and mappings of the daemon and its spawner; files in memory, theirs and the holder's; and records."""
    found, files = {}, {}
    for name, pid in (("daemon", daemon_of()), ("spawner", parent_of(daemon_of()))):
        found[name] = {"fds": len(os.listdir(f"/proc/{pid}/fd")), "kib": kib_of(pid, "RssAnon"),
                       "maps": len(read(f"/proc/{pid}/maps").splitlines())}
        files |= memory_files(pid)
    for pid in children_of(parent_of(daemon_of())):
        if name_of(pid) == "xsbxfs-holder":
            files |= memory_files(pid)
    n, bytes_of = estate.weight(daemon_of())
    found["files"] = {"files": len(files), "file_kib": sum(files.values()) // 1024}
    found["records"] = {"records": n, "bytes": bytes_of}
    return found


# By how much it may be more at the end: what is kept in reserve comes and goes; of the estate a MiB of each half stays.
MORE = {"fds": 12, "maps": 12, "kib": 1024, "files": 6, "file_kib": 3 << 10, "records": 8, "bytes": 8 << 10}
EXACT = ("fds", "files", "records", "bytes")


def again(times, settled):
    """A session sleeps and wakes, and nothing grows once it has settled. Until then what runs leave does, as long as the history
    is not full (`history_runs` are 20 then), and pages that a machine has touched: some nine at a time, for 110 sleeps."""
    s = Session("again", config="idle_timeout_s = 0\n")
    for _ in range(20):
        s.run("echo 0 > n\n")
    before = None
    for n in range(1, times + 1):
        s.ctl("sleep")
        ok("it sleeps", s.wait_state("asleep", 30), (s.word(), s.text("error")))
        same("it wakes with what it had", s.run("n=$(($(cat n) + 1)); echo $n > n; echo $n\n").out, f"{n}\n")
        if n == settled:
            before = held()
    print(before, held(), flush=True)
    for name, was in before.items():
        for what, had in was.items():
            ok(f"{name}: {what}", SANITIZED and what not in EXACT or wait_for(
                lambda n=name, w=what, b=had: held()[n][w] <= b + MORE[w], 10), (was, held()[name]))
