#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a session says of its isolation is true: each line is compared with /proc of the running
sandbox, and with the control groups it is in. The same comparisons are made with a process of the
test's own, for which the lines must be found untrue: otherwise the test could not tell."""
# backends: process vm
# timeout: 120
import ctypes
import re

from xsbx import *

LANDLOCK_VERSION = 1
SYS_LANDLOCK_CREATE_RULESET = 444
SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


def status(pid):
    lines = read(f"/proc/{pid}/status", "r").splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def ids(pid, key):
    return [int(n) for n in status(pid)[key].split()]


def caps(pid):
    return [int(status(pid)[key], 16) for key in SETS]


def namespace(pid, name):
    return os.readlink(f"/proc/{pid}/ns/{name}")


def group_files(pid, version, controller):
    """Where a limit of this controller can be looked up: the directory of the process's group."""
    for line in read(f"/proc/{pid}/cgroup", "r").splitlines():
        _, names, path = line.split(":", 2)
        if version == 2 and names == "" or version == 1 and controller in names.split(","):
            break
    else:
        return None
    for line in read("/proc/self/mountinfo", "r").splitlines():
        fields = line.split()
        kind, options = fields[fields.index("-") + 1], fields[-1].split(",")
        if (version == 2 and kind == "cgroup2") or \
                (version == 1 and kind == "cgroup" and controller in options):
            return f"{fields[4]}/{os.path.relpath(path, fields[3])}"
    return None


def limit(pid, version, controller, *names):
    """The numbers in the files of its own group."""
    top = group_files(pid, version, controller)
    for name in names:
        path = f"{top}/{name}"
        if top and os.path.exists(path):
            return read(path, "r").split()
    return []


def data_limit(pid):
    [words] = [line.split()[3:5] for line in read(f"/proc/{pid}/limits", "r").splitlines()
               if line.startswith("Max data size")]
    return [int(word) if word.isdigit() else -1 for word in words]


def signals_limit(pid):
    [words] = [line.split()[3:5] for line in read(f"/proc/{pid}/limits", "r").splitlines()
               if line.startswith("Max pending signals")]
    return words


def user_setting(pid, name):
    """A counter's limit in the user namespace of a process."""
    command = ["cat", f"/proc/sys/user/{name}"]
    if namespace(pid, "user") != namespace("self", "user"):
        command = ["nsenter", "-t", str(pid), "-U", "--preserve-credentials", *command]
    return int(subprocess.run(command, check=True, capture_output=True).stdout)


