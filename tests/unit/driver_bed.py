# SPDX-License-Identifier: Apache-2.0
"""For tests of the interpreters' drivers in images/drivers, without a sandbox: plays the agent.

Usage of such a test: test_driver_NAME.py [--bench] [unittest arguments]

The interpreters under test, each a path or a name on PATH:
    XSBX_PYTHON   several, separated by colons; default: the Python that runs this
    XSBX_BASH     several, separated by colons; default: bash
    XSBX_BUN      one; default: bun on PATH, or ~/.cache/xsbxfs/images/tools/bun
XSBX_LIB is a directory with the drivers as they lie in an image; the default is to build one.
Where an interpreter is missing its tests are skipped, and the last line says so.
"""
import array
import contextlib
import fcntl
import os
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

READY, RUN, DONE, WARM, SEED, COPY, TIDY, KEY = range(1, 9)
MESSAGE = struct.Struct('=II16sIi32s')
NOBODY = 65534
DEADLINE = 30  # seconds that anything may take on a busy machine
SCRATCH = tempfile.mkdtemp(prefix='test_driver.')


def build_lib():
    """Lay out the drivers as in an image. Return: the directory."""
    lib = os.path.join(SCRATCH, 'lib')
    os.mkdir(lib)
    for name in 'repl.py', 'repl.sh', 'repl.mjs':
        with contextlib.suppress(FileNotFoundError):
            shutil.copy(os.path.join(DRIVERS, name), lib)
    subprocess.run([os.environ.get('CC', 'cc'), '-std=gnu11', '-O2', '-D_GNU_SOURCE', '-fPIC',
                    '-shared', '-I', os.path.join(ROOT, 'agent'), '-o', lib + '/turn.so',
                    *(os.path.join(DRIVERS, f'turn{part}.c') for part in ('', '_bash', '_python'))], check=True)
    os.chmod(SCRATCH, 0o755)
    return lib


# --- the agent's part ----------------------------------------------------------------------------

def token(key, nonce):
    """What an answer has in the place of the request's nonce: SipHash-2-4 of it."""
    mask = (1 << 64) - 1

    def turn(x, bits):
        return (x << bits | x >> (64 - bits)) & mask

    def rounds(v, n):
        for _ in range(n):
            for a, b, c, d, first, second in (0, 1, 2, 3, 13, 16), (2, 1, 0, 3, 17, 21):
                v[a] = (v[a] + v[b]) & mask
                v[b] = turn(v[b], first) ^ v[a]
                v[a] = turn(v[a], 32)
                v[c] = (v[c] + v[d]) & mask
                v[d] = turn(v[d], second) ^ v[c]

    k = struct.unpack('<2Q', key)
    v = [k[i & 1] ^ int.from_bytes(word, 'big') for i, word in enumerate(
        (b'somepseu', b'dorandom', b'lygenera', b'tedbytes'))]
    for word in struct.unpack('<2Q', nonce) + (16 << 56,):
        v[3] ^= word
        rounds(v, 2)
        v[0] ^= word
    v[2] ^= 255
    rounds(v, 4)
    return (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, 'little') + bytes(8)


