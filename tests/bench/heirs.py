# SPDX-License-Identifier: Apache-2.0
"""One daemon after another behind a live mount: how long those who use it wait."""

import threading

from common import *

CONF = ("[xsbxfs]\nmax_sessions = {most}\n[limits]\nallow_process = yes\n[template raw]\nbackend = process\n")
GAP_MS = 50  # p99, as a reader sees it
LOOK_S = 0.5


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


def nothing(*_):
    time.sleep(0.05)
    return True


CHANGES = (("nothing happens", nothing, None), ("--takeover", take_over, GAP_MS))


def heirs(bench):
    heading("One daemon after another",
            f"The longest of the reads of `state` (open, read, close, each millisecond) in the {LOOK_S:g} s around what happens.",
            "`good`: all reads were right. One session has run something; the others are new.")
    for others in (0, 1000):
        with bench.mount(CONF.format(most=others + 100)) as mount:
            path = mount.session("raw", "demo")
            write(f"{path}/in", ":\n")
            read(f"{path}/exit_code")
            for i in range(others):
                mount.session("raw", f"other{i}")
            for name, change, target in CHANGES:
                series = Series(f"{others + 1} sessions: {name}", "open .. close, the longest", target)
                for _ in range(10 if bench.quick else 50):
                    series.add(watched(path, lambda change=change: change(bench, mount)))
                show(series)
