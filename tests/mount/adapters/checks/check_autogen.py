# SPDX-License-Identifier: Apache-2.0
"""AutoGen's protocol: languages, files, cancelling, restarts, configuration."""
import asyncio
import os

from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock, CodeExecutor
from xsbx_autogen import XsbxCodeExecutor

TEMPLATE = os.environ["XSBX_TEMPLATE"]


async def run(executor, *blocks, token=None):
    blocks = [CodeBlock(language=language, code=code) for language, code in blocks]
    result = await executor.execute_code_blocks(blocks, token or CancellationToken())
    return result.exit_code, result.output


async def refused(executor, *blocks):
    try:
        return await run(executor, *blocks)
    except ValueError:
        return "refused"


async def main():
    executor = XsbxCodeExecutor(TEMPLATE, config="env.WHO = me\n", timeout=60)
    assert await refused(executor, ("sh", "true")) == "refused"
    async with executor:
        assert await refused(executor) == "refused"
        assert await run(executor, ("python", "import sys; print('a', flush=True); print('b', file=sys.stderr)"),
                         ("sh", "echo $WHO; exit 3"), ("sh", "echo never")) == (3, "a\nb\nme\n")
        assert await run(executor, ("python", "# filename: lib/one.py\nx = 1"), ("bash", "cat lib/one.py")) == (
            0, "# filename: lib/one.py\nx = 1")
        for name, there in (("lib/two.sh", True), ("/etc/passwd", False), ("../in", False), ("a" * 300, False), ("-n", True)):
            block = CodeBlock(language="sh", code=f"# filename: {name}\ntrue")
            result = await executor.execute_code_blocks([block], CancellationToken())
            want = str(executor.session.path / "files" / name) if there else None
            assert result.code_file == want and (not there or open(want).read() == block.code), (name, result)
        async with XsbxCodeExecutor(TEMPLATE, timeout=10) as hasty:
            code, output = await run(hasty, ("bash", "echo early; sleep 600"))
        assert code == 124 and output.startswith("early") and "Timeout" in output, output
        code, output = await run(executor, ("cobol", "x"))
        assert code == 1 and "cobol" in output
        assert await run(executor, ("sh", "# filename: -rf\necho odd")) == (0, "odd\n")
        code, output = await run(executor, ("sh", "head -c 3000000 /dev/zero"))
        assert code == 0 and "more output" in output
        assert await run(executor, ("python", "x = '''" + "long " * 100_000 + "'''\nprint(len(x))")) == (0, "500000\n")
        token = CancellationToken()
        task = asyncio.create_task(run(executor, ("bash", "for i in {1..60}; do echo >> beat; sleep 0.1; done"), token=token))
        while (await run(executor, ("sh", "test -e beat")))[0]:
            await asyncio.sleep(0.1)
        token.cancel()
        assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)
        sizes = [(await run(executor, ("sh", "wc -c < beat; sleep 0.7")))[1] for _ in range(2)]
        assert sizes[0] == sizes[1] != "0\n", sizes
        await executor.restart()
        assert await run(executor, ("sh", "ls | grep -c beat")) == (1, "0\n")
    copy = CodeExecutor.load_component(executor.dump_component())
    assert copy._settings == executor._settings and isinstance(copy, XsbxCodeExecutor)
    async with copy:
        assert await run(copy, ("sh", "echo $WHO")) == (0, "me\n")
    print("autogen: fine")


asyncio.run(main())
