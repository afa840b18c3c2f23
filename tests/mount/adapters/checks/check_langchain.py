# SPDX-License-Identifier: Apache-2.0
"""What LangChain's tests do not look at."""
import asyncio
import os

from xsbx_langchain import XsbxSandbox

sandbox = XsbxSandbox(os.environ["XSBX_TEMPLATE"], config="env.WHO = me\n", timeout_s=60)
done = sandbox.execute("echo $WHO; echo err >&2; exit 7")
assert (done.output, done.exit_code, done.truncated) == ("me\nerr\n", 7, False), done
done = sandbox.execute("echo early; sleep 60", timeout=5)
assert done.exit_code == 124 and done.output.startswith("early\n") and "5 s" in done.output, done
done = sandbox.execute("head -c 20000000 /dev/zero")
assert done.truncated and done.exit_code == 0 and len(done.output) == 16 << 20, (done.truncated, len(done.output))
assert sandbox.execute("(sleep 0.5; echo late > late) & true").exit_code == 0
assert sandbox.execute("until [ -e late ]; do sleep 0.2; done; cat late").output == "late\n"  # what was put into the background went on
[answer] = sandbox.upload_files([("/home/user/large", os.urandom(20 << 20))])
assert answer.error is None, answer
[answer] = sandbox.download_files(["/home/user/large"])
assert answer.content is None and "output_limit" in answer.error, answer.error  # and not most of it


async def cancelled():
    results = await asyncio.gather(*(sandbox.aexecute(f"sleep 1; exit {n}") for n in range(40)))
    assert [one.exit_code for one in results] == list(range(40))
    task = asyncio.create_task(sandbox.aexecute("for i in {1..600}; do echo >> beat; sleep 0.1; done"))
    while (await sandbox.aexecute("test -e beat")).exit_code:
        await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    sizes = [sandbox.execute("wc -c < beat; sleep 0.7").output for _ in range(2)]
    assert task.cancelled() and sizes[0] == sizes[1] != "0\n", sizes


asyncio.run(cancelled())
sandbox.delete()
done = sandbox.execute("true")
assert done.exit_code is None and done.output, done
print("langchain: fine")
