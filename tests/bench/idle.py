# SPDX-License-Identifier: Apache-2.0
"""What machines cost that have nothing to do, and what the next run costs, with and without `stand_still`: those of
sessions, and clones of the pool."""

from common import *

SESSIONS, CLONES = 8, 4
CONF = ("max_vms = 64\nmemory_overcommit = 400\ncpu_overcommit = 10000\n[template {template}]\npool = {pool}\n"
        "pool_max = {pool}\npool_low = {pool}\n[limits]\nstand_still = {still}\n")
TARGET = 0.02  # per cent of a processor, of each
LATER_MS = 2
PATIENCE_S = 10  # what does not stand still by then does not count as what does


def busy_ns(pid):
    """Processor time of a process so far: clock_getcpuclockid(3)."""
    return time.clock_gettime_ns(~pid << 3 | 2)


def sandbox(path):
    return json.loads(read(f"{path}/status.json"))["sandbox"]


def stands(path):
    return sandbox(path)["stands_still"]


def machines_of(mount):
    """Processes of all machines, also of those that are nobody's."""
    [spawner] = children(mount.pid)
    return [p for p in children(spawner) if read(f"/proc/{p}/comm").startswith(b"qemu")]


def idle_time(mount, pids, seconds):
    """Of all machines together, and of the daemon, in ns."""
    before = [sum(map(busy_ns, pids)), busy_ns(mount.server)]
    time.sleep(seconds)
    return sum(map(busy_ns, pids)) - before[0], busy_ns(mount.server) - before[1]


def costs(mount, name, pids, how, seconds):
    machines, daemon = idle_time(mount, pids, seconds)
    percent = machines / len(pids) / seconds / 1e7
    wanted = f" (wanted: {TARGET} %: {verdict(percent < TARGET)})" if how == "stands still" else ""
    print(f"{name}, {how}: {len(pids)} machines in {seconds} s: {machines / 1e6:.1f} ms of processor, "
          f"{percent:.4f} % each{wanted}; the daemon {daemon / 1e6:.1f} ms", flush=True)
    extra.setdefault("idle", {})[f"{name} {how}"] = {"machines_ms": machines / 1e6, "daemon_ms": daemon / 1e6,
                                                     "seconds": seconds, "machines": len(pids)}


def later(still, awake):
    """By how much the one is behind the other: at the middle, and where it hurts."""
    parts = []
    for p in (50, 95):
        ms = (still.percentile(p) - awake.percentile(p)) / 1e6
        wanted = f" (wanted: {LATER_MS} at most: {verdict(ms <= LATER_MS)})" if p == 50 else ""
        parts.append(f"{ms:+.2f} ms at p{p}{wanted}")
    print(f"{'':44} {', '.join(parts)}", flush=True)


def one_run(path, template):
    begin = time.perf_counter_ns()
    write(f"{path}/in", PROGRAMS[template]["hello"] + "\n")
    good = read(f"{path}/stdout") == b"1\n" and read(f"{path}/exit_code") == b"0\n"
    return time.perf_counter_ns() - begin if good else None


def sessions(bench, template, still, awake):
    seconds, n = (5, 10) if bench.quick else (20, 60)
    rows = (("stands still", still), ("goes on", awake))
    paths = {how: [mount.session(template, f"idle{i}") for i in range(SESSIONS)] for how, mount in rows}
    for how, mount in rows:
        for path in paths[how]:
            run(path, PROGRAMS[template]["hello"])
    if not all([still.wait(lambda path=path: stands(path), 60) for path in paths["stands still"]]):
        print(f"{template}: only {sum(map(stands, paths['stands still']))} of {SESSIONS} stand still")
    for how, mount in rows:
        costs(mount, template, [sandbox(path)["pid"] for path in paths[how]], how, seconds)
    series = {how: Series(f"{template}: next run, {how}", "write(in) .. end of read(exit_code)")
              for how in ("stands still", "goes on", "within 0.1 s")}
    # In turn, so that a busy moment hits all. The sessions take turns, too: each rests meanwhile.
    for i in range(n):
        time.sleep(1.5 / SESSIONS if i >= SESSIONS else 0.2)
        path = paths["stands still"][i % SESSIONS]
        rests = still.wait(lambda path=path: stands(path), PATIENCE_S)
        took = one_run(path, template)
        series["stands still"].add(took if rests else None)
        series["goes on"].add(one_run(paths["goes on"][i % SESSIONS], template))
        time.sleep(0.1)
        series["within 0.1 s"].add(one_run(path, template))
    for one in series.values():
        show(one)
    later(series["stands still"], series["goes on"])


def rest(mount, template, least):
    """Are so many clones there, and do all stand still? Nothing else is on the mount; one that stands by has not begun."""
    def good():
        return least <= mount.snapshot(template)["pool"]["ready"] <= mount.status()["still"]
    return mount.wait(good, PATIENCE_S)


def first_run(mount, template, name):
    """Of a session that gets a clone of the pool."""
    path = mount.session(template, name)
    took = one_run(path, template)
    warm = sandbox(path)["start"] == "warm"
    os.rmdir(path)
    return took if warm else None


def clones(bench, template, still, awake):
    seconds, n = (5, 5) if bench.quick else (20, 30)
    name = f"{template}: clones"
    for mount in (still, awake):
        run(mount.session(template, "first"), PROGRAMS[template]["hello"])
        os.rmdir(f"{mount.path}/{template}/first")
        if not mount.wait_pool(template, CLONES):
            print(f"{name}: not there: {mount.snapshot(template)}")
            return
    if not rest(still, template, CLONES):
        print(f"{name}: only {still.status()['still']} of {still.snapshot(template)['pool']['ready']} stand still")
    for how, mount in (("stands still", still), ("goes on", awake)):
        costs(mount, name, machines_of(mount), how, seconds)
    series = {how: Series(f"{name}: first run, {how}", "write(in) .. end of read(exit_code), of a session just made")
              for how in ("stands still", "goes on")}
    for i in range(n):
        rests = rest(still, template, 1) and awake.wait_pool(template, 1)
        took = first_run(still, template, f"s{i}")
        series["stands still"].add(took if rests else None)
        series["goes on"].add(first_run(awake, template, f"s{i}"))
    for one in series.values():
        show(one)
    later(series["stands still"], series["goes on"])


def idle(bench):
    heading("Machines with nothing to do, and the next run of one",
            "Processor time: clock_getcpuclockid(3) of the QEMUs and of the daemon, at both ends of the time.",
            "Clock: from before open(in) until stdout and exit_code have been read to their ends; of",
            f"{SESSIONS} machines that stand still, of as many that must not, and of the first 0.1 s later; then of",
            "sessions just made, which get a clone of the pool. `good`: printed what it should, status 0,",
            "and had stood still, or was a clone.")
    for template in bench.templates:
        for pool, part in ((0, sessions), (CLONES, clones)):
            with bench.mount(CONF.format(template=template, pool=pool, still="yes")) as still, \
                    bench.mount(CONF.format(template=template, pool=pool, still="no")) as awake:
                part(bench, template, still, awake)
