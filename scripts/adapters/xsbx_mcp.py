#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
A server for MCP, on its official SDK (2.x), with the tools run, job, files and fork. xsbx.py has to be beside this file. A
client starts it like this, and its sandboxes are there until it ends:

    python3 xsbx_mcp.py [TEMPLATE]     # a directory of the mount; without one: XSBX_TEMPLATE, or /sbx/python
"""
import asyncio
import base64
import collections
import os
import signal
import sys

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

import xsbx

TEMPLATE = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("XSBX_TEMPLATE", "/sbx/python")
MOST = 1 << 18  # bytes of an answer
SANDBOXES, JOBS = {}, {}


class Server(MCPServer):
    """Refuses an argument that a tool has not, which the SDK leaves out: who guessed its name learns of it."""

    async def call_tool(self, name, arguments, context=None):
        has = next((tool.input_schema["properties"] for tool in await self.list_tools() if tool.name == name), arguments)
        if wrong := ", ".join(argument for argument in arguments if argument not in has):
            raise ToolError(f"{name} has no argument {wrong}, but {', '.join(has)}")
        return await super().call_tool(name, arguments, context)


server = Server("xsbxfs", log_level="WARNING", instructions="Sandboxes that run code and keep its state. The first is "
                "called main, and is there when it is first used; fork makes others. All work in their own files.")


def sandbox_of(name):
    if name == "main" and name not in SANDBOXES:
        SANDBOXES[name] = explained(xsbx.Session, TEMPLATE)
    if name not in SANDBOXES:
        raise ToolError(f"there is no sandbox {name!r}, but {', '.join(SANDBOXES)}")
    return SANDBOXES[name]


def explained(call, *arguments, **options):
    try:
        return call(*arguments, **options)
    except (xsbx.Failed, OSError, ValueError) as error:
        raise ToolError(getattr(error, "strerror", None) or str(error)) from error


def told(output, state, code, more=0):
    text = output.decode(errors="replace")
    text += "" if text.endswith("\n") or not text else "\n"
    text += f"({more} bytes more: write to a file instead, and read that with files)\n" if more > 0 else ""
    return text + (f"exit status {code}" if state == "done" else f"{state}, exit status {code}")


async def end_of(program, heard=lambda name, piece: None):
    try:
        done = await program.wait(wanted=["output"], limit=MOST, heard=heard)
    except xsbx.Failed as failed:
        raise ToolError(str(failed)) from failed
    total = sum(done.status[name]["bytes"] + done.status[name]["dropped_bytes"] for name in ("stdout", "stderr"))
    return told(done.output, done.state, done.code, total - len(done.output))


@server.tool(structured_output=False)
async def run(code: str, sandbox: str = "main", timeout_s: int = 60) -> str:
    """Run code in a sandbox's interpreter. Variables, imports and functions last from call to call. Returns what it printed,
    and its exit status."""
    return await end_of(explained(sandbox_of(sandbox).code, code, timeout_s=timeout_s))


@server.tool(structured_output=False)
async def job(command: str = "", sandbox: str = "main", timeout_s: int = 60, background: bool = False, name: str = "",
              stop: bool = False) -> str:
    """Run a shell command in a sandbox, beside its interpreter. Returns what it printed, and its exit status; or, with
    background, a name at once: called with that name alone, it tells how far the job is, and with stop it ends it.
    timeout_s = 0 is no limit."""
    if bool(name) == bool(command) or stop and command:
        raise ToolError("either a command, or the name of a job in the background, with or without stop")
    if name:
        if name not in JOBS:
            raise ToolError(f"there is no job {name!r}, but {', '.join(JOBS) or 'none'}")
        program, task, output = JOBS[name]
        if stop:
            program.stop()
            await asyncio.gather(task, return_exceptions=True)
        if not task.done():
            return f"{bytes(output).decode(errors='replace')}\n(goes on)"
        del JOBS[name]
        return f"{bytes(output).decode(errors='replace')}\n(stopped)" if stop else await task
    program = explained(sandbox_of(sandbox).job, ["bash", "-c", command], timeout_s=timeout_s)
    if not background:
        return await end_of(program)
    output = collections.deque(maxlen=MOST)
    JOBS[program.path.name] = program, asyncio.create_task(end_of(program, lambda _, piece: output.extend(piece))), output
    return program.path.name


@server.tool(structured_output=False)
async def files(path: str = ".", content: str | None = None, binary: bool = False, sandbox: str = "main") -> str:
    """Look into a sandbox's working directory, or write there: with content the file is written; without, a directory is
    listed and a file is read. With binary, content is Base64, both ways."""
    if path.startswith("/") or ".." in path.split("/"):
        raise ToolError(f"{path} is not below the working directory")
    place = sandbox_of(sandbox).path / "files" / path

    def work():
        if content is not None:
            data = base64.b64decode("".join(content.split()), validate=True) if binary else content.encode()
            place.parent.mkdir(parents=True, exist_ok=True)
            return f"wrote {place.write_bytes(data)} bytes"
        if place.is_dir():
            return "\n".join(sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in place.iterdir()))
        with open(place, "rb") as file:
            data = file.read(MOST + 1)
        if len(data) > MOST:
            raise ValueError(f"{path} has more than {MOST} bytes: read parts of it with job")
        return base64.b64encode(data).decode() if binary else data.decode()
    return await asyncio.to_thread(explained, work)


@server.tool(structured_output=False)
async def fork(name: str, sandbox: str = "main") -> str:
    """Make a copy of a sandbox as it is now, with all its files and, of a virtual machine, its interpreter's state. Both go
    on by themselves; other tools take the copy's name as their sandbox."""
    if name in SANDBOXES or name == "main":
        raise ToolError(f"there is a sandbox {name!r} already")
    source = sandbox_of(sandbox)
    SANDBOXES[name] = explained(xsbx.Session, source.template, f"from = {source.path.name}\nwhen = idle\n")
    return f"{name} is a copy of {sandbox}"


def end(*_signal):
    """As at the end of its input, but that one thread waits for that and can't be told."""
    for sandbox in SANDBOXES.values():
        sandbox.remove()
    os._exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    server.run("stdio")
