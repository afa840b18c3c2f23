#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program as exec_sandbox's users write them; it runs on a mount because exec_sandbox is scripts/adapters/exec_sandbox."""
import asyncio
import io

from exec_sandbox import Scheduler


async def main():
    async with Scheduler() as scheduler:
        result = await scheduler.run("print('hello')", language="python", on_stdout=lambda text: print("heard:", text, end=""))
        print("exit code", result.exit_code)
        async with await scheduler.session(language="python") as session:
            await session.write_file("numbers.txt", b"3 1 4 1 5")
            await session.exec("numbers = sorted(map(int, open('numbers.txt').read().split()))")
            await session.exec("open('sorted.txt', 'w').write(str(numbers))")
            content = io.BytesIO()
            await session.read_file("sorted.txt", destination=content)
            print(content.getvalue().decode(), [file.name for file in await session.list_files()])


asyncio.run(main())
