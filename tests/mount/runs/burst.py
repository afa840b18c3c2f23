#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two hundred runs at once on a small machine: all of them end well, each user gets his share, and
neither memory nor the number of sandboxes gets out of hand."""
# backends: local vm
# night: vm
# timeout: 240
# conf: max_vms = 4
# conf: allow_other = yes
# conf: admission_timeout_s = 600
# conf: [template raw]
# conf: pool = 2
import threading

from xsbx import *

RUNS = 200
FEW = 20         # of these are the second user's, who comes last
MACHINES = 4     # max_vms
ALICE, BOB = 20001, 20002
WORK = "" if VM else "sleep 0.15; "  # a machine takes as long to start


def as_user(uid, action):
    """In a child, because a process has only one user. Return its exit status."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        if uid is not None:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
        action()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def submit(names):
    """Four writers at a time."""
    names, lock = list(names), threading.Lock()

    def writer():
        while True:
            with lock:
                if not names:
                    return
                name = names.pop(0)
            Session(name, config="fresh = yes\n").submit(f"{WORK}echo {name}\n")

    threads = [threading.Thread(target=writer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def command(pid):
    try:
        return read(f"/proc/{pid}/cmdline").split(b"\0")
    except OSError:
        return []


def machines():
    """Processes of sandboxes that exist now. What an agent has just forked still looks like it."""
    found = {pid for pid in children_of(DAEMON) if {b"-M", b"--local"} & set(command(pid))}
    return len(found - {child for pid in found for child in children_of(pid)})


def available_mib():
    for line in read("/proc/meminfo", "r").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    return 0


def root_status():
    return json.loads(read(f"{MNT}/status.json"))


def there(name):
    s = Session.__new__(Session)
    s.path = f"{MNT}/raw/{name}"
    return s


def warm_up():
    """What a snapshot takes to be made is not what this is about."""
    s = Session("first")
    same("a sandbox starts", s.run("echo up\n").stdout, b"up\n")
    s.remove()
    if VM:
        ok("a snapshot", wait_for(lambda: any(x["state"] == "ready"
                                              for x in root_status()["snapshots"]), 60))


def burst():
    many = [f"a{i:03}" for i in range(RUNS - FEW)]
    few = [f"b{i:03}" for i in range(FEW)]
    root = os.getuid() == 0
    before = available_mib()
    most, least, waited, turns = 0, before, 0, []
    done = set()
    pids = [as_user(ALICE if root else None, lambda: submit(many))]
    os.waitpid(pids[0], 0)
    left_then = sum(there(n).word("runs/1/state") == "queued" for n in many)
    pids.append(as_user(BOB if root else None, lambda: submit(few)))
    os.waitpid(pids[1], 0)
    ok("more come than there is room for", left_then > RUNS // 2, left_then)
    waiting = there(few[-1]).json().get("waiting")
    if waiting:  # it may have come to its turn by now
        turns.append(waiting["turn"])
        same("it says what it waits for", waiting["for"], "place")
        ok("and why", waiting["reason"], waiting)
    end = time.monotonic() + 55 * SLOW * slack()
    while len(done) < RUNS and time.monotonic() < end:
        status = root_status()["admission"]
        most = max(most, machines())
        ok("no more places are taken than there are", status["running"] <= MACHINES, status)
        waited = max(waited, status["waiting"])
        least = min(least, available_mib())
        for name in many + few:
            if name not in done and there(name).word("runs/1/state") not in ("queued", "running"):
                done.add(name)
        time.sleep(0.2)
    print(f"at most {most} machines, {waited} waiting, {before - least} MiB less available")
    same("all runs end", len(done), RUNS)
    results = {n: there(n).json()["latest"] for n in many + few}
    bad = {n: r for n, r in results.items() if r["state"] != "done" or r["exit_code"] != 0}
    same("and end well", bad, {})
    wrong = [n for n in many + few if there(n).text("runs/1/stdout") != f"{n}\n"]
    same("each with its own output", wrong, [])
    ok("never more machines than places", most <= MACHINES, most)
    ok("memory stays where it was", before - least < MACHINES * 400 + 600, before - least)
    if root:
        came = max(results[n]["submitted"] for n in few)
        last = max(results[n]["ended"] for n in few)
        left = sum(results[n]["ended"] > came for n in many)
        later = sum(results[n]["ended"] > last for n in many)
        ok("the first is not done when the second comes", left > 2 * FEW, left)
        ok("who came late with little did not wait for all of the other's",
           left - later <= 2 * FEW, (left, later))
        order = sorted(few, key=lambda n: results[n]["submitted"])
        ended = sorted(few, key=lambda n: results[n]["ended"])
        ok("and had his in the order they came, but for what runs side by side",
           all(abs(order.index(n) - ended.index(n)) <= MACHINES + 4 for n in few),
           (order, ended))
    ok("nobody waits any more", wait_for(lambda: not root_status()["admission"]["waiting"]))
    for name in many + few:
        there(name).remove()


DAEMON = next(int(pid) for pid in os.listdir("/proc") if pid.isdigit()
              and os.environ["XSBXFS"].encode() in command(pid) and MNT.encode() in command(pid))
main(warm_up, burst)
