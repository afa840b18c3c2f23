#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python programs, in a table: what is run, and what must come out of it."""
# timeout: 150
# backends: local vm
from tables import *

ANY = re.compile("", re.S)

# name, code, stdout (text, or a pattern), exit status, pattern of stderr ("" means none at all)
CASES = [
    # fundamentals
    ("hello", "print(6*7)", "42\n", 0, ""),
    ("empty", "\n", "", 0, ""),
    ("white space", "  \n\t\n", "", 0, ""),
    ("comment", "# nothing", "", 0, ""),
    ("no newline at the end", "print(1)", "1\n", 0, ""),
    ("CRLF", "x = 1\r\nif x:\r\n    print('crlf')\r\n", "crlf\n", 0, ""),
    ("byte order mark", "\ufeffprint('bom')", "bom\n", 0, ""),
    ("indented block", "for i in range(3):\n    print(i)\n\n    if i: print('-')\n",
     "0\n1\n-\n2\n-\n", 0, ""),
    ("no echo of expressions", "1 + 1\n'x'\n", "", 0, ""),
    ("10,000 lines", "for i in range(10000): print(i)", re.compile(r"0\n1\n.*\n9999\n", re.S), 0, ""),
    ("1 MB", "print('x' * 1000000)", "x" * 1000000 + "\n", 0, ""),
    ("unicode", "print('tab\\t café 你好 \U0001f600')", "tab\t café 你好 \U0001f600\n", 0, ""),
    ("unicode names", "größe = 3; 变量 = 4\nprint(größe * 变量)", "12\n", 0, ""),
    ("unicode from an earlier run", "print(größe)", "3\n", 0, ""),
    ("NULs in output", "print('a\\0b\\x1b[31m')", "a\0b\x1b[31m\n", 0, ""),
    ("stderr", "import sys; print('e', file=sys.stderr)", "", 0, r"e\n"),
    ("both", "import sys\nfor i in range(100): print(i); print(i, file=sys.stderr)",
     "".join(f"{i}\n" for i in range(100)), 0, "^0\n.*99\n$"),
    ("binary", "import sys; sys.stdout.buffer.write(b'\\xff\\xfe'); print('DONE')",
     "\ufffd\ufffdDONE\n", 0, ""),
    ("unflushed text", "import sys; sys.stdout.write('no newline')", "no newline", 0, ""),
    ("os.write and print", "import os; print('a', flush=True); os.write(1, b'b\\n'); print('c')",
     "a\nb\nc\n", 0, ""),
    ("stdout replaced", "import sys, io\nold = sys.stdout\nsys.stdout = io.StringIO()\n"
     "print('hidden')\nsys.stdout = old\nprint('shown')", "shown\n", 0, ""),
    # errors
    ("exception", "print('before'); 1/0", "before\n", 1, r"ZeroDivisionError"),
    ("syntax error", "print('a'\n", "", 1, r"SyntaxError"),
    ("indentation error", "if 1:\nprint()", "", 1, r"IndentationError"),
    ("name error", "print(undefined_name)", "", 1, r"NameError.*undefined_name"),
    ("missing module", "import no_such_module", "", 1, r"ModuleNotFoundError"),
    ("missing file", "open('/no/such/file')", "", 1, r"FileNotFoundError"),
    ("line numbers", "\n\nraise ValueError('third')", "", 1, r"line 3\b.*ValueError: third"),
    ("nothing of the machinery in tracebacks", "def f(): g()\ndef g(): 1/0\nf()", "", 1,
     r"^Traceback[^\n]*\n  File \"<?[^\n]*line 3, in <module>\n(?!.*repl\.py).*in f\b.*in g\b.*Zero"),
    ("source lines in tracebacks", "x = 5\nraise RuntimeError(f'{x}')  # marker", "", 1,
     r"raise RuntimeError.*marker"),
    ("chained exceptions", "try: 1/0\nexcept Exception as e: raise KeyError('k') from e", "", 1,
     r"ZeroDivisionError.*direct cause.*KeyError"),
    ("exception in a function of an earlier run", "def boom():\n    raise OSError('boom')", "", 0, ""),
    ("... called later", "boom()", "", 1, r"in boom\n.*OSError: boom"),
    ("recursion", "def r(): r()\nr()", "", 1, r"RecursionError"),
    ("recursion does not end the session", "print('alive')", "alive\n", 0, ""),
    ("exception group", "raise ExceptionGroup('g', [ValueError('a'), TypeError('b')])", "", 1,
     r"ExceptionGroup.*ValueError: a.*TypeError: b"),
    ("warnings", "import warnings; warnings.warn('careful')", "", 0, r"UserWarning: careful"),
    # exit statuses
    ("sys.exit(0)", "import sys; print('a'); sys.exit(0); print('b')", "a\n", 0, ""),
    ("sys.exit()", "import sys; sys.exit()", "", 0, ""),
    ("sys.exit(None)", "import sys; sys.exit(None)", "", 0, ""),
    ("sys.exit(9)", "import sys; sys.exit(9)", "", 9, ""),
    ("sys.exit(255)", "import sys; sys.exit(255)", "", 255, ""),
    ("sys.exit(256)", "import sys; sys.exit(256)", "", 0, ""),
    ("sys.exit(-1)", "import sys; sys.exit(-1)", "", 255, ""),
    ("sys.exit(-3)", "import sys; sys.exit(-3)", "", 253, ""),
    ("sys.exit(137)", "import sys; sys.exit(137)", "", 137, ""),
    ("sys.exit(True)", "import sys; sys.exit(True)", "", 1, ""),
    ("sys.exit(text)", "import sys; sys.exit('goodbye')", "", 1, r"^goodbye\n$"),
    ("sys.exit(2**40)", "import sys; sys.exit(2**40)", "", None, None),
    ("sys.exit(3.5)", "import sys; sys.exit(3.5)", "", 1, r"3\.5"),
    ("raise SystemExit", "raise SystemExit(4)", "", 4, ""),
    ("quit()", "quit(3)", "", 3, ""),
    ("exit()", "exit(5)", "", 5, ""),
    ("sys.exit in a function", "import sys\ndef f(): sys.exit(6)\nf()", "", 6, ""),
    ("sys.exit in a thread", "import threading, sys\nt = threading.Thread(target=lambda: sys.exit(7))\n"
     "t.start(); t.join(); print('main')", "main\n", 0, ""),
    ("KeyboardInterrupt", "raise KeyboardInterrupt", "", 130, r"KeyboardInterrupt"),
    ("GeneratorExit", "raise GeneratorExit", "", 1, r"GeneratorExit"),
    # user code's own names
    ("names that machinery might use", "exit_code = 5; code = 'mine'; sentinel_id = 'x'; status = 9\n"
     "traceback = 1; result = 3; nonce = 4; sock = 5; turn = 6", "", 0, ""),
    ("... are what they were", "print(exit_code, code, sentinel_id, traceback, turn)",
     "5 mine x 1 6\n", 0, ""),
    ("... and an exception still works", "1/0", "", 1, r"ZeroDivisionError"),
    ("sys overwritten", "sys = None; print('fine')", "fine\n", 0, ""),
    ("... later", "print(sys); import sys; print(sys.version_info > (3, 0))", "None\nTrue\n", 0, ""),
    ("builtins overwritten", "print = len = None", "", 0, ""),
    ("... and restored", "del print, len; print(len('abc'))", "3\n", 0, ""),
    ("globals are clean", "print(sorted(k for k in globals() if not k.startswith('__') "
     "and k in ('repl', 'driver', 'ctl', 'main', 'run_turn', 'loop')))", "[]\n", 0, ""),
    ("__name__", "print(__name__)", "__main__\n", 0, ""),
    ("if __name__", "if __name__ == '__main__': print('main')", "main\n", 0, ""),
    ("__main__ is what user code sees", "import __main__; marker = 1; print(__main__.marker)",
     "1\n", 0, ""),
    ("pickle of a class of __main__", "import pickle\nclass P: x = 1\n"
     "print(pickle.loads(pickle.dumps(P())).x)", "1\n", 0, ""),
    ("annotations are values", "x: int = 3\ndef f(a: int): pass\nprint(f.__annotations__)",
     "{'a': <class 'int'>}\n", 0, ""),
    ("dataclass", "from dataclasses import dataclass\n@dataclass\nclass D:\n    a: int = 1\nprint(D())",
     "D(a=1)\n", 0, ""),
    ("inspect.getsource", "def f():\n    return 42\nimport inspect\nprint(inspect.getsource(f))",
     "def f():\n    return 42\n\n", 0, ""),
    ("fd 0 closed", "import os; os.close(0); print('closed')", "closed\n", 0, ""),
    ("... and the next run has it again", "import sys; print(repr(sys.stdin.read()))", "''\n", 0, ""),
    ("sys.stdout closed", "import sys; sys.stdout.close()", "", None, None),
    ("... and the next run has it again", "print('back')", "back\n", 0, ""),
    ("fd 2 closed", "import os; os.close(2); print('x')", "x\n", 0, ""),
    ("... and back", "import sys; print('y', file=sys.stderr)", "", 0, r"y\n"),
    ("excepthook", "import sys; sys.excepthook = lambda *a: print('mine'); 1/0", ANY, 1, None),
    ("gc and trace", "import sys, gc; gc.collect(); sys.settrace(None); gc.disable(); gc.enable()",
     "", 0, ""),
    ("excepthook restored", "import sys; sys.excepthook = sys.__excepthook__", "", 0, ""),
    # standard input
    ("input()", "input()", "", 1, r"EOFError"),
    ("stdin.read()", "import sys; print(repr(sys.stdin.read()), repr(sys.stdin.read()))",
     "'' ''\n", 0, ""),
    ("stdin lines", "import sys; print(len(list(sys.stdin)))", "0\n", 0, ""),
    ("stdin.readline()", "import sys; print(repr(sys.stdin.readline()))", "''\n", 0, ""),
    ("stdin.buffer", "import sys; print(sys.stdin.buffer.read())", "b''\n", 0, ""),
    ("os.read(0)", "import os; print(os.read(0, 10))", "b''\n", 0, ""),
    ("/dev/stdin", "print(repr(open('/dev/stdin').read()))", ANY, None, None),
    ("fileno, isatty", "import sys; print(sys.stdin.fileno(), sys.stdin.isatty())", "0 False\n", 0, ""),
    ("select on stdin", "import select, sys; print(len(select.select([sys.stdin], [], [], 1)[0]))",
     "1\n", 0, ""),
    ("json.load(stdin)", "import json, sys; json.load(sys.stdin)", "", 1, r"JSONDecodeError"),
    ("writing to stdin", "import sys; sys.stdin.write('x')", "", 1, r"UnsupportedOperation|not writable"),
    ("fileinput", "import fileinput; print(len(list(fileinput.input('-'))))", "0\n", 0, ""),
    ("wc of stdin", "import subprocess; print(subprocess.run(['wc', '-l'], capture_output=True)"
     ".stdout.decode().strip())", "0\n", 0, ""),
    # processes
    ("subprocess", "import subprocess; print(subprocess.check_output(['echo', 'hi']))",
     "b'hi\\n'\n", 0, ""),
    ("subprocess to our stdout", "import subprocess; print('a', flush=True); "
     "subprocess.run(['echo', 'b'])", "a\nb\n", 0, ""),
    ("os.system", "import os; print(os.system('exit 3') >> 8)", "3\n", 0, ""),
    ("fork", "import os, sys\npid = os.fork()\nif not pid:\n    print('child', flush=True)\n"
     "    os._exit(3)\nprint(os.waitpid(pid, 0)[1] >> 8)", "child\n3\n", 0, ""),
    ("fork, child falls through", "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\n"
     "print('parent' if pid else 'child')", re.compile("^(child\nparent\n|parent\n)$"), 0, None),
    ("... and the session is sane", "print('one')", "one\n", 0, ""),
    ("fork, child sys.exit", "import os, sys\nfor i in range(20):\n    if not os.fork(): sys.exit(9)\n"
     "for i in range(20): os.wait()\nprint('parent')", "parent\n", 0, None),
    ("fork, child raises", "import os\nif not os.fork(): 1/0\nos.wait()\nprint('parent')",
     "parent\n", 0, None),
    ("nested forks", "import os\nif not os.fork():\n    if not os.fork(): os._exit(0)\n    os.wait()\n"
     "    os._exit(0)\nos.wait(); print('top')", "top\n", 0, ""),
    ("50 forks", "import os\nfor i in range(50):\n    p = os.fork()\n    if not p: os._exit(0)\n"
     "    os.waitpid(p, 0)\nprint('ok')", "ok\n", 0, ""),
    ("threads", "import threading\nr = []\nts = [threading.Thread(target=r.append, args=(i,)) "
     "for i in range(10)]\n[t.start() for t in ts]; [t.join() for t in ts]\nprint(sorted(r))",
     "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n", 0, ""),
    ("daemon thread", "import threading, time\n"
     "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nprint('not held')",
     "not held\n", 0, ""),
    ("exception in a thread", "import threading\nt = threading.Thread(target=lambda: 1/0)\n"
     "t.start(); t.join(); print('main')", "main\n", 0, r"ZeroDivisionError"),
    ("asyncio", "import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return 5\n"
     "print(asyncio.run(f()))", "5\n", 0, ""),
    ("background child", "import subprocess; p = subprocess.Popen(['sleep', '60']); print('up')",
     "up\n", 0, ""),
    ("... lives in the next run", "print(p.poll()); p.kill(); print(p.wait())", "None\n-9\n", 0, ""),
    ("many open files", "import os\nfds = []\ntry:\n    for i in range(5000): "
     "fds.append(os.open('/dev/null', 0))\nexcept OSError as e: print('EMFILE')\n"
     "for f in fds: os.close(f)\nprint('ok')", re.compile(r"^(EMFILE\n)?ok\n$"), 0, ""),
    ("tempfile", "import tempfile\nwith tempfile.NamedTemporaryFile('w+') as f:\n"
     "    f.write('x'); f.seek(0); print(f.read())", "x\n", 0, ""),
    # the environment
    ("cwd", "import os; print(os.getcwd() == os.path.expanduser('~') or os.getcwd())", ANY, 0, ""),
    ("cwd is writable", "open('w.txt', 'w').write('w'); print(open('w.txt').read())", "w\n", 0, ""),
    ("import from the cwd", "open('mymod.py', 'w').write('v = 7\\n')\nimport mymod; print(mymod.v)",
     "7\n", 0, ""),
    ("sys.argv", "import sys; print(len(sys.argv))", "1\n", 0, ""),
    ("standard library", "import json, re, math, csv, sqlite3, hashlib, datetime, collections\n"
     "print(json.dumps({'a': math.floor(2.5)}), re.sub('a', 'b', 'aa'))", '{"a": 2} bb\n', 0, ""),
    ("100k digits", "import sys\nsys.set_int_max_str_digits(0)\nprint(len(str(10**100000)))",
     "100001\n", 0, ""),
    ("urandom", "import os; print(os.urandom(8) != os.urandom(8))", "True\n", 0, ""),
    ("clock", "import time; print(time.time() > 1700000000)", "True\n", 0, ""),
    ("monkeypatched os._exit", "import os; keep = os._exit; os._exit = None; print('x')", "x\n", 0, ""),
    ("... later", "os._exit = keep; print('y')", "y\n", 0, ""),
    ("top-level await is a syntax error", "await x", "", 1, r"SyntaxError"),
    ("from __future__", "from __future__ import annotations\ndef f(a: zzz): pass\n"
     "print(f.__annotations__)", "{'a': 'zzz'}\n", 0, ""),
    ("... does not leak into the next", "def f(a: int): pass\nprint(f.__annotations__)",
     "{'a': <class 'int'>}\n", 0, ""),
    ("match statement", "match [1, 2]:\n    case [a, b]: print(a + b)", "3\n", 0, ""),
    ("a lone surrogate", "print(ascii('\\ud800'))", "'\\ud800'\n", 0, ""),
    ("printing one", "print('\\ud800')", ANY, None, None),
    ("coding line", "# -*- coding: latin-1 -*-\nprint('x')", "x\n", 0, ""),
]

