#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies: a session that begins as another is, or was; what they share, and what they do not."""
# backends: local vm
# timeout: 120
from clocks import *
from xsbx import *


def copy_of(name, source, *lines, template="python"):
    s = Session(name, template)
    write(s / "config", "\n".join([f"from = {source}", *lines, ""]))
    return s


def goes_on():
    s = Session("goes", "python", config="env.WORD = hello\nmemory_mb = 160\n")
    s.run("import os, json; x = {'a': [1, 2]}; open('f', 'w').write('one'); os.makedirs('d'); os.chdir('d')")
    c = copy_of("on", "goes", "timeout_s = 77")
    same("it sleeps, or is about to", c.word(), "asleep")
    if VM:
        same("variables, imports, directory", c.run("print(x, json.dumps(x['a']), os.getcwd()[-2:])").out,
             "{'a': [1, 2]} [1, 2] /d\n")
    same("files", read(c / "files/f"), b"one")
    same("environment", c.run("import os; print(os.environ['WORD'])").out, "hello\n")
    same("settings", [c.json()["settings"][k] for k in ("memory_mb", "timeout_s")], [160, 77])
    same("whether it kept its state", c.json()["state_kept"], VM)
    same("it has no runs of the other's", c.runs(), [1, 2] if VM else [1])
    same("nor had the other any of its", s.runs(), [1])
    c.run("open(os.path.expanduser('~/f'), 'w').write('two'); x = 'changed'")
    same("the other goes on as if nothing had been", s.run("print(x, open('../f').read())").out,
         "{'a': [1, 2]} one\n")
    same("whose copy it is", c.json()["parent"]["session"], "python/goes")
    same("and who the copies are", s.json()["children"], ["python/on"])
    s.remove()
    same("it outlives that", c.run("print(open(os.path.expanduser('~/f')).read())").out, "two\n")
    same("and tells still", c.json()["parent"]["session"], "python/goes")


def many():
    """A search over branches: each goes its own way."""
    s = Session("root", "python")
    s.run("import os; path = []; open('path', 'w').write('')")
    add = "open('path', 'a').write('%s'); print(open('path').read())"
    os.mkdir(s / "checkpoints/start")
    branches = [copy_of(f"branch{i}", "root@start") for i in range(3)]
    for i, branch in enumerate(branches):
        branch.submit(add % i)
    for i, branch in enumerate(branches):
        same(f"branch {i}", branch.result().out, f"{i}\n")
    leaf = copy_of("leaf", "branch1")
    same("a copy of a copy", leaf.run(add % "x").out, "1x\n")
    same("of the checkpoint, still", copy_of("late", "root@start").run(add % "y").out, "y\n")
    same("parents", (leaf.json()["parent"]["session"], branches[0].json()["parent"]["checkpoint"]),
         ("python/branch1", "start"))


def differ():
    """What must not be the same in two copies."""
    s = Session("same", "python")
    s.run("import os, time, socket, uuid")
    copies = [copy_of(f"same{i}", "same") for i in range(2)]
    ok("they are saved", wait_for(lambda: all(c.json()["asleep"]["saved"] for c in copies)))
    time.sleep(REST_S)
    all_of_them = {"same": s, "same0": copies[0], "same1": copies[1]}
    got = [c.run("import os, socket\nprint(os.urandom(16).hex(), socket.gethostname())").out.split()
           for c in all_of_them.values()]
    same("random bytes", len({random for random, _ in got}), 3)
    for (name, c), (_, host) in zip(all_of_them.items(), got):
        if VM:
            same("host names", host, f"python-{name}")
        off = drift("python", c)
        ok(f"{name}: the clock is the host's", off < OFF, off)


def asleep():
    s = Session("sleeper", "python")
    s.run("open('f', 'w').write('x')")
    s.ctl("sleep")
    ok("asleep", s.wait_state("asleep"))
    c = copy_of("ofsleeper", "sleeper")
    same("a copy", c.run("print(open('f').read())").out, "x\n")
    same("of one that was not woken", s.word(), "asleep")
    s.submit("open('f', 'w').write('y')")
    c = copy_of("ofwaking", "sleeper", "when = idle")
    s.submit("open('f', 'w').write('z')")
    same("one that wakes for a run is copied behind that", c.run("print(open('f').read())").out, "y\n")
    same("and goes on", s.run("print(open('f').read())").out, "z\n")


def busy():
    s = Session("busy", "raw", config="timeout_s = 0\n")
    s.submit("echo 1 > f; sleep 2; echo 2 > f\n")
    ok("it runs", s.wait_run(1, "running"))
    c = Session("copy", "raw")
    with raises("it runs", errno.EBUSY):
        write(c / "config", "from = busy\n")
    has("in words", c.text("error"), "busy")
    same("it is nothing of the other's", s.text("error"), "")
    write(c / "config", "from = busy\nwhen = idle\n")
    c.submit("cat f\n")
    same("when it is idle", c.result().out, "2\n")


def refused():
    s = Session("source", "raw")
    s.run("true\n")
    c = Session("refused", "raw")
    for text in ("from = nobody\n", "from = source@never\n", "from = python/source\n", "from = a b\n",
                 "from = source\nmemory_mb = 512\n", "from = source\nenv.A = b\n", "from = refused\n"):
        with raises(text, errno.EINVAL):
            write(c / "config", text)
        ok("in words", c.text("error").startswith("code: "), c.text("error"))
    same("it is new", c.word(), "new")
    c.run("true\n")
    with raises("it has a sandbox", errno.EBUSY):
        write(c / "config", "from = source\n")


def edited():
    """config is written back as it was read, as editors do."""
    s = Session("edited", "raw")
    s.run("echo x > f\n")
    c = copy_of("editedcopy", "edited", template="raw")
    text = c.text("config")
    has("it says what it is", text, "from = edited\n")
    write(c / "config", text.replace("timeout_s = 30", "timeout_s = 31", 1))
    same("one line", c.json()["settings"]["timeout_s"], 31)
    same("it is that copy", c.run("cat f\n").out, "x\n")


main(goes_on, many, differ, asleep, busy, refused, edited)
