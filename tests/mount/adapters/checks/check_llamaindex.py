# SPDX-License-Identifier: Apache-2.0
"""Each tool, called as an agent calls it."""
import asyncio
import os

from xsbx_llamaindex import XsbxToolSpec

sandbox = XsbxToolSpec(os.environ["XSBX_TEMPLATE"], timeout_s=60)
tools = {tool.metadata.name: tool for tool in sandbox.to_tool_list()}
assert sorted(tools) == ["list_files", "read_file", "run_code", "run_command", "write_file"]
assert all(len(tool.metadata.description) > 30 for tool in tools.values())


def call(name, **arguments):
    return tools[name].call(**arguments).content


assert call("run_code", code="x = 6") == "exit status 0"
assert call("run_code", code="print(x * 7)") == "42\nexit status 0"
assert "ZeroDivisionError" in call("run_code", code="x / 0") and call("run_code", code="x / 0").endswith("exit status 1")
assert call("run_command", command="printf no-newline; exit 3") == "no-newline\nexit status 3"
assert call("write_file", path="a/b.txt", content="é\r\n") == "wrote a/b.txt"
assert call("read_file", path="a/b.txt") == "é\r\n" and call("list_files") == "a/" and call("list_files", path="a") == "b.txt"
assert call("run_command", command="wc -c < a/b.txt; ln -s /etc/passwd link") == "4\nexit status 0"
for path in ("../config", "/etc/passwd", "link"):
    try:
        raise AssertionError(call("read_file", path=path))
    except (ValueError, OSError):
        pass
assert call("run_command", command="truncate -s 1G sparse; truncate -s 1M small") == "exit status 0"
assert len(call("read_file", path="small")) == 1 << 20
try:
    raise AssertionError(len(call("read_file", path="sparse")))
except ValueError as error:
    assert "more than" in str(error), error
sandbox.timeout_s = 1
assert call("run_command", command="sleep 60") == "timeout, exit status 124"


async def at_once():
    sandbox.timeout_s = 60
    results = await asyncio.gather(*(tools["run_command"].acall(command=f"sleep 1; exit {n}") for n in range(20)))
    assert [result.content for result in results] == [f"exit status {n}" for n in range(20)]
    assert (await tools["run_code"].acall(code="print(x)")).content == "6\nexit status 0"


asyncio.run(at_once())
sandbox.close()
print("llamaindex: fine")
