# SPDX-License-Identifier: Apache-2.0
"""What the parts of the benchmark share: series of times, how they are shown, mounts."""

import contextlib
import json
import os
import platform
import select
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.path.join(ROOT, os.environ.get("BUILD", "build")))
CLOCK = f"{BUILD}/bench/clock"
MIB = 1 << 20

# At the end of a mount; with `keep` all that is not on the disk yet is written then.
END_S = 120

# The daemon for tests, whose sandboxes are processes of this host.
LOCAL = f"{BUILD}/test/xsbxfs"
LOCAL_ENV = {"XSBX_AGENT": f"{BUILD}/xsbx-agent", "XSBX_DRIVERS": f"{BUILD}/drivers",
             "XDG_CACHE_HOME": tempfile.gettempdir()}

PROGRAMS = {
    "python": {"hello": "print(1)", "empty": "pass", "output": "print('x' * {n}, end='')",
               "data": "data = [str(i * 7919 % 1000003) for i in range(400000)]",
               "modules": "import json, re, hashlib\n"
                          "text = json.dumps({'a': [1, 2.5, None], 'b': 'x' * 100})\n"
                          "found = re.findall(r'[0-9.]+', text)\n"
                          "print(hashlib.sha256(text.encode()).hexdigest()[:8], found)"},
    "javascript": {"hello": "console.log(1)", "empty": ";",
                   "data": "var data = Array.from({length: 400000}, (_, i) => String(i * 7919 % 1000003)); 0",
                   "output": "process.stdout.write('x'.repeat({n}))"},
    "raw": {"hello": "echo 1", "empty": ":", "output": "head -c {n} /dev/zero",
            "data": "data=$(seq 3000000)"},
}

raw = []
extra = {}


class Series:
    """Times of one thing. The target is what the design wants to reach at p50, `wanted` what at other percentiles; neither is
    what must be."""

    def __init__(self, name, clock, target=None, wanted=None):
        self.name, self.clock, self.target, self.wanted = name, clock, target, wanted or {}
        self.times, self.failed = [], 0
        raw.append(self)

    def add(self, nanoseconds):
        if nanoseconds is None:
            self.failed += 1
        else:
            self.times.append(nanoseconds)

    def percentile(self, p):
        times = sorted(self.times)
        return times[min(len(times) - 1, int(len(times) * p / 100))] if times else float("nan")

    @property
    def tried(self):
        return len(self.times) + self.failed

    def line(self, unit, scale):
        p50, p95, p99 = (self.percentile(p) / scale for p in (50, 95, 99))
        rate = 100 * len(self.times) / self.tried if self.tried else 0
        target = f"{self.target:g}" if self.target is not None else ""
        return (f"{self.name:44} {p50:9.2f} {p95:9.2f} {p99:9.2f} {unit:3}"
                f" {self.tried:6} {rate:5.0f} % {target:>7}").rstrip()


class Names(dict):
    """Series by the name that the C program gives them, made when they are met first."""

    def __init__(self, make):
        super().__init__()
        self.make = make

    def __missing__(self, name):
        self[name] = self.make(name)
        return self[name]


def heading(title, *notes):
    print(f"\n{title}")
    for note in notes:
        print(f"  {note}")
    print(f"{'':44} {'p50':>9} {'p95':>9} {'p99':>9} {'':3} {'n':>6} {'good':>7} {'target':>7}",
          flush=True)


def verdict(good):
    return "met" if good else "MISSED"


def show(series, unit="ms", scale=1e6):
    print(series.line(unit, scale), flush=True)
    for p, most in series.wanted.items():
        # Of fewer there is nothing beyond that percentile but the longest.
        few = "" if len(series.times) >= 100 / (100 - p) * 2 else ", of too few"
        print(f"{'':44} p{p}: wanted {most:g} {unit}: {verdict(series.percentile(p) / scale <= most)}{few}", flush=True)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def clock(names, *args, program=CLOCK):
    """Run a C program; add what its lines say to the series of that name."""
    done = subprocess.run([program, *map(str, args)], stdout=subprocess.PIPE, text=True, check=True)
    for line in done.stdout.splitlines():
        name, value = line.split()
        names[name].add(None if value == "fail" else int(value))


class Mount:
    """A daemon of our own, on a directory of our own."""

    def __init__(self, path, pid, took):
        self.path, self.pid = path, pid
        self.took = took  # ns, from the start of the program until it said that it serves

    @property
    def server(self):
        """The daemon itself; `pid` is the process that was started, its guard."""
        [spawner] = children(self.pid)
        return next(p for p in children(spawner) if read(f"/proc/{p}/comm").strip() == b"xsbxfs-daemon")

    def status(self):
        return json.loads(read(f"{self.path}/status.json"))

    @property
    def accelerator(self):
        return self.status().get("accelerator")

    def session(self, template, name):
        path = f"{self.path}/{template}/{name}"
        os.mkdir(path)
        return path

    def wait(self, condition, seconds=120):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True

    def wait_probed(self):
        """Until it is known how machines run."""
        return self.wait(lambda: self.accelerator != "probing", 20)

    def snapshot(self, template):
        """What status.json says of the snapshot that sessions without a config begin from."""
        found = [s for s in self.status().get("snapshots", []) if s["image"] == template]
        return found[0] if found else {"state": "none", "pool": {"ready": 0}}

    def wait_snapshot(self, template):
        return self.wait(lambda: self.snapshot(template)["state"] == "ready")

    def wait_pool(self, template, n=1):
        return self.wait(lambda: self.snapshot(template)["pool"]["ready"] >= n)


