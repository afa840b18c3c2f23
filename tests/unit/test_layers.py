#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/layers, over small trees: one that keeps the order passes, and what climbs is named with its line."""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
failures = []

# A tree in order: the front calls a guest, a guest calls what is at the bottom.
CLEAN = {
    "vm/base/buf.h": "int buf_len(void);\n",
    "vm/base/buf.c": '#include "vm/base/buf.h"\nint buf_len(void)\n{\n\treturn 1;\n}\n',
    "vm/guest/guest.h": "int guest_run(void);\n",
    "vm/guest/guest.c": '#include "guest.h"\n#include "vm/base/buf.h"\nint guest_run(void)\n{\n\treturn buf_len();\n}\n',
    "vm/sandbox/sandbox.h": "int sandbox_run(void);\n",
    "vm/sandbox/sandbox.c": '#include "sandbox.h"\n#include "vm/guest/guest.h"\n'
                            'int sandbox_run(void)\n{\n\treturn guest_run();\n}\n',
    "vm/vm.h": '#include "vm/sandbox/sandbox.h"\n',
    "fs/tree/text.h": "int text_read(void);\n",
    "fs/tree/text.c": '#include "text.h"\n#include "vm/vm.h"\nint text_read(void)\n{\n\treturn sandbox_run();\n}\n',
    "fs/main.c": '#include "fs/tree/text.h"\nint main(void)\n{\n\treturn text_read();\n}\n',
}


def layers(changes, *options, known=""):
    """The exit status, and what it says."""
    with tempfile.TemporaryDirectory() as top:
        for path, text in {**CLEAN, **changes, "scripts/layers.known": known}.items():
            os.makedirs(os.path.dirname(f"{top}/{path}"), exist_ok=True)
            with open(f"{top}/{path}", "w", encoding="utf-8") as file:
                file.write(text)
            if path.endswith(".c"):
                thing = f"{top}/build/obj/{path[:-2]}.o"
                os.makedirs(os.path.dirname(thing), exist_ok=True)
                subprocess.run(["cc", "-w", "-I.", "-c", "-o", thing, path], cwd=top, check=True)
        done = subprocess.run([f"{ROOT}/scripts/layers", *options, top], check=False, encoding="utf-8",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout


def want(what, got, status, *words):
    """So many words, so many lines: each is at the beginning of one, or in one behind `...`."""
    lines = got[1].splitlines()
    missing = [w for w in words if not any(
        w[3:] in line if w.startswith("...") else line.startswith(w) for line in lines)]
    if got[0] != status or missing or (not words and lines):
        failures.append(f"{what}: exit status {got[0]}, want {status}; lacks {missing} in:\n{got[1]}")


want("what keeps the order", layers({}), 0)

# An include that climbs. It is on line 2, and the message says where what it wants would have to be.
climb = {"vm/base/io.c": '/* */\n#include "vm/guest/guest.h"\nint io(void)\n{\n\treturn 0;\n}\n'}
CLIMB = "vm/base/io.c includes vm/guest/guest.h"
want("an include that climbs", layers(climb), 1,
     "vm/base/io.c:2: includes vm/guest/guest.h: vm/base is below vm/guest. Move what is called down into vm/base")
want("the same, without symbols", layers(climb, "--includes"), 1, "vm/base/io.c:2: includes")

# A call that climbs behind a declaration of its own.
want("a call that climbs", layers({
    "vm/base/io.c": "int guest_run(void);\nint io(void)\n{\n\treturn guest_run();\n}\n"}), 1,
     "vm/base/io.c:1: calls guest_run() of vm/guest/guest.c: vm/base is below vm/guest. Move")
want("a call from the sandboxes' side into the mount's", layers({
    "vm/sandbox/up.c": "int text_read(void);\nint up(void)\n{\n\treturn text_read();\n}\n"}), 1,
     "vm/sandbox/up.c:1: calls text_read() of fs/tree/text.c: vm/sandbox is below fs/tree")
want("a call past the window", layers({
    "fs/tree/past.c": "int guest_run(void);\nint past(void)\n{\n\treturn guest_run();\n}\n"}), 1,
     "fs/tree/past.c:1: calls guest_run() of vm/guest/guest.c: no header of vm/guest/ that fs/ may include")
want("an include past the window", layers({
    "fs/tree/past.c": '#include "vm/guest/guest.h"\nint past(void)\n{\n\treturn 0;\n}\n'}), 1,
     "fs/tree/past.c:1: includes vm/guest/guest.h: of vm/guest/ fs/ may only include vm/vm.h")

# Two files of one folder that call each other. One folder may have such a circle, but only one.
def circle(folder):
    return {f"{folder}/one.c": "int two(void);\nint one(void)\n{\n\treturn two();\n}\n",
            f"{folder}/two.c": "int one(void);\nint two(void)\n{\n\treturn one();\n}\n"}


want("a circle", layers(circle("vm/sandbox")), 1,
     "vm/sandbox/one.c:1: is in a circle: vm/sandbox/one.c vm/sandbox/two.c: these call each other. Move")
want("a circle where one may be", layers(circle("vm/guest")), 0)

# What has no place in the order.
want("a folder without a place", layers({"vm/new/thing.c": "int thing;\n"}), 1, "vm/new/thing.c:1: is in a folder")

# What is known is tolerated, what is new is not, and what is gone has to be deleted.
want("a known climb", layers(climb, known=f"# why\n{CLIMB}\n"), 0)
want("a known one and a new one", layers({**climb, **circle("vm/sandbox")}, known=f"{CLIMB}\n"), 1,
     "vm/sandbox/one.c:1: is in a circle")
want("one that is gone", layers({}, known=f"# why\n{CLIMB}\n"), 1,
     f"scripts/layers.known:2: delete the line, this is gone: {CLIMB}")
want("what is not looked at is not gone", layers(
    circle("vm/sandbox"), "--includes",
    known="vm/sandbox/one.c is in a circle: vm/sandbox/one.c vm/sandbox/two.c\n"), 0)

# An order that was not checked does not hold.
want("no objects", layers({}, "--build", "nowhere"), 2, "...make layers builds it")

for line in failures:
    print(line)
sys.exit(1 if failures else 0)