class Look:
    """Comparisons, one for each line; each returns whether the line is true of a process."""

    def __init__(self, pid, daemon):
        self.pid, self.daemon = pid, daemon

    def others(self):
        """The processes of a sandbox that user code is in: of the process backend only."""
        return [] if VM else [p for p in children_of(self.pid) if alive(p)]

    def is_namespace(self, name, said):
        own = namespace(self.pid, name) != namespace(self.daemon, name)
        return own == (said == "own") and all(
            namespace(p, name) == namespace(self.pid, name) for p in self.others())

    def is_ids(self, said):
        found = re.fullmatch(r"private, (\d+) on the host", said)
        if not found:
            return "daemon's own id" in said and ids(self.pid, "Uid") == ids(self.daemon, "Uid")
        first = int(found[1])
        maps = [[int(n) for n in line.split()]
                for line in read(f"/proc/{self.pid}/uid_map", "r").splitlines()]
        return ids(self.pid, "Uid") == ids(self.pid, "Gid") == [first] * 4 and first > 100000 and \
            {outside for _, outside, _ in maps} <= {first, first + 1} and \
            all(count == 1 for _, _, count in maps) and \
            all(set(ids(p, "Uid")) == {first + 1} for p in self.others())

    def is_capabilities(self, said):
        most = 0 if said == "none" else int(said.split(",")[0], 16)
        # What user code has is none, whatever the first process has.
        return all(c | most == most for c in caps(self.pid)) and \
            any(caps(self.pid)) == bool(most) and \
            (said == "none" or self.is_namespace("user", "own")) and \
            not any(any(caps(p)) for p in self.others())

    def is_no_new_privs(self, said):
        return said == "on" and all(status(p)["NoNewPrivs"] == "1"
                                    for p in [self.pid, *self.others()])

    def is_seccomp(self, said):
        return said == "on, allow list" and all(status(p)["Seccomp"] == "2"
                                                for p in [self.pid, *self.others()])

    def is_landlock(self, said):
        """Of a process, the kernel does not tell; but which version it has."""
        abi = ctypes.CDLL(None).syscall(SYS_LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_VERSION)
        return self.pid != os.getpid() and (said == f"on, ABI {abi}" or
                                            abi < 2 and said.startswith("none"))

    def is_limit(self, said, pattern, controller, names, value):
        found = re.fullmatch(pattern + r", control groups v([12])", said)
        if not found:
            return said.startswith("none: ") and "xsbxfs_" not in (
                group_files(self.pid, 1, controller) or "") and not limit(
                    self.pid, 2, controller, names[0])
        version = int(found[2])
        return value(limit(self.pid, version, controller, *names)) == int(found[1]) and all(
            group_files(p, version, controller) == group_files(self.pid, version, controller)
            for p in self.others())

    def is_memory(self, said):
        each = re.match(r"(\d+) MiB for each process, none for all", said)
        if each:
            return self.is_limit("none: " + said, "-", "memory", ["memory.max"], None) and all(
                data_limit(p) == [int(each[1]) << 20] * 2 for p in [self.pid, *self.others()])
        return self.is_limit(said, r"(\d+) MiB", "memory", ["memory.max", "memory.limit_in_bytes"],
                             lambda words: words and int(words[0]) >> 20)

    def is_processes(self, said):
        return self.is_limit(said, r"(\d+)", "pids", ["pids.max"],
                             lambda words: words and words[0] != "max" and int(words[0]))

    def is_cpu(self, said):
        def percent(words):
            if len(words) == 1:
                words += limit(self.pid, 1, "cpu", "cpu.cfs_period_us")
            return len(words) == 2 and words[0].isdigit() and 100 * int(words[0]) // int(words[1])
        return self.is_limit(said, r"(\d+) % of a processor", "cpu", ["cpu.max", "cpu.cfs_quota_us"],
                             percent)

    def is_counters(self, said):
        found = re.fullmatch(r"inotify (\d+) and (\d+); no fanotify, no namespaces, no huge pages, "
                             r"no socket filters(?:; timers and signals (\d+))?", said)
        names = ("max_inotify_instances", "max_inotify_watches", "max_fanotify_groups",
                 "max_user_namespaces", "max_net_namespaces")
        return bool(found) and \
            [user_setting(self.pid, name) for name in names] == [int(found[1]), int(found[2]), 0, 0, 0] and \
            all(signals_limit(p) == [found[3]] * 2 for p in [self.pid, *self.others()] if found[3])

    def is_speculation(self, said):
        keys = ("Speculation_Store_Bypass", "SpeculationIndirectBranch")
        return all(said == "store bypass: {}; indirect branches: {}".format(
            *(status(p).get(key, "not told") for key in keys)) for p in [self.pid, *self.others()])

    def wrong(self, said):
        """The lines that are not true."""
        checks = {"ids": self.is_ids, "capabilities": self.is_capabilities,
                  "no_new_privs": self.is_no_new_privs, "seccomp": self.is_seccomp,
                  "landlock": self.is_landlock, "limit.memory": self.is_memory,
                  "limit.processes": self.is_processes, "limit.cpu": self.is_cpu,
                  "limit.counters": self.is_counters, "speculation": self.is_speculation}
        found = {}
        for key, value in said.items():
            if key.startswith("namespace."):
                name = {"mount": "mnt"}.get(key[10:], key[10:])
                if not self.is_namespace(name, value):
                    found[key] = value
            elif key not in checks:
                fail(f"nothing here looks whether this line is true: {key}: {value}")
            elif not checks[key](value):
                found[key] = value
        return found


