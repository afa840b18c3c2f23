#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A FunctionAgent with a sandbox's tools. The model is a fake that calls one of them."""
import asyncio
import os

from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from xsbx_llamaindex import XsbxToolSpec


def scripted(messages, **_options):
    if messages[-1].role == "tool":
        return ChatMessage("The mean is 2.8.", role="assistant")
    call = ToolCallBlock(tool_call_id="1", tool_name="run_code",
                         tool_kwargs={"code": "import statistics; print(statistics.mean([3, 1, 4, 1, 5]))"})
    return ChatMessage(role="assistant", blocks=[call])


async def main():
    sandbox = XsbxToolSpec(os.environ.get("XSBX_TEMPLATE", "/sbx/python"))
    agent = FunctionAgent(tools=sandbox.to_tool_list(), llm=MockFunctionCallingLLM(response_generator=scripted))
    handler = agent.run("What is the mean of 3, 1, 4, 1, 5?")
    async for event in handler.stream_events():
        if isinstance(event, ToolCallResult):
            print(f"{event.tool_name}: {event.tool_output.content}")
    print("answer:", await handler)
    sandbox.close()


asyncio.run(main())
