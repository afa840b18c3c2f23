#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Tests of the interpreter drivers in images/drivers, without a sandbox: this file plays the agent.
"""Usage: test_drivers.py [--bench] [unittest arguments]

The interpreters under test, each a path or a name on PATH:
    XSBX_PYTHON   several, separated by colons; default: the Python that runs this
    XSBX_BASH     several, separated by colons; default: bash
    XSBX_BUN      one; default: bun on PATH, or ~/.cache/xsbxfs/images/tools/bun
XSBX_LIB is a directory with the drivers as they lie in an image; the default is to build one.
Where an interpreter is missing its tests are skipped, and the last line counts them.
"""
import array
import contextlib
import fcntl
import hashlib
import os
import random
import selectors
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import textwrap
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DRIVERS = os.path.join(ROOT, 'images', 'drivers')
LIB = os.environ.get('XSBX_LIB')

READY, RUN, DONE, WARM, SEED, COPY = range(1, 7)
MESSAGE = struct.Struct('=II16sIi32s')
NOBODY = 65534
DEADLINE = 30  # seconds that anything may take on a busy machine
SCRATCH = tempfile.mkdtemp(prefix='test_drivers.')



def build_lib():
    """Lay out the drivers as in an image. Return: the directory."""
    lib = os.path.join(SCRATCH, 'lib')
    os.mkdir(lib)
    for name in 'repl.py', 'repl.sh', 'repl.mjs':
        with contextlib.suppress(FileNotFoundError):
            shutil.copy(os.path.join(DRIVERS, name), lib)
    subprocess.run([os.environ.get('CC', 'cc'), '-std=gnu11', '-O2', '-D_GNU_SOURCE', '-fPIC',
                    '-shared', '-I', os.path.join(ROOT, 'agent'), '-o', lib + '/turn.so',
                    *(os.path.join(DRIVERS, name) for name in ('turn.c', 'turn_bash.c'))], check=True)
    os.chmod(SCRATCH, 0o755)
    return lib


# --- the agent's part ----------------------------------------------------------------------------

class Result:
    """What a run left: status, the bytes of both streams, and when each piece arrived."""

    def __init__(self):
        self.status = None
        self.out = self.err = b''
        self.pieces = []

    def __repr__(self):
        return f'status {self.status}, out {self.out[-2000:]!r}, err {self.err[-4000:]!r}'


class Gone(Exception):
    """The interpreter has ended; `result` has its wait status as a shell shows it."""

    def __init__(self, result):
        super().__init__(f'interpreter ended: {result}')
        self.result = result


