# SPDX-License-Identifier: Apache-2.0
"""One daemon after another behind a live mount: how long those who use it wait."""

import signal
import threading

from common import *

CONF = "[xsbxfs]\nmax_sessions = {most}\nmax_deaths = 1000\nmax_vms = 64\nmemory_overcommit = 400\ncpu_overcommit = 10000\n"
PROCESS = "[limits]\nallow_process = yes\n[template raw]\nbackend = process\npool = 0\n"
MACHINE = "[template raw]\npool = 0\npool_max = 0\npool_low = 0\n"
GAP_MS = 50  # p99, as a reader sees it
DEATH_MS = 100  # likewise, of which README tells
LOOK_S = 0.2


class Reader(threading.Thread):
    """Opens, reads and closes a node, again and again. Keeps the longest time that took."""

    def __init__(self, path, good):
        super().__init__(daemon=True)
        self.path, self.good = path, good
        self.over, self.longest, self.wrong = False, 0, 0

    def run(self):
        while not self.over:
            begin = time.perf_counter_ns()
            try:
                self.wrong += read(self.path) != self.good
            except OSError:
                self.wrong += 1
            self.longest = max(self.longest, time.perf_counter_ns() - begin)
            time.sleep(0.001)


def watched(path, change):
    """Return: the longest read of `state` around this change, None if one was not right; ns."""
    reader = Reader(f"{path}/state", b"idle\n")
    reader.start()
    time.sleep(0.05)
    good = change()
    time.sleep(LOOK_S)
    reader.over = True
    reader.join()
    return None if reader.wrong or not good else reader.longest


def take_over(bench, mount):
    done = subprocess.run([bench.program, "--takeover", "-c", f"{os.path.dirname(mount.path)}/conf", mount.path],
                          env={**os.environ, "XDG_RUNTIME_DIR": f"{os.path.dirname(mount.path)}/run"},
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def die(_, mount):
    """Another one follows."""
    old = mount.server
    os.kill(old, signal.SIGKILL)

    def follows():
        try:
            return mount.server != old
        except (OSError, StopIteration):
            return False
    return mount.wait(follows, 20)


def nothing(*_):
    time.sleep(0.05)
    return True


CHANGES = (("nothing happens", nothing, None), ("--takeover", take_over, GAP_MS), ("SIGKILL", die, DEATH_MS))


def gaps(bench, mount, what, awake, others):
    """@awake: sessions with a sandbox; of @others there is the directory."""
    path = f"{mount.path}/raw/demo0"
    for i in range(awake):
        if run(mount.session("raw", f"demo{i}"), PROGRAMS["raw"]["hello"]) != b"1\n":
            print(f"({what} left out: {read(f'{mount.path}/raw/demo{i}/error').decode().strip()})")
            return
    for i in range(others):
        mount.session("raw", f"other{i}")
    for name, change, wanted in CHANGES:
        series = Series(f"{what}: {name}", "open .. close, the longest", wanted=wanted and {99: wanted})
        for _ in range(10 if bench.quick else 200 if wanted else 50):
            series.add(watched(path, lambda change=change: change(bench, mount)))
        show(series)


def heirs(bench):
    heading("One daemon after another: a new one takes over, or goes on where one was killed",
            f"The longest of the reads of `state` (open, read, close, each millisecond) around what happens and for {LOOK_S:g} s",
            "behind it. `good`: all reads were right. Sessions that are awake have run something; the others are new.")
    for what, backend, awake, others in (("1 process", PROCESS, 1, 0), ("20 processes", PROCESS, 20, 0),
                                         ("1 process of 1001", PROCESS, 1, 1000), ("4 machines", MACHINE, 4, 0)):
        with bench.mount(CONF.format(most=awake + others + 100) + backend) as mount:
            gaps(bench, mount, what, awake, others)
