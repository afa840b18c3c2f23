# SPDX-License-Identifier: Apache-2.0
"""
A code executor for AutoGen, in place of its DockerCommandLineCodeExecutor:

    async with XsbxCodeExecutor("/sbx/shell", timeout=60) as executor:
        agent = CodeExecutorAgent("coder", code_executor=executor)

Each block is a program of its own, in the sandbox's working directory, where it stays as a file: `# filename: NAME` in its
first line says which. Blocks in python, sh and bash, and javascript where the sandbox has bun. xsbx.py has to be beside this
file.
"""
import asyncio
import dataclasses
import hashlib
import os
import re

from autogen_core import Component
from autogen_core.code_executor import CodeExecutor, CodeResult
from pydantic import BaseModel

import xsbx

PROGRAMS = {"python": "python3", "py": "python3", "sh": "sh", "shell": "sh", "bash": "bash",
            "javascript": "bun", "js": "bun", "typescript": "bun", "ts": "bun"}
SUFFIXES = {"python3": "py", "sh": "sh", "bash": "sh", "bun": "ts"}
SAVE_AND_RUN = 'mkdir -p -- "$(dirname -- "$1")" && cat >"$1" && exec "$2" "$1"'


@dataclasses.dataclass
class XsbxCodeResult(CodeResult):
    code_file: str | None  # the first block's, in the mount; None where it is not in the working directory


class XsbxCodeExecutorConfig(BaseModel):
    template: str = "/sbx/shell"
    config: str = ""
    timeout: int = 60


class XsbxCodeExecutor(CodeExecutor, Component[XsbxCodeExecutorConfig]):
    component_config_schema = XsbxCodeExecutorConfig

    def __init__(self, template="/sbx/shell", config="", timeout=60):
        """@config: lines for the session's `config`, see xsbxfs.conf(5); @timeout: seconds for each block"""
        if timeout < 1:
            raise ValueError("timeout has to be 1 or more")
        self._settings = XsbxCodeExecutorConfig(template=str(template), config=config, timeout=timeout)
        self.session = None

    def _to_config(self):
        return self._settings

    @classmethod
    def _from_config(cls, config):
        return cls(config.template, config.config, config.timeout)

    async def start(self):
        if not self.session:
            self.session = xsbx.Session(self._settings.template, self._settings.config)

    async def stop(self):
        if self.session:
            self.session.remove()
        self.session = None

    async def restart(self):
        await self.stop()
        await self.start()

    async def execute_code_blocks(self, code_blocks, cancellation_token):
        """Up to the first that fails. Cancelled by the token, it stops the program and raises CancelledError."""
        if not self.session:
            raise ValueError("start() comes first, or `async with`")
        if not code_blocks:
            raise ValueError("there are no code blocks")
        output, code, name = "", 0, self.name(code_blocks[0])
        inside = not name.startswith("/") and ".." not in name.split("/")
        file = str(self.session.path / "files" / name) if inside else ""
        for block in code_blocks:
            task = asyncio.ensure_future(self.execute(block))
            cancellation_token.link_future(task)
            code, text = await task
            output += text
            if code:
                break
        return XsbxCodeResult(code, output, file if os.path.isfile(file) else None)

    @staticmethod
    def name(block):
        named = re.match(r"(?:#|//) *filename: *(\S+)", block.code)
        suffix = SUFFIXES.get(PROGRAMS.get(block.language.lower()))
        return named[1] if named else f"code_{hashlib.sha256(block.code.encode()).hexdigest()[:16]}.{suffix}"

    async def execute(self, block):
        program = PROGRAMS.get(block.language.lower())
        if not program:
            return 1, f"there is no program for {block.language!r}, but for {', '.join(PROGRAMS)}\n"
        source, name = block.code.encode(), self.name(block)
        argv = ["sh", "-c", SAVE_AND_RUN, "sh", f"./{name}" if name.startswith("-") else name, program]
        try:
            done = await self.session.job(argv, source, timeout_s=self._settings.timeout).wait(wanted=["output"])
        except xsbx.Failed as failed:
            return 1, f"{failed}\n"
        text = done.output.decode(errors="replace")
        if done.state != "done":
            text += f"\n{'Timeout' if done.state == 'timeout' else done.state}\n"
        if done.status["truncated"]:
            text += "\n(there was more output than the mount keeps)\n"
        return done.code, text
