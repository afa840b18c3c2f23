# SPDX-License-Identifier: Apache-2.0
"""exec_sandbox's Session: a session of the mount, in which one thing is done at a time."""
import asyncio
import codecs
import contextlib
import re
import time

import xsbx

from . import files
from .exceptions import (CodeValidationError, CommunicationOutcomeUnknownError, EnvVarValidationError, OutputLimitError,
                         SessionClosedError, VmConfigError, VmPermanentError, VmTransientError)
from .models import ExecutionResult, FileInfo, TimingBreakdown


def checked(code, timeout, env):
    if not 1 <= timeout <= 300:
        raise ValueError(f"timeout_seconds must be between 1 and 300, got {timeout}")
    if not code.strip() or "\0" in code:
        raise CodeValidationError("Code cannot be empty, nor have null bytes")
    if len(code.encode(errors="surrogateescape")) > 1 << 20:
        raise VmConfigError("code is larger than 1 MiB")
    for name, value in env.items():
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value):
            raise EnvVarValidationError(f"{name!r} is no name, or its value has control characters")


class Teller:
    """Calls back on the event loop with what a thread hears of a program, as text."""

    def __init__(self, on_stdout, on_stderr):
        self.loop, self.callbacks = asyncio.get_running_loop(), {"stdout": on_stdout, "stderr": on_stderr}
        self.decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in self.callbacks}

    def heard(self, name, piece, final=False):
        self.loop.call_soon_threadsafe(self.call, name, self.decoders[name].decode(piece, final))

    def call(self, name, text):
        callback, self.callbacks[name] = self.callbacks[name], None  # one that raises is not called again
        if callback and text:
            callback(text)
        self.callbacks[name] = callback

    async def end(self):
        for name in self.decoders:
            self.heard(name, b"", final=True)
        await asyncio.sleep(0)  # for the last of the calls, which wait in front of this


class Session:
    """Made by Scheduler.session()."""

    def __init__(self, session, default_timeout):
        self._session, self._default_timeout = session, default_timeout
        self._lock, self._closed = asyncio.Lock(), False
        self.vm_id, self.exec_count, self.exposed_ports = session.path.name, 0, []

    @property
    def closed(self):
        state = self._session.path / "state"
        return self._closed or not state.exists() or state.read_text() == "closed\n"

    @contextlib.asynccontextmanager
    async def _guard(self):
        """As there: whoever is cancelled, and what leaves its outcome in doubt, closes the session."""
        async with self._lock:
            if self.closed:
                raise SessionClosedError("Session is closed")
            try:
                yield self._session
            except asyncio.CancelledError:
                await self.close()
                raise
            except xsbx.Failed as failed:
                await self.close()
                raise (VmTransientError if failed.never_ran else CommunicationOutcomeUnknownError)(str(failed)) from failed
            except OSError as error:
                raise VmPermanentError(str(error)) from error

    async def exec(self, code, *, timeout_seconds=None, env_vars=None, on_stdout=None, on_stderr=None):
        timeout, env = self._default_timeout if timeout_seconds is None else timeout_seconds, env_vars or {}
        checked(code, timeout, env)
        async with self._guard() as session:
            begin, teller = time.monotonic(), Teller(on_stdout, on_stderr)
            done = await session.code(code, env=env, timeout_s=timeout).wait(heard=teller.heard)
            await teller.end()
        status, ms = done.status, round((time.monotonic() - begin) * 1000)
        if status["truncated"]:
            raise OutputLimitError("there was more output than the mount keeps")
        self.exec_count += 1
        stdout, stderr = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        if done.state == "timeout":
            stderr += f"[timeout_error] Execution timeout after {timeout}s"
        return ExecutionResult(
            stdout, stderr, -1 if done.state == "timeout" else done.code, TimingBreakdown(0, 0, ms, ms),
            execution_time_ms=round(status["wall_ms"]), process_ms=round(status["wall_ms"]),
            external_cpu_time_ms=round(status["user_ms"] + status["system_ms"]),
            external_memory_peak_mb=status["max_rss_kib"] >> 10)

    async def _do(self, path, work):
        """Something with a file of the sandbox. No path leads out of files/: the mount offers no link that does."""
        if path.startswith("/") or ".." in path.split("/") or "\0" in path:
            raise VmPermanentError(f"{path!r} is not below the working directory")
        async with self._guard() as session:
            return await asyncio.to_thread(work, session.path / "files" / path)

    async def write_file(self, path, content, *, make_executable=False):
        def work(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            with open(place, "wb") as target:
                files.copy(source, target)
            place.chmod(0o755 if make_executable else 0o644)

        with await asyncio.to_thread(files.opened, content, "rb") as source:
            await asyncio.to_thread(files.check, source)
            await self._do(path, work)

    async def read_file(self, path, *, destination):
        def work(place):
            try:
                with open(place, "rb") as source:
                    files.check(source)
                    with files.opened(destination, "wb") as target:
                        files.copy(source, target)
            except ValueError as error:
                raise VmPermanentError(f"{path}: {error}") from error

        await self._do(path, work)

    async def list_files(self, path=""):
        """A file has the size of what is stored of it, at most: one may say any size, with nothing behind it."""
        def size(entry):
            status = entry.lstat()
            return min(status.st_size, status.st_blocks * 512)

        def work(place):
            return [FileInfo(entry.name, entry.is_dir(), 0 if entry.is_dir() else size(entry)) for entry in sorted(place.iterdir())]

        return await self._do(path, work)

    async def close(self):
        self._closed = True
        self._session.remove()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_error):
        await self.close()
