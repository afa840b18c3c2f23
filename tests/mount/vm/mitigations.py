#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""force_mitigations: where the kernel lets a process choose how the processor speculates, code in a
sandbox can't choose any more; elsewhere it starts all the same, and says what holds."""
# backends: process
# option: force_mitigations=yes
from xsbx import *

KEYS = ("Speculation_Store_Bypass", "SpeculationIndirectBranch")
FORCED = {"thread vulnerable": "thread force mitigated", "thread mitigated": "thread force mitigated",
          "conditional enabled": "conditional force disabled",
          "conditional disabled": "conditional force disabled"}


def values(text):
    lines = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    return [lines.get(key, "not told") for key in KEYS]


def forced():
    s = Session("forced")
    outside = values(read("/proc/self/status", "r"))
    inside = values(s.run("cat /proc/self/status\n").out)
    same("of user code", inside, [FORCED.get(word, word) for word in outside])
    same("isolation says it", s.json()["sandbox"]["isolation"]["speculation"],
         "store bypass: {}; indirect branches: {}".format(*inside))
    if not set(outside) & set(FORCED):
        print(f"(this kernel lets no process choose: {outside})")


main(forced)