def the_daemon():
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            if name_of(pid) == "xsbxfs-daemon" and \
                    MNT in read(f"/proc/{pid}/cmdline", "r").split("\0"):
                return pid
        except OSError:  # it has ended
            pass
    raise RuntimeError("there is no daemon")


def lines():
    daemon = the_daemon()
    s, t = Session("lines"), Session("lines2")
    pids = []
    for session in (s, t, s):
        if session is s and pids:
            s.ctl("close")
            s.ctl("reset")
        session.run("sleep 600 & true\n")
        sandbox = session.json()["sandbox"]
        said, pid = sandbox["isolation"], sandbox["pid"]
        pids.append(pid)
        ok("there are many lines", len(said) >= 13, said)
        same("every line is true", Look(pid, daemon).wrong(said), {})
        control = Look(os.getpid(), daemon).wrong(said)
        for key in said:
            if key == "speculation":  # where the kernel lets nobody choose, that of all
                continue
            if os.geteuid() == 0 or key not in ("ids", "capabilities"):
                ok(f"control: of this test, it is not: {key}", key in control or
                   said[key].startswith("none:"), said[key])
    same("each sandbox has its own", len({namespace(pid, "pid") for pid in pids[1:]}), 2)
    if os.geteuid() == 0:
        same("ids are not shared", len({ids(pid, "Uid")[0] for pid in pids[1:]}), 2)


def mounts(pid):
    for line in read(f"/proc/{pid}/mountinfo", "r").splitlines():
        fields = line.split()
        end = fields.index("-")
        yield fields[4], set(fields[5].split(",")), fields[end + 1]


def view():
    """Beyond the lines: mounts, limits and interfaces are what the documentation says they are."""
    s = Session("view")
    s.run("true\n")
    pid = s.pid()
    memory = ("/home/user", "/tmp", "/dev/shm", "/dev/pts", "/proc")
    for point, options, kind in mounts(pid):
        ok(f"{point}: no set-id programs", "nosuid" in options, options)
        ok(f"{point}: no devices", "nodev" in options or point == "/dev" or
           point.startswith(("/dev/", "/proc/")), options)
        ok(f"{point}: read-only", "ro" in options or point in memory, options)
        ok(f"{point}: no host's file system that lists or makes things", kind not in (
            "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "fuse", "fusectl",
            "bpf", "configfs", "mqueue", "efivarfs", "pstore"), kind)
    control = [point for point, options, _ in mounts(os.getpid())
               if "nosuid" not in options and "rw" in options]
    ok("control: of this test, some are none of that", control)
    names = {line.split(":")[0].strip() for line in
             read(f"/proc/{pid}/net/dev", "r").splitlines()[2:]}
    same("interfaces", names - {"lo"}, set())
    core = [line.split()[4:6] for line in read(f"/proc/{pid}/limits", "r").splitlines()
            if line.startswith("Max core file size")]
    same("no core dumps, neither to files nor to programs", core, [["1", "1"]])
    ok("another root", os.stat(f"/proc/{pid}/root").st_dev != os.stat("/").st_dev)
    same("the kernel gives it up before the daemon", int(read(f"/proc/{pid}/oom_score_adj")) > 0, True)


def host_list():
    """The mount's own list has the same lines, and the daemon's are true of the daemon."""
    daemon = the_daemon()
    s = Session("host")
    s.run("true\n")
    said = dict(line.split(": ", 1) for line in read(f"{MNT}/isolation", "r").splitlines())
    mine, prefix = s.json()["sandbox"]["isolation"], "qemu" if VM else "process"
    for key, value in mine.items():
        if key != "ids":  # a range, or of the last that started
            same(f"{prefix}.{key}", said.get(f"{prefix}.{key}"), value)
    same("daemon.seccomp", (said["daemon.seccomp"].startswith("on"), status(daemon)["Seccomp"]),
         (True, "2"))
    left = said["daemon.capabilities"]
    same("daemon.capabilities", 0 if left == "none" else int(left, 16), caps(daemon)[2])
    same("control: of this test, neither", (status(os.getpid())["Seccomp"], os.geteuid() != 0 or
                                            caps(os.getpid())[2] != caps(daemon)[2]), ("0", True))


main(lines, view, host_list)
