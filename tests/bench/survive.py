# SPDX-License-Identifier: Apache-2.0
"""What it costs that a daemon's death is survived: the same in two mounts, with `survive = no` and `yes`."""

import statistics

from common import *
from steady import tree_of

CONF = ("[xsbxfs]\nsurvive = {}\noutput_limit = 1G\n[limits]\nallow_process = yes\n"
        "[template raw]\nbackend = process\n")
FILE_MIB = 16
OUTPUT_MIB = 16


def spent(mount):
    """Processor time in ns of the daemon, and of the processes that it takes to survive it."""
    ns = 0
    for pid in tree_of(mount.pid):
        # What belongs to sandboxes has another name.
        if not read(f"/proc/{pid}/comm").startswith(b"xsbxfs-"):
            continue
        for task in os.listdir(f"/proc/{pid}/task"):
            ns += int(read(f"/proc/{pid}/task/{task}/schedstat").split()[0])
    return ns


class Subject:
    """A mount with a session that is up, and what is measured in it."""

    def __init__(self, mount):
        self.mount, self.serial = mount, 0
        self.path = mount.session("raw", "demo")
        run(self.path, ":")
        self.file = f"{self.path}/files/data"
        self.block = bytes(MIB)

    def a_run(self):
        write(f"{self.path}/in", ":\n")
        return read(f"{self.path}/exit_code") == b"0\n"

    def state(self):
        return read(f"{self.path}/state") == b"idle\n"

    def stat(self):
        return os.stat(f"{self.path}/in").st_mode != 0

    def session(self):
        self.serial += 1
        os.rmdir(self.mount.session("raw", f"s{self.serial}"))
        return True

    def output(self):
        write(f"{self.path}/in", f"head -c {OUTPUT_MIB * MIB} /dev/zero\n")
        with open(f"{self.path}/stdout", "rb", buffering=0) as file:
            got = 0
            while n := len(file.read(MIB)):
                got += n
        return got == OUTPUT_MIB * MIB

    def write_file(self):
        with open(self.file, "wb", buffering=0) as file:
            return sum(file.write(self.block) for _ in range(FILE_MIB)) == FILE_MIB * MIB

    def read_file(self):
        with open(self.file, "rb", buffering=0) as file:
            return sum(len(file.read(MIB)) for _ in range(FILE_MIB)) == FILE_MIB * MIB


# Of each: name, how often it is done between two looks at the clock, by what that is divided.
PARTS = (("a run", Subject.a_run, 100, 1),
         ("read of `state`", Subject.state, 1000, 1),
         ("stat", Subject.stat, 2000, 1),
         ("mkdir and rmdir of a session", Subject.session, 200, 1),
         ("a MiB of output", Subject.output, 1, OUTPUT_MIB),
         ("a MiB written below files/", Subject.write_file, 1, FILE_MIB),
         ("a MiB read below files/", Subject.read_file, 1, FILE_MIB))


def once(subject, do, n, per):
    """Return: µs of one of them; None: it did not what it should."""
    before = spent(subject.mount)
    good = all([do(subject) for _ in range(n)])
    return (spent(subject.mount) - before) / n / per / 1000 if good else None


def survive(bench):
    print("\nWhat it costs that the daemon's death is survived\n"
          "  Processor time of the daemon, its spawner and who holds its descriptors, in µs, median of rounds in which the two\n"
          "  take turns; `ratio`: median of the ratios of each round.\n")
    print(f"{'':32}{'survive = no':>14}{'yes':>10}{'ratio':>8}")
    with bench.mount(CONF.format("no")) as no, bench.mount(CONF.format("yes")) as yes:
        subjects = [Subject(mount) for mount in (no, yes)]
        for name, do, n, per in PARTS:
            rounds = []
            for _ in range(6 if bench.quick else 20):
                took = [once(subject, do, n, per) for subject in subjects]
                if None in took:
                    sys.exit(f"{name}: not what was expected")
                rounds.append(took)
            for series, times in zip([Series(f"{name}, survive = {v}", "processor time") for v in ("no", "yes")], zip(*rounds)):
                for us in times:
                    series.add(int(us * 1000))
            a, b = (statistics.median(times) for times in zip(*rounds))
            print(f"{name:32}{a:14.1f}{b:10.1f}{statistics.median(y / x for x, y in rounds):8.2f}", flush=True)
