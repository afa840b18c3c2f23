#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A CodeAgent whose code runs in a sandbox, with a tool of its own. The model is a fake that writes two steps."""
import os

from smolagents import ChatMessage, CodeAgent, LogLevel, MessageRole, Model, tool
from xsbx_smolagents import XsbxExecutor


@tool
def double(number: int) -> int:
    """Doubles a number.

    Args:
        number: the number
    """
    return 2 * number


class Scripted(Model):
    steps = iter(["<code>\nnumbers = [double(n) for n in (1, 2, 3)]\nprint(numbers)\n</code>",
                  "<code>\nfinal_answer(sum(numbers))\n</code>"])

    def generate(self, messages, **options):
        return ChatMessage(role=MessageRole.ASSISTANT, content=next(self.steps))


executor = XsbxExecutor(os.environ.get("XSBX_TEMPLATE", "/sbx/python"))
with CodeAgent(tools=[double], model=Scripted(), executor=executor, verbosity_level=LogLevel.OFF) as agent:
    print("answer:", agent.run("What is the sum of twice 1, 2 and 3?"))
    print(agent.memory.steps[1].observations.strip())