class Result:
    """What a run left: status, and the bytes of both streams."""

    def __init__(self):
        self.status = None
        self.out = self.err = b''

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
        self.key = os.urandom(16)
        ours.send(MESSAGE.pack(KEY, 0, b'', 0, 0, self.key))
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
        return token(self.key, nonce)

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

    def cpu_time(self):
        """Seconds of a processor that the interpreter has had; whatever else the host does."""
        with open(f'/proc/{self.process.pid}/stat', 'rb') as f:
            fields = f.read().rpartition(b')')[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

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
        self.ctl.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.key = os.urandom(16)
        nonce = original.send(COPY, [theirs.fileno()], seed=self.key)
        theirs.close()
        answer = MESSAGE.unpack(original.ctl.recv(256))
        assert (answer[0], answer[2], answer[4]) == (DONE, nonce, 0), answer
        message, ((_, _, sender),), _, _ = self.ctl.recvmsg(256, socket.CMSG_SPACE(12))
        self.pid = struct.unpack('iii', sender)[0]
        kind, _, _, _, flags, _ = MESSAGE.unpack(message[:64])
        assert (kind, flags & 3) == (READY, 3), message
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

    def expect_live(self, session, code, *parts):
        """Run code that waits for a line of standard input behind each part of its output but the
        last: that line is written when the part has arrived."""
        pending = session.start(code, stdin=None)
        seen = []

        def hook(result):
            if len(seen) < len(parts) - 1 and result.out.decode() == ''.join(parts[:len(seen) + 1]):
                seen.append(result.out)
                os.write(pending[3], b'\n')

        self.compare(session.finish(pending, hook), code, ''.join(parts), 0, '')
        self.assertEqual(len(seen), len(parts) - 1)

    def seeds_decide(self, session, code):
        """Code that prints what chance gives: the same after the same seed, with a run or before."""
        draws = []
        for seed in b'a' * 32, b'b' * 32, b'a' * 32:
            self.assertEqual(session.simple(SEED, seed), 0)
            draws.append(session.run(code).out)
        draws.append(session.run(code, seed=b'a' * 32).out)
        draws.append(session.run(code).out)
        self.assertEqual(draws[0], draws[2])
        self.assertEqual(draws[0], draws[3])
        self.assertEqual(len(set(draws)), 3)

    def interrupted(self, session, code, **kwargs):
        """Run code that prints "go" and then never ends, and interrupt it there."""
        sent = []

        def hook(result):
            if b'go' in result.out and not sent:
                sent.append(True)
                time.sleep(0.05)
                session.interrupt()

        return session.run(textwrap.dedent(code), hook=hook, **kwargs)


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


def variants(base, paths, command, missing=None):
    """Return: test classes made of `base`, one for each path of an interpreter."""
    lib = LIB or build_lib()
    found = []
    for path in paths:
        name = f'{base.__name__}[{path}]'
        found.append(type(name, (base,), {'__qualname__': name, 'missing': missing,
                                          'command': [path, *command(lib)]}))
    return found


def pythons(base):
    return variants(base, interpreters('XSBX_PYTHON', sys.executable),
                    lambda lib: ['-s', '-B', lib + '/repl.py'])


def shells(base):
    return variants(base, interpreters('XSBX_BASH', 'bash'),
                    lambda lib: ['--norc', '--noprofile', lib + '/repl.sh'])


def buns(base):
    bun = find_bun()
    return variants(base, [bun], lambda lib: ['--config=/dev/null', '--no-env-file', '--no-install',
                                              lib + '/repl.mjs'],
                    None if bun else 'no bun: set XSBX_BUN, or build the images')


class Loader(unittest.TestLoader):
    """Finds the variants, whatever else is in the module."""

    def __init__(self, cases):
        super().__init__()
        self.cases = cases

    def loadTestsFromModule(self, module, *args, **kwargs):
        return self.suiteClass([self.loadTestsFromTestCase(case) for case in self.cases])


def bench(cases):
    """Print how long an interpreter takes to start, and to run an empty program."""
    for case in cases:
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


def main(kind, base):
    """Run the tests of `base` with interpreters of a kind: pythons, shells or buns."""
    try:
        cases = kind(base)
        if '--bench' in sys.argv[1:]:
            bench(cases)
            return 0
        result = unittest.main(testLoader=Loader(cases), exit=False).result
        bad = len(result.failures) + len(result.errors)
        passed = result.testsRun - bad - len(result.skipped)
        print(f'{passed} passed, {bad} failed, {len(result.skipped)} skipped')
        for reason in sorted({reason for _, reason in result.skipped}):
            print(f'SKIPPED: {reason}')
        return 1 if bad else 0 if passed else 77
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
