# SPDX-License-Identifier: Apache-2.0
"""
Tools for LlamaIndex's agents: run_code, run_command, write_file, read_file and list_files, in one sandbox.

    sandbox = XsbxToolSpec("/sbx/python")
    agent = FunctionAgent(tools=sandbox.to_tool_list(), llm=llm)

Code goes to the template's interpreter, whose variables last from call to call; commands to bash. The sandbox is removed with
the object, or by close(). xsbx.py has to be beside this file.
"""
import os

from llama_index.core.tools.tool_spec.base import BaseToolSpec

import xsbx


def told(done):
    """What a model reads of it."""
    text = done.output.decode(errors="replace")
    if text and not text.endswith("\n"):
        text += "\n"
    if done.status["truncated"]:
        text += "(there was more output than is kept)\n"
    return text + (f"exit status {done.code}" if done.state == "done" else f"{done.state}, exit status {done.code}")


MOST = 1 << 20  # bytes of a file that is read: a sandbox's may say any size


class XsbxToolSpec(BaseToolSpec):
    spec_functions = [("run_code", "arun_code"), ("run_command", "arun_command"), "write_file", "read_file", "list_files"]

    def __init__(self, template="/sbx/python", config="", timeout_s=60):
        """@config: lines for the session's `config`, see xsbxfs.conf(5); @timeout_s: of each call"""
        self.session = xsbx.Session(template, config)
        self.timeout_s = timeout_s

    def close(self):
        self.session.remove()

    def run_code(self, code: str) -> str:
        """Run code in the sandbox's interpreter. Variables, imports and functions last from call to call. Returns what it
        printed, and its exit status."""
        return told(self.session.code(code, timeout_s=self.timeout_s).follow(wanted=["output"]))

    async def arun_code(self, code: str) -> str:
        return told(await self.session.code(code, timeout_s=self.timeout_s).wait(wanted=["output"]))

    def run_command(self, command: str) -> str:
        """Run a shell command in the sandbox, in its working directory. Returns what it printed, and its exit status."""
        return told(self.session.job(["bash", "-c", command], timeout_s=self.timeout_s).follow(wanted=["output"]))

    async def arun_command(self, command: str) -> str:
        return told(await self.session.job(["bash", "-c", command], timeout_s=self.timeout_s).wait(wanted=["output"]))

    def write_file(self, path: str, content: str) -> str:
        """Write a text file. The path is below the sandbox's working directory."""
        place = self.place(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, encoding="utf-8", newline="")
        return f"wrote {path}"

    def read_file(self, path: str) -> str:
        """Read a text file. The path is below the sandbox's working directory."""
        with open(self.place(path), "rb") as file:
            data = file.read(MOST + 1)
        if len(data) > MOST:
            raise ValueError(f"{path} has more than {MOST} bytes: read parts of it with run_command")
        return data.decode(errors="replace")

    def list_files(self, path: str = ".") -> str:
        """List a directory below the sandbox's working directory; the names of directories end in a slash."""
        with os.scandir(self.place(path)) as entries:
            return "\n".join(sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries))

    def place(self, path):
        """On this host. No path leads out: the mount offers no link that does."""
        if path.startswith("/") or ".." in path.split("/"):
            raise ValueError(f"{path} is not below the working directory")
        return self.session.path / "files" / path