VM_CASES = [
    ("cwd", "import os; print(os.getcwd())", "/home/user\n", 0, ""),
    ("HOME", "import os, pathlib, pwd\nprint(os.environ['HOME'], pathlib.Path.home(), "
     "pwd.getpwuid(os.getuid()).pw_dir, os.getuid(), os.getgid())",
     "/home/user /home/user /home/user 1000 1000\n", 0, ""),
    ("read-only file system", "open('/usr/x', 'w')", "", 1, r"Read-only|Permission"),
    ("huge allocation", "x = bytearray(8 << 30)", "", None, None),
    ("multiprocessing", "from multiprocessing import Pool\nimport math\n"
     "with Pool(2) as p: print(p.map(math.sqrt, [1, 4, 9]))", "[1.0, 2.0, 3.0]\n", 0, None),
    ("orphans go to init", "import os, time\nr, w = os.pipe()\nif not os.fork():\n"
     "    parent = os.getpid()\n    if not os.fork():\n        while os.getppid() == parent: "
     "time.sleep(0.01)\n        os.write(w, str(os.getppid()).encode())\n"
     "    os._exit(0)\nos.wait(); print(os.read(r, 10))", "b'1'\n", 0, None),
]


def table(cases=None):
    # Twenty children at once need more than the default when each touches all that it inherited.
    s = Session("table", "python", config="memory_mb = 256\n")
    run_table(s, cases or CASES + (VM_CASES if VM else []))
    write(s / "stdin", b"given\n")
    same("/dev/stdin that was given", s.run("print(open('/dev/stdin').read(), end='')\n").out, "given\n")


main(table)
