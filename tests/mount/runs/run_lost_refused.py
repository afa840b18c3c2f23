#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run whose sandbox goes away is lost, one that never started refused; no status is made up."""
# backends: local vm
from xsbx import *


def no_status(s, run, state):
    same(f"run {run}: state", s.state_of(run), state)
    for node in (f"runs/{run}/exit_code", f"runs/{run}/wait"):
        with raises(f"{node}, {state}", errno.EIO, *([errno.ENOENT] if "exit" in node else [])):
            read(s / node)
    info = s.json(f"runs/{run}/status.json")
    same(f"run {run}: status.json", (info["state"], info.get("exit_code")), (state, None))
    has(f"run {run}: summary", s.text(f"runs/{run}/summary"), state)


def closed(name, how, state):
    s = Session(name)
    s.run("echo before\n")
    s.submit("echo so far; read -r x < <(sleep 600)\n")
    wait_for(lambda: s.text("runs/2/stdout") == "so far\n")
    s.submit("echo never\n")
    reader = subprocess.Popen(["cat", s / "exit_code"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
    waiting = subprocess.Popen(["cat", s / "runs/2/wait"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    time.sleep(0.2)
    how(s)
    ok(f"{name}: closed", s.wait_state("closed", 10), s.word())
    if state == "lost":
        no_status(s, 2, "lost")
    else:
        same(f"{name}: state", (s.state_of(2), s.text("runs/2/exit_code")), (state, "137\n"))
        same(f"{name}: wait", s.text("runs/2/wait"), "137\n")
    no_status(s, 3, "refused")
    same(f"{name}: what the lost run wrote is kept", s.text("runs/2/stdout"), "so far\n")
    same(f"{name}: results stay readable", s.text("runs/1/stdout"), "before\n")
    same(f"{name}: and statuses", s.text("runs/1/exit_code"), "0\n")
    with raises(f"{name}: exit_code of the latest", errno.EIO):
        read(s / "exit_code")
    for child in (reader, waiting)[:1 if state != "lost" else 2]:
        out, err = child.communicate(timeout=SOON)
        ok(f"{name}: who waited gets an error", child.returncode == 1 and not out
           and b"Input/output error" in err, (child.returncode, out, err))
    with raises(f"{name}: in", errno.ESTALE):
        s.submit("echo x\n")
    with raises(f"{name}: files", errno.ESTALE):
        os.listdir(s / "files")
    s.ctl("reset")
    with open(s / "in", "w") as file:
        file.write("echo again\n")
    same(f"{name}: reset gives it a new sandbox", s.result().stdout, b"again\n")
    same(f"{name}: and the numbers go on", s.runs(), [1, 2, 3, 4])
    s.remove()


def by_close():
    closed("close", lambda s: s.ctl("close"), "killed")


def by_death():
    """The process of the sandbox is killed behind our back."""
    def kill(s):
        pid = s.pid()
        ok("status.json has its process", pid and alive(pid), pid)
        os.kill(pid, signal.SIGKILL)
    closed("death", kill, "lost")


def idle_death():
    """The same with nothing running: nothing is lost but the state."""
    s = Session("idle-death")
    s.run("echo before\n")
    os.kill(s.pid(), signal.SIGKILL)
    ok("closed", s.wait_state("closed", 10), s.word())
    has("error says why", s.text("error"), "cause:")
    same("the last run is as it was", (s.state_of(1), s.text("exit_code")), ("done", "0\n"))


main(by_close, by_death, idle_death)