@contextlib.contextmanager
def mounted(program, conf="", **env):
    base = tempfile.mkdtemp(prefix="xsbx-bench.")
    mnt, fifo = f"{base}/mnt", f"{base}/ready"
    os.mkdir(mnt)
    os.mkdir(f"{base}/run", 0o700)
    os.mkfifo(fifo)
    # Opened before the daemon starts, which only writes if there is a reader.
    ready = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    write(f"{base}/conf", conf)
    begin = time.perf_counter_ns()
    with open(f"{base}/log", "wb") as log:
        daemon = subprocess.Popen(
            [program, "-f", "-c", f"{base}/conf", "-o", f"notify={fifo},prepare=no", mnt],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={**os.environ, "XDG_RUNTIME_DIR": f"{base}/run", **env})
    poll = select.poll()
    poll.register(ready, select.POLLIN)
    while not poll.poll(100) and daemon.poll() is None:
        pass
    took = time.perf_counter_ns() - begin
    started = daemon.poll() is None and os.read(ready, 1)
    os.close(ready)
    if not started:
        daemon.kill()
        sys.exit(f"{program} did not start:\n{read(f'{base}/log').decode()}")
    try:
        yield Mount(mnt, daemon.pid, took)
    finally:
        if daemon.poll() is None:
            subprocess.run(["fusermount3", "-u", mnt], check=False)
        try:
            daemon.wait(END_S)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
        # Of a guard that was killed the spawner takes the mount away.
        for _ in range(500):
            shutil.rmtree(base, ignore_errors=True)
            if not os.path.exists(base):
                break
            time.sleep(0.01)


class Bench:
    """What is asked for, and what there is."""

    def __init__(self, quick, local):
        self.quick, self.local = quick, local
        self.program = LOCAL if local else f"{BUILD}/xsbxfs"
        self.env = LOCAL_ENV if local else {}
        self.accelerator, self.templates = None, []

    def mount(self, conf="", **env):
        return mounted(self.program, conf, **self.env, **env)

    def target(self, tcg, kvm):
        """The figure for p50, in the unit that is shown."""
        return kvm if self.accelerator == "kvm" else tcg

    def look(self):
        """Which templates work here, and on what; pages of images are in memory then."""
        with self.mount() as mount:
            mount.wait_probed()
            info = mount.status()
            self.accelerator = info.get("accelerator")
            print(f"xsbxfs {info.get('version')}, accelerator {self.accelerator}, "
                  f"QEMU {info.get('qemu')}, Linux {platform.release()}, {os.cpu_count()} CPUs")
            for template in PROGRAMS:
                path = mount.session(template, "probe")
                if run(path, PROGRAMS[template]["hello"]) == b"1\n":
                    self.templates.append(template)
                else:
                    print(f"({template} left out: {read(f'{path}/error').decode().strip()})")
                os.rmdir(path)


@contextlib.contextmanager
def empty_cache():
    """A cache directory with our images and without a snapshot."""
    ours = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    with tempfile.TemporaryDirectory(prefix="xsbx-bench.") as cache:
        os.symlink(f"{ours}/xsbxfs/images", f"{cache}/images")
        yield cache


def run(path, code):
    write(f"{path}/in", code + "\n")
    return read(f"{path}/stdout")


@contextlib.contextmanager
def program_file(template, which, **values):
    """A file with a program of PROGRAMS."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(PROGRAMS[template][which].format(**values) if values
                   else PROGRAMS[template][which])
        file.write("\n")
        file.flush()
        yield file.name


def children(pid):
    return [int(p) for p in read(f"/proc/{pid}/task/{pid}/children").split()]


def memory_of(pid):
    """Bytes of a daemon: its own, and in memory that the next one has as well."""
    status = dict(line.split(":", 1) for line in read(f"/proc/{pid}/status").decode().splitlines())
    return sum(int(status[what].split()[0]) * 1024 for what in ("RssAnon", "RssShmem"))


def bytes_below(path):
    """What all files below it take of their disk; of a file that has several names once."""
    files = [os.lstat(os.path.join(at, name)) for at, _, names in os.walk(path) for name in names]
    return sum({st.st_ino: st.st_blocks * 512 for st in files}.values())


def gone(pid):
    return not pid or not os.path.exists(f"/proc/{pid}")


def keep():
    """Single times, for whoever wants other percentiles."""
    os.makedirs(f"{BUILD}/bench", exist_ok=True)
    with open(f"{BUILD}/bench/raw.json", "w") as file:
        json.dump({
            "host": {"kernel": platform.release(), "machine": platform.machine(),
                     "cpus": os.cpu_count(), "time": time.time()},
            **extra,
            "series": [{"name": s.name, "clock": s.clock, "failed": s.failed, "target": s.target,
                        "ns": s.times} for s in raw]}, file)
    print(f"\nSingle times: {BUILD}/bench/raw.json")
