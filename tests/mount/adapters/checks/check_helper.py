# SPDX-License-Identifier: Apache-2.0
"""xsbx.py by itself: run by adapters.py, with a template of bash, and an output_limit of 2 MiB."""
import asyncio
import json
import os
import signal
import sys
import threading
import time

import xsbx

TEMPLATE = os.environ["XSBX_TEMPLATE"]
session = xsbx.Session(TEMPLATE)


def bash(script, *arguments, **options):
    return session.job(["bash", "-c", script], *arguments, **options)


def failure(action):
    try:
        return f"no failure, but {action()}"
    except xsbx.Failed as failed:
        return failed


def results():
    data = bytes(range(256)) * 4000
    done = session.job(["cat"], data).follow()
    assert (done.code, done.state, done.stdout, done.stderr) == (0, "done", data, b""), (done.code, done.state)
    assert session.job(["head", "-c", "3"], data * 4).follow().stdout == data[:3]
    assert bash("exit 3").follow().code == 3
    assert bash(". /etc/os-release && echo $ID").follow().stdout.strip()  # frameworks ask for it
    assert bash("kill -9 $$").follow().code == 137
    done = bash("echo a; echo b >&2; echo c").follow(["output"])
    assert done.output == b"a\nb\nc\n", done
    done = bash("echo early; sleep 60", timeout_s=2.5).follow()
    assert (done.code, done.state, done.stdout) == (124, "timeout", b"early\n"), done
    done = bash("head -c 5000000 /dev/zero").follow(limit=10)
    assert len(done.stdout) == 10 and done.status["truncated"], done.status
    heard = []
    bash("echo a; sleep 0.3; echo b >&2").follow(heard=lambda *piece: heard.append(piece))
    assert heard == [("stdout", b"a\n"), ("stderr", b"b\n")], heard


def words():
    odd = " a'b\"c$x\\\n é\udcff"
    done = session.job(["printf", "%s|", odd, "", "*"], env={"X": odd}).follow()
    assert done.stdout == f"{odd}||*|".encode(errors="surrogateescape"), done
    assert bash('mkdir "a b"; printf %s "$X"', env={"X": odd}).follow().stdout == odd.encode(errors="surrogateescape")
    assert bash("pwd", cwd="a b").follow().stdout.endswith(b"/a b\n")
    for bad in ({"cwd": "x\nuser = root"}, {"env": {"X = 1\nuser": "root"}}):
        try:
            raise AssertionError(bash("id", **bad).follow())
        except ValueError:
            pass


def failures():
    failed = failure(lambda: session.job(["/nowhere"]).follow())
    assert failed.never_ran and "No such file" in str(failed), failed
    failed = failure(lambda: xsbx.Session(TEMPLATE, "cpus = 99\n"))
    assert failed.never_ran and "cpus" in str(failed), failed
    assert "NUL" in str(failure(lambda: session.job(["a\0b"])))
    other = xsbx.Session(TEMPLATE)
    other.code("true").follow()
    program = other.job(["sleep", "60"])
    pid = json.loads((other.path / "status.json").read_bytes())["sandbox"]["pid"]
    threading.Timer(0.3, os.kill, [pid, signal.SIGKILL]).start()
    failed = failure(program.follow)
    assert not failed.never_ran and len(str(failed)) > 10, failed
    other.remove()
    assert not other.path.exists()
    other.remove()


BEAT = "for i in {1..600}; do echo >> %s; sleep 0.1; done"


def beats(name):
    """Whether something in the sandbox still writes to that file."""
    path = session.path / "files" / name
    sizes = []
    for _ in range(2):
        sizes.append(path.stat().st_size)
        time.sleep(0.7)
    return sizes[0] != path.stat().st_size


def when_it_beats(name, action, *arguments):
    def wait():
        while not os.path.exists(session.path / "files" / name):
            time.sleep(0.05)
        action(*arguments)
    threading.Thread(target=wait, daemon=True).start()


def ends():
    session.code("kept=yes").follow()
    for start in (bash, session.code):
        name = start.__name__
        program = start(BEAT % name)
        when_it_beats(name, program.stop)
        assert not failure(program.follow).never_ran
        assert not beats(name), name
    session.code("kept=yes").follow()
    for start in (bash, session.code):
        name = f"{start.__name__}2"
        when_it_beats(name, os.kill, os.getpid(), signal.SIGINT)
        try:
            raise AssertionError(start(BEAT % name).follow())
        except KeyboardInterrupt:
            pass
        assert not beats(name), name
    assert session.code("echo $kept").follow().stdout == b"yes\n"  # an interrupt leaves the interpreter what it has
    bash(f"({BEAT % 'left'}) & sleep 0.3").follow()
    assert beats("left")
    assert len(os.listdir(session.path / "jobs")) == 1
    assert [name for name in os.listdir(session.path / "runs") if name.startswith("p")] == []


def together():
    async def all_of_them():
        await bash("exec 9>lock; flock 9; (until [ -e go ]; do sleep 0.3; done) & true").wait()
        waiting = asyncio.gather(*(session.job(["flock", "-s", "lock", "bash", "-c", f"exit {n}"], timeout_s=600).wait()
                                   for n in range(40)))
        await asyncio.sleep(0.1)
        assert (await bash("exit 3").wait()).code == 3 and not waiting.done()  # though more wait than a pool has threads
        await bash("touch go").wait()
        assert [one.code for one in await waiting] == list(range(40))
        task = asyncio.create_task(bash(BEAT % "task").wait())
        when_it_beats("task", asyncio.get_running_loop().call_soon_threadsafe, task.cancel)
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled() and not beats("task")

    asyncio.run(all_of_them())


def killed():
    """A process sandbox of one that could not remove it does not stay for ever."""
    told, tell = os.pipe()
    if not (pid := os.fork()):
        xsbx.Session.awake_s = 1
        left = xsbx.Session(TEMPLATE)
        left.code("true").follow()
        os.write(tell, os.fsencode(left.path))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    path = os.fsdecode(os.read(told, 4096))
    config = open(f"{path}/config").read()
    if "\nbackend = process\n" in config:
        assert "\nidle_timeout_s = 1\n" in config and "\nidle_timeout_s = 86400\n" in (session.path / "config").read_text()
        end = time.monotonic() + 60
        while open(f"{path}/state").read() != "closed\n":
            assert time.monotonic() < end
            time.sleep(0.1)
    os.rmdir(path)


def forked():
    if pid := os.fork():
        assert os.waitpid(pid, 0)[1] == 0 and session.path.exists()
        return
    sys.exit()  # with all that Python does at its end


for check in (results, words, failures, ends, together, killed, forked):
    check()
print("helper: fine")
