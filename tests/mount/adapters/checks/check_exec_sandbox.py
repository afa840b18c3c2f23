# SPDX-License-Identifier: Apache-2.0
"""exec_sandbox's interface: run by adapters.py, with a mount that has templates of Python and bash."""
import asyncio
import io
import os
import sys
import threading
import urllib.request
from pathlib import Path

from exec_sandbox import *
from exec_sandbox import Language, PortMapping, Scheduler, SchedulerConfig


async def failure(call):
    try:
        return type(await call), "no failure"
    except Exception as error:
        return type(error), str(error)


async def runs(scheduler):
    heard, log = [], []
    result = await scheduler.run("echo \"$X\"; echo é >&2; exit 3", language=Language.RAW, env_vars={"X": "a\tb"},
                                 on_stdout=heard.append, on_stderr=heard.append, on_boot_log=log.append)
    assert (result.stdout, result.stderr, result.exit_code) == ("a\tb\n", "é\n", 3), result
    assert sorted(heard) == ["a\tb\n", "é\n"] and result.timing.total_ms >= result.timing.execute_ms > 0, (heard, result)
    results = await asyncio.gather(*(scheduler.run(f"echo {n}; exit {n}", language="raw") for n in range(6)))
    assert [(one.stdout, one.exit_code) for one in results] == [(f"{n}\n", n) for n in range(6)], results
    assert all(0 <= one.timing.boot_ms < 600_000 for one in results), results

    def raises(text):
        heard.append(text)
        raise ValueError("on purpose")

    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    heard.clear()
    result = await scheduler.run("echo a; sleep 0.3; echo b", language="raw", on_stdout=raises)
    assert (result.stdout, heard) == ("a\nb\n", ["a\n"]), (result, heard)


async def sessions(scheduler):
    async with await scheduler.session(language="python", idle_timeout_seconds=100) as session:
        await session.exec("x = 42")
        result = await session.exec("print(x); 1 / 0")
        assert (result.stdout, result.exit_code) == ("42\n", 1) and "ZeroDivisionError" in result.stderr, result
        result = await session.exec("while True: pass", timeout_seconds=1)
        assert result.exit_code == -1 and "timeout after 1s" in result.stderr and not session.closed, result
        assert session.exec_count == 3
        for call, kind in ((session.exec(" "), CodeValidationError), (session.exec("a\0b"), CodeValidationError),
                           (session.exec("1", env_vars={"A": "\n"}), EnvVarValidationError),
                           (session.exec("1", env_vars={"A B": "1"}), EnvVarValidationError),
                           (session.exec("1", timeout_seconds=0), ValueError),
                           (session.exec("#" * (1 << 20) + "#"), VmConfigError)):
            assert (await failure(call))[0] is kind
        task = asyncio.create_task(session.exec("import time; time.sleep(60)"))
        await asyncio.sleep(0.5)
        task.cancel()
        assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)
        assert session.closed and (await failure(session.exec("1")))[0] is SessionClosedError
    session = await scheduler.session(language="raw")
    assert (await failure(session.exec("head -c 3000000 /dev/zero")))[0] is OutputLimitError
    assert (await session.exec("echo on")).stdout == "on\n"


async def files(scheduler):
    async with await scheduler.session(language="raw") as session:
        Path("local").write_bytes(b"\0\xff")
        await session.write_file("a/b.sh", b"echo hello $1", make_executable=True)
        await session.write_file("local", Path("local"))
        await session.write_file("stream", io.BytesIO(b"123"))
        assert (await session.exec("a/b.sh you; wc -c < local")).stdout == "hello you\n2\n"
        content = io.BytesIO()
        await session.read_file("local", destination=content)
        await session.read_file("stream", destination=Path("copy"))
        assert content.getvalue() == b"\0\xff" and Path("copy").read_bytes() == b"123"
        assert [(one.name, one.is_dir, one.size) for one in await session.list_files()] == [
            ("a", True, 0), ("local", False, 2), ("stream", False, 3)]
        # The event loop goes on while a file is opened.
        os.mkfifo("pipe")
        went_on, fed = threading.Event(), []
        feeder = threading.Thread(target=lambda: fed.append(went_on.wait(5)) or Path("pipe").write_bytes(b"piped"))
        feeder.start()
        task = asyncio.create_task(session.write_file("piped", Path("pipe")))
        await asyncio.sleep(0.1)
        went_on.set()
        await task
        feeder.join()
        assert fed == [True] and (await session.exec("cat piped")).stdout == "piped", fed
        await session.exec("ln -s /etc/passwd link")
        for path in ("none", "../in", "/etc/passwd", "a/../../config", "link"):
            kind, words = await failure(session.read_file(path, destination=io.BytesIO()))
            assert kind is VmPermanentError, (path, kind, words)


