#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/xsbx-top: as text, on a terminal, for who has not mounted, with names and outputs that are hostile, with many sessions."""
# option: allow_other
import importlib.machinery
import re
import types

from xsbx import *

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
TOP = f"{ROOT}/scripts/xsbx-top"


def top(*args, status=0, env=None):
    done = subprocess.run([TOP, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, timeout=SOON, env=env)
    same(f"xsbx-top {' '.join(args)}: exit status", done.returncode, status)
    return done.stdout.decode()


def requests():
    """How many the daemon has had."""
    return int(re.search(r"^xsbxfs_fuse_requests_total (\d+)$", read(f"{MNT}/metrics", "r"), re.M)[1])


def once():
    idle, busy = Session("idle"), Session("busy", config="timeout_s = 600\n")
    idle.run("echo x; exit 3\n")
    busy.submit("read -r x < <(sleep 600)\n")
    busy.wait_run(1, "running")
    text = top("--once", MNT)
    has("the mount", text, f" at {MNT}, up ")
    for words in ("Sessions: 2 (1 idle, 1 running)", "Sandboxes: 2 of ", " promised", "Processors: "):
        has("its numbers", text, words)
    lines = [line for line in text.splitlines() if line.startswith("raw/")]
    ok("active ones first", len(lines) == 2 and lines[0].startswith("raw/busy "), lines)
    ok("its run", re.search(r"^raw/busy +running .* run 1: running for \d", lines[0]), lines[0])
    ok("the other one's", re.search(r"^raw/idle +idle .* run 1: done, exit 3 in ", lines[1]), lines[1])
    has("what has happened", text, "run raw/idle: run 1, done, exit_code 3")
    # Where there is no terminal that needs no word.
    has("without a word", top(MNT), "raw/idle")
    lines = [line for line in top("--once", "--sort", "name", "--rows", "1", MNT).splitlines() if line.startswith("raw/")]
    ok("by name, and not more", [line.split()[0] for line in lines] == ["raw/busy"], lines)
    has("the rest is counted", top("--once", "--rows", "1", MNT), "\nand 1 more\n")
    ok("no wider", all(len(line) <= 60 for line in top("--once", "-w", "60", MNT).splitlines()))
    busy.ctl("kill")


def heads():
    """Of a mount that has just been made, and of images that are missing and that could not be built."""
    module = importlib.machinery.SourceFileLoader("top", TOP).load_module()
    status = json.loads(read(f"{MNT}/status.json"))
    status["uptime_s"] = 0
    for state, told in ("missing", False), ("failed", True):
        status["templates"][0].update(problem="no image", image={"state": state})
        text = "\n".join(module.head(types.SimpleNamespace(path=MNT, status=status)))
        has("just mounted", text, "up 0s,")
        same(f"an image that is {state} is a problem", "Problem: " in text, told)


def elsewhere():
    has("no mount", top("--once", SCRATCH, status=1), "this is no mount of xsbxfs")
    has("a wrong word", top("--sort", "nothing", MNT, status=2), "usage: ")


def hostile():
    """An error quotes what was written; names of jobs and what networks refuse are others' as well."""
    s = Session("hostile")
    with raises("no such key", errno.EINVAL):
        write(s / "config", b"\x1b]0;owned\x07\xc2\x9b31m\xe2\x80\xaekey\xff = 1\n")
    text = top("--once", MNT)
    ok("it is there", re.search(r"^raw/hostile .* there is no setting ", text, re.M), text)
    for c in "\x1b\x07\x9b\u202e\xff":
        ok(f"{c!r} is not", c not in text, text)
    # By itself, for what the daemon makes printable already.
    clean = shell(f"python3 -c \"import importlib.machinery as m, sys; t = m.SourceFileLoader('top', '{TOP}').load_module();"
                  " print(t.clean('a\\x1b[31m\\x9b\\u202eb\\u0301\\u0301\\tc', 20), t.clean('\\u4e2d\\u4e2d\\u4e2d', 5),"
                  " t.clean('abcdef', 3), sep='|')\" 2> /dev/null")[1].decode()
    same("nothing moves the cursor", clean, "a?[31m??b\u0301 c|\u4e2d\u4e2d\u2026|ab\u2026\n".replace("b\u0301", "b"))


def others():
    """Who has not mounted sees what is his, and the names of others."""
    if os.getuid():
        skip("needs root, to be two users")
    s = Session("secret")
    s.run("echo SECRET-CODE >&2; exit 5\n")
    with raises("an error", errno.EINVAL):
        write(s / "config", "SECRET = 1\n")
    as_user(ALICE, lambda: os.mkdir(f"{MNT}/raw/alice"))
    as_user(ALICE, lambda: write(f"{MNT}/raw/alice/in", "exit 4\n"))
    as_user(ALICE, lambda: read(f"{MNT}/raw/alice/exit_code"))
    text = as_user(ALICE, lambda: top("--once", MNT))
    ok("her own", re.search(r"^raw/alice .* exit 4 in ", text, re.M), text)
    ok("the other one's name", re.search(r"^raw/secret +\?", text, re.M), text)
    ok("... and nothing else", "SECRET" not in text and "exit 5" not in text, text)
    # Control: the owner sees that.
    has("what there is to be seen", top("--once", MNT), "exit 5")


def many():
    """What it asks for is bounded, however many there are."""
    count = 600
    for n in range(count):
        os.mkdir(f"{MNT}/raw/many{n}")
    before = requests()
    text = top("--once", MNT)
    asked = requests() - before
    has("all are counted", text, f"and {count + 5 - 50} more\n")
    ok("not all are read, which takes 8 for each", asked < 12 * 300, asked)
    for n in range(count):
        os.rmdir(f"{MNT}/raw/many{n}")


def terminal():
    need("tmux")
    s = Session("seen")
    s.run("echo x; exit 7\n")
    tmux = f"tmux -S {SCRATCH}/tmux -f /dev/null"
    shell(f"{tmux} new-session -d -x 120 -y 40 'LC_ALL=C.UTF-8 {TOP} -d 0.2 {MNT}; echo ended with $?; cat'")

    def screen():
        return shell(f"{tmux} capture-pane -p")[1].decode()

    try:
        ok("it is shown", wait_for(lambda: re.search(r"^raw/seen .* exit 7", screen(), re.M)), screen())
        has("how it is used", screen(), "q: quit")
        # What happens comes by itself.
        Session("later").run("exit 9\n")
        ok("what happens", wait_for(lambda: re.search(r"^raw/later .* exit 9", screen(), re.M)), screen())
        shell(f"{tmux} send-keys t")
        ok("sorted by time", wait_for(lambda: "sorted by time" in screen()), screen())
        ok("the newest is the first", wait_for(lambda: re.search(r"LAST RUN, ERROR\n(raw/\w+)", screen())[1] == "raw/later"),
           screen())
        shell(f"{tmux} send-keys Enter")
        ok("more of it", wait_for(lambda: screen().startswith("raw/later: ") and "exit 9" in screen()), screen())
        shell(f"{tmux} send-keys q")
        ok("back", wait_for(lambda: "q: quit" in screen()), screen())
        shell(f"{tmux} resize-window -x 60 -y 12")
        ok("it is smaller", wait_for(lambda: all(len(line) <= 60 for line in screen().splitlines())), screen())
        shell(f"{tmux} send-keys q")
        ok("it ends", wait_for(lambda: "ended with 0" in screen()), screen())
    finally:
        shell(f"{tmux} kill-server")


main(once, heads, elsewhere, hostile, others, many, terminal)
