#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""env.NAME: variables of the interpreter."""
# backends: local vm
from xsbx import *


def variables():
    s = Session("vars", config="env.GREETING = hello world\nenv.EMPTY =\nenv.Q = \"it's\"\n"
                               "env.UNI = größe 你好\nenv.EQ = a=b=c\n")
    same("in the interpreter", s.run("echo \"$GREETING|$EMPTY|$UNI|$EQ\"\n").out,
         "hello world||größe 你好|a=b=c\n")
    same("exported", s.run("bash -c 'echo $GREETING'\n").out, "hello world\n")
    has("quotes are kept or taken off", s.run("echo $Q\n").out, "it's")
    s.run("exit 3\n")
    same("a fresh interpreter has them too", s.run("echo $GREETING\n").out, "hello world\n")
    s.ctl("reset")
    same("after reset", s.run("echo $GREETING\n").out, "hello world\n")
    has("config shows them", s.text("config"), "env.GREETING = hello world")


def python():
    s = Session("py", "python", config="env.A = from config\nenv.PYTHONHASHSEED = 0\n")
    same("before the interpreter starts", s.run("import os; print(os.environ['A'])\n").out,
         "from config\n")
    same("line numbers are not shifted", s.run("1/0").err.count("line 1"), 1)


def refused():
    s = Session("refused")
    for text in ("env.1A = x\n", "env.A-B = x\n", "env.=x\n"):
        with raises(repr(text), errno.EINVAL):
            write(s / "config", text)
    many = "".join(f"env.V{i} = {i}\n" for i in range(100))
    write(s / "config", many)
    same("a hundred", s.run("echo $V0 $V99\n").out, "0 99\n")
    t = Session("toomany")
    with raises("a hundred and one", errno.EINVAL):
        write(t / "config", many + "env.W = x\n")


main(variables, python, refused)
