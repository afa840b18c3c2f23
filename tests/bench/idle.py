# SPDX-License-Identifier: Apache-2.0
"""What machines cost that have nothing to do, and what the next run costs, with and without `stand_still`."""

from common import *

SESSIONS = 8
CONF = ("max_vms = 64\nmemory_overcommit = 400\ncpu_overcommit = 10000\n[template {template}]\npool = 0\npool_max = 0\n"
        "pool_low = 0\n[limits]\nstand_still = {still}\n")
TARGET = 0.02  # per cent of a processor, of each
LATER_MS = 2


def busy_ns(pid):
    """Processor time of a process so far: clock_getcpuclockid(3)."""
    return time.clock_gettime_ns(~pid << 3 | 2)


def sandbox(path):
    return json.loads(read(f"{path}/status.json"))["sandbox"]


def stands(path):
    return sandbox(path)["stands_still"]


def idle_time(mount, paths, seconds):
    """Of all machines together, and of the daemon, in ns."""
    pids = [sandbox(path)["pid"] for path in paths]
    before = [sum(map(busy_ns, pids)), busy_ns(mount.pid)]
    time.sleep(seconds)
    return sum(map(busy_ns, pids)) - before[0], busy_ns(mount.pid) - before[1]


def one_run(path, template):
    begin = time.perf_counter_ns()
    write(f"{path}/in", PROGRAMS[template]["hello"] + "\n")
    good = read(f"{path}/stdout") == b"1\n" and read(f"{path}/exit_code") == b"0\n"
    return time.perf_counter_ns() - begin if good else None


def costs(mount, template, paths, how, seconds):
    machines, daemon = idle_time(mount, paths, seconds)
    percent = machines / SESSIONS / seconds / 1e7
    print(f"{template}, {how}: {SESSIONS} machines in {seconds} s: {machines / 1e6:.1f} ms of processor, "
          f"{percent:.4f} % each (wanted: {TARGET} %); the daemon {daemon / 1e6:.1f} ms", flush=True)
    extra.setdefault("idle", {})[f"{template} {how}"] = {"machines_ms": machines / 1e6, "daemon_ms": daemon / 1e6,
                                                          "seconds": seconds, "sessions": SESSIONS}


def both(bench, template):
    seconds, n = (5, 10) if bench.quick else (20, 60)
    series = {}
    with bench.mount(CONF.format(template=template, still="yes")) as still, \
            bench.mount(CONF.format(template=template, still="no")) as awake:
        rows = (("stands still", still), ("goes on", awake))
        paths = {how: [mount.session(template, f"idle{i}") for i in range(SESSIONS)] for how, mount in rows}
        for how, mount in rows:
            for path in paths[how]:
                run(path, PROGRAMS[template]["hello"])
        if not all([still.wait(lambda path=path: stands(path), 60) for path in paths["stands still"]]):
            print(f"{template}: {sum(map(stands, paths['stands still']))} of {SESSIONS} stand still")
        for how, mount in rows:
            costs(mount, template, paths[how], how, seconds)
        for how, pause_s in (("stands still", 1.5), ("goes on", 1.5), ("within 0.1 s", 0.1)):
            series[how] = Series(f"{template}: next run, {how}", "write(in) .. end of read(exit_code)")
        # In turn, so that a busy moment hits all. The sessions take turns, too: each rests meanwhile.
        for i in range(n):
            time.sleep(1.5 / SESSIONS if i >= SESSIONS else 0.2)
            path = paths["stands still"][i % SESSIONS]
            still.wait(lambda path=path: stands(path), 5)
            series["stands still"].add(one_run(path, template))
            series["goes on"].add(one_run(paths["goes on"][i % SESSIONS], template))
            time.sleep(0.1)
            series["within 0.1 s"].add(one_run(path, template))
        for one in series.values():
            show(one)
        later = (series["stands still"].percentile(50) - series["goes on"].percentile(50)) / 1e6
        print(f"{'':44} {later:+9.2f} ms at p50 (wanted: {LATER_MS} at most)")


def idle(bench):
    heading("Machines with nothing to do, and the next run of one",
            f"Processor time: clock_getcpuclockid(3) of {SESSIONS} QEMUs and of the daemon, at both ends of the time.",
            "Clock: from before open(in) until stdout and exit_code have been read to their ends, of a machine that stands",
            "still, of one that must not, and of the first 0.1 s later. `good`: printed what it should, status 0.")
    for template in bench.templates:
        both(bench, template)
