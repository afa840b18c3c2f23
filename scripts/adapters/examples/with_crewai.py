#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A crew of one, with tools that share a sandbox. The model is a fake that calls one of them."""
import os

os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
os.environ.setdefault("OTEL_SDK_DISABLED", "true")

import xsbx
from crewai import Agent, BaseLLM, Crew, Task
from xsbx_crewai import XsbxCodeTool, XsbxCommandTool


class Scripted(BaseLLM):
    def call(self, messages, **options):
        if "exit status" in str(messages):
            return "Thought: I know it now.\nFinal Answer: 42"
        return 'Thought: I have to compute that.\nAction: run_code\nAction Input: {"code": "print(6 * 7)"}\n'


session = xsbx.Session(os.environ.get("XSBX_TEMPLATE", "/sbx/python"))
tools = [XsbxCodeTool(session=session), XsbxCommandTool(session=session)]
agent = Agent(role="clerk", goal="compute", backstory="exact", tools=tools, llm=Scripted(model="scripted"))
task = Task(description="What is 6 * 7?", expected_output="a number", agent=agent)
print("answer:", Crew(agents=[agent], tasks=[task]).kickoff().raw)
print(tools[0].run(code="answer = 6 * 7; print(answer)"))
print(tools[1].run(command="echo here; exit 3"))
session.remove()
