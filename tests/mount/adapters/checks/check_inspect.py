# SPDX-License-Identifier: Apache-2.0
"""What inspect_ai's own check does not look at: cancelling, many at once, failures, and its tools inside."""
import os
import time

import anyio
from inspect_ai.util import OutputLimitExceededError, SandboxEnvironmentSpec, SandboxUnavailableError
from inspect_ai.util._sandbox.environment import SandboxEnvironment
from inspect_ai.util._sandbox.events import SandboxEnvironmentProxy
from inspect_ai.util._sandbox.limits import override_max_exec_output_size
from xsbx_inspect import XsbxConfig, XsbxSandboxEnvironment

TEMPLATE = os.environ["XSBX_TEMPLATE"]
BEAT = "for i in {1..600}; do echo >> beat; sleep 0.1; done"


async def cancelling(env):
    path = env.session.path / "files/beat"
    async with anyio.create_task_group() as group:
        group.start_soon(env.exec, ["bash", "-c", BEAT])
        while not path.exists():
            await anyio.sleep(0.1)
        group.cancel_scope.cancel()
    size = path.stat().st_size
    time.sleep(0.7)
    assert size > 0 and path.stat().st_size == size


async def many(env):
    codes = []

    async def one(n):
        codes.append((n, (await env.exec(["flock", "-s", "lock", "bash", "-c", f"exit {n}"], timeout=600)).returncode))

    await env.exec(["bash", "-c", "exec 9>lock; flock 9; (until [ -e go ]; do sleep 0.3; done) & true"])
    async with anyio.create_task_group() as group:
        for n in range(50):  # more than a pool of threads has
            group.start_soon(one, n)
        await anyio.sleep(1)
        assert (await env.exec(["sh", "-c", "exit 3"])).returncode == 3 and not codes
        await env.write_file("go", "")
    assert sorted(codes) == [(n, n) for n in range(50)], codes


async def outputs(env):
    result = await env.exec(["bash", "-c", "printf '\\xff'; exit 5"])
    assert (result.stdout, result.returncode, result.success) == ("\ufffd", 5, False), result
    result = await env.exec(["nowhere"])
    assert result.returncode == 127 and "nowhere" in result.stderr, result
    result = await env.exec(["pwd"], cwd="nodir")
    assert result.returncode == 127 and result.stderr == "nodir: No such file or directory\n", result
    with override_max_exec_output_size(1000):
        assert len((await env.exec(["head", "-c", "1000", "/dev/zero"])).stdout) == 1000
        try:
            raise AssertionError(await env.exec(["head", "-c", "1001", "/dev/zero"]))
        except OutputLimitExceededError as error:
            assert len(error.truncated_output) == 1000


async def tools_inside(env):
    """inspect puts a program of its own into the sandbox, whose server runs on in the background."""
    for _ in range(2):
        result = await SandboxEnvironmentProxy(env).exec_remote(["bash", "-c", "echo hello; exit 3"], stream=False)
        assert (result.stdout, result.returncode) == ("hello\n", 3), result


async def configured():
    spec = SandboxEnvironmentSpec(type="xsbx", config={"template": TEMPLATE, "config": "env.WHO = me\n"})
    assert spec.config == XsbxConfig(template=TEMPLATE, config="env.WHO = me\n")
    made = await XsbxSandboxEnvironment.sample_init("task", spec.config, {})
    env: SandboxEnvironment = made["default"]
    assert (await env.exec(["sh", "-c", "echo $WHO"])).stdout == "me\n"
    assert str(env.session.path) in (await env.connection()).command
    await XsbxSandboxEnvironment.sample_cleanup("task", spec.config, made, False)
    try:
        raise AssertionError(await env.exec(["true"]))
    except SandboxUnavailableError:
        pass


async def main():
    env = XsbxSandboxEnvironment(TEMPLATE)
    for check in (cancelling, many, outputs, tools_inside):
        await check(env)
    await configured()
    env.session.remove()
    print("inspect: fine")


anyio.run(main)
