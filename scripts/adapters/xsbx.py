# SPDX-License-Identifier: Apache-2.0
"""Programs in sandboxes of an xsbxfs mount, from Python alone. The adapters beside this share it: copy it along with yours.

    session = xsbx.Session("/sbx/shell")                 # a sandbox of its own, removed with this object
    done = session.job(["wc", "-c"], b"hello").follow()  # a program: done.code, done.state, done.stdout
    done = session.code("echo $((6 * 7))").follow()      # code for the interpreter, whose variables last
"""
import asyncio
import concurrent.futures
import contextlib
import json
import math
import os
import selectors
import shlex
import tempfile
import time
import types
import weakref
from pathlib import Path


class Failed(Exception):
    """How a program ended is not known, or not all that it printed; str() says why."""
    never_ran = False  # so it is safe to try again


@contextlib.contextmanager
def explained(directory, never_ran=False):
    """What fails in the block fails with what the directory's `error` says."""
    try:
        yield
    except OSError as error:
        failed = Failed("it was stopped, or its session is gone" if Path(error.filename or "").name == "status.json" else error)
        with contextlib.suppress(OSError, IndexError):
            failed = Failed(Path(directory, "error").read_text(errors="replace").split("\ncause: ")[1].split("\n")[0])
        failed.never_ran = never_ran
        raise failed from error


class Program:
    """What runs: a directory in jobs/ or runs/ of a session, which goes when it has ended or was stopped."""

    def __init__(self, session, place, settings, stdin, node, text, cwd=None, env=None, timeout_s=None):
        """For Session.job() and code(). @timeout_s: 0 is no limit, None that of the session"""
        if "\n" in "".join([str(cwd), *(env or {})]):
            raise ValueError("a line break in the name of a directory or of a variable")
        settings = [*settings, *(f"env.{name} = {shlex.quote(value)}" for name, value in (env or {}).items())]
        settings += [f"cwd = {cwd}"] * bool(cwd) + [f"timeout_s = {math.ceil(timeout_s or 0)}"] * (timeout_s is not None)
        self.session, self.stdin, self.opened = session, memoryview(stdin), contextlib.ExitStack()
        self.waiting = self.opened.enter_context(selectors.PollSelector())
        with explained(session.path, never_ran=True):
            self.path = Path(tempfile.mkdtemp(prefix="p", dir=session.path / place))
        with contextlib.ExitStack() as unless_started, explained(self.path, never_ran=True):
            unless_started.callback(self.stop)
            (self.path / "config").write_bytes("\n".join([*settings, ""]).encode(errors="surrogateescape"))
            if stdin:
                self.open("stdin", "wb", selectors.EVENT_WRITE)
            (self.path / node).write_bytes(text.encode(errors="surrogateescape"))
            unless_started.pop_all()

    def open(self, name, mode, event):
        file = open(self.path / name, mode, 0, opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK))
        self.waiting.register(self.opened.enter_context(file), event, name)

    def stop(self, verb="kill"):
        """Ends it, and whoever follows it; from any thread, at any time."""
        with contextlib.suppress(OSError):
            (self.path / "ctl").write_text(f"{verb}\n")  # without its directory a job ends, but a run goes on
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def follow(self, wanted=("stdout", "stderr"), limit=1 << 62, heard=lambda name, piece: None):
        """Waits for its end. @wanted: stdout, stderr, or output, which is both as they came; @limit: bytes of each past which
        nothing is kept; @heard: is called with (name, bytes) as they come. Return: code, the exit status; state: done, timeout,
        killed or oom; the outputs; status, what status.json says (truncated: the mount kept less than all). Raises Failed. What
        a job has left in the background goes on until the session ends. Ctrl-C interrupts the program, too."""
        status = {}
        try:
            with self.opened, explained(self.path):
                kept = self.listen({name: bytearray() for name in wanted}, limit, heard)
                for pause in (0.003, 0.01, 0.05, 0.1):  # whether a job has left anything is known a moment later
                    status = json.loads((self.path / "status.json").read_bytes())
                    if not status.get("processes_left"):
                        break
                    time.sleep(pause)
            with explained(self.path, never_ran=status["state"] == "refused"):
                code = int((self.path / "exit_code").read_bytes())
        except KeyboardInterrupt:
            self.stop("interrupt")
            raise
        finally:
            if not status.get("processes_left") or status["state"] != "done":
                self.stop()
        return types.SimpleNamespace(code=code, state=status["state"], status=status, **kept)

    def listen(self, kept, limit, heard):
        for name in kept:
            self.open(name, "rb", selectors.EVENT_READ)
        while self.waiting.get_map():
            for key, _events in self.waiting.select():  # nothing else waits, so one thread is enough
                name, more = key.data, b""
                with contextlib.suppress(BrokenPipeError):  # it reads no more
                    if name == "stdin":
                        self.stdin = more = self.stdin[key.fileobj.write(self.stdin[:1 << 16]) or 0:]
                    else:
                        more = key.fileobj.read(1 << 20)
                if more and name in kept:
                    kept[name] += more[:max(0, limit - len(kept[name]))]
                    heard(name, more)
                elif more == b"":
                    self.waiting.unregister(key.fileobj)
                    key.fileobj.close()
        return {name: bytes(data) for name, data in kept.items()}

    async def wait(self, **options):
        """follow() for asyncio, in a thread of its own: pools of them end where many wait. Cancelled, the program is stopped."""
        thread = concurrent.futures.ThreadPoolExecutor(1)
        future = asyncio.get_running_loop().run_in_executor(thread, lambda: self.follow(**options))
        thread.shutdown(wait=False)
        try:
            return await future
        except asyncio.CancelledError:
            self.stop()
            raise


class Session:
    awake_s = 86400  # with no use, of a process sandbox, which can't sleep with its interpreter's state: not for ever if we are killed
    def __init__(self, template, config=""):
        """@template: a directory of the mount; @config: lines for the session's `config`, see xsbxfs.conf(5)"""
        self.template = Path(template).absolute()
        with explained(self.template.parent, never_ran=True):
            self.path = Path(tempfile.mkdtemp(prefix="s", dir=self.template))
        # Called when Python ends, too; but not by what was forked, which ends without its parent's sandboxes.
        self.remove = weakref.finalize(self, lambda path, pid: os.getpid() == pid and path.exists() and path.rmdir(),
                                       self.path, os.getpid())
        with explained(self.path, never_ran=True):
            if "\nbackend = process\n" in (self.path / "config").read_text() and "from =" not in config:
                config = f"idle_timeout_s = {self.awake_s}\n{config}"
            (self.path / "config").write_text(config)

    def job(self, argv, stdin=b"", settings=(), **more):
        """A program of its own. @settings: more lines for its `config`"""
        settings = ["argv = " + " ".join(shlex.quote(os.fsdecode(word)) for word in argv), *settings]
        return Program(self, "jobs", settings, stdin, "ctl", "start\n", **more)

    def code(self, text, stdin=b"", **more):
        """Code for the session's interpreter, behind what was given to it before."""
        return Program(self, "runs", [], stdin, "in", text, **more)
