#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Types the recipes of xsbxfs(7) into a shell, and wants what the page says."""
# night: vm
# backends: local vm
# timeout: 120
from examples import *

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../man/xsbxfs.7")


def recipes():
    blocks = re.findall(r"^\.Bd -literal -offset indent\n(.*?)^\.Ed$", read(PAGE, "r"), re.M | re.S)
    ok("there are eleven recipes that can be tried", len(blocks) == 11, len(blocks))
    for block in blocks:
        steps = steps_of(block.replace("\\&", "").replace("\\e", "\\"))
        good = shows(steps, type_in(steps, 2 * SOON))
        for session in sessions():
            if not good:
                print(f"{session}/error: {read(f'{session}/error')}", flush=True)
            os.rmdir(session)
    same("and a page has twelve", read(PAGE, "r").count(".Ss "), 12)


main(recipes)
