# SPDX-License-Identifier: Apache-2.0
"""For tests of README.md and of recipes: examples, typed into a shell."""

import itertools
import re

from xsbx import *

README = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../README.md")
MARK = "--- end of a command ---"


def examples():
    """The blocks marked sh, as lists of [command, expected output]."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", read(README, "r"), re.M | re.S)
    ok("there are at least ten examples", len(blocks) >= 10, len(blocks))
    yield from map(steps_of, blocks)


def steps_of(block):
    """What is typed in a block, as a list of [command, expected output]."""
    steps = []
    for line in block.splitlines():
        if line.startswith("$ "):
            steps.append([line[2:], ""])
        elif line.startswith("> "):
            steps[-1][0] += "\n" + line[2:]
        else:
            steps[-1][1] += line + "\n"
    return steps


def sessions():
    """All there are."""
    return [f"{MNT}/{template}/{name}" for template in os.listdir(MNT)
            if os.path.isdir(f"{MNT}/{template}") for name in os.listdir(f"{MNT}/{template}")
            if os.path.isdir(f"{MNT}/{template}/{name}")]


def mounts(steps):
    """Is it one that makes its own mount?"""
    return any(command.startswith("xsbxfs ") for command, _ in steps)


def pattern(expected):
    """What the README shows, with "..." for what differs each time."""
    return "".join(".*" if part == "..." else re.escape(part)
                   for part in re.split(r"(\.\.\.)", expected.rstrip("\n")))


def type_in(steps, seconds, **env):
    """Run the commands in one shell; return what each of them wrote."""
    script = "".join(f"{command}\necho '{MARK}'\n" for command, _ in steps)
    done = subprocess.run(["bash", "-c", script.replace("/sbx/", f"{MNT}/") if not mounts(steps) else script],
                          check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, cwd=SCRATCH, timeout=seconds, env={**os.environ, **env})
    return done.stdout.split(f"{MARK}\n")[:-1]


def shows(steps, got):
    """Is that what README.md says?"""
    for (command, expected), output in itertools.zip_longest(steps, got, fillvalue="(nothing)"):
        if not ok(command, re.fullmatch(pattern(expected), output.rstrip("\n"), re.S),
                  f"got {short(output)}, want {short(expected)}"):
            fail("the example that begins with: " + steps[0][0].replace("\n", "; "))
            return False
    return True


__all__ = [name for name in dir() if not name.startswith("_")]
