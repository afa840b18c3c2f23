#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Types every example of README.md into a shell, and wants what the README says."""
# backends: local vm
# timeout: 120
import itertools
import re
import shutil

from xsbx import *

README = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../README.md")
MARK = "--- end of a command ---"


def examples(text):
    """The blocks marked sh, as lists of [command, expected output]."""
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S):
        steps = []
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append([line[2:], ""])
            elif line.startswith("> "):
                steps[-1][0] += "\n" + line[2:]
            else:
                steps[-1][1] += line + "\n"
        yield steps


def pattern(expected):
    """What the README shows, with "..." for what differs each time."""
    return "".join(".*" if part == "..." else re.escape(part)
                   for part in re.split(r"(\.\.\.)", expected.rstrip("\n")))


def type_in(steps):
    """Run the commands in one shell; return what each of them wrote."""
    script = "".join(f"{command}\necho '{MARK}'\n" for command, _ in steps)
    done = subprocess.run(["bash", "-c", script.replace("/sbx/", f"{MNT}/")], check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, cwd=SCRATCH, timeout=2 * SOON)
    return done.stdout.split(f"{MARK}\n")[:-1]


def sessions():
    return [f"{MNT}/{template}/{name}" for template in os.listdir(MNT)
            if os.path.isdir(f"{MNT}/{template}") for name in os.listdir(f"{MNT}/{template}")
            if os.path.isdir(f"{MNT}/{template}/{name}")]


def clean_up():
    """Sandboxes wait their turn: give their places back."""
    for session in sessions():
        os.rmdir(session)


def check(steps):
    name = steps[0][0].replace("\n", "; ")
    got = type_in(steps)
    for (command, expected), output in itertools.zip_longest(steps, got, fillvalue="(nothing)"):
        if not ok(command, re.fullmatch(pattern(expected), output.rstrip("\n"), re.S),
                  f"got {short(output)}, want {short(expected)}"):
            fail(f"the example that begins with: {name}")
            show_errors()
            return


def show_errors():
    for session in sessions():
        for node in ("error", "stderr"):
            print(f"{session}/{node}: {read(f'{session}/{node}')}", flush=True)


def every_example():
    with open(README, encoding="utf-8") as file:
        blocks = list(examples(file.read()))
    ok("there are at least ten examples", len(blocks) >= 10, len(blocks))
    for steps in blocks:
        if "/javascript/" in steps[0][0] and not VM and not shutil.which("bun"):
            print("left out, bun is not here: " + steps[0][0], flush=True)
            continue
        check(steps)
        clean_up()


main(every_example)
