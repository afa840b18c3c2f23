# SPDX-License-Identifier: Apache-2.0
"""crewAI's protocol: structured tools, no cache, failures."""
import asyncio
import os

import xsbx
from crewai.tools.tool_failure import ToolFailure
from xsbx_crewai import XsbxCodeTool, XsbxCommandTool

session = xsbx.Session(os.environ["XSBX_TEMPLATE"])
code, command = XsbxCodeTool(session=session, timeout_s=60), XsbxCommandTool(session=session, timeout_s=5)
assert code.run(code="x = 6") == "exit status 0" and code.run(code="print(x * 7)") == "42\nexit status 0"
assert "NameError" in code.run(code="y") and command.run(command="exit 3") == "exit status 3"
assert command.run(command="echo early; sleep 60") == "early\ntimeout, exit status 124"
assert asyncio.run(code.arun(code="print(x)")) == "6\nexit status 0"
structured = code.to_structured_tool()
assert structured.invoke({"code": "print(x)"}) == "6\nexit status 0" and list(structured.args) == ["code"]
assert not code.cache_function({}, "6") and code.model_dump_json() and "session" not in code.model_dump()
own = XsbxCommandTool()
assert own.run(command="ls | wc -l") == "0\nexit status 0" and own.session.path != session.path
session.remove()
assert isinstance(code.run(code="1"), ToolFailure)
print("crewai: fine")
