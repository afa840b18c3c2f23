#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""runs/N: what is there, that nothing waits in it, and how long it is kept."""
# option: history_runs=5
# option: history_limit=1M
from xsbx import *

NODES = ["exit_code", "in", "output", "replay", "state", "status.json", "stderr", "stdout", "summary", "wait"]


def nodes():
    s = Session("nodes")
    same("no runs yet", os.listdir(s / "runs"), [])
    s.run("echo out; echo err >&2; exit 3\n")
    same("the list", sorted(os.listdir(s / "runs")), ["1", "latest"])
    same("nodes of a run", sorted(os.listdir(s / "runs/1")), NODES)
    same("latest is a link", os.readlink(s / "runs/latest").rstrip("/").split("/")[-1], "1")
    same("through it", read(s / "runs/latest/stdout"), b"out\n")
    for node in NODES:
        data = read(s / f"runs/1/{node}")
        same(f"size of runs/1/{node}", os.stat(s / f"runs/1/{node}").st_size, len(data))
        same(f"mode of runs/1/{node}", os.stat(s / f"runs/1/{node}").st_mode & 0o222, 0)
    same("in", read(s / "runs/1/in"), b"echo out; echo err >&2; exit 3\n")
    same("a number that is not there", os.path.exists(s / "runs/2"), False)
    for name in ("0", "01", "-1", "+1", "1x", "4294967297", "18446744073709551617"):
        ok(f"runs/{name} is not there", not os.path.exists(s / f"runs/{name}"))
    same("copied as a whole", shell(f"cp -r {s / 'runs'} {SCRATCH}/runs")[0], 0)
    same("the copy", read(f"{SCRATCH}/runs/1/stdout"), b"out\n")


def nothing_waits():
    s = Session("nowait", config="timeout_s = 3000\n")
    s.run("true\n")
    s.submit("echo so far; read -r x < <(sleep 600)\n")
    wait_for(lambda: os.stat(s / "runs/2/stdout").st_size == 7)
    for node in NODES:
        if node not in ("exit_code", "wait"):
            read(s / f"runs/2/{node}")
    same("a listing without exit_code", sorted(os.listdir(s / "runs/2")),
         [n for n in NODES if n != "exit_code"])
    same("what there is so far", read(s / "runs/2/stdout"), b"so far\n")
    same("nothing waited", s.state_of(2), "running")
    child = subprocess.Popen(["bash", "-c", f"until [ -e {s / 'runs/2/exit_code'} ]; do sleep 0.05;"
                              f" done; cat {s / 'runs/2/exit_code'}"], stdout=subprocess.PIPE)
    s.ctl("kill")
    same("until [ -e exit_code ]", child.communicate(timeout=SOON)[0], b"137\n")


def retention():
    s = Session("kept")
    for i in range(1, 9):
        s.run(f"echo {i}\n")
    same("the last five are kept", s.runs(), [4, 5, 6, 7, 8])
    ok("older ones are gone", not os.path.exists(s / "runs/3"))
    same("the first that is kept", s.text("runs/4/stdout"), "4\n")
    has("and that shows", json.dumps(s.json()), "3")
    order = [line for line in shell(f"ls -t {s / 'runs'}")[1].decode().split() if line.isdigit()]
    same("ls -t: newest first", order, ["8", "7", "6", "5", "4"])
    times = [os.stat(s / f"runs/{n}").st_mtime_ns for n in s.runs()]
    same("mtimes rise", times, sorted(times))
    ok("and differ", len(set(times)) == 5)


def latest():
    """Of those that are kept."""
    s = Session("latest")
    for i in 1, 2, 3:
        s.run(f"echo {i}\n")
    for newest in 2, 1:
        os.rmdir(s / f"runs/{newest + 1}")
        same("the newest is", (os.path.basename(os.readlink(s / "runs/latest")), s.text("runs/latest/stdout")),
             (f"{newest}", f"{newest}\n"))
        same("its length", os.lstat(s / "runs/latest").st_size, 1)
    same("what was read stays", s.text("stdout"), "3\n")
    os.rmdir(s / "runs/1")
    same("none", os.listdir(s / "runs"), [])
    s.run("echo 4\n")
    same("and again", os.path.basename(os.readlink(s / "runs/latest")), "4")


def bytes_limit():
    s = Session("bytes")
    for i in range(4):
        s.run(f"head -c 400000 /dev/zero | tr '\\0' {i}\n")
    ok("at most 1 MiB of output is kept", len(s.runs()) < 4, s.runs())
    same("the latest is always there", len(read(s / "stdout")), 400000)
    s.run("head -c 3000000 /dev/zero\n")
    same("even if it is larger than that", os.stat(s / "stdout").st_size, 3000000)
    fd = os.open(s / "stdout", os.O_RDONLY)
    for i in range(7):
        s.run("echo x\n")
    total = 0
    try:
        while piece := os.read(fd, 1 << 20):
            total += len(piece)
        same("a descriptor of a run that was removed reads to its end", total, 3000000)
    except OSError as error:
        ok("or says that it is gone", error.errno in (errno.ESTALE, errno.ENOENT), error)
    os.close(fd)


main(nodes, nothing_waits, retention, latest, bytes_limit)
