#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads that wait keep nobody else waiting: not in the daemon, and not in node, which reads files with four threads."""
import subprocess

from xsbx import *


def waits_in_read(pid, tid):
    try:
        return read(f"/proc/{pid}/task/{tid}/syscall", "r").split()[0] == "0"
    except (OSError, IndexError):
        return False


def node():
    need("node")
    s = Session("node")
    for i in range(8):
        os.mkdir(s / f"jobs/j{i}")
        write(s / f"jobs/j{i}/config", "timeout_s = 0\n")
        write(s / f"jobs/j{i}/in", "sleep 1000\n")
        wait_for(lambda: read(s / f"jobs/j{i}/state") == b"running\n", 20)
    # The control: reads that wait take all of its threads, and it reads nothing else any more.
    stuck = subprocess.Popen(["node", "-e", """
        const fs = require("fs");
        for (let i = 0; i < 8; i++) fs.readFile(`jobs/j${i}/exit_code`, () => {});
        setTimeout(() => fs.readFile("state", () => console.log("read")), 100);"""], cwd=s.path, stdout=subprocess.PIPE)
    ok("the control: four threads wait",
       wait_for(lambda: sum(waits_in_read(stuck.pid, tid) for tid in os.listdir(f"/proc/{stuck.pid}/task")) == 4, 20))
    same("the others go on: a run", s.run("echo x\n").out, "x\n")
    stuck.kill()
    same("and the control reads nothing more", stuck.communicate()[0], b"")
    out = subprocess.run(["node", "-e", """
        const fs = require("fs/promises"), { O_RDONLY, O_NONBLOCK } = require("fs").constants;
        async function code(job) {
            for (;;) {
                const file = await fs.open(`jobs/${job}/exit_code`, O_RDONLY | O_NONBLOCK);
                try {
                    return Number(await file.readFile("utf8"));
                } catch (error) {
                    if (error.code !== "EAGAIN") throw error;
                } finally {
                    await file.close();
                }
                await new Promise((done) => setTimeout(done, 50));
            }
        }
        const all = Promise.all([..."01234567"].map((i) => code(`j${i}`)));
        setTimeout(async () => {
            console.log((await fs.readFile("state", "utf8")).trim());
            for (let i = 0; i < 8; i++) await fs.writeFile(`jobs/j${i}/ctl`, "kill\\n");
            console.log((await all).join(" "));
        }, 300);"""], cwd=s.path, stdout=subprocess.PIPE, text=True, timeout=SOON).stdout
    same("asked without waiting, they stall nothing", out, "idle\n" + " ".join(["137"] * 8) + "\n")


def a_thousand():
    """Of one session, each with a descriptor of its own; and all get what they wait for."""
    s = Session("many", config="timeout_s = 0\n")
    s.submit("read -r line\n")  # at its end: nobody writes
    s.submit("sleep 1000\n")
    s.wait_run(2, "running", 20)
    threads, got = [], []
    threading.stack_size(64 << 10)
    for _ in range(1000):
        threads.append(threading.Thread(target=lambda: got.append(read(s / "exit_code"))))
        threads[-1].start()
    same("others are answered meanwhile", s.text("state"), "running\n")
    ok("all of them wait", wait_for(lambda: s.json()["runs"]["waiting_reads"] == 1000, 60), s.json()["runs"])
    s.ctl("kill")
    for each in threads:
        each.join()
    same("all have it", (len(got), set(got)), (1000, {b"137\n"}))


main(node, a_thousand)
