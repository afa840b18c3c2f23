#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A CodeExecutorAgent that runs what a model has written, in a sandbox. The model is a fake."""
import asyncio
import os

from autogen_agentchat.agents import ApprovalResponse, CodeExecutorAgent
from autogen_agentchat.messages import CodeExecutionEvent
from autogen_ext.models.replay import ReplayChatCompletionClient
from xsbx_autogen import XsbxCodeExecutor

CODE = """Let me see.

```python
# filename: squares.py
squares = [n * n for n in range(5)]
print(squares)
```

```sh
python3 -c 'import squares' && wc -l < squares.py
```
"""


def approve(_request):
    return ApprovalResponse(approved=True, reason="it runs in a sandbox")


async def main():
    model = ReplayChatCompletionClient([CODE, "These are the squares."])
    async with XsbxCodeExecutor(os.environ.get("XSBX_TEMPLATE", "/sbx/shell"), timeout=60) as executor:
        agent = CodeExecutorAgent("coder", code_executor=executor, model_client=model, approval_func=approve)
        async for message in agent.run_stream(task="Show me squares."):
            if isinstance(message, CodeExecutionEvent):
                print(f"exit code {message.result.exit_code}:\n{message.result.output}", end="")
        print("then:", message.messages[-1].to_text())


asyncio.run(main())
