#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every command in the README.md nodes works as it stands there: those to copy, and those within sentences."""
# night: vm
# backends: local vm
# timeout: 120
import re

from xsbx import *

# What runs them; the rest of what is in backticks are names, words and settings.
PROGRAMS = r"(cat|cp|echo|exec|head|ls|mkdir|mktemp|rmdir|tail|test|until|wait) "

# Commands within sentences, in the order of a life: what is run, in a session ("root": beside its template), and what has
# to come of it. `{}` is the command as README.md has it.
SENTENCES = {
    "cat error": ("test -e error; {} && echo none", "none"),
    "cat config": ("{} | grep timeout_s", "timeout_s = .*"),
    "echo 'timeout_s = 60' >> config": ("{}; grep -c '^timeout_s = 60' config", "1"),
    "tail -f runs/N/stdout": (
        "echo 'echo followed; sleep 20' > in; until [ -e runs/1 ]; do sleep 0.1; done; {} | grep -m 1 followed",
        "followed"),
    "echo interrupt > ctl": ("{}; cat exit_code", "130"),
    "exec 3> stdin": ("{}; echo 'read -r x; echo \"got $x\"' > in; echo line >&3; exec 3>&-; cat stdout", "got line"),
    "echo line >&3": ("exec 3> stdin; echo 'read -r x; echo \"got $x\"' > in; {}; exec 3>&-; cat stdout", "got line"),
    "mkdir jobs/a": ("{}; echo 'echo beside' > jobs/a/in; cat jobs/a/stdout; rmdir jobs/a", "beside"),
    "mkdir checkpoints/a": ("{}; cat checkpoints/a/wait", "whole"),
    "echo restore a > ctl": ("{}; cat state", "asleep"),
    "echo reset > ctl": ("{}; echo 'echo anew' > in; cat stdout", "anew"),
    "cat ports": ("{} | wc -l", "1|0"),
    "mktemp -d shell/XXXXXXXX": ("root", "shell/[A-Za-z0-9]{{8}}"),
    "tail -n 20": ("root", ".*session.*"),
}


def shell(command, where):
    done = subprocess.run(["timeout", str(2 * SOON), "bash", "-c", command], cwd=where, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout.rstrip("\n")


def to_copy(text):
    """[command, remark] of all lines that are to be copied."""
    return [line[4:].split(" # ", 1) for line in text.splitlines() if line.startswith("    ")]


def promised(remark):
    """What the command prints, if that is said."""
    found = re.search(r"(?:^|: )([0-9]+)$", remark)
    return found and found[1]


def copied(node, where, least, replaced=("", "")):
    """Every line to copy, one after the other, in @where."""
    lines = to_copy(read(node, "r"))
    ok(f"{node}: there are lines to copy", len(lines) >= least, lines)
    for command, remark in lines:
        status, got = shell(command.strip().replace(*replaced), where)
        want = promised(remark)
        ok(f"{command.strip()}: it works", status == 0, (status, got))
        if want:
            same(f"{command.strip()}: what it prints", got.splitlines()[-1:], [want])


def lines_to_copy():
    # What is copied lies in a directory of the reader's own, which shows the mount's.
    root = f"{SCRATCH}/root"
    os.mkdir(root)
    for name in os.listdir(MNT):
        os.symlink(f"{MNT}/{name}", f"{root}/{name}")
    for name in "data.csv", "job.sh", "job.py", "job.js":
        write(f"{root}/{name}", "")
    copied(f"{MNT}/README.md", root, 8)
    for template in "shell", "python", "javascript":
        if not has_language("raw" if template == "shell" else template):
            print(f"left out: {template} has no interpreter here", flush=True)
            continue
        copied(f"{MNT}/{template}/README.md", f"{MNT}/{template}", 4)
        session = f"{MNT}/{template}/demo"
        os.mkdir(session)
        copied(f"{session}/README.md", session, 5, ("cp job.", f"cp {root}/job."))
        os.rmdir(session)


def sentences():
    text = read(f"{MNT}/README.md", "r")
    found = [x for x in re.findall(r"`([^`\n]+)`", text) if re.match(PROGRAMS, x)]
    same("all commands in sentences are tried here", sorted(set(found)), sorted(SENTENCES))
    os.mkdir(f"{MNT}/shell/words")
    for command, (how, want) in SENTENCES.items():
        command = command.replace("runs/N/", "runs/1/")
        if how == "root":
            command += " events" if command.startswith("tail") else ""
            status, got = shell(command, MNT)
        else:
            status, got = shell(how.replace("{}", command), f"{MNT}/shell/words")
        ok(f"{command}: it works", status == 0, (status, got))
        ok(f"{command}: what it shows", re.fullmatch(want.replace("{{", "{").replace("}}", "}"), got, re.S), short(got))
    settings = read(f"{MNT}/shell/words/config", "r")
    for key in re.findall(r"`([a-z_]+) = [^`]*`", text):
        has("settings that are named are there", settings, f"{key} =")


def nodes():
    """Whatever else is named is a node, a word of one, or a setting."""
    text = read(f"{MNT}/README.md", "r")
    os.mkdir(f"{MNT}/shell/named")
    shell("echo true > in; cat exit_code; mkdir jobs/a", f"{MNT}/shell/named")
    for name in re.findall(r"`([a-zA-Z_./]+)`", text):
        name = name.replace("/N/", "/1/")
        # Of the root, of a session, or a word.
        there = [x for x in (f"{MNT}/{name}", f"{MNT}/shell/named/{name}") if os.path.lexists(x)]
        ok(f"`{name}` is there", there or name in WORDS or f"{name} =" in read(f"{MNT}/shell/named/config", "r"))


WORDS = {"mkdir", "kill", "join", "lost", "refused", "closed", "asleep", "ls", "HOME", "wait", "interrupt"}


main(lines_to_copy, sentences, nodes)
