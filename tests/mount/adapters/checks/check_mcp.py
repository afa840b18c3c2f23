# SPDX-License-Identifier: Apache-2.0
"""xsbx_mcp.py beyond its example: jobs in the background, binary files, cancelling, and that it leaves nothing, however it ends."""
import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
import time

from mcp import Client, StdioServerParameters, stdio_client

TEMPLATE = os.environ["XSBX_TEMPLATE"]
SERVER = next(f"{place}/xsbx_mcp.py" for place in sys.path if os.path.exists(f"{place}/xsbx_mcp.py"))


def sessions():
    return [name for name in os.listdir(TEMPLATE) if os.path.isdir(f"{TEMPLATE}/{name}")]


async def tools():
    server = StdioServerParameters(command=sys.executable, args=[SERVER, TEMPLATE], env=dict(os.environ))
    async with Client(stdio_client(server)) as client:
        async def call(tool, **arguments):
            result = await client.call_tool(tool, arguments)
            return ("error: " if result.is_error else "") + result.content[0].text

        assert await call("run", code="x = 6; print('é')") == "é\nexit status 0"
        assert "ZeroDivisionError" in await call("run", code="x / 0")
        assert await call("run", code="while True: pass", timeout_s=1) == "timeout, exit status 124"
        data = base64.b64encode(bytes(range(256))).decode()
        assert await call("files", path="d/raw", content=data, binary=True) == "wrote 256 bytes"
        assert await call("files", path="d/raw", binary=True) == data
        assert (await call("files", path="d/raw")).startswith("error: ")
        for wrong in "!!!", "YQ", "Y!Q==":
            assert (await call("files", path="d/wrong", content=wrong, binary=True)).startswith("error: "), wrong
        assert "wrong" not in await call("files", path="d")
        assert await call("files", path="d/lines", content="YW\nJj\n", binary=True) == "wrote 3 bytes"
        assert await call("job", command="wc -c < d/raw; head -c 300000 /dev/zero > large; ln -s /etc/passwd link") == (
            "256\nexit status 0")
        for path in ("large", "link", "/etc/passwd", "a/../../config", "none"):
            assert (await call("files", path=path)).startswith("error: "), path
        output = await call("job", command="head -c 1000000 /dev/zero | tr '\\0' x; echo; echo end >&2; exit 3")
        assert output.endswith("exit status 3") and "bytes more" in output and len(output) < 270_000, output[-200:]
        for tool, wrong in ("run", {"code": "1", "timeout": 1}), ("run", {"code": "1", "session": "second"}), ("job", {"argv": ["true"]}), \
                ("job", {}), ("job", {"command": "true", "name": "x"}), ("job", {"command": "true", "stop": True}), \
                ("files", {"action": "delete", "path": "d"}), ("fork", {"name": "third", "from": "main"}), ("no", {}):
            assert (await call(tool, **wrong)).startswith("error: "), (tool, wrong)
        name = await call("job", command="for i in {1..600}; do echo $i; echo >> beat; sleep 0.1; done", background=True, timeout_s=0)
        while "3\n" not in (output := await call("job", name=name)):
            assert output.endswith("(goes on)"), output
            await asyncio.sleep(0.1)
        assert (await call("job", name=name, stop=True)).endswith("(stopped)")
        assert "there is no job" in await call("job", name=name)
        name = await call("job", command="echo done; exit 4", background=True)
        while (output := await call("job", name=name)).endswith("(goes on)"):
            await asyncio.sleep(0.1)
        assert output == "done\nexit status 4", output
        outputs = await asyncio.gather(*(call("job", command=f"sleep 1; exit {n}") for n in range(20)))
        assert outputs == [f"exit status {n}" for n in range(20)], outputs
        assert (await call("fork", name="main")).startswith("error: ") and (await call("run", code="1", sandbox="no")).startswith("error: ")
        await call("run", code="x = 7")
        assert await call("fork", name="second") == "second is a copy of main"
        if os.environ["BACKEND"] == "vm":  # of a process, files are copied
            assert await call("run", code="print(x)", sandbox="second") == "7\nexit status 0"
        assert "beat" in await call("files", sandbox="second")
        assert len(sessions()) == 2
        task = asyncio.create_task(client.call_tool("job", {"command": "for i in {1..600}; do echo >> beat2; sleep 0.1; done"}))
        while "beat2" not in await call("files"):
            await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        sizes = [await call("job", command="wc -c < beat2; sleep 0.7") for _ in range(2)]
        assert sizes[0] == sizes[1], sizes
    assert sessions() == [], sessions()


def ends(how):
    """While a call goes on."""
    server = subprocess.Popen([sys.executable, SERVER, TEMPLATE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)

    def say(method, **more):
        server.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, **more}) + "\n")
        server.stdin.flush()

    say("initialize", id=1, params={"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
    assert "serverInfo" in server.stdout.readline()
    say("notifications/initialized")
    say("tools/call", id=2, params={"name": "run", "arguments": {"code": "import time; time.sleep(600)", "timeout_s": 0}})
    while not [name for name in sessions() if os.path.exists(f"{TEMPLATE}/{name}/runs/1")]:
        time.sleep(0.1)
    if how:
        server.send_signal(how)
    else:
        server.stdin.close()
    server.wait(300)
    assert sessions() == [], (how, sessions())


asyncio.run(tools())
for way in (signal.SIGTERM, signal.SIGINT, None):
    ends(way)
print("mcp: fine")
