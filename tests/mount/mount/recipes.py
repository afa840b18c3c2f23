#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Types the recipes of xsbxfs(7) into one shell, one behind the other, and wants what the page says."""
# night: vm
# backends: local vm
# timeout: 120
from examples import *

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../man/xsbxfs.7")


def recipes():
    blocks = re.findall(r"^\.Bd -literal -offset indent\n(.*?)^\.Ed$", read(PAGE, "r"), re.M | re.S)
    ok("there are eleven recipes that can be tried", len(blocks) == 11, len(blocks))
    # Behind each, sessions go where the shell is not: there need not be room for all.
    tidy = [f"for s in /sbx/*/*/; do [ \"$s\" -ef . ] || {{ cat \"$s/error\" >>{SCRATCH}/errors; rmdir \"$s\"; }}; done", ""]
    recipe = [[*steps_of(block.replace("\\&", "").replace("\\e", "\\")), tidy] for block in blocks]
    got = type_in([step for steps in recipe for step in steps], 6 * SOON, TMPDIR=SCRATCH)
    for steps in recipe:
        if not shows(steps, got[:len(steps)]):
            print(f"errors: {read(f'{SCRATCH}/errors', 'r')}", flush=True)
        got = got[len(steps):]
    for session in sessions():
        os.rmdir(session)
    same("and a page has twelve", read(PAGE, "r").count(".Ss "), 12)


main(recipes)
