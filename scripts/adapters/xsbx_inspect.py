# SPDX-License-Identifier: Apache-2.0
"""A sandbox provider for inspect_ai: `sandbox="xsbx"`, with a directory of templates in XSBX_TEMPLATE (/sbx/shell)."""
import os

import anyio
from inspect_ai.util import (ExecResult, OutputLimitExceededError, SandboxEnvironment, SandboxEnvironmentLimits,
                             SandboxUserUnsupportedError, sandboxenv)

import xsbx

ERRORS = {"Permission denied": PermissionError, "No such file or directory": FileNotFoundError,
          "Is a directory": IsADirectoryError, "Not a directory": FileNotFoundError}


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
    async def sample_init(cls, task_name, config, metadata):
        return {"default": cls(os.environ.get("XSBX_TEMPLATE", "/sbx/shell"))}

    @classmethod
    async def sample_cleanup(cls, task_name, config, environments, interrupted):
        for environment in environments.values():
            environment.as_type(cls).session.remove()

    async def run(self, argv, **options):
        return await anyio.to_thread.run_sync(lambda: self.session.run(argv, **options))

    async def exec(self, cmd, input=None, cwd=None, env=None, user=None, timeout=None, timeout_retry=True,
                   concurrency=True):
        if user not in xsbx.OWN and not self.session.has_root():
            raise SandboxUserUnsupportedError(f"there is no user {user!r}: the template has no root = yes")
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        stdin = input.encode() if isinstance(input, str) else input
        try:
            out, err, code, state = await self.run(cmd, stdin=stdin, cwd=cwd, env=env, user=user, timeout_s=timeout or 0,
                                                   limit=limit)
        except xsbx.Refused as refused:
            error = error_of(str(refused), cmd[0])
            if isinstance(error, FileNotFoundError):
                return ExecResult(False, 127, "", f"{error}\n")
            raise error from refused
        if state == "timeout":
            raise TimeoutError(f"{cmd[0]} took longer than {timeout} s")
        out, err = out.decode(errors="replace"), err.decode(errors="replace")
        if max(len(out), len(err)) > limit:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, out[-limit:])
        return ExecResult(code == 0, code, out, err)

    # With the rights of the sandbox's user, and anywhere in the sandbox: files/ is its working directory only.

    async def write_file(self, file, contents):
        data = contents.encode() if isinstance(contents, str) else contents
        script = 'mkdir -p -- "$(dirname -- "$1")" && cat >"$1"'
        _out, err, code, _state = await self.run(["sh", "-c", script, "sh", file], stdin=data, env={"LC_ALL": "C"})
        if code:
            raise error_of(err.decode(errors="replace"), file)

    async def read_file(self, file, text=True):
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        out, err, code, _state = await self.run(["cat", "--", file], env={"LC_ALL": "C"}, limit=limit)
        if code:
            raise error_of(err.decode(errors="replace"), file)
        if len(out) > limit:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        return out.decode() if text else out
