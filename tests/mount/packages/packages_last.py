#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions with packages that sleep, are copied, go back and are kept: what was imported is there, and what was not can be."""
# backends: local vm
# timeout: 240
# mount: none
# log-allow: snapshot of
from layers import *

need_language("python")
PACKAGES = "alpha==1.0"
BEGIN = "import alpha; x = 1; print(alpha.NAME)\n"
# Of a module that nobody has read yet.
MORE = "import alpha\nimport alpha_{n}\nprint(alpha.NAME, alpha_{n}.N, 'x' in globals())\n"
KEEP = ("keep=yes", f"state_dir={SCRATCH}/state")
number = 0


def has_packages(what, s):
    global number
    number += 1
    run = s.run(MORE.format(n=number))
    same(what, (run.out, run.err), (f"alpha {number} {VM}\n", ""))
    same(f"{what}: whether it kept its state", s.json()["state_kept"], VM)


def lasts():
    wheel("alpha", "1.0", {"alpha.py": "NAME = 'alpha'\n", **{f"alpha_{n}.py": f"N = {n}\n" for n in range(1, 10)}})
    host = Mount("host", "boot_timeout_s = 240\n", options=KEEP)
    s = host.session("s", PACKAGES, more="idle_timeout_s = 0\n")
    same("it begins", s.run(BEGIN).out, "alpha\n")
    os.mkdir(s / "checkpoints/c")
    same("a checkpoint", read(s / "checkpoints/c/wait"), b"whole\n")
    for source in ("s", "s@c"):
        c = Session("copy", "python", f"from = {source}\n", host.mnt)
        has_packages(f"a copy of {source}", c)
        c.remove()
    s.ctl("sleep")
    ok("it sleeps", s.wait_state("asleep", 30), s.text("error"))
    has_packages("it wakes", s)
    s.ctl("restore c")
    has_packages("it goes back", s)
    host.close()
    host.daemon = start_daemon(host.mnt, f"cache_dir={CACHE}", f"agent={os.path.abspath(BUILD)}/xsbx-agent", *KEEP, conf=host.conf)
    same("it is kept", s.word(), "asleep")
    has_packages("it goes on", s)
    s.ctl("restore c")
    has_packages("and back", s)
    same("one layer", len(layers()), 1)
    host.close()


main(lasts)
