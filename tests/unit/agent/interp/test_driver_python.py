#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The driver of Python, images/drivers/repl.py, without a sandbox. Usage: see driver_fixture.py."""

import hashlib
import os
import socket
import subprocess
import sys
import tempfile

from driver_fixture import DEADLINE, SCRATCH, SEED, WARM, DriverCase, main, pythons


class PythonCases(DriverCase):
    """Everything about repl.py but processes; run with each Python that is asked for."""

    def test_basics(self):
        s = self.session()
        self.assertRegex(s.version, r'^Python 3\.\d+\.')
        self.expect(s, '# comment only\n', '', 0, '')
        self.expect(s, '', '', 0, '')
        self.expect(s, 'print(6*7)', '42\n', 0, '')
        self.expect(s, '6*7', '', 0, '')
        self.expect(s, 'print("caf\u00e9 \u4f60\u597d\\t\x1b[31mred")', 'café 你好\t\x1b[31mred\n')
        self.expect(s, '\ufeffprint("bom")', 'bom\n')
        self.expect(s, 'print("a\\x00b")', b'a\0b\n')
        self.expect(s, 'é = 1; print(é)', '1\n')
        self.expect(s, '# -*- coding: latin-1 -*-\nprint("\xe9")'.encode('latin-1'), 'é\n')

    def test_what_is_no_text(self):
        s = self.session()
        self.expect(s, b'print(1)\0print(2)', '', 1, 'null byte')
        self.expect(s, b'# coding: nonsense\nprint(1)', '', 1, 'nonsense')
        self.expect(s, b'print("\xff")', '', 1, 'SyntaxError')
        self.expect(s, b'\xef\xbb\xbfdef f():\n  1 / 0\nf()', '', 1, '    1 / 0\n')
        self.expect(s, 'print(1)', '1\n', 0, '')

    def test_first_run_is_cheap(self):
        """It makes no types of syntax trees, and imports nothing, for which each new sandbox would pay."""
        look = ('import gc, sys; print(sum(isinstance(o, type) and o.__module__ == "ast" for o in gc.get_objects()),'
                ' any(name.endswith(".utf_8_sig") for name in sys.modules))')
        plain = subprocess.run([self.command[0], '-s', '-B', '-c', look], stdout=subprocess.PIPE, check=True)
        self.expect(self.session(), look, plain.stdout.decode())

    def test_state_is_kept(self):
        s = self.session()
        self.expect(s, 'x = 1\nimport json\ndef f(): return x\nclass C: v = 5')
        self.expect(s, 'x += 1\nprint(f(), json.dumps([1]), C.v, C.__module__)', '2 [1] 5 __main__\n')
        self.expect(s, 'x += 1; raise ValueError', status=1)
        self.expect(s, 'x += 1; import sys; sys.exit(3)', status=3)
        self.expect(s, 'x = = 1', status=1, err='SyntaxError')
        self.expect(s, 'print(x)', '4\n')
        self.expect(s, 'import os; os.chdir("/"); os.environ["A"] = "b"')
        self.expect(s, 'print(os.getcwd(), os.popen("pwd; echo $A").read().split())', "/ ['/', 'b']\n")

    def test_module_namespace_is_clean(self):
        s = self.session()
        self.expect(s, 'print(sorted(k for k in globals() if k not in ("__annotations__",)))',
                    "['__builtins__', '__doc__', '__file__', '__loader__', '__name__', "
                    "'__package__', '__spec__']\n")
        self.expect(s, '''
            import sys, __main__
            assert __main__.__dict__ is globals() and sys.modules['__main__'] is __main__
            assert __name__ == '__main__' and __file__.endswith('<run 2>')
            print(sys.argv, sys.path[0])''', f"['<run 2>'] {s.home}\n")
        self.expect(s, 'exit_code = code = sentinel = traceback = sys = os = 5; print(code)', '5\n')
        self.expect(s, 'print(code); 1/0', '5\n', 1, 'ZeroDivisionError')
        self.expect(s, 'class A:\n  x: int\nprint(A.__annotations__)', "{'x': <class 'int'>}\n")
        self.expect(s, 'from __future__ import annotations\nclass A:\n  x: int\n'
                    'print(A.__annotations__)', "{'x': 'int'}\n")
        self.expect(s, 'class A:\n  x: int\nprint(A.__annotations__)', "{'x': <class 'int'>}\n")

    def test_exit_statuses(self):
        s = self.session()
        for code, status in (
                ('sys.exit()', 0), ('sys.exit(None)', 0), ('sys.exit(0)', 0), ('sys.exit(9)', 9),
                ('sys.exit(True)', 1), ('sys.exit(False)', 0), ('sys.exit(256)', 0),
                ('sys.exit(-3)', 253), ('sys.exit(-1)', 255), ('sys.exit(2**40)', 0),
                ('sys.exit(2**40 + 7)', 7), ('sys.exit(2**80)', 255), ('sys.exit(137)', 137),
                ('raise SystemExit(4)', 4), ('exit(6)', 6), ('quit()', 0),
                ('class E(SystemExit): pass\nraise E(5)', 5), ('sys.exit(3.0)', 1),
                ('sys.exit((1, 2))', 1), ('def f(): sys.exit(8)\nf()', 8)):
            self.expect(s, 'import sys\n' + code, '', status)
            plain = subprocess.run([self.command[0], '-c', 'import sys\n' + code],
                                   capture_output=True)
            self.assertEqual(plain.returncode, status, code)
        self.expect(s, 'sys.exit("text")', '', 1, b'text\n')
        self.expect(s, 'sys.exit((1, 2))', '', 1, b'(1, 2)\n')
        self.expect(s, 'print("a"); sys.exit(0); print("b")', 'a\n', 0)
        self.expect(s, 'print("alive")', 'alive\n')

    def test_tracebacks(self):
        s = self.session()
        self.expect(s, 'def f():\n    return 1 / 0\n')
        r = self.expect(s, 'x = 1\nf()\n', '', 1)
        text = r.err.decode()
        lines = [line for line in text.splitlines() if not set(line) <= set(' ^~')]
        self.assertEqual(lines, [
            'Traceback (most recent call last):',
            '  File "<run 2>", line 2, in <module>', '    f()',
            '  File "<run 1>", line 2, in f', '    return 1 / 0',
            'ZeroDivisionError: division by zero'])
        self.expect(s, 'undefined', status=1, err="NameError: name 'undefined' is not defined")
        self.expect(s, 'import no_such', status=1, err="No module named 'no_such'")
        self.expect(s, 'open("nope")', status=1, err='FileNotFoundError')
        self.expect(s, 'open("/proc/nope", "w")', status=1, err='Error')
        self.expect(s, 'def g(): g()\ng()', status=1, err='RecursionError')
        r = self.expect(s, 'print(1', '', 1, 'SyntaxError')
        self.assertTrue(r.err.startswith(b'  File "<run 8>", line 1\n    print(1\n'), r)
        r = self.expect(s, 'try:\n  1/0\nexcept Exception as e:\n  raise ValueError(3) from e', status=1)
        for r in r, self.expect(s, 'print("\\ud800")', status=None):
            self.assertNotIn(b'repl.py', r.err)
        self.expect(s, '''
            import traceback
            try: f()
            except Exception: traceback.print_exc()
            import inspect
            print(inspect.getsource(f), end='')''', 'def f():\n    return 1 / 0\n', err='in <module>')
        self.expect(s, 'import sys; print(sys.last_type.__name__ if 0 else "ok")', 'ok\n')

    def test_getsource_of_a_class(self):
        s = self.session()
        self.expect(s, 'import inspect\nclass C:\n    x = 1\nprint(inspect.getsource(C))',
                    'class C:\n    x = 1\n\n')

    def test_excepthook(self):
        s = self.session()
        self.expect(s, 'import sys\nsys.excepthook = lambda t, v, b: print("hook", t.__name__)\n1/0',
                    'hook ZeroDivisionError\n', 1, '')
        self.expect(s, 'def h(*a): raise KeyError(1)\nsys.excepthook = h\n1/0', status=1,
                    err='Error in sys.excepthook:')
        self.expect(s, 'def h(*a): sys.exit(7)\nsys.excepthook = h\n1/0', status=7)
        self.expect(s, 'sys.excepthook = sys.__excepthook__\n1/0', status=1, err='<run 4>')
        self.expect(s, 'del sys.excepthook\n1/0', status=1, err='ZeroDivision')

    def test_streams_interleave(self):
        s = self.session()
        code = '''
            import sys
            w, e = sys.stdout.write, sys.stderr.write
            w('a'); e('b'); w('c'); e('d\\n'); w('e\\nf'); e('g')
            for i in range(100):
                print(i); print(-i, file=sys.stderr)
        '''
        r = self.expect(s, code, joined=True)
        want = 'abcd\ne\nfg' + ''.join(f'{i}\n{-i}\n' for i in range(100))
        self.assertEqual(r.out.decode(), want)
        r = self.expect(s, code)
        self.assertEqual(r.out.decode(), 'ace\nf' + ''.join(f'{i}\n' for i in range(100)))

    def test_streams_are_live(self):
        s = self.session()
        self.expect_live(s, 'import os\nprint("one"); os.read(0, 1)\n'
                         'print(".", end=""); os.read(0, 1)\nprint("three")', 'one\n', '.', 'three\n')

    def test_large_output(self):
        s = self.session()
        for size in 65535, 65536, 65537, 1000003, 50 << 20:
            r = self.expect(s, f'import sys; n = {size}; x = sys.stdout.write("x" * n)')
            self.assertEqual(len(r.out), size)
        r = self.expect(s, '''
            import os, sys, hashlib
            data = os.urandom(2_000_000)
            n = sys.stdout.buffer.write(data)
            print(hashlib.sha256(data).hexdigest(), end='', file=sys.stderr)''')
        self.assertEqual(hashlib.sha256(r.out).hexdigest(), r.err.decode())
        before = s.cpu_time()
        r = self.expect(s, 'for i in range(100_000): print(i)')
        self.assertEqual(r.out.decode(), ''.join(f'{i}\n' for i in range(100_000)))
        self.assertLess(s.cpu_time() - before, 5)
        self.expect(s, 'print("no newline", end="")', 'no newline')
        self.expect(s, 'import sys; n = sys.stderr.write("partial")', '', 0, b'partial')
        self.expect(s, 'print("\\r\\n\\r", end="")', b'\r\n\r')

    def test_stdin(self):
        s = self.session()
        self.expect(s, 'input()', '', 1, 'EOFError')
        self.expect(s, 'import sys\nprint(repr(sys.stdin.read()), repr(sys.stdin.read()))', "'' ''\n")
        self.expect(s, 'print(list(sys.stdin), repr(sys.stdin.readline()), sys.stdin.buffer.read())',
                    "[] '' b''\n")
        self.expect(s, '''
            import os, select, json
            print(sys.stdin.fileno(), sys.stdin.isatty(), len(select.select([0], [], [], 0)[0]))
            print(os.read(0, 10), os.popen('wc -l').read().strip(), open('/dev/stdin').read())
            json.load(sys.stdin)''', "0 False 1\nb'' 0 \n", 1, 'JSONDecodeError')
        self.expect(s, 'import fileinput; print(len(list(fileinput.input("-"))))', '0\n')
        self.expect(s, 'sys.stdin.write("x")', status=1, err='not writable')
        self.expect(s, 'print(input("? "), input())', '? a b\n', stdin=b'a\nb\n')
        self.expect(s, 'print(sys.stdin.readline())', 'one\n\n', stdin=b'one\ntwo\n')
        self.expect(s, 'print(sys.stdin.read())', 'fresh\n', stdin=b'fresh')
        self.expect(s, 'sys.stdin.close(); sys.stdin = 5')
        self.expect(s, 'print(input())', 'again\n', stdin=b'again')
        self.expect(s, 'import os; print(os.popen("cat").read())', 'child\n', stdin=b'child')

    def test_streams_survive_user_code(self):
        s = self.session()
        for code in (
                'import sys, os, io; sys.stdout.close()', 'sys.stderr.close()',
                'sys.stdout = io.StringIO()', 'sys.stdout = sys.stderr = None', 'del sys.stdout',
                'sys.stdout.detach()', 'sys.stdout.buffer.close()', 'os.close(1)', 'os.close(2)',
                'os.close(0)', 'os.closerange(0, 3)', 'os.closerange(0, 100)',
                'sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="latin-1")',
                'sys.stdout.reconfigure(encoding="utf-16")', 'sys.__stdout__ = None',
                'sys.stdout = open("/dev/null", "w")', 'os.dup2(os.open("/dev/null", 2), 1)',
                'class W:\n  def flush(self): 1/0\n  def write(self, s): 1/0\nsys.stdout = W()',
                'class E:\n  def __eq__(self, o): 1/0\n  def __getattr__(self, n): 1/0\n'
                'sys.stdout = E()'):
            self.expect(s, code, status=None)
            self.expect(s, 'print("é out"); print("err", file=sys.stderr); print(input())',
                        'é out\nin\n', 0, b'err\n', stdin=b'in')
        self.expect(s, 'sys.stdout = io.TextIOWrapper(sys.stdout.buffer); print("wrapped")', 'wrapped\n')
        self.expect(s, 'f = sys.stdout = open("log", "w"); print("logged"); del f')
        self.expect(s, 'print(open("log").read())', 'logged\n\n')

    def test_handler_of_an_earlier_run(self):
        s = self.session()
        self.expect(s, 'import logging, sys; logging.basicConfig(format="%(message)s")\n'
                    'logging.warning("first")', '', 0, b'first\n')
        self.expect(s, 'logging.warning("second")', '', 0, b'second\n')

    def test_driver_survives_user_code(self):
        s = self.session()
        for code in (
                'import builtins, sys, os\nfor n in ("len", "getattr", "isinstance", "compile", "exec",'
                '"list", "open", "BaseException", "range", "type"): delattr(builtins, n)',
                'for m in list(sys.modules): sys.modules.pop(m)', 'sys.modules["__main__"] = None',
                'for n in dir(os): setattr(os, n, None)', 'sys.meta_path.clear()',
                'sys.path = None', 'sys.argv = None', 'sys.path_importer_cache = None',
                'sys.exit = sys.exc_info = sys.settrace = None', '__builtins__ = {}',
                'globals().clear()', 'import sys', 'sys.settrace(lambda *a: 1/0)',
                'sys.setprofile(lambda *a: 1/0)'):
            self.expect(s, code, status=None)
            self.expect(s, '(lambda: 1)(); print("ok")', 'ok\n', 0)
        self.expect(s, 'import sys; sys.setrecursionlimit(40)')
        self.expect(s, 'raise ValueError(3)', status=1)
        self.expect(s, 'import gc; gc.collect(); print("ok")', 'ok\n')

    def test_full_descriptor_table(self):
        s = self.session()
        self.expect(s, '''
            import os
            fds = []
            try:
                while True: fds.append(os.dup(0))
            except OSError as e: print(e.errno)''', '24\n')
        self.expect(s, 'print(len(fds) > 100)', 'True\n')
        self.expect(s, '1/0', status=1, err='ZeroDivisionError')

    def test_channel_is_out_of_the_way(self):
        s = self.session()
        self.expect(s, 'import os; print(sorted(int(f) for f in os.listdir("/proc/self/fd"))[:4])',
                    '[0, 1, 2, 3]\n')  # 3: the directory itself
        self.expect(s, 'import subprocess as sp\n'
                    'print(sp.run("ls /proc/self/fd", shell=True, capture_output=True).stdout)',
                    "b'0\\n1\\n2\\n3\\n'\n")
        self.expect(s, 'print([f for f in map(int, os.listdir("/proc/self/fd")) if 3 < f < 500])', '[]\n')
        self.expect(s, '''
            import socket, os
            for fd in range(3, 1100):
                try: sock = socket.socket(fileno=os.dup(fd))
                except OSError: continue
                for kind in range(7):
                    sock.send(bytes([kind]) + bytes(63)); sock.send(b"x")
            print("forged")''', 'forged\n', 0)
        self.expect(s, 'print("next")', 'next\n')
        self.expect_gone(s, 'os.closerange(3, 5000); print("bye")', 0, 'bye\n')

    def test_warming_up_imports_no_file_of_the_user(self):
        s = self.session()
        with open(f'{s.home}/json.py', 'w') as file:
            file.write('print("mine")')
        s.simple(WARM)
        self.expect(s, 'import json, sys; print(json.loads("1"), sys.path[0])', f'1 {s.home}\n')

    def test_imports(self):
        s = self.session()
        with open(s.home + '/mine.py', 'w') as f:
            f.write('value = 1')
        self.expect(s, 'import mine; print(mine.value)', '1\n')
        self.expect(s, 'import os; print(os.listdir())', "['mine.py']\n")
        for i in range(5):
            self.expect(s, f'try:\n  import late{i}\nexcept ImportError: print("no")', 'no\n')
            with open(f'{s.home}/late{i}.py', 'w') as f:
                f.write('value = 2')
            self.expect(s, f'import late{i}; print(late{i}.value)', '2\n')
        lib = tempfile.mkdtemp(dir=SCRATCH)
        with open(lib + '/fromenv.py', 'w') as f:
            f.write('')
        s = self.session(env={'PYTHONPATH': lib, 'HOME': lib, 'NAME': 'va"l\\ue'})
        self.expect(s, 'import fromenv, os, pathlib\nprint(os.environ["NAME"], '
                    'pathlib.Path.home() == pathlib.Path(os.path.expanduser("~")))', 'va"l\\ue True\n')
        version = s.version.split()[1].split('.')
        user = f'{lib}/.local/lib/python{version[0]}.{version[1]}/site-packages'
        os.makedirs(user)
        with open(user + '/usermod.py', 'w') as f:
            f.write('')
        self.expect(s, 'import usermod, sys; print(sys.path.index(usermod.__file__[:-11]) < '
                    'len(sys.path) - 1)', 'True\n')

    def test_data_model(self):
        s = self.session()
        self.expect(s, '''
            import pickle, dataclasses, typing, enum
            @dataclasses.dataclass
            class P:
                x: int
                y: typing.ClassVar[int] = 3
            print(pickle.loads(pickle.dumps(P(1))), typing.get_type_hints(P)['x'])
            import warnings; warnings.warn('careful')''', "P(x=1) <class 'int'>\n", 0,
                    '<run 1>:8: UserWarning: careful')
        self.expect(s, 'x: int = 3\nimport __main__; print(__main__.__annotations__)',
                    "{'x': <class 'int'>}\n")

    def test_deleted_directory(self):
        s = self.session()
        self.expect(s, 'import os, tempfile; d = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d)')
        self.expect(s, 'print("ok")\n1/0', 'ok\n', 1, '<run 2>')

    def test_warm_and_seed(self):
        s = self.session()
        self.assertEqual(s.simple(WARM), 0)
        self.expect(s, 'print(sorted(k for k in globals() if k[0] != "_"), __name__)', '[] __main__\n')
        self.seeds_decide(s, 'import random; print(random.random())')
        self.expect(s, '1/0', status=1, err='    1/0')
        self.expect(s, 'import sys; sys.modules["random"] = None')
        self.assertEqual(s.simple(SEED, b'c' * 32), 0)
        self.expect(s, 'print(1)', '1\n')

    def test_rapid_runs(self):
        s = self.session()
        self.expect(s, 'n = 0')
        for i in range(300):
            self.expect(s, f'n += 1; print(n)', f'{i + 1}\n')

    def test_big_code(self):
        s = self.session()
        self.expect(s, '#' * ((1 << 20) - 10) + '\nprint(1)', '1\n')
        for _ in range(20):
            self.expect(s, 'x = """' + 'y' * (1 << 20) + '"""')
        self.expect(s, '1/0', status=1, err='    1/0')

    def test_end_of_channel(self):
        s = self.session()
        self.expect(s, 'import atexit; atexit.register(lambda: open("end", "w").close())')
        s.ctl.shutdown(socket.SHUT_RDWR)
        self.assertEqual(s.process.wait(DEADLINE), 0)
        self.assertTrue(os.path.exists(s.home + '/end'))


if __name__ == '__main__':
    sys.exit(main(pythons, PythonCases))
