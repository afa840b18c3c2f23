#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Machines of the templates that other tests of checkpoints, copies and sleep have none of: they go on with what they remember."""
# backends: vm
# timeout: 180
# conf: boot_timeout_s = 240
from clocks import *
from xsbx import *

vm_only()

# What a program of it is: begins, counts and tells, and its clock's language.
PROGRAMS = {
    "javascript": ("let x = 1; const more = () => ++x; require('fs').writeFileSync('f', 'one')",
                   "console.log(more(), require('fs').readFileSync('f', 'utf8'))", "javascript"),
    "dev": ("x=1; more() { x=$((x + 1)); }; printf one > f", "more; echo $x $(cat f)", "raw"),
}


def goes_on(template):
    if not os.path.exists(f"{os.environ['IMAGES']}/images/templates/{template}"):
        print(f"({template}: its image is not built here)")
        return
    begin, more, language = PROGRAMS[template]
    s = Session("s", template)
    same(f"{template}: it begins", s.run(begin).code, 0)
    os.mkdir(s / "checkpoints/c")
    same(f"{template}: a checkpoint", read(s / "checkpoints/c/wait"), b"whole\n")
    same(f"{template}: and goes on", s.run(more).out, "2 one\n")
    s.ctl("sleep")
    ok(f"{template}: it sleeps", s.wait_state("asleep", 30), s.text("error"))
    time.sleep(REST_S)
    same(f"{template}: it wakes", (s.run(more).out, s.json()["state_kept"]), ("3 one\n", True))
    off = drift(language, s)
    ok(f"{template}: its clock is right", off < OFF, off)
    for source, want in (("s", 4), ("s@c", 2)):
        c = Session(f"of{want}", template, f"from = {source}\n")
        same(f"{template}: a copy of {source}", (c.run(more).out, c.json()["state_kept"]), (f"{want} one\n", True))
        c.remove()
    s.ctl("restore c")
    same(f"{template}: it goes back", (s.run(more).out, s.json()["state_kept"]), ("2 one\n", True))
    same(f"{template}: with no problem", s.text("error"), "")
    s.remove()


main(*(lambda t=template: goes_on(t) for template in PROGRAMS))
