# SPDX-License-Identifier: Apache-2.0
"""A session made, used and looked at by the tools of the filesystem server of MCP alone."""
import asyncio
import base64
import os

from mcp import Client, StdioServerParameters, stdio_client

MNT, SESSION = os.environ["XSBX_MOUNT"], f"{os.environ['XSBX_TEMPLATE']}/agent"


async def main():
    server = StdioServerParameters(command="node", args=[os.environ["SERVER"], MNT], env=dict(os.environ))
    async with Client(stdio_client(server)) as client:
        async def call(tool, path="", **arguments):
            result = await client.call_tool(tool, {"path": f"{SESSION}/{path}".rstrip("/"), **arguments} if path is not None else arguments)
            return ("error: " if result.is_error else "") + result.content[0].text

        assert MNT in await call("list_allowed_directories", None)
        assert "Successfully" in await call("create_directory")
        assert "Successfully" in await call("write_file", "in", content="x = 6\nprint(x * 7, 'é')\n")
        assert await call("read_text_file", "exit_code") == "0\n"  # waits for the run, as any reader does
        assert await call("read_text_file", "stdout") == "42 é\n"
        assert "Successfully" in await call("write_file", "in", content="import time\ntime.sleep(1)\nprint(x)\nx / 0\n")
        assert await call("read_text_file", "exit_code") == "1\n" and await call("read_text_file", "stdout") == "6\n"
        assert (await call("read_text_file", "stderr")).endswith("\nZeroDivisionError: division by zero\n")
        output = await call("read_multiple_files", None, paths=[f"{SESSION}/runs/{n}/stdout" for n in (1, 2)])
        assert "42 é" in output and "6\n" in output, output

        assert "Successfully" in await call("write_file", "files/data.txt", content="one\ntwo\n")
        await call("edit_file", "files/data.txt", edits=[{"oldText": "two", "newText": "three"}])
        assert "Successfully" in await call("create_directory", "files/sub/deep")
        assert "Successfully" in await call("write_file", "in", content=(
            "import os\nprint(open('data.txt').read(), end='')\nopen('sub/deep/made.bin', 'wb').write(bytes(range(256)))\n"
            "os.symlink('/etc/passwd', 'link')\n"))
        assert await call("read_text_file", "exit_code") == "0\n", await call("read_text_file", "stderr")
        assert await call("read_text_file", "stdout") == "one\nthree\n"
        listing = await call("list_directory", "files")
        assert sorted(listing.splitlines()) == ["[DIR] sub", "[FILE] data.txt", "[FILE] link"], listing
        assert "made.bin" in await call("directory_tree", "files") and "made.bin" in await call("search_files", "files", pattern="**/*.bin")
        assert "size: 256" in await call("get_file_info", "files/sub/deep/made.bin")
        result = await client.call_tool("read_media_file", {"path": f"{SESSION}/files/sub/deep/made.bin"})
        media = result.content[0].model_dump()
        assert base64.b64decode(media.get("data") or media["resource"]["blob"]) == bytes(range(256)), media
        moved = await call("move_file", None, source=f"{SESSION}/files/data.txt", destination=f"{SESSION}/files/sub/moved.txt")
        assert "Successfully" in moved, moved
        for path in ("files/link", "../../../etc/passwd", "files/../../../../etc/passwd"):
            assert (await call("read_text_file", path)).startswith("error: "), path

        assert "Successfully" in await call("create_directory", "jobs/count")
        assert "Successfully" in await call("write_file", "jobs/count/in", content="ls | wc -l; exit 3\n")
        assert await call("read_text_file", "jobs/count/exit_code") == "3\n"
        assert (await call("read_text_file", "jobs/count/stdout")).strip() == "2"
    os.rmdir(SESSION)  # what the server has no tool for
    print("mcp_filesystem: fine")


asyncio.run(main())
