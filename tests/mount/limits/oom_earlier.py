#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is killed is out of memory only if memory was short then, and not because it once had been."""
# backends: process vm
# timeout: 90
# night: vm
import json

from xsbx import *

# What is taken can't be compressed, or an emulated machine is at it for minutes.
TAKE = "head -c 1G /dev/urandom | tail -c 1G >/dev/null"
GREEDY = f"{TAKE}; echo $?\n"
CONFIG = f"memory_mb = 192\ntimeout_s = {60 * SLOW}\n"


def sandbox():
    """Killed by somebody, long after one of its programs had been killed by the kernel."""
    s = Session("killed", config=CONFIG)
    result = s.run(GREEDY)
    # In a machine the kernel may choose the shell, and then that is how the run has ended.
    if not ok("a program takes more than there is", "137" in result.out or
              (result.code, s.state_of(1)) == (137, "oom"), result):
        return
    same("the next run", s.run("echo fine\n").out, "fine\n")
    s.submit("echo begun; sleep 600\n")
    ok("begun", wait_for(lambda: read_ready(s / "stdout") == b"begun\n"))
    os.kill(s.pid(), signal.SIGKILL)
    same("its run", (s.result().code, s.state_of(3)), ("EIO", "lost"))
    ok("and its end", wait_for(lambda: s.word() == "closed"), s.word())
    problem = s.json()["error"]
    ok("has another reason", problem["code"] in ("agent-killed", "qemu-killed"), problem)


def background():
    """A program in the background ran out of memory between two runs; the next one kills itself."""
    s = Session("between", config=CONFIG)
    same("started", s.run(f"(sleep 0.5; {TAKE}; echo $? > died) >/dev/null 2>&1 &\n").code, 0)
    ok("it was killed meanwhile", wait_for(lambda: os.path.exists(s / "files/died"), 15))
    same("for want of memory", read(s / "files/died"), b"137\n")
    result = s.run("kill -9 $$\n")
    same("which is no lack of memory", (result.code, s.state_of(s.runs()[-1])), (137, "done"))
    same("and the next run", s.run("echo fine\n").out, "fine\n")


def job():
    """A program of its own beside the interpreter."""
    s = Session("job", config=CONFIG)
    s.run("x=7\n")

    def ended(name, code):
        j = s / f"jobs/{name}"
        os.mkdir(j)
        write(f"{j}/in", code)
        status = read(f"{j}/exit_code").decode().strip()
        return status, json.loads(read(f"{j}/status.json"))

    for name, code in ("greedy", TAKE + "\n"), ("itself", "#!/usr/bin/env python3\nimport os\nkeep = []\n"
                                                            "while True: keep.append(os.urandom(1 << 20))\n"):
        status, told = ended(name, code)
        same(f"{name}: how it has ended", (status, told["state"]), ("137", "oom"))
        same(f"{name}: why", (told["error"] or {}).get("code"), "out-of-memory")
    status, told = ended("kills", "kill -9 $$\n")
    same("what was killed by somebody", (status, told["state"], told["error"]), ("137", "done", None))
    if not VM:  # a machine ends what earlier runs left as well
        same("the interpreter has gone on", s.run("echo $x\n").out, "7\n")


main(sandbox, job, *(() if VM else (background,)))
