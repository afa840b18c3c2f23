#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Out of memory in the sandbox: the run says oom, and the session goes on."""
# backends: vm
# timeout: 90
from xsbx import *

vm_only()

# Emulated machines on a busy host take their time to fill their memory.
PATIENT = f"timeout_s = {30 * SLOW}\n"


def oom():
    s = Session("oom", "python", config=PATIENT)
    s.run("x = 1")
    result = s.run("print('so far', flush=True)\nkeep = []\nwhile True: keep.append(b'x' * 1000000)")
    n = s.runs()[-1]
    if result.code == 1:
        has("MemoryError is an exception like others", result.err, "MemoryError")
    else:
        same("exit", (result.code, s.state_of(n)), (137, "oom"))
        same("what it wrote is kept", result.out, "so far\n")
    same("the session goes on", s.run("print('fine')").out, "fine\n")
    r = Session("oom2", config=PATIENT)
    begin = time.monotonic()
    result = r.run("tail /dev/zero; echo $?\n")
    print(f"a child that grows: {time.monotonic() - begin:.1f} s")
    ok("a child that grows is killed", "137" in result.out or result.code == 137, result)
    same("and the session goes on", r.run("echo fine\n").out, "fine\n")


def fork_bomb():
    s = Session("bomb", config="timeout_s = 10\n")
    s.run("true\n")
    s.run(":() { : | : & }; :\n")
    wait_for(lambda: s.word() in ("idle", "closed"), 10)
    if s.word() == "closed":
        fail("a fork bomb ended the session", s.text("error"))
        return
    s.ctl("reset")
    same("and after a reset all is well", s.run("echo fine\n").out, "fine\n")


main(oom, fork_bomb)
