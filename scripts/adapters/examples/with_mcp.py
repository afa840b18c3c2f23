#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client of scripts/adapters/xsbx_mcp.py, as a chat program is one."""
import asyncio
import os
import sys

from mcp import Client, StdioServerParameters, stdio_client

SERVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../xsbx_mcp.py")
TEMPLATE = os.environ.get("XSBX_TEMPLATE", "/sbx/python")


async def main():
    server = StdioServerParameters(command=sys.executable, args=[SERVER, TEMPLATE], env=dict(os.environ))
    async with Client(stdio_client(server)) as client:
        async def call(tool, **arguments):
            result = await client.call_tool(tool, arguments)
            print(f"{tool}: {'(error) ' * bool(result.is_error)}{result.content[0].text}")

        print(", ".join(tool.name for tool in (await client.list_tools()).tools))
        await call("files", path="data.txt", content="one two three\n")
        await call("run", code="words = open('data.txt').read().split(); print(len(words))")
        await call("fork", name="second")
        await call("job", command="wc -w < data.txt; rm data.txt", sandbox="second")
        await call("files")
        await call("files", path="../in")


asyncio.run(main())
