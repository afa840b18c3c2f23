#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NumPy and pandas in a machine give the answers that this host's plain Python gives: what an emulator that
gets vector instructions wrong does not (see vm_processor)."""
# backends: vm
# night: vm
# timeout: 300
# mount: none
# log-allow: packages

from layers import *

vm_only()

# The same numbers on both sides.
DATA = """
import random
def numbers(seed, most):
    rng = random.Random(seed)
    return [rng.randrange(most) for _ in range(3000)]
def fractions(seed):
    rng = random.Random(seed)
    return [rng.randrange(-2**20, 2**20) / 1024 for _ in range(3000)]
SEEDS = range(20)
"""
GUEST = """
import numpy as np, pandas as pd
for seed in SEEDS:
    a = numbers(seed, 2 ** 40)
    print("argsort", seed, [a[i] for i in np.argsort(np.array(a))] == sorted(a))
    f = fractions(seed)
    print("argsort of fractions", seed, [f[i] for i in np.argsort(np.array(f))] == sorted(f))
    b = np.array(numbers(seed, 2 ** 20), dtype=np.int32)
    print("sort", seed, np.sort(b).tolist() == sorted(b.tolist()))
    print("sum", seed, int(np.array(a).sum()), float(np.array(f).sum()))
    frame = pd.DataFrame({"k": numbers(seed, 7), "v": a, "f": f})
    print("sort_values", seed, frame.sort_values("v").v.tolist() == sorted(a))
    print("groupby", seed, frame.groupby("k").v.sum().to_dict())
    print("max", seed, int(frame.v.max()), float(frame.f.min()))
    print("take", seed, np.array(a)[np.array(numbers(seed + 1, 3000))].tolist()[:50])
"""


def expected():
    here = {}
    exec(DATA, here)
    for seed in here["SEEDS"]:
        a, f = here["numbers"](seed, 2 ** 40), here["fractions"](seed)
        groups = {}
        for k, v in sorted(zip(here["numbers"](seed, 7), a)):
            groups[k] = groups.get(k, 0) + v
        yield f"argsort {seed} True"
        yield f"argsort of fractions {seed} True"
        yield f"sort {seed} True"
        yield f"sum {seed} {sum(a)} {sum(f)}"
        yield f"sort_values {seed} True"
        yield f"groupby {seed} {groups}"
        yield f"max {seed} {max(a)} {min(f)}"
        yield f"take {seed} {[a[i] for i in here['numbers'](seed + 1, 3000)][:50]}"


def answers():
    mount = Mount("numbers", packages="")
    s = mount.session("s", "numpy==2.3.5 pandas==2.3.3", more="memory_mb = 512\ntimeout_s = 240\n")
    result = s.run(DATA + GUEST)
    if result.code == "EIO":
        skip(f"the packages can't be had: {s.text('error')}")
    same("the program ran", result.code, 0)
    got, want = result.out.splitlines(), list(expected())
    same("as many answers", len(got), len(want))
    for line, answer in zip(got, want):
        same("an answer", line, answer)
    s.remove()
    mount.close()


main(answers)