class Session:
    """One interpreter, from its start to its end."""

    def __init__(self, command, env=None, bell=False, cwd=None, user=None):
        self.home = cwd or tempfile.mkdtemp(dir=SCRATCH)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ctl, fds = ours, [theirs.fileno()]
        ours.settimeout(DEADLINE)
        self.bell = None
        if bell:
            bell_end, self.bell = os.pipe()
            fds.append(bell_end)
        self.log = tempfile.TemporaryFile(dir=SCRATCH)
        environ = {'HOME': self.home, 'PATH': os.environ['PATH'], 'LANG': 'C.UTF-8', 'USER': 'user'}
        environ.update(env or {})
        self.turn = 0
        if user:
            os.chown(self.home, user, user)
        start = time.perf_counter()
        try:
            self.launch(command + [str(fd) for fd in fds], fds, environ, user)
        except OSError:
            ours.close()
            self.log.close()
            raise
        finally:
            theirs.close()
            if bell:
                os.close(bell_end)
        message = ours.recv(MESSAGE.size + 128)
        self.start_time = time.perf_counter() - start
        if not message or MESSAGE.unpack(message[:64])[0] != READY:
            log = self.read_log()
            self.close()
            raise AssertionError('not ready: ' + log)
        self.version = message[64:].decode()

    def launch(self, command, fds, environ, user):
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, pass_fds=fds,
            cwd=self.home, env=environ, start_new_session=True, user=user, group=user)

    def read_log(self):
        self.log.seek(0)
        return self.log.read().decode(errors='replace')

    def send(self, kind, fds=(), code_len=0, seed=b''):
        nonce = os.urandom(16)
        seeded = int(kind == RUN and bool(seed))
        message = MESSAGE.pack(kind, self.turn, nonce, code_len, seeded, seed)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds))] if fds else []
        self.ctl.sendmsg([message], rights)
        if self.bell is not None:
            os.write(self.bell, b'!')
        return nonce

    def simple(self, kind, seed=b''):
        nonce = self.send(kind, seed=seed)
        answer = self.ctl.recv(256)
        if len(answer) != 64 or MESSAGE.unpack(answer)[2] != nonce:
            raise AssertionError(f'bad answer {answer!r}: ' + self.read_log())
        return MESSAGE.unpack(answer)[4]

    def start(self, code, stdin=b'', joined=False, seed=b''):
        """Send a run. Return: an object to pass to `finish`."""
        if isinstance(code, str):
            code = code.encode()
        self.turn += 1
        memfd = os.memfd_create('code', os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.write(memfd, code)
        fcntl.fcntl(memfd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK)
        if stdin is None:
            in_r, in_w = os.pipe()
        else:
            in_w = None
            in_r = os.memfd_create('stdin')
            os.write(in_r, stdin)
            os.lseek(in_r, 0, os.SEEK_SET)
        out_r, out_w = os.pipe()
        err_r, err_w = os.pipe()
        if joined:
            os.dup2(out_w, err_w)
        nonce = self.send(RUN, [in_r, out_w, err_w, memfd], len(code), seed)
        for fd in in_r, out_w, err_w, memfd:
            os.close(fd)
        return nonce, out_r, err_r, in_w

    def finish(self, pending, hook=None, timeout=DEADLINE):
        """Read until DONE. `hook(result)` is called after every piece of output."""
        nonce, out_r, err_r, in_w = pending
        result = Result()
        pieces = {out_r: [], err_r: []}
        began = time.perf_counter()
        ended = False
        with selectors.DefaultSelector() as selector:
            for fd in out_r, err_r:
                selector.register(fd, selectors.EVENT_READ)
            selector.register(self.ctl, selectors.EVENT_READ)
            while result.status is None and not ended:
                left = began + timeout - time.perf_counter()
                events = selector.select(max(left, 0))
                if not events and left <= 0:
                    raise AssertionError(f'no end after {timeout} s: {pieces} {self.read_log()}')
                for key, _ in events:
                    if key.fileobj is self.ctl:
                        message = self.ctl.recv(256)
                        if not message:
                            ended = True
                        elif len(message) == 64 and MESSAGE.unpack(message)[2] == nonce:
                            result.status = MESSAGE.unpack(message)[4]
                        continue
                    data = os.read(key.fd, 1 << 20)
                    if data:
                        pieces[key.fd].append(data)
                        result.pieces.append((time.perf_counter() - began, data))
                        result.out = b''.join(pieces[out_r]) if hook else b''
                    else:
                        selector.unregister(key.fd)
                    if hook:
                        hook(result)
        if ended:
            self.process.wait(DEADLINE)
        for fd in out_r, err_r:
            count = array.array('i', [0])
            fcntl.ioctl(fd, termios.FIONREAD, count)
            while count[0] > 0:
                data = os.read(fd, count[0])
                pieces[fd].append(data)
                count[0] -= len(data)
        result.out, result.err = b''.join(pieces[out_r]), b''.join(pieces[err_r])
        result.time = time.perf_counter() - began
        for fd in out_r, err_r, in_w:
            if fd is not None:
                os.close(fd)
        if ended:
            code = self.process.returncode
            result.status = code if code >= 0 else 128 - code
            raise Gone(result)
        return result

    def run(self, code, stdin=b'', joined=False, hook=None, timeout=DEADLINE, seed=b''):
        return self.finish(self.start(code, stdin, joined, seed), hook, timeout)

    def interrupt(self):
        os.killpg(self.process.pid, signal.SIGINT)

    def close(self):
        self.ctl.close()
        if self.bell is not None:
            os.close(self.bell)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()


class Copied:
    """The process of a copy, which is a child of ours that `subprocess` knows nothing of."""

    def __init__(self, pid):
        self.pid, self.returncode = pid, None

    def wait(self, timeout=None):
        del timeout
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Copy(Session):
    """What an interpreter makes when it is asked for a copy of itself."""

    def __init__(self, original):
        self.home, self.bell, self.turn = original.home, None, 0
        self.log = tempfile.TemporaryFile(dir=SCRATCH)
        self.ctl, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ctl.settimeout(DEADLINE)
        nonce = original.send(COPY, [theirs.fileno()])
        theirs.close()
        answer = MESSAGE.unpack(original.ctl.recv(256))
        assert (answer[0], answer[2], answer[4]) == (DONE, nonce, 0), answer
        message = self.ctl.recv(256)
        kind, self.pid, _, _, flags, _ = MESSAGE.unpack(message[:64])
        assert (kind, flags) == (READY, 3), message
        assert message[64:].decode() == original.version
        self.process = Copied(self.pid)


class DriverCase(unittest.TestCase):
    """Common to all languages. A subclass sets `command`, `bell` and `missing`."""

    command = None
    bell = False
    missing = None

    def setUp(self):
        if self.missing:
            self.skipTest(self.missing)
        self.sessions = []

    def tearDown(self):
        for session in getattr(self, 'sessions', []):
            session.close()

    def session(self, **kwargs):
        session = Session(self.command, bell=self.bell, **kwargs)
        self.sessions.append(session)
        return session

    def test_undumpable(self):
        """Nobody else of the same user may look into the interpreter."""
        try:
            session = self.session(user=NOBODY if os.geteuid() == 0 else None)
        except (AssertionError, PermissionError):
            self.skipTest('the interpreter cannot be run by nobody')
        self.assertEqual(os.stat(f'/proc/{session.process.pid}/fd').st_uid, 0)

    def expect(self, session, code, out=None, status=0, err=None, **kwargs):
        """Run code; compare what is given. `err` as str: contained in standard error."""
        if isinstance(code, str):
            code = textwrap.dedent(code)
        result = session.run(code, **kwargs)
        self.compare(result, code, out, status, err)
        return result

    def compare(self, result, code, out, status, err):
        note = f'{code!r}: {result}'
        if status is not None:
            self.assertEqual(result.status, status, note)
        if out is not None:
            self.assertEqual(result.out, out.encode() if isinstance(out, str) else out, note)
        if err is not None:
            if err == '' or isinstance(err, bytes):
                self.assertEqual(result.err, err or b'', note)
            else:
                self.assertIn(err, result.err.decode(errors='replace'), note)

    def expect_gone(self, session, code, status, out=None):
        with self.assertRaises(Gone) as caught:
            session.run(textwrap.dedent(code))
        self.compare(caught.exception.result, code, out, status, None)

    def copy_of(self, session):
        """Have an interpreter that was not used yet make a copy. Return: its session."""
        copy = Copy(session)
        self.sessions.append(copy)
        return copy

    def interrupted(self, session, code, **kwargs):
        """Run code that prints "go" and then never ends, and interrupt it there."""
        sent = []

        def hook(result):
            if b'go' in result.out and not sent:
                sent.append(True)
                time.sleep(0.05)
                session.interrupt()

        return session.run(textwrap.dedent(code), hook=hook, **kwargs)


# --- Python --------------------------------------------------------------------------------------

class PythonCases(DriverCase):
    """Everything about repl.py; see load_tests for the interpreters it is run with."""

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

    def test_end_of_process(self):
        self.expect_gone(self.session(), 'import os\nprint("kept")\nos._exit(42)', 42, 'kept\n')
        self.expect_gone(self.session(), 'import os, signal; os.kill(os.getpid(), 11)', 139)
        self.expect_gone(self.session(), 'import os; os.kill(os.getpid(), 9)', 137)
        self.expect_gone(self.session(), 'import os; os.execvp("sh", ["sh", "-c", "exit 5"])', 5)

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
        r = self.expect(s, '''
            import time
            print('one'); time.sleep(.3); print('.', end=''); time.sleep(.3); print('three')''',
                        'one\n.three\n')
        times = [t for t, _ in r.pieces]
        self.assertEqual(len(times), 3, r.pieces)
        self.assertGreater(times[2] - times[0], .5)
        self.assertLess(times[0], .25)

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
        r = self.expect(s, 'for i in range(100_000): print(i)')
        self.assertEqual(r.out.decode(), ''.join(f'{i}\n' for i in range(100_000)))
        self.assertLess(r.time, 5)
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

    def test_interrupt(self):
        s = self.session()
        r = self.interrupted(s, 'x = 5\nimport time\nprint("go", flush=True)\nwhile True: pass')
        self.compare(r, '', 'go\n', 130, 'KeyboardInterrupt')
        self.assertNotIn(b'repl.py', r.err)
        r = self.interrupted(s, 'x += 1\nprint("go")\ntime.sleep(100)')
        self.compare(r, '', 'go\n', 130, '    time.sleep(100)')
        r = self.interrupted(s, 'print("go")\nwhile True: print("spam")')
        self.assertEqual(r.status, 130)
        self.assertNotIn(b'repl.py', r.err)
        r = self.interrupted(s, '''
            print('go')
            try: time.sleep(100)
            except KeyboardInterrupt: print('caught')''')
        self.compare(r, '', 'go\ncaught\n', 0, '')
        r = self.interrupted(s, '''
            import signal
            signal.signal(signal.SIGINT, lambda *a: print('mine') or exit(3))
            print('go'); time.sleep(100)''')
        self.compare(r, '', 'go\nmine\n', 3, '')
        for _ in range(20):  # between runs nothing happens
            s.interrupt()
        self.expect(s, 'signal.signal(signal.SIGINT, signal.SIG_IGN); print(x)', '6\n')
        r = self.interrupted(s, 'signal.pthread_sigmask(0, [2]); print("go"); time.sleep(.5); sys.x',
                             timeout=10)
        r = self.interrupted(s, 'print("go"); time.sleep(100)')
        self.compare(r, '', 'go\n', 130, 'KeyboardInterrupt')
        r = self.interrupted(s, 'import asyncio\nprint("go")\nasyncio.run(asyncio.sleep(100))')
        self.compare(r, '', 'go\n', 130, 'KeyboardInterrupt')
        r = self.interrupted(s, 'import subprocess\nprint("go")\nsubprocess.run(["sleep", "100"])')
        self.compare(r, '', 'go\n', 130, 'KeyboardInterrupt')
        r = self.interrupted(s, 'print("go")\ninput()', stdin=None)
        self.compare(r, '', 'go\n', 130, 'KeyboardInterrupt')

    def test_interrupts_at_any_time(self):
        s = self.session()
        self.expect(s, 'n = 0')
        chance = random.Random(1)
        for _ in range(150):
            pending = s.start('n += 1\nfor i in range(20000): pass\nprint("x")')
            time.sleep(chance.random() * .003)
            s.interrupt()
            r = s.finish(pending)
            self.assertIn(r.status, (0, 130), r)
            self.assertNotIn(b'repl.py', r.err)
        self.expect(s, 'print("alive", n > 10)', 'alive True\n')

    def test_forks(self):
        s = self.session()
        self.expect(s, '''
            import os, sys
            pids = []
            for i in range(20):
                pid = os.fork()
                if pid == 0: sys.exit(0)
                pids.append(pid)
            print([os.waitpid(p, 0)[1] for p in pids] == [0] * 20)''', 'True\n', 0, '')
        self.expect(s, '''
            print('partial ', end=''); sys.stdout.write('line ')
            pid = os.fork()
            if pid == 0:
                print('child')
            else:
                print('parent', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))''',
                    'partial line child\nparent 0\n')
        self.expect(s, 'pid = os.fork()\nif pid == 0: 1/0\n'
                    'print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))', '1\n', 0,
                    'ZeroDivisionError')
        for status in 0, 42, 99:
            self.expect(s, f'pid = os.fork()\nif pid == 0: sys.exit({status})\n'
                        'print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))', f'{status}\n')
        self.expect(s, '''
            import atexit
            pid = os.fork()
            if pid == 0:
                atexit.register(print, 'at exit'); print('text', end='')
            else:
                os.waitpid(pid, 0)''', 'textat exit\n')
        self.expect(s, '''
            for i in range(50):
                p = os.fork()
                if not p: os._exit(0)
                os.waitpid(p, 0)
            print('parent')''', 'parent\n')
        self.expect(s, '''
            import time
            pid = os.fork()
            if pid == 0:
                if os.fork() == 0: time.sleep(.3); sys.exit(1)
                time.sleep(.2); sys.exit(5)
            print('here')''', 'here\n')
        self.expect(s, 'print(os.waitpid(pid, 0)[1] >> 8); time.sleep(.3)', '5\n')
        self.expect(s, '''
            import threading
            def work():
                if os.fork() == 0: sys.exit(0)
            t = threading.Thread(target=work); t.start(); t.join(); os.wait(); print('one')''', 'one\n')
        self.expect(s, 'print("once")', 'once\n')

    def test_forked_children_end_like_programs(self):
        s = self.session()
        s.simple(WARM)
        self.expect(s, '''
            import os, sys, threading, time
            open('mod.py', 'w').write('f = open("mod.txt", "w"); f.write("of a module")')
            class D:
                def __del__(self): os.write(1, b'del ')
            pid = os.fork()
            if pid == 0:
                import mod
                f = open('own.txt', 'w'); f.write('not flushed')
                d = D(); ring = [f]; ring.append(ring)
                t = threading.Thread(target=lambda: (time.sleep(.2), print('thread', end=' ')))
                t.start()
                sys.exit(9)
            print(os.waitpid(pid, 0)[1] >> 8, open('own.txt').read(), open('mod.txt').read())''',
                    'thread del 9 not flushed of a module\n', 0, '')
        self.expect(s, '''
            import atexit
            pid = os.fork()
            if pid == 0: atexit.register(lambda: 1 / 0)
            else: print(os.waitpid(pid, 0)[1])''', '0\n', 0, 'ZeroDivisionError')

    def test_copy(self):
        s = self.session(env={'MARK': 'yes'})
        s.simple(WARM)
        copies = [self.copy_of(s) for _ in range(3)]
        pids = []
        for n, c in enumerate(copies):
            c.simple(SEED, os.urandom(32))
            pids.append(int(self.expect(c, 'import os, random; x = random.random()\n'
                                        'print(os.getpid())').out))
            self.expect(c, f'{n}\nprint(os.getppid() == {os.getpid()}, os.getsid(0) == os.getpid(),'
                        ' os.environ["MARK"], os.getcwd())', f'True True yes {s.home}\n')
        self.assertEqual(pids, [c.pid for c in copies])
        self.assertEqual(len({self.expect(c, 'print(x)').out for c in copies}), 3)
        self.expect(copies[0], 'y = 1\nif os.fork() == 0: print("child"); raise SystemExit(3)\n'
                    'print(os.wait()[1] >> 8)', 'child\n3\n')
        self.interrupted(copies[1], 'print("go", flush=True)\nwhile True: pass')
        self.expect(copies[1], 'print(x == x, "y" in globals())', 'True False\n')
        self.expect_gone(copies[2], 'os._exit(7)', 7)
        self.expect(self.copy_of(s), 'print("x" in globals())', 'False\n')

    def test_warming_up_imports_no_file_of_the_user(self):
        s = self.session()
        with open(f'{s.home}/json.py', 'w') as file:
            file.write('print("mine")')
        s.simple(WARM)
        self.expect(s, 'import json, sys; print(json.loads("1"), sys.path[0])', f'1 {s.home}\n')

    def test_multiprocessing(self):
        s = self.session()
        self.expect(s, 'def f(x): return x * x')
        self.expect(s, '''
            import multiprocessing as mp
            with mp.Pool(2) as p: print(p.map(f, range(5)))
            print(mp.get_start_method())''', '[0, 1, 4, 9, 16]\nfork\n', 0, '')
        self.expect(s, '''
            from concurrent.futures import ProcessPoolExecutor
            with ProcessPoolExecutor(2) as p: print(list(p.map(f, range(3))))
            q = mp.Queue()
            p = mp.Process(target=q.put, args=(5,)); p.start(); print(q.get()); p.join()
            def g(): print('from a child')
            p = mp.Process(target=g); p.start(); p.join(); print(p.exitcode)
            p = mp.Process(target=exit, args=(3,)); p.start(); p.join(); print(p.exitcode)''',
                    '[0, 1, 4]\n5\nfrom a child\n0\n3\n')
        for method in 'spawn', 'forkserver':
            self.expect(s, f'''
                import multiprocessing as mp
                def g(x): return x + 1
                if __name__ == '__main__':
                    with mp.get_context('{method}').Pool(2) as p: print(p.map(g, range(3)))''',
                        '[1, 2, 3]\n', 0, '')
        self.expect(s, 'print("once")', 'once\n')

    def test_threads_and_children_go_on(self):
        s = self.session()
        self.expect(s, '''
            import threading, time, subprocess
            ticks = 0
            def count():
                global ticks
                while True: ticks += 1; time.sleep(.01)
            threading.Thread(target=count).start()
            child = subprocess.Popen(['sleep', '100'])''', '', 0, '')
        time.sleep(.1)
        self.expect(s, 'print(ticks > 3, child.poll()); child.kill()', 'True None\n')

    def test_asyncio(self):
        s = self.session()
        for _ in range(3):
            self.expect(s, 'import asyncio\nasync def f(): await asyncio.sleep(0); print("a")\n'
                        'asyncio.run(f())', 'a\n', 0, '')

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
        draws = []
        for seed in b'a' * 32, b'b' * 32, b'a' * 32:
            self.assertEqual(s.simple(SEED, seed), 0)
            draws.append(s.run('import random; print(random.random())').out)
        draws.append(s.run('import random; print(random.random())', seed=b'a' * 32).out)
        draws.append(s.run('import random; print(random.random())').out)
        self.assertEqual(draws[0], draws[2])
        self.assertEqual(draws[0], draws[3])
        self.assertEqual(len(set(draws)), 3)
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


# --- bash ----------------------------------------------------------------------------------------

class BashCases(DriverCase):
    """Everything about repl.sh and the part of turn.c that runs in bash."""

    def test_basics(self):
        s = self.session()
        self.assertRegex(s.version, r'^bash [5-9]')
        self.expect(s, '', '', 0, '')
        self.expect(s, '# comment only', '', 0, '')
        self.expect(s, 'echo hi', 'hi\n', 0, '')
        self.expect(s, '\ufeffecho bom', 'bom\n', 0, '')
        self.expect(s, 'echo hi\n\n', 'hi\n')
        self.expect(s, 'printf "caf\u00e9 %s\\t\\0" 你好', 'café 你好\t\0')
        self.expect(s, 'false', status=1)
        self.expect(s, 'echo $?', '1\n')
        self.expect(s, '(exit 77)', status=77)
        self.expect(s, 'no_such_command', '', 127, b'bash: line 1: no_such_command: command not found\n')
        self.expect(s, 'echo b a | tr " " "\\n" | sort; echo x > f; cat < f', 'a\nb\nx\n')
        self.expect(s, 'cat <<X\n$HOME `echo y`\nX\n', f'{s.home} y\n')
        self.expect(s, "cat <<'X'\n$HOME `echo y`\nX", '$HOME `echo y`\n')
        self.expect(s, 'cat <<X\nHEREDOC EOF __SENTINEL_1_2__\nX', 'HEREDOC EOF __SENTINEL_1_2__\n')

    def test_looks_like_a_script(self):
        s = self.session()
        self.expect(s, 'echo "$0 $# [$*] ${#BASH_SOURCE[@]} ${#FUNCNAME[@]} $BASH_SUBSHELL $SHLVL"',
                    'bash 0 [] 0 0 0 1\n')
        self.expect(s, 'enable -a | grep -c xsbx', '0\n', 1)
        self.expect(s, 'xsbx_turn 3', status=127, err='command not found')
        self.expect(s, 'set | grep -i -e xsbx_ -e nonce -e "^code="', '', 1)
        self.expect(s, '\n\nif then', '', 2, "bash: line 3: syntax error near unexpected token `then'")
        self.expect(s, 'echo "open', '', 2, 'unexpected EOF')
        self.expect(s, 'set -- a b; f() { echo $1 $FUNCNAME $LINENO; }')
        self.expect(s, 'f x; echo $2; return 3', 'x f 1\nb\n', None, 'can only `return')

    def test_state_is_kept(self):
        s = self.session()
        self.expect(s, 'x=1; export E=e; f() { echo "f $1"; }; arr=(a "b c"); declare -A m=([k]=v)\n'
                    'cd /usr; alias ll="echo alias"; shopt -s expand_aliases; exec 9</dev/null')
        self.expect(s, 'echo $x; sh -c "echo \\$E"; f y; echo "${arr[1]} ${m[k]}"; pwd\nll z\n'
                    '[ -e /proc/self/fd/9 ] && echo open', '1\ne\nf y\nb c v\n/usr\nalias z\nopen\n')
        self.expect(s, 'fi', status=2)
        self.expect(s, 'readonly x; x=2; echo unreached', '', 1, 'readonly variable')
        self.expect(s, 'set -u; echo $nope; echo unreached', '', None, 'unbound variable')
        self.expect(s, 'set +u; g() { local l=1; echo ${nope:?gone}; }; g; echo unreached', '', None, 'gone')
        self.expect(s, 'echo $x$l', '1\n')
        self.expect(s, '[[ abc =~ a(.)c ]] && echo ${BASH_REMATCH[1]}; cat <<< here; cat <(echo sub)',
                    'b\nhere\nsub\n')
        self.expect(s, 'read v < <(echo proc); echo $v > >(cat); wait; echo end', None, 0)
        self.expect(s, 'ls /proc/self/fd | wc -l', '5\n')

    def test_hostile_state(self):
        s = self.session()
        for code in (
                'IFS=,', 'set -u', 'exec 2>/dev/null', 'exec >&- 2>&- <&-', 'exec 1>/dev/null',
                'eval() { :; }; read() { :; }; builtin() { :; }; printf() { :; }; enable() { :; }; '
                'command() { :; }; unset() { :; }', 'shopt -s expand_aliases; alias echo_=x',
                'set -n', 'set -f -v', 'set +v -x; : ', 'set +x; set -o posix', 'set +o posix',
                'trap "echo dbg >/dev/null" DEBUG; trap ": " ERR RETURN USR1', 'trap - DEBUG ERR',
                'ulimit -c 0', 'umask 777', 'umask 22', 'shopt -s extdebug nullglob dotglob failglob',
                'shopt -u extdebug failglob', 'readonly PATH HOME IFS BASH_SOURCE',
                'code=1 _ec=2 sentinel_id=3 status=4 nonce=5', 'PS4=$(exit 3)', 'unset RANDOM BASHPID',
                'enable -n echo; enable echo', 'hash -r; set -- 1 2 3; shift 3', 'exec 3>&1 1>&2',
                'd=$(mktemp -d); cd $d; rmdir $d', 'trap "" TERM', 'set -m; set +m; set -k; set +k',
                'set -e; set +e', 'coproc cat; kill $COPROC_PID', 'set -T -E', 'disown -a', 'bind 2>&1',
                'for i in 1 2; do break 5; done; continue 3', 'set -o noclobber', 'set -o nounset'):
            self.expect(s, code, status=None)
            self.expect(s, 'echo ok; echo err >&2; { false || true; }', 'ok\n', 0)

    def test_end_of_shell(self):
        self.expect_gone(self.session(), 'echo a; exit 3; echo b', 3, 'a\n')
        self.expect_gone(self.session(), 'f() { exit 300; }; f', 44)
        self.expect_gone(self.session(), 'set -e; echo a; false; echo b', 1, 'a\n')
        self.expect_gone(self.session(), 'exec sh -c "exit 6"', 6)
        self.expect_gone(self.session(), 'kill -9 $$', 137)
        self.expect_gone(self.session(), 'kill $$', 143)
        self.expect_gone(self.session(), 'trap "echo bye; exit 9" EXIT; exit 4', 9, 'bye\n')
        s = self.session()
        self.expect(s, 'trap "echo over > trapped" EXIT; set -e', '')
        self.expect_gone(s, 'f() { echo in; (exit 8); }; f', 8, 'in\n')
        with open(s.home + '/trapped') as f:
            self.assertEqual(f.read(), 'over\n')
        s = self.session()
        self.expect(s, 'trap "echo over > trapped" EXIT')
        s.ctl.shutdown(socket.SHUT_RDWR)
        self.assertEqual(s.process.wait(DEADLINE), 0)
        self.assertTrue(os.path.exists(s.home + '/trapped'))

    def test_stdin(self):
        s = self.session()
        self.expect(s, 'read x', '', 1)
        self.expect(s, 'wc -l', '0\n')
        self.expect(s, 'read a; read b; echo "$b $a"; cat', 'two one\nthree\n', stdin=b'one\ntwo\nthree\n')
        self.expect(s, 'cat /dev/stdin; echo out > /dev/stdout; echo err > /dev/stderr', 'inout\n', 0,
                    b'err\n', stdin=b'in')
        self.expect(s, 'mapfile -t l; echo ${#l[@]}; [ -t 0 ] || echo no tty', '2\nno tty\n',
                    stdin=b'1\n2\n')
        self.expect(s, 'read x; echo $x', 'fresh\n', stdin=b'fresh\n')

    def test_streams(self):
        s = self.session()
        r = self.expect(s, 'for i in 1 2 3; do echo o$i; echo e$i >&2; sh -c "echo s$i"; done', joined=True)
        self.assertEqual(r.out, b'o1\ne1\ns1\no2\ne2\ns2\no3\ne3\ns3\n')
        r = self.expect(s, 'printf a; sleep .3; printf b', 'ab')
        self.assertEqual(len(r.pieces), 2)
        r = self.expect(s, 'head -c 50000000 /dev/zero')
        self.assertEqual(r.out, bytes(50000000))
        self.expect(s, 'printf partial >&2', '', 0, b'partial')
        self.expect(s, 'for i in {1..20000}; do echo $i; done', ''.join(f'{i}\n' for i in range(1, 20001)))

    def test_shebang(self):
        s = self.session()
        for code, out, status in (
                ('#!/usr/bin/awk -f\nBEGIN { print "awk"\n print 6 * 7 }\n', 'awk\n42\n', 0),
                ('#!/bin/sh\necho sh $0 | grep -c "sh /tmp/run"\n', '1\n', 0),
                ('#!/bin/bash\necho ${BASH_VERSION:+bash}\nexit 42\n', 'bash\n', 42),
                ('#!/bin/sed -f\ns/a/b/\n', 'b\n', 0), ('#!/bin/bash\n', '', 0), ('#!/bin/bash', '', 0),
                ('# !/bin/sh\necho $BASHPID | grep -c .', '1\n', 0), (' #!/bin/false\necho x', 'x\n', 0),
                ('\ufeff#!/bin/sh\necho bom', 'bom\n', 0),
                ('#!/bin/cat\n$dollar `tick` "quote\nEOF\n', '#!/bin/cat\n$dollar `tick` "quote\nEOF\n', 0)):
            self.expect(s, code.encode(), out, status, stdin=b'a\n')
        self.expect(s, '#!/no/such\n', '', None, ': /tmp/run-')
        self.assertNotEqual(s.run('#!/no/such\n').status, 0)
        self.expect(s, '#!/bin/sh\necho err >&2', '', 0, b'err\n')
        self.expect(s, 'export FROM=shell; cd /usr; set -e')
        self.expect(s, '#!/bin/sh\necho $FROM; pwd; exit 5', 'shell\n/usr\n', 5)
        self.expect(s, 'set +e; ls -d /tmp/run-* 2>/dev/null | wc -l', '0\n')

    def test_background(self):
        s = self.session()
        self.expect(s, 'sleep 100 & echo $! > pid; (sleep 100; echo late) & disown', '', 0, '')
        self.expect(s, 'kill -0 $(cat pid) && echo alive; jobs | grep -c sleep', 'alive\n1\n')
        self.expect(s, 'kill %1; wait %1; echo $?', '143\n')
        self.expect(s, 'setsid sh -c "(sleep 100 &) ; echo $$ >/dev/null"; echo ok', 'ok\n')
        self.expect(s, '(echo sub; exit 3); echo $?; x=$(exit 4); echo $?; (f() { exit 5; }; f) & wait $!; echo $?',
                    'sub\n3\n4\n5\n')
        self.expect(s, 'echo ${nope:?in child} & wait; echo next', 'next\n', 0, 'in child')
        self.expect(s, '{ set -e; false; echo no; } | cat; echo after', 'after\n')
        self.expect(s, 'no_such & wait $!; echo $?', '127\n')
        self.expect(s, 'exec no_such & wait $!; echo $?', '127\n')
        self.expect(s, 'echo once', 'once\n')

    def prepared(self):
        s = self.session()
        self.expect(s, 'f() { local v=2; echo go; while :; do :; done; }; v=1')
        return s

    def interrupted_at_last(self, s, code):
        """Bash has a race of its own: a SIGINT in the very moment in which it begins to wait for a
        child makes it signal itself for ever. That is rare, and not every time."""
        for attempt in range(3):
            try:
                return s, self.interrupted(s, code, timeout=DEADLINE / 3)
            except AssertionError:
                s = self.prepared()
        return s, self.interrupted(s, code)

    def test_interrupt(self):
        s = self.prepared()
        for code in ('echo go; sleep 100; echo unreached', 'f', 'echo go; while :; do :; done',
                     'echo go; (sleep 100); echo unreached', 'echo go; x=$(sleep 100); echo unreached',
                     'echo go; sleep 100 | cat | cat; echo unreached', 'sleep 100 & echo go; wait; echo unreached',
                     'echo go; while true; do sleep .01; done', '(echo go; sleep 100 & wait); echo unreached', 'sleep 100 & echo go; builtin wait $!; echo unreached',
                     'w() { wait; }; sleep 100 & echo go; w; echo unreached', 'f > /dev/tty 2>/dev/null || f; echo unreached',
                     '{ echo go >&3; while :; do :; done; } 3>&1 > file', 'eval "eval f"; echo unreached',
                     'for i in 1 2; do f; done; echo unreached', 'set -e; f', 'echo go; cat <(sleep 100); echo unreached'):
            s, r = self.interrupted_at_last(s, code)
            self.compare(r, code, 'go\n', 130, None)
            self.expect(s, 'echo $? $v $FUNCNAME "${#BASH_SOURCE[@]}"; set +e', '130 1 0\n')
        r = self.interrupted(s, 'echo go; read x; echo unreached', stdin=None)
        self.compare(r, '', 'go\n', 130, None)
        r = self.interrupted(s, 'trap "echo trapped" INT; echo go; sleep 100; echo next')
        self.compare(r, '', 'go\ntrapped\nnext\n', 0, None)
        for _ in range(10):
            s.interrupt()
        r = self.interrupted(s, 'trap - INT; echo go; while :; do :; done')
        self.compare(r, '', 'go\n', 130, None)
        self.expect(s, 'trap : INT; echo still', 'still\n')
        self.expect(s, 'trap - INT; echo still', 'still\n')
        r = self.interrupted(s, 'echo go; sleep 100')
        self.compare(r, '', 'go\n', 130, None)
        r = self.interrupted(s, '#!/bin/sh\necho go; sleep 100; echo unreached')
        self.compare(r, '', 'go\n', 130, None)

    def test_interrupts_at_any_time(self):
        s = self.session()
        self.expect(s, 'n=0')
        chance = random.Random(1)
        for _ in range(150):
            # No children here: a SIGINT that arrives in the very moment in which bash starts to
            # wait for one (between its sigaction() and the note of the old handler) makes bash
            # 5.2 signal itself for ever, about once in some hundred such moments.
            pending = s.start('((n++))\nfor ((i=0; i<600; i++)); do :; done\necho x')
            time.sleep(chance.random() * .006)
            s.interrupt()
            r = s.finish(pending)
            self.assertIn(r.status, (0, 130), r)
        self.expect(s, 'echo alive $((n > 10))', 'alive 1\n')

    def test_channel_is_out_of_the_way(self):
        s = self.session()
        self.expect(s, 'ls /proc/self/fd | tr "\\n" " "', '0 1 2 3 ')
        self.expect(s, 'echo forged >&1000; printf "%064d" 0 >&1000; (echo forged >&1000) 2>/dev/null; echo on',
                    'on\n', 0, '')
        self.expect(s, 'for i in {3..300}; do eval "exec $i<&0"; done 2>/dev/null; echo full', 'full\n')
        self.expect(s, 'for i in {3..300}; do eval "exec $i<&-"; done; ulimit -n 64; echo small', 'small\n')
        self.expect(s, 'echo next', 'next\n')

    def test_warm_and_seed(self):
        s = self.session()
        self.expect(s, 'false', status=1)
        self.assertEqual(s.simple(WARM), 0)
        self.expect(s, 'v=5', status=0)
        draws = []
        for seed in b'a' * 32, b'b' * 32, b'a' * 32:
            self.assertEqual(s.simple(SEED, seed), 0)
            draws.append(s.run('echo $RANDOM $RANDOM').out)
        draws.append(s.run('echo $RANDOM $RANDOM', seed=b'a' * 32).out)
        draws.append(s.run('echo $RANDOM $RANDOM').out)
        self.assertEqual(draws[0], draws[2])
        self.assertEqual(draws[0], draws[3])
        self.assertEqual(len(set(draws)), 3)

    def test_rapid_and_big(self):
        s = self.session()
        for i in range(300):
            self.expect(s, 'echo $((++n))', f'{i + 1}\n')
        self.expect(s, ':' + ' x' * ((1 << 19) - 30) + '\necho big', 'big\n')

    def test_copy(self):
        s = self.session(env={'MARK': 'yes'})
        s.simple(WARM)
        copies = [self.copy_of(s) for _ in range(3)]
        for c in copies:
            c.simple(SEED, os.urandom(32))
            self.expect(c, 'x=$RANDOM$RANDOM; echo $$ $BASHPID $PPID $MARK $? $((SECONDS < 5))',
                        f'{c.pid} {c.pid} {os.getpid()} yes 0 1\n')
        self.assertEqual(len({self.expect(c, 'echo $x').out for c in copies}), 3)
        self.expect(copies[0], 'y=1; (exit 4); echo $?; sleep 0 & wait $!; echo $?; echo a | cat',
                    '4\n0\na\n')
        self.interrupted(copies[1], 'echo go; while :; do :; done')
        self.expect(copies[1], 'echo ${y:-none}', 'none\n')
        self.expect_gone(copies[2], 'trap "echo bye" EXIT; exit 7', 7, 'bye\n')
        self.expect(self.copy_of(s), 'echo ${x:-none}', 'none\n')

    def test_signals_between_runs(self):
        s = self.session()
        self.expect(s, 'trap "echo chld >/dev/null" CHLD; trap "echo usr > usr" USR1; sleep .1 & sleep .2 &')
        os.kill(s.process.pid, signal.SIGUSR1)
        time.sleep(.4)
        self.expect(s, 'echo on; cat usr', 'on\nusr\n')
        os.kill(s.process.pid, signal.SIGTERM)
        self.assertEqual(s.process.wait(DEADLINE), -signal.SIGTERM)


# --- JavaScript ----------------------------------------------------------------------------------

class BunCases(DriverCase):
    """Everything about repl.mjs."""

    bell = True

    def test_basics(self):
        s = self.session()
        self.assertRegex(s.version, r'^Bun 1\.')
        self.expect(s, '', '', 0, '')
        self.expect(s, '// comment only', '', 0, '')
        self.expect(s, 'console.log(6*7)', '42\n', 0, '')
        self.expect(s, '6*7', '', 0, '')
        self.expect(s, '\ufeffconsole.log("bom")', 'bom\n')
        self.expect(s, '#!/usr/bin/env bun\nconsole.log("sharp")', 'sharp\n')
        self.expect(s, 'console.log("caf\u00e9 \u4f60\u597d\\t\\x1b[31m\\0")', 'café 你好\t\x1b[31m\0\n')
        self.expect(s, 'const é = 1; console.log(é, typeof performance.now())', '1 number\n')
        self.expect(s, 'console.log("a"); console.error("b"); console.log({x: [1]})', 'a\n{\n  x: [ 1 ],\n}\n',
                    0, b'b\n')

    def test_state_is_kept(self):
        s = self.session()
        self.expect(s, 'let x = 1; const y = 2; var z = 3; function f() { return x } class C { v = 5 }')
        self.expect(s, 'x++; console.log(x, y, z, f(), new C().v)', '2 2 3 2 5\n')
        self.expect(s, 'let x = 10; const y = 20; class C { v = 6 }; console.log(f(), y, new C().v)', '10 20 6\n')
        self.expect(s, 'throw new Error("no")', status=1)
        self.expect(s, 'x += 1; process.exit(3); x += 100', status=3)
        self.expect(s, 'x = = 1', status=1)
        self.expect(s, 'console.log(x)', '11\n')
        self.expect(s, 'const {a, b: [c, ...d]} = {a: 1, b: [2, 3, 4]}', '')
        self.expect(s, 'console.log(a, c, d.join())', '1 2 3,4\n')
        self.expect(s, 'import fs, { readFileSync as rf } from "fs"; import * as path from "node:path"')
        self.expect(s, 'console.log(typeof fs.statSync, typeof rf, path.join("a", "b"))', 'function function a/b\n')
        self.expect(s, 'const os = require("os"); process.chdir("/usr"); process.env.A = "b"')
        self.expect(s, 'console.log(os.EOL === "\\n", process.cwd(), process.env.A)', 'true /usr b\n')

    def test_functions_are_global(self):
        s = self.session()
        self.expect(s, 'function parse() { return "old" }\nfunction main() { return parse() }')
        self.expect(s, 'function parse() { return "new" }\nconsole.log(main())', 'new\n')
        self.expect(s, 'await 1; function parse() { return "newer" }\nconsole.log(main())', 'newer\n')
        self.expect(s, 'await 1\nasync function tick() { return `\n  }\n${parse()}` }\n'
                    'function* gen() { yield 1 }\nasync function* agen() { yield 2 }\nlate()\n'
                    'function late() { console.log("hoisted", [...gen()]) }', 'hoisted [ 1 ]\n')
        self.expect(s, 'await 1; function parse() { return "newest" }\nconsole.log(await tick())', '\n  }\nnewest\n')
        self.expect(s, 'console.log(this === globalThis, typeof arguments)', 'true undefined\n')

    def test_values_are_awaited(self):
        s = self.session()
        self.expect(s, 'const sleep = (ms: number) => new Promise(r => setTimeout(r, ms))')
        self.expect(s, 'await sleep(20); console.log("after")', 'after\n')
        self.expect(s, 'sleep(50).then(() => console.log("then"))', 'then\n')
        self.expect(s, 'main()\nasync function main() { await sleep(50); console.log("main") }', 'main\n')
        self.expect(s, 'async function main2() {\n  await sleep(50); console.log("main2")\n}\nmain2();', 'main2\n')
        self.expect(s, 'for await (const v of [sleep(5).then(() => 1), 2]) console.log(v)', '1\n2\n')
        self.expect(s, 'const r = await Promise.all([1, sleep(10).then(() => 2)]); console.log(r)', '[ 1, 2 ]\n')
        self.expect(s, 'console.log(r.length)', '2\n')
        self.expect(s, 'await (async () => { throw new Error("inner") })()', status=1, err='inner')

    def test_typescript(self):
        s = self.session()
        for code, out in (
                ('let n: number = 1; console.log(n)', '1'),
                ('interface P { x: number } const p: P = { x: 1 }; console.log(p.x)', '1'),
                ('const q: P = { x: 2 }; console.log(q.x)', '2'),
                ('function id<T>(v: T): T { return v } console.log(id<string>("g"))', 'g'),
                ('enum E { A = 1, B } console.log(E.B, E[1])', '2 A'), ('console.log(E.A)', '1'),
                ('type S = string | undefined; const s1: S = "s" as S; console.log(s1!.length)', '1'),
                ('const ga = <T,>(x: T): T => x; console.log(ga(3))', '3'),
                ('const o: { a?: { b: number } } = {}; console.log(o.a?.b ?? "none")', 'none'),
                ('declare const nothing: number; type X = {}; interface Y {}', None),
                ('const arr: Array<Map<string, number[]>> = []; console.log(arr.length)', '0'),
                ('const t: number = await Promise.resolve<number>(4); console.log(t)', '4'),
                ('class A1 { constructor(private x: number, public readonly y = 2) {} get z() { return this.x } }\n'
                 'console.log(new A1(1).z, new A1(1).y)', '1 2'),
                ('abstract class B1 { abstract f(): void } namespace N { export const v = 1 } console.log(N.v)', '1'),
                ('console.log(typeof (1 as any), (<any>2))', 'number 2'),
                ('function over(a: string): void;\nfunction over(a: any) { console.log("over", a) }\nover(1)', 'over 1'),
                ('let x1 = { a: 1 } satisfies object; console.log(x1.a)', '1'),
                ('export const ex = 1; export function ef() { return 2 } export default class ED {}\n'
                 'console.log(ex, ef())', '1 2')):
            self.expect(s, code, '' if out is None else out + '\n', 0, '')
        self.expect(s, 'let bad: = 1', '', 1, '<run')
        self.expect(s, 'const dup = 1; const dup = 2', '', 1, 'already been declared')

    def test_imports(self):
        s = self.session()
        for name, text in (('side.mjs', 'export const v = 7; export default "def"'), ('data.json', '{"k": [1]}'),
                           ('typed.ts', 'export const t: number = 3'), ('common.cjs', 'module.exports = { c: 9 }')):
            with open(f'{s.home}/{name}', 'w') as f:
                f.write(text)
        self.expect(s, 'import d, { v } from "./side.mjs"; import j from "./data.json"; console.log(d, v, j.k[0])',
                    'def 7 1\n')
        self.expect(s, 'const m = await import("./typed.ts"); console.log(m.t)', '3\n')
        self.expect(s, 'const { join } = await import("path"); console.log(join("a", "b"))', 'a/b\n')
        self.expect(s, 'const [a, b] = await Promise.all([import("os"), import("fs")]); console.log(!!a.EOL, !!b.statSync)',
                    'true true\n')
        self.expect(s, 'const load = (n: string) => import(n); const m2 = await load("p" + "ath"); console.log(!!m2.sep)',
                    'true\n')
        self.expect(s, 'console.log("import(\\"x\\")"); function reimport(x) { return x } console.log(reimport(1))',
                    'import("x")\n1\n')
        self.expect(s, 'console.log((await load("fs")).default === fs2); var fs2 = require("fs")', None, 0)
        self.expect(s, 'console.log(require("./common.cjs").c, require("./data.json").k)', '9 [ 1 ]\n')
        self.expect(s, 'await import("./missing.mjs")', status=1, err='missing.mjs')
        self.expect(s, 'import x from "./missing.mjs"', status=1, err='missing.mjs')
        self.expect(s, 'import("./missing2.mjs"); console.log("on")', 'on\n', 1, 'missing2.mjs')
        self.expect(s, 'require("./missing.cjs")', status=1, err='missing.cjs')
        self.expect(s, 'console.log(import.meta.main, import.meta.dir === process.cwd(), __dirname === process.cwd())',
                    'true true true\n')

    def test_errors(self):
        s = self.session()
        self.expect(s, '// first\ninterface Foo {\n  a: number\n}\n\nfunction boo(a: Foo) {\n  throw new TypeError("hm")\n}')
        r = self.expect(s, 'const text = `\n  lines\n`\nlet q: number = 1\n\nboo({ a: q })', '', 1)
        self.assertIn('TypeError: hm', r.err.decode())
        self.assertIn('  throw new TypeError("hm")\n', r.err.decode())
        self.assertRegex(r.err.decode(), r'at boo \(<run 1>:7:')
        self.assertRegex(r.err.decode(), r'at .*<run 2>:6:')
        for bad in b'repl.mjs', b'runInThisContext', b'node:vm':
            self.assertNotIn(bad, r.err)
        self.expect(s, 'undefined_name', '', 1, 'undefined_name')
        self.expect(s, 'await 1\n\n\nboo(null)', '', 1, '<run 4>:4')
        self.expect(s, 'throw 5', '', 1, '5')
        self.expect(s, 'throw null', '', 1, 'null')
        self.expect(s, 'throw { toString() { throw 1 } }', '', 1)
        self.expect(s, 'console.log("text"); let x = ;', '', 1, '<run 8>:1:')
        self.expect(s, 'Promise.reject(new Error("nobody")); console.log("on")', 'on\n', 1, 'nobody')
        self.expect(s, 'setTimeout(() => { throw new Error("timer") }, 5); await new Promise(() => {})', '', 1, 'timer')
        self.expect(s, 'function deep() { deep() } deep()', '', 1, 'RangeError')
        self.expect(s, 'console.log(new Error("shown").stack.includes("<run 12>:1:"))', 'true\n', 0)
        self.expect(s, 'JSON.parse("{")', '', 1, 'SyntaxError')
        self.expect(s, 'new Function("let x = ;")', '', 1, 'SyntaxError')

    def test_exit_statuses(self):
        s = self.session()
        self.expect(s, 'var kept = 1')
        for code, status in (('process.exit()', 0), ('process.exit(0)', 0), ('process.exit(9)', 9), ('process.exit(256)', 0),
                             ('process.exit(-1)', 255), ('process.exit(137)', 137), ('process.exitCode = 4', 4),
                             ('process.exitCode = 5; process.exit()', 5), ('1', 0),
                             ('await 1; process.exit(6)', 6), ('setTimeout(() => process.exit(7), 1); await new Promise(() => {})', 7),
                             ('Promise.resolve().then(() => process.exit(8)); await new Promise(() => {})', 8),
                             ('try { process.exit(3) } catch {} console.log("caught")', 3),
                             ('process.on("exit", () => 1); (() => process.exit(2))()', 2)):
            self.expect(s, code, None, status, '')
        self.expect(s, 'console.log(kept)', '1\n')
        self.expect_gone(self.session(), 'console.log("kept"); process.kill(process.pid, "SIGKILL")', 137, 'kept\n')
        self.expect_gone(self.session(), 'process.kill(process.pid, "SIGSEGV"); await new Promise(() => {})', 139)
        self.expect_gone(self.session(), 'process.abort()', 134)

    def test_event_loop_goes_on(self):
        s = self.session()
        self.expect(s, 'var ticks = 0; setInterval(() => ticks++, 5)', '', 0, '')
        time.sleep(.2)
        self.expect(s, 'console.log(ticks > 5)', 'true\n')
        self.expect(s, 'const server = Bun.serve({ port: 0, fetch: () => new Response("served") })')
        self.expect(s, 'console.log(await (await fetch(`http://127.0.0.1:${server.port}/`)).text())', 'served\n')
        self.expect(s, 'setTimeout(() => { throw new Error("between") }, 10)', '', 0, '')
        time.sleep(.1)
        self.expect(s, 'console.log("alive")', 'alive\n', 0, '')
        self.expect(s, 'const child = require("child_process").spawn("sleep", ["100"]); console.log(child.pid > 0)', 'true\n')
        self.expect(s, 'child.kill(); server.stop(true); console.log(require("child_process").execSync("echo sub").toString())',
                    'sub\n\n')

    def test_stdin(self):
        s = self.session()
        self.expect(s, 'console.log(process.stdin.read())', 'null\n')
        self.expect(s, 'console.log(require("fs").readFileSync(0, "utf8"))', 'sync\n', stdin=b'sync')
        self.expect(s, 'let all = ""; for await (const c of process.stdin) all += c; console.log(all)', 'async\n', stdin=b'async')
        self.expect(s, 'let all = ""; for await (const c of process.stdin) all += c; console.log([all])', '[ "" ]\n')
        self.expect(s, 'process.stdin.setEncoding("utf8"); process.stdin.on("data", d => console.log("data", d));\n'
                    'await new Promise(r => process.stdin.on("end", r))', 'data events\n', stdin=b'events')
        self.expect(s, 'const rl = require("readline").createInterface({ input: process.stdin }); const got = [];\n'
                    'for await (const line of rl) got.push(line); console.log(got.join("|"))', 'a|b\n', stdin=b'a\nb\n')
        self.expect(s, 'console.log(await Bun.stdin.text())', 'bun\n', stdin=b'bun')
        self.expect(s, 'console.log(await Bun.stdin.text())', 'again\n', stdin=b'again')
        self.expect(s, 'console.log(await new Response(Bun.stdin.stream()).text())', 'stream\n', stdin=b'stream')
        self.expect(s, 'console.log(process.stdin.isTTY, process.stdin.fd)', 'undefined 0\n')
        big = os.urandom(300000).hex().encode()
        self.expect(s, 'let n = 0; for await (const c of process.stdin) n += c.length; console.log(n)', '600000\n', stdin=big)

    def test_stdin_pipe(self):
        s = self.session()
        for text in b'first', b'second':
            pending = s.start('for await (const c of process.stdin) console.log("got", String(c))', stdin=None)
            time.sleep(.1)
            os.write(pending[3], text)
            os.close(pending[3])
            r = s.finish(pending[:3] + (None,))
            self.compare(r, '', f'got {text.decode()}\n', 0, '')

    def test_streams(self):
        s = self.session()
        r = self.expect(s, 'for (let i = 0; i < 20; i++) { console.log("o" + i); console.error("e" + i); '
                        'process.stdout.write("w" + i + "\\n"); process.stderr.write("x" + i + "\\n") }', joined=True)
        self.assertEqual(r.out.decode(), ''.join(f'o{i}\ne{i}\nw{i}\nx{i}\n' for i in range(20)))
        for code in ('console.log("x".repeat(50 << 20))', 'process.stdout.write("x".repeat(50 << 20) + "\\n")',
                     'await Bun.write(Bun.stdout, "x".repeat(50 << 20) + "\\n")',
                     'require("fs").writeSync(1, "x".repeat(50 << 20) + "\\n")',
                     'for (let i = 0; i < 800; i++) process.stdout.write("x".repeat(1 << 16)); console.log()'):
            r = self.expect(s, code)
            self.assertEqual((len(r.out), r.out[-2:]), ((50 << 20) + 1, b'x\n'), code)
        r = self.expect(s, 'for (let i = 0; i < 20000; i++) console.log(i)')
        self.assertEqual(r.out.decode(), ''.join(f'{i}\n' for i in range(20000)))
        r = self.expect(s, 'process.stdout.write(Buffer.from([0, 255, 128])); process.stdout.write("no newline")')
        self.assertEqual(r.out, b'\0\xff\x80no newline')
        r = self.expect(s, 'console.log("one"); await Bun.sleep(300); console.log("two")', 'one\ntwo\n')
        self.assertEqual(len(r.pieces), 2)
        self.expect(s, 'process.stdout.end("ended"); process.stdout = null; process.stdin.destroy()', 'ended')
        self.expect(s, 'process.stdout.write("back\\n"); console.log(process.stdout.fd)', 'back\n1\n')
        self.expect(s, 'const fs = require("fs"); fs.closeSync(1); fs.closeSync(0)')
        self.expect(s, 'console.log("open", fs.readFileSync(0).length)', 'open 0\n')
        self.expect(s, 'require("stream").pipeline(require("stream").Readable.from(["p", "q"]), process.stdout, () => {}); '
                    'await Bun.sleep(20)', 'pq')

    def test_interrupt(self):
        s = self.session()
        r = self.interrupted(s, 'var v = 5; console.log("go"); while (true) {}')
        self.compare(r, '', 'go\n', 130, None)
        self.expect(s, 'console.log(v++)', '5\n')
        r = self.interrupted(s, 'console.log("go"); await new Promise(() => {})')
        self.compare(r, '', 'go\n', 130, None)
        r = self.interrupted(s, 'function spin() { for (;;) { try { v++ } catch {} } } await null; console.log("go"); spin()')
        self.compare(r, '', 'go\n', 130, None)
        r = self.interrupted(s, 'process.once("SIGINT", () => console.log("mine")); console.log("go"); await Bun.sleep(500)')
        self.compare(r, '', 'go\nmine\n', 0, None)
        r = self.interrupted(s, 'console.log("go"); while (true) console.error("spam")')
        self.compare(r, '', 'go\n', 130, None)
        for _ in range(10):
            s.interrupt()
        time.sleep(.05)
        self.expect(s, 'process.removeAllListeners("SIGINT"); process.removeAllListeners(); console.log(v > 5)', 'true\n')
        for _ in range(3):
            s.interrupt()
            self.expect(s, 'console.log("still")', None, None)
        self.expect(s, 'console.log("still")', 'still\n')

    def test_driver_survives_user_code(self):
        s = self.session()
        for code in ('globalThis.process = undefined', 'var process = 5, Bun = 6, console2 = 7',
                     'Promise.race = null; Object.entries = null; JSON.stringify = null; setImmediate = null',
                     'Object.defineProperty(Object.prototype, "polluted", { value: 1, configurable: true })',
                     'globalThis.require = null; var exports = 1, module = 2',
                     'Error.prepareStackTrace = () => { throw 1 }', 'Error.stackTraceLimit = 0',
                     'Symbol.iterator = 5; var current = 1, exitStatus = 2, lib = 3, message = 4',
                     'delete globalThis.TextEncoder; delete globalThis.Uint8Array; Array.prototype.map = 1',
                     'RegExp.prototype.exec = () => { throw 1 }; String.prototype.split = 1; Array.prototype.includes = 1'):
            self.expect(s, code, status=None)
            self.expect(s, 'let a: number = 1; const b = 2; console.log("ok")', 'ok\n', 0)

    def test_channel_is_out_of_the_way(self):
        s = self.session()
        self.expect(s, 'console.log(Object.keys(globalThis).filter(k => /xsbx|nonce|driver|lib/i.test(k)).length, process.argv.length)',
                    '0 2\n')
        self.expect(s, 'console.log(require("child_process").execSync("ls /proc/self/fd").toString().split("\\n").join())',
                    '0,1,2,3,\n')
        self.expect(s, 'try { require("fs").writeSync(1000, "forged") } catch {} console.log("on")', 'on\n')

    def test_warm_and_seed(self):
        s = self.session()
        self.assertEqual(s.simple(WARM), 0)
        self.expect(s, 'console.log(typeof x, typeof f)', 'undefined undefined\n')
        draws = []
        for seed in b'a' * 32, b'b' * 32, b'a' * 32:
            self.assertEqual(s.simple(SEED, seed), 0)
            draws.append(s.run('console.log(Math.random())').out)
        draws.append(s.run('console.log(Math.random())', seed=b'a' * 32).out)
        draws.append(s.run('console.log(Math.random())').out)
        self.assertEqual(draws[0], draws[2])
        self.assertEqual(draws[0], draws[3])
        self.assertEqual(len(set(draws)), 3)

    def test_rapid_and_big(self):
        s = self.session()
        self.expect(s, 'let n = 0')
        for i in range(300):
            self.expect(s, 'console.log(++n)', f'{i + 1}\n')
        self.expect(s, '//' + 'x' * ((1 << 20) - 100) + '\nconsole.log("big")', 'big\n')
        code = ''.join(f'const v{i}: number = {i};\nfunction f{i}(a: string) {{ return v{i} }}\n' for i in range(8000))
        r = self.expect(s, code + 'console.log(f7999(""))', '7999\n')
        self.assertLess(r.time, 10)

    def test_files_of_the_user_stop_nothing(self):
        home = tempfile.mkdtemp(dir=SCRATCH)
        for name in 'bunfig.toml', 'tsconfig.json', 'package.json', '.env':
            with open(f'{home}/{name}', 'w') as f:
                f.write('{{ this is = bad')
        s = self.session(cwd=home)
        self.expect(s, 'console.log(1)', '1\n')

    def test_end_of_channel(self):
        s = self.session()
        self.expect(s, 'process.on("exit", () => require("fs").writeFileSync("end", ""))')
        s.ctl.shutdown(socket.SHUT_RDWR)
        os.close(s.bell)
        s.bell = None
        self.assertEqual(s.process.wait(DEADLINE), 0)
        self.assertTrue(os.path.exists(s.home + '/end'))


# --- which interpreters, and the count at the end ------------------------------------------------

def interpreters(variable, default):
    """Return: paths of the interpreters named in the environment, or the default."""
    names = [n for n in os.environ.get(variable, default or '').split(':') if n]
    return [shutil.which(n) or n for n in names]


def find_bun():
    """Return: the path of a Bun, or None."""
    for path in (os.environ.get('XSBX_BUN'), shutil.which('bun'),
                 os.path.expanduser('~/.cache/xsbxfs/images/tools/bun')):
        if path and os.access(path, os.X_OK):
            return path
    return None


def variants():
    """Return: test classes, one for each interpreter there is."""
    found = []

    def add(base, label, **attributes):
        name = f'{base.__name__}[{label}]'
        found.append(type(name, (base,), {'__qualname__': name, **attributes}))

    lib = LIB or build_lib()
    for path in interpreters('XSBX_PYTHON', sys.executable):
        add(PythonCases, path, command=[path, '-I', '-B', lib + '/repl.py'])
    for path in interpreters('XSBX_BASH', 'bash'):
        add(BashCases, path, command=[path, '--norc', '--noprofile', lib + '/repl.sh'])
    bun = find_bun()
    add(BunCases, bun, command=[bun, '--config=/dev/null', '--no-env-file', '--no-install', lib + '/repl.mjs'],
        missing=None if bun else 'no bun: set XSBX_BUN, or build the images')
    return found


def load_tests(loader, tests, pattern):
    suite = unittest.TestSuite()
    for case in variants():
        suite.addTests(loader.loadTestsFromTestCase(case))
    return suite


def bench():
    """Print how long an interpreter takes to start, and to run an empty program."""
    for case in variants():
        if case.missing:
            print(f'{case.__name__}: {case.missing}')
            continue
        starts = []
        for _ in range(10):
            session = Session(case.command, bell=case.bell)
            starts.append(session.start_time)
            session.close()
        session = Session(case.command, bell=case.bell)
        runs = sorted(session.run('').time for _ in range(500))
        session.close()
        print(f'{case.__name__}: start to READY {statistics.median(starts) * 1e3:.1f} ms, '
              f'RUN to DONE p50 {runs[250] * 1e6:.0f} us, p95 {runs[475] * 1e6:.0f} us')


def main():
    try:
        if '--bench' in sys.argv[1:]:
            bench()
            return 0
        program = unittest.main(exit=False)
        result = program.result
        bad = len(result.failures) + len(result.errors)
        passed = result.testsRun - bad - len(result.skipped)
        for reason in sorted({reason for _, reason in result.skipped}):
            print(f'SKIPPED: {reason}')
        print(f'{passed} passed, {bad} failed, {len(result.skipped)} skipped')
        return 1 if bad else 0
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)


if __name__ == '__main__':
    sys.exit(main())
