#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""env.NAME: variables of the interpreter."""
# backends: local process vm
# night: vm
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


def settings_of_python():
    """PYTHON... reaches the interpreter; what would put files of the user's before the driver comes
    when that is there."""
    s = Session("pyset", "python", config="""env.PYTHONHASHSEED = 0
env.PYTHONPATH = modules
env.PYTHONWARNINGS = error::UserWarning
env.PYTHONOPTIMIZE = 1
env.PYTHONUNBUFFERED = 1
env.PYTHONPYCACHEPREFIX = /tmp/cache
env.PYTHONIOENCODING = latin-1
env.PYTHONBREAKPOINT = mine.stop
""")
    os.mkdir(s / "files/modules")
    write(s / "files/modules/mine.py", "def stop(): print('stopped')\n")
    for name in "sitecustomize.py", "encodings.py", "gc.py":
        write(s / f"files/modules/{name}", "open('hijacked', 'w').close()\n")
    s.ctl("reset")
    result = s.run("import sys, os\nassert False\nbreakpoint()\n"
                   "print(hash('a'), sys.flags.optimize, sys.warnoptions, sys.pycache_prefix)\n"
                   "print(sys.path[1], os.environ['PYTHONPATH'], [n for n in os.environ if 'XSBX' in n])\n")
    hash_of_a = shell(f"PYTHONHASHSEED=0 {sys.executable} -c 'print(hash(chr(97)))'")[1].decode().strip()
    same("settings", result.out, "stopped\n" + (f"{hash_of_a} 1 ['error::UserWarning'] /tmp/cache\n"
                                                 "modules modules []\n"))
    same("encoding", s.run("print(chr(233))").stdout, b"\xe9\n")
    has("warnings", s.run("import warnings; warnings.warn('x')").err, "UserWarning: x")
    same("unbuffered", s.run("import os, sys; sys.stdout.write('a'); os._exit(0)").out, "a")
    ok("no file of the user's before the driver", not os.path.exists(s / "files/hijacked"))


def big_integers():
    s = Session("big", "python")
    same("in full", len(s.run("print(2**20000)").out), 6022)
    t = Session("small", "python", config="env.PYTHONINTMAXSTRDIGITS = 4300\n")
    has("or as far as he wants", t.run("print(2**20000)").err, "ValueError")


def own_secrets():
    """With any variable the interpreter starts anew, and shares neither addresses nor hashes with others."""
    code = "import ctypes\nprint(hash('a'), ctypes.cast(ctypes.CDLL(None).printf, ctypes.c_void_p).value)\n"
    seen = [Session(f"own{n}", "python", config="env.A = b\n").run(code).out.split() for n in range(3)]
    for what, values in zip(("hashes", "addresses"), zip(*seen)):
        same(f"{what} differ", len(set(values)), 3)


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


main(variables, python, settings_of_python, big_integers, own_secrets, refused)
