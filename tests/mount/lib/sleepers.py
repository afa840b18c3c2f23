# SPDX-License-Identifier: Apache-2.0
"""Many sessions that are asleep on one mount: made, listed, looked at, woken in turn, removed."""
import itertools

from xsbx import *

MOST = 20 * 1024  # bytes of the daemon's that one may take
# AddressSanitizer keeps what was freed, and knows something of all that is not.
SANITIZED = shell(f"ldd {os.environ['XSBXFS']} | grep -q asan")[0] == 0


def daemon():
    """The one that serves this mount."""
    [pid] = [int(p) for p in os.listdir("/proc") if p.isdigit() and name_of(p) == "xsbxfs-daemon"
             and MNT.encode() in read(f"/proc/{p}/cmdline") and name_of(parent_of(p)) == "xsbxfs-spawner"]
    return pid


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
    ok("memory of one that sleeps", count < 100 or SANITIZED or each < MOST, each)

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


def held():
    """Descriptors, memory and mappings of the daemon and its spawner."""
    found = {}
    for name, pid in (("daemon", daemon()), ("spawner", parent_of(daemon()))):
        status = dict(line.split(":", 1) for line in read(f"/proc/{pid}/status", "r").splitlines())
        found[name] = {"fds": len(os.listdir(f"/proc/{pid}/fd")), "kib": int(status["RssAnon"].split()[0]),
                       "maps": len(read(f"/proc/{pid}/maps").splitlines())}
    return found


def again(times):
    """A session sleeps and wakes, and nothing grows."""
    s = Session("again", config="idle_timeout_s = 0\n")
    s.run("echo 0 > n\n")
    before = None
    for n in range(1, times + 1):
        s.ctl("sleep")
        ok("it sleeps", s.wait_state("asleep", 30), (s.word(), s.text("error")))
        same("it wakes with what it had", s.run("n=$(($(cat n) + 1)); echo $n > n; echo $n\n").out, f"{n}\n")
        if n == times // 4:
            before = held()
    print(before, held(), flush=True)
    # What is kept in reserve comes and goes.
    for name, was in before.items():
        for what, more in (("fds", 12), ("maps", 12), ("kib", 1024)):
            ok(f"{name}: {what}", SANITIZED and what != "fds" or wait_for(
                lambda n=name, w=what, m=more, b=was: held()[n][w] <= b[w] + m, 10), (was, held()[name]))
