# SPDX-License-Identifier: Apache-2.0
"""
Tools for crewAI's agents: one that runs code in an interpreter whose variables last, one that runs shell commands. Those that
are made with the same session share a sandbox.

    session = xsbx.Session("/sbx/python")
    Agent(..., tools=[XsbxCodeTool(session=session), XsbxCommandTool(session=session)])

Without a session each has one of its own, in XSBX_TEMPLATE or /sbx/python. xsbx.py has to be beside this file.
"""
import os
from typing import Any

from crewai.tools import BaseTool
from crewai.tools.tool_failure import ToolFailure
from crewai.types.callback import SerializableCallable
from pydantic import BaseModel, Field

import xsbx


class CodeInput(BaseModel):
    code: str = Field(description="The program; print() what is to be seen.")


class CommandInput(BaseModel):
    command: str = Field(description="The command, for bash.")


def never(_arguments=None, _result=None):
    """The same call twice is two runs: nothing of it may come from a cache."""
    return False


def told(done):
    """What a model reads of it."""
    text = done.output.decode(errors="replace")
    if text and not text.endswith("\n"):
        text += "\n"
    if done.status["truncated"]:
        text += "(there was more output than is kept)\n"
    return text + (f"exit status {done.code}" if done.state == "done" else f"{done.state}, exit status {done.code}")


class XsbxTool(BaseTool):
    session: Any = Field(default_factory=lambda: xsbx.Session(os.environ.get("XSBX_TEMPLATE", "/sbx/python")), exclude=True)
    timeout_s: int = 60
    cache_function: SerializableCallable = never

    def start(self, text):
        raise NotImplementedError

    def _run(self, **arguments):
        try:
            return told(self.start(*arguments.values()).follow(wanted=["output"]))
        except xsbx.Failed as failed:
            return ToolFailure(message=str(failed), retryable=failed.never_ran)

    async def _arun(self, **arguments):
        try:
            return told(await self.start(*arguments.values()).wait(wanted=["output"]))
        except xsbx.Failed as failed:
            return ToolFailure(message=str(failed), retryable=failed.never_ran)


class XsbxCodeTool(XsbxTool):
    name: str = "run_code"
    description: str = ("Runs code in a sandbox's interpreter. Variables, imports and functions last from call to call. "
                        "Returns what it printed, and its exit status.")
    args_schema: type[BaseModel] = CodeInput

    def start(self, text):
        return self.session.code(text, timeout_s=self.timeout_s)


class XsbxCommandTool(XsbxTool):
    name: str = "run_command"
    description: str = "Runs a shell command in a sandbox. Returns what it printed, and its exit status."
    args_schema: type[BaseModel] = CommandInput

    def start(self, text):
        return self.session.job(["bash", "-c", text], timeout_s=self.timeout_s)
