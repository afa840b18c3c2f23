#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Results are there before a sandbox is taken down, and nobody waits for its end: not the reader of
a result, not rmdir, not ctl. The process that would reap what ends is stopped meanwhile."""
# backends: local vm
from xsbx import *


def daemon():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = read(f"/proc/{pid}/cmdline").split(b"\0")
            if os.environ["XSBXFS"].encode() in words and MNT.encode() in words:
                if name_of(pid) == "xsbxfs-daemon":
                    return int(pid)
        except OSError:
            pass
    raise RuntimeError("there is no daemon")


def spawner():
    return parent_of(daemon())


@contextlib.contextmanager
def no_end():
    """Nothing that ends is reaped in here, so no sandbox is gone for good."""
    pid = spawner()
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def closing():
    return json.loads(read(f"{MNT}/status.json"))["admission"]["closing"]


def running(name, code, config=None):
    s = Session(name, config=config)
    s.submit(code)
    ok(f"{name} runs", wait_for(lambda: s.runs() and s.text("runs/1/stdout"), 20))
    return s


def fresh():
    s = running("fresh", "echo out; sleep 1; exit 3\n", "fresh = yes\n")
    with no_end():
        result = s.result()
        same("the result of a sandbox that can't end", (result.stdout, result.code), (b"out\n", 3))
        same("and all else of it", s.word("runs/1/state"), "done")
        ok("it is still on its way out", wait_for(lambda: closing() == 1), closing())
    ok("and goes", wait_for(lambda: closing() == 0), closing())
    same("the next run", s.run("echo next\n").stdout, b"next\n")


def removed():
    idle = Session("idle")
    idle.run("true\n")
    busy = running("busy", "echo so far; sleep 600\n")
    closed = running("closed", "echo so far; sleep 600\n")
    with no_end():
        idle.remove()
        busy.remove()
        ok("rmdir does not wait", not os.path.exists(idle.path) and not os.path.exists(busy.path))
        closed.ctl("close")
        same("nor does close", (closed.word(), closed.state_of(1)), ("closed", "killed"))
        same("what was written is there", closed.text("runs/1/stdout"), "so far\n")
        ok("three are on their way out", wait_for(lambda: closing() == 3), closing())
    ok("and go", wait_for(lambda: closing() == 0), closing())


main(fresh, removed)
