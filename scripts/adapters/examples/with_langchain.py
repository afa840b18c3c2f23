#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A deep agent that works in a sandbox: it writes a file and runs it. The model is a fake that says what to do."""
import os

from deepagents import create_deep_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from xsbx_langchain import XsbxSandbox


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools, **options):
        return self


def calls(name, **arguments):
    return AIMessage(content="", tool_calls=[{"name": name, "args": arguments, "id": f"call_{name}"}])


model = Scripted(messages=iter([
    calls("write_file", file_path="/home/user/hello.sh", content="echo hello from $(basename $PWD)\n"),
    calls("execute", command="bash hello.sh; exit 3"),
    AIMessage(content="done")]))
sandbox = XsbxSandbox(os.environ.get("XSBX_TEMPLATE", "/sbx/shell"))
agent = create_deep_agent(model, backend=sandbox)
for message in agent.invoke({"messages": [("user", "say hello")]})["messages"]:
    print(f"{message.type}: {message.text.strip()}")
sandbox.delete()