async def large(scheduler):
    """Their limit: a sandbox's file can have more than this host's disk."""
    most = 500 << 20
    async with await scheduler.session(language="raw") as session:
        await session.exec(f"truncate -s {most + 1} sparse; truncate -s 1T huge; echo small > small; ln small one")
        for name in ("sparse", "huge"):
            kind, words = await failure(session.read_file(name, destination=Path(name)))
            assert kind is VmPermanentError and str(most) in words and not os.path.exists(name), (name, kind, words)
        listed = {one.name: one.size for one in await session.list_files()}
        assert listed == {"sparse": 0, "huge": 0, "small": 6, "one": 6}, listed
        await session.read_file("one", destination=Path("small"))
        assert Path("small").read_bytes() == b"small\n"
        Path("sparse").touch()
        os.truncate("sparse", most + 1)
        for content in (Path("sparse"), open("sparse", "rb")):
            kind, words = await failure(session.write_file("none", content))
            assert kind is ValueError and str(most) in words, (kind, words)
        assert "none" not in [one.name for one in await session.list_files()] and not session.closed
        class Endless(io.RawIOBase):
            def readable(self):
                return True

            def readinto(self, buffer):
                return len(buffer)

        files_of = sys.modules["exec_sandbox.files"]
        files_of.MAX_FILE_SIZE_BYTES = 3 << 20
        kind, words = await failure(session.write_file("endless", Endless()))
        assert kind is ValueError, (kind, words)
        files_of.MAX_FILE_SIZE_BYTES = most


async def ports(scheduler):
    server = ("import http.server, threading\nclass Handler(http.server.SimpleHTTPRequestHandler):\n"
              "    log_message = lambda *_: None\nserver = http.server.ThreadingHTTPServer(('0.0.0.0', 8080), Handler)\n"
              "threading.Thread(target=server.serve_forever, daemon=True).start()\n")
    async with await scheduler.session(language="python", expose_ports=[PortMapping(internal=8080)]) as session:
        await session.write_file("hello.txt", b"hello")
        assert (await session.exec(server)).exit_code == 0
        [port] = session.exposed_ports
        url = f"{port.url}/hello.txt"
        assert port.internal == 8080 and await asyncio.to_thread(lambda: urllib.request.urlopen(url).read()) == b"hello"


async def refusals(scheduler):
    for options, kind in (({"language": "cobol"}, ValueError), ({"language": "raw", "memory_mb": 5}, VmConfigError),
                          ({"language": "python", "packages": ["pandas"]}, PackageNotAllowedError),
                          ({"language": "raw", "expose_ports": [PortMapping(53, protocol="udp")]}, VmConfigError),
                          ({"language": "raw", "allow_network": True, "allowed_domains": ["a\nuser = root"]}, VmConfigError)):
        assert (await failure(scheduler.session(**options)))[0] is kind, (options, await failure(scheduler.session(**options)))
    for options in ({"internal": 0}, {"internal": 65536}, {"internal": 80, "external": 0}, {"internal": 80, "external": 80},
                    {"internal": 80, "protocol": "sctp"}):
        try:
            raise AssertionError(PortMapping(**options))
        except ValueError:
            pass
    assert issubclass(VmTimeoutError, VmTransientError) and issubclass(VmConfigError, VmError) and VmError is VmPermanentError


async def main():
    scheduler = Scheduler(SchedulerConfig(warm_pool_size=1, default_timeout_seconds=60))
    assert (await failure(scheduler.session(language="raw")))[0] is SandboxError
    async with scheduler:
        await scheduler.wait_pool_ready()
        for check in (runs, sessions, files, large, ports, refusals):
            await check(scheduler)
        left = await scheduler.session(language="raw")
    assert left.closed and not os.path.exists(f"{os.environ['XSBX_MOUNT']}/raw/{left.vm_id}")
    print("exec_sandbox: fine")


asyncio.run(main())
