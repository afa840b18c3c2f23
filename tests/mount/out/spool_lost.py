#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Output that can't be kept is missing from nobody's reading without an error, and what can be is not lost: the
disk is full, may not be written, or its directory is gone; descriptors do not run out with history."""
# mount: none
# log-allow: output cannot be written to disk
# log-allow: no file for long outputs
# log-allow: Too many open files
from xsbx import *

MIB = 1 << 20
PROBLEM = "output-lost"


@contextlib.contextmanager
def disk(name, size):
    """A disk of its own, if we may have one."""
    path = f"{SCRATCH}/{name}"
    os.mkdir(path)
    if shell(f"mount -t tmpfs -o size={size} none {path}")[0]:
        skip("file systems can't be mounted here: it needs to run as root")
    yield path
    same("nothing holds the disk", shell(f"umount {path}")[::2], (0, b""))


@contextlib.contextmanager
def daemon(name, spool, **popen):
    mnt = f"{SCRATCH}/mnt-{name}"
    os.mkdir(mnt)
    process = start_daemon(mnt, f"spool_dir={spool}", **popen)
    try:
        yield mnt, process
    finally:
        process.terminate()
        process.wait()
        same(f"{name}: the daemon ends well", process.returncode, 0)


def read_on(path):
    """What can be read, and the errno that ended it."""
    fd = os.open(path, os.O_RDONLY)
    text = b""
    try:
        while piece := os.read(fd, 100000):
            text += piece
        return text, None
    except OSError as error:
        return text, errno.errorcode[error.errno]
    finally:
        os.close(fd)


COUNT = "seq -f '%0.0f.......' 1000000 | head -c {}\n"


def pattern(size):
    text = "".join(f"{n}.......\n" for n in range(1, size // 8)).encode()
    return text[:size]


def copies(path, size):
    """Whoever copies it must fail, or have all of it."""
    to = f"{SCRATCH}/copy"
    tools = {
        "cat": f"cat {path} > {to}", "cp": f"cp {path} {to}", "dd": f"dd if={path} of={to} bs=1M",
        "python": f"python3 -c \"import shutil; shutil.copyfile('{path}', '{to}')\"",
        "node": f"node -e \"require('fs').copyFileSync('{path}', '{to}')\"",
        "node reads": f"node -e \"require('fs').readFileSync('{path}')\"",
        "rsync": f"rsync -L {path} {to}", "tar": f"tar -cf {to} -C {os.path.dirname(path)} stdout",
        "git": f"git hash-object {path}", "wc": f"wc -l {path}", "base64": f"base64 {path}",
    }
    for tool, command in tools.items():
        if not shutil.which(tool.split()[0].replace("python", "python3")):
            continue
        if os.path.exists(to):
            os.unlink(to)
        status, _, err = shell(command)
        ok(f"{tool} of {path[len(SCRATCH):]} fails", status != 0, (status, err))


def holes(s, number, size, what):
    """Run `number` printed `size` bytes that were not all kept."""
    want = pattern(size)
    for node in ("stdout", f"runs/{number}/stdout", "output", f"runs/{number}/output"):
        got, error = read_on(s / node)
        same(f"{what}: {node} ends with an error", error, "EIO")
        ok(f"{what}: {node} is right up to there", want.startswith(got), len(got))
        ok(f"{what}: and what memory is for is there", len(got) >= 2 * MIB, len(got))
        same(f"{what}: the size of {node} says there is more", os.stat(s / node).st_size, size)
    same(f"{what}: exit status", s.word("exit_code"), "3")
    has(f"{what}: error", s.text("error"), f"code: {PROBLEM}")
    status = s.json(f"runs/{number}/status.json")
    same(f"{what}: the run's problem", status["problem"]["code"], PROBLEM)
    ok(f"{what}: what was lost is counted", status["stdout"]["lost_bytes"] > 0, status["stdout"])
    has(f"{what}: summary", s.text("summary"), "more were lost")


def full():
    with disk("full", "1m") as spool, daemon("full", spool) as (mnt, _):
        s = Session("a", mnt=mnt)
        s.submit(COUNT.format(8 * MIB) + "exit 3\n")
        read_on(s / "stdout")
        s.wait_run(1, "done")
        holes(s, 1, 8 * MIB, "full disk")
        copies(s / "stdout", 8 * MIB)
        copies(s / "runs/1/stdout", 8 * MIB)
        other = Session("b", mnt=mnt)
        same("others' short output", other.run("echo fine; exit 4\n").stdout, b"fine\n")
        same("a long one that memory is enough for",
             other.run(COUNT.format(MIB)).stdout, pattern(MIB))
        same("without a problem", other.text("error"), "")
        # The room comes back with the run.
        s.run("true\n")
        os.rmdir(s / "runs/1")
        ok("the disk is used again", wait_for(
            lambda: os.statvfs(spool).f_bavail * 4096 >= MIB // 2 or other.runs(), 5))
        same("and the next is whole", s.run(COUNT.format(2 * MIB)).stdout, pattern(2 * MIB))


def full_with_jobs():
    """Of several at once, those that the disk has no room for say so; the others lack nothing."""
    with disk("jobs", "1m") as spool, daemon("jobs", spool) as (mnt, _):
        s = Session("a", mnt=mnt)
        for name, code in ("long", COUNT.format(8 * MIB)), ("short", "echo fine\n"), ("input", "exec wc -c\n"):
            os.mkdir(s / f"jobs/{name}")
            if name == "input":
                write(s / "jobs/input/stdin", b"x" * MIB)
            write(s / f"jobs/{name}/in", code + "exit 3\n" * (name != "input"))
        codes = [read(s / f"jobs/{name}/exit_code") for name in ("long", "short", "input")]
        same("the statuses are right", codes, [b"3\n", b"3\n", b"0\n"])
        want = pattern(8 * MIB)
        for node in "stdout", "output":
            got, error = read_on(s / f"jobs/long/{node}")
            same(f"{node} of the long one ends with an error", error, "EIO")
            ok(f"and {node} is right up to there", want.startswith(got) and len(got) >= 2 * MIB, len(got))
        has("its error says so", s.text("jobs/long/error"), f"code: {PROBLEM}")
        status = s.json("jobs/long/status.json")
        same("and its status", (status["problem"]["code"], status["stdout"]["lost_bytes"] > 0), (PROBLEM, True))
        same("the short one is whole", read(s / "jobs/short/stdout"), b"fine\n")
        same("and so is what was read", read(s / "jobs/input/stdout"), f"{MIB}\n".encode())
        same("neither has a problem", [s.text(f"jobs/{n}/error") for n in ("short", "input")], ["", ""])
        same("nor has the session", s.text("error"), "")
        os.rmdir(s / "jobs/long")
        os.mkdir(s / "jobs/again")
        write(s / "jobs/again/in", COUNT.format(MIB))
        same("the next one finds room", read(s / "jobs/again/stdout"), pattern(MIB))


def read_only_daemon(spool):
    shell(f"mount -o remount,ro {spool}")
    return daemon("ro", spool)


def read_only():
    with disk("ro", "64m") as spool, read_only_daemon(spool) as (mnt, _):
        s = Session("a", mnt=mnt)
        same("what fits into memory is whole", s.run(COUNT.format(MIB)).stdout, pattern(MIB))
        s.submit(COUNT.format(6 * MIB) + "exit 3\n")
        read_on(s / "stdout")
        s.wait_run(2, "done")
        holes(s, 2, 6 * MIB, "read-only")
        shell(f"mount -o remount,rw {spool}")
        ok("it is tried again", wait_for(lambda: os.statvfs(spool).f_bfree
                                         < os.statvfs(spool).f_blocks, 10))
        same("and then all is kept", s.run(COUNT.format(8 * MIB)).stdout, pattern(8 * MIB))


def deleted():
    spool = f"{SCRATCH}/deleted"
    os.mkdir(spool)
    with daemon("deleted", spool) as (mnt, _):
        s = Session("a", mnt=mnt)
        shutil.rmtree(spool)
        result = s.run(COUNT.format(8 * MIB) + "exit 5\n")
        same("a directory that is gone: all is kept", result.stdout, pattern(8 * MIB))
        same("and its status", result.code, 5)
        same("without a problem", s.text("error"), "")


def descriptors():
    """History costs none, and the sandbox for which none is left is the only one that fails."""
    spool = f"{SCRATCH}/few"
    os.mkdir(spool)

    def few():
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

    with daemon("few", spool, preexec_fn=few) as (mnt, process):
        victim = Session("victim", mnt=mnt)
        same("before", victim.run("x=precious; echo $x\n").stdout, b"precious\n")
        a = Session("a", mnt=mnt)
        a.run("echo up\n")
        before = len(os.listdir(f"/proc/{process.pid}/fd"))
        for i in range(40):
            a.submit("printf %20000s x; printf %20000s x >&2\n")
        same("output", (len(read(a / "stdout")), len(read(a / "output"))), (20000, 40000))
        now = len(os.listdir(f"/proc/{process.pid}/fd"))
        ok("40 runs that are kept need no descriptors", now <= before + 10, (before, now))
        same("all of it is there", {len(read(a / f"runs/{n}/stdout")) for n in a.runs()[1:]}, {20000})
        failed = 0
        for i in range(40):
            s = Session(f"more{i}", mnt=mnt)
            result = s.run("echo hi\n")
            if result.code != 0:
                failed += 1
                same("refused or lost, in words", (result.stdout, result.code), (b"", "EIO"))
                ok("and why", s.text("error") != "")
            else:
                same("output", result.stdout, b"hi\n")
        ok("there was no descriptor left for some (or this test is of no use)", failed > 0)
        same("the first one lives on", victim.run("echo $x\n").stdout, b"precious\n")


main(full, full_with_jobs, read_only, deleted, descriptors)
