# SPDX-License-Identifier: Apache-2.0
"""
A sandbox provider for inspect_ai. Import this file where the task is, and then:

    Task(..., sandbox=("xsbx", "/sbx/shell"))   # a directory of templates; without one: XSBX_TEMPLATE, or /sbx/shell

Each sample has a session of its own, which is removed at its end. xsbx.py has to be beside this file.
"""
import os

import anyio
from inspect_ai.util import (ExecResult, OutputLimitExceededError, SandboxConnection, SandboxEnvironment,
                             SandboxEnvironmentLimits, SandboxUnavailableError, SandboxUserUnsupportedError, sandboxenv)
from pydantic import BaseModel

import xsbx

OWN = None, "user", "1000"  # the names of a sandbox's own user
ERRORS = {"Permission denied": PermissionError, "No such file or directory": FileNotFoundError,
          "Is a directory": IsADirectoryError, "Not a directory": FileNotFoundError}


class XsbxConfig(BaseModel, frozen=True):
    """For SandboxEnvironmentSpec("xsbx", XsbxConfig(...)). config: lines for each session, see xsbxfs.conf(5)"""
    template: str = os.environ.get("XSBX_TEMPLATE", "/sbx/shell")
    config: str = ""


def error_of(text, name):
    """The exception for what a tool, or the sandbox, has said."""
    for words, kind in ERRORS.items():
        if words in text:
            return kind(f"{name}: {words}")
    return OSError(f"{name}: {text}")


@sandboxenv(name="xsbx")
class XsbxSandboxEnvironment(SandboxEnvironment):
    def __init__(self, template, config=""):
        super().__init__()
        self.session = xsbx.Session(template, config)

    @classmethod
    def config_deserialize(cls, config):
        return XsbxConfig(**config)

    @classmethod
    async def sample_init(cls, task_name, config, metadata):
        config = XsbxConfig(template=config) if isinstance(config, str) else config or XsbxConfig()
        return {"default": cls(config.template, config.config)}

    @classmethod
    async def sample_cleanup(cls, task_name, config, environments, interrupted):
        for environment in environments.values():
            environment.as_type(cls).session.remove()

    def default_polling_interval(self):
        return 0.2

    async def connection(self, *, user=None):
        return SandboxConnection(type="xsbx", command=f"xsbx-tty {self.session.path}")

    async def run(self, argv, limit=1 << 62, **options):
        """As asyncio and trio have it, and however many wait: each has a thread. Cancelled, the program is stopped."""
        program = self.session.job(argv, **options)
        try:
            return await anyio.to_thread.run_sync(lambda: program.follow(limit=limit), abandon_on_cancel=True,
                                                  limiter=anyio.CapacityLimiter(1))
        except anyio.get_cancelled_exc_class():
            program.stop()
            raise

    async def exec(self, cmd, input=None, cwd=None, env=None, user=None, timeout=None, timeout_retry=True,
                   concurrency=True):
        settings = []
        if user not in OWN:
            if "\nroot = yes\n" not in "\n" + (self.session.path / "config").read_text():
                raise SandboxUserUnsupportedError(f"there is no user {user!r}: the template has no root = yes")
            settings = ["user = root"]
            cmd = cmd if user == "root" else ["/usr/sbin/runuser", "-u", user, "--", *cmd]
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        stdin = input.encode() if isinstance(input, str) else input or b""
        try:
            done = await self.run(cmd, limit + 1, stdin=stdin, cwd=cwd, env=env, settings=settings, timeout_s=timeout or 0)
        except xsbx.Failed as failed:
            name = cwd if cwd and f"cwd = {cwd}: " in str(failed) else cmd[0]
            error, there = error_of(str(failed), name), self.session.path.exists()
            if there and failed.never_ran and isinstance(error, FileNotFoundError):
                return ExecResult(False, 127, "", f"{error}\n")
            if there and failed.never_ran and isinstance(error, PermissionError):
                raise error from failed
            raise SandboxUnavailableError(str(failed)) from failed
        if done.state == "timeout":
            raise TimeoutError(f"{cmd[0]} took longer than {timeout} s")
        if max(len(done.stdout), len(done.stderr)) > limit or done.status["truncated"]:
            said = max(done.stdout, done.stderr, key=len)[:limit].decode(errors="replace")
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, said)
        out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        return ExecResult(done.code == 0, done.code, out, err)

    # With the rights of the sandbox's user, and anywhere in the sandbox: files/ is its working directory only.

    async def write_file(self, file, contents):
        data = contents.encode() if isinstance(contents, str) else contents
        script = 'mkdir -p -- "$(dirname -- "$1")" && cat >"$1"'
        done = await self.run(["sh", "-c", script, "sh", file], stdin=data, env={"LC_ALL": "C"}, timeout_s=0)
        if done.code:
            raise error_of(done.stderr.decode(errors="replace"), file)

    async def read_file(self, file, text=True):
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        done = await self.run(["cat", "--", file], limit + 1, env={"LC_ALL": "C"}, timeout_s=0)
        if done.code:
            raise error_of(done.stderr.decode(errors="replace"), file)
        if len(done.stdout) > limit or done.status["truncated"]:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        return done.stdout.decode() if text else done.stdout
