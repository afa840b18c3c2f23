#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Tests of the agent as a plain process, over a socketpair: this file plays the host.
"""Usage: test_agent.py [unittest arguments]

Environment:
    BUILD      where xsbx-agent and drivers/ are; default: build
    XSBX_BUN   Bun, for the JavaScript tests; default: bun on PATH, or
               ~/.cache/xsbxfs/images/tools/bun; without it they are skipped
"""
import contextlib
import errno
import os
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get('BUILD', 'build'))
AGENT = os.environ.get('XSBX_AGENT', os.path.join(BUILD, 'xsbx-agent'))
DRIVERS = os.environ.get('XSBX_DRIVERS', os.path.join(BUILD, 'drivers'))
BUN = os.environ.get('XSBX_BUN') or shutil.which('bun') or \
    os.path.expanduser('~/.cache/xsbxfs/images/tools/bun')
DEADLINE = 60  # seconds that anything may take on a busy machine

HELLO, PING, SETUP, RUN, STDIN, SIGNAL, CREDIT, RESET, USAGE, SHUTDOWN, WARM, CLOCK, TRUST = range(1, 14)
(LOOKUP, FORGET, GETATTR, SETATTR, READLINK, MKDIR, SYMLINK, LINK, UNLINK, RMDIR, RENAME, OPEN,
 CREATE, READ, WRITE, RELEASE, FSYNC, FALLOCATE, SEEK, OPENDIR, READDIR, STATFS) = range(32, 54)
(HELLO_OK, PONG, READY, FAILED, OUTPUT, EXIT, STDIN_CREDIT, USAGE_REPLY, LOG,
 FILE_REPLY, CLOCK_OK) = range(64, 75)
INTERRUPT, KILL = 1, 2
DONE, TIMEOUT, KILLED, OOM, REFUSED = range(5)
HEADER = struct.Struct('<IHBBI')
ATTR = struct.Struct('<QIIQQqqqIII')


def text(data):
    if isinstance(data, str):
        data = data.encode()
    return struct.pack('<I', len(data)) + data


def integers(form, *values):
    return struct.pack('<' + form, *values)


class Closed(Exception):
    """The agent has closed the connection."""


class Result:
    """What a run left."""

    def __init__(self):
        self.out = bytearray()
        self.err = bytearray()
        self.both = []
        self.sequence = []
        self.stdin_credit = 0
        self.how = None

    def finish(self, payload):
        (self.how, self.status, self.fresh, self.wall, self.user, self.system, self.maxrss,
         *self.dropped) = struct.unpack('<III6Q', payload)
        self.out, self.err = bytes(self.out), bytes(self.err)

    def __repr__(self):
        return f'how {self.how}, status {self.status}, out {self.out[-500:]!r}, ' \
               f'err {self.err[-2000:]!r}'


class Attr:
    def __init__(self, data):
        (self.ino, self.mode, self.nlink, self.size, self.blocks, self.atime, self.mtime,
         self.ctime, self.atime_ns, self.mtime_ns, self.ctime_ns) = ATTR.unpack(data[:ATTR.size])


class Host:
    """The host's end of the protocol."""

    def __init__(self, sock, generation=1):
        self.sock = sock
        self.generation = generation
        self.last_id = 0
        self.log = b''
        self.pending = {}   # id: frames (type, flags, payload) nobody took yet
        self.received = bytearray()
        self.parsed = 0     # bytes of `received` that were taken

    def send_raw(self, data):
        self.sock.sendall(data)

    def send(self, kind, payload=b'', flags=0, id=None, generation=None):
        if id is None:
            self.last_id += 1
            id = self.last_id
        if generation is None:
            generation = self.generation & 255
        self.send_raw(HEADER.pack(len(payload), kind, flags, generation, id) + payload)
        return id

    def read_frame(self, timeout=DEADLINE):
        """Return: (type, flags, generation, id, payload), or None after the timeout."""
        end = time.monotonic() + timeout
        while True:
            here = self.parsed
            if len(self.received) >= here + HEADER.size:
                length, kind, flags, generation, id = HEADER.unpack_from(self.received, here)
                here += HEADER.size
                if len(self.received) >= here + length:
                    self.parsed = here + length
                    return kind, flags, generation, id, bytes(self.received[here:self.parsed])
            del self.received[:self.parsed]
            self.parsed = 0
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.sock], [], [], left)[0]:
                return None
            try:
                data = self.sock.recv(1 << 18)
            except ConnectionResetError:
                data = b''
            if not data:
                raise Closed(self.log.decode(errors='replace'))
            self.received += data

    def take(self, id, timeout=DEADLINE):
        """Wait for the next frame with this id. Return: (type, flags, payload)."""
        while not self.pending.get(id):
            frame = self.read_frame(timeout)
            if frame is None:
                raise AssertionError(f'no answer to {id}; log: {self.log.decode()}')
            kind, flags, generation, frame_id, payload = frame
            if kind == LOG:
                self.log += payload
                continue
            if generation != self.generation & 255:
                raise AssertionError(f'frame of generation {generation}')
            self.pending.setdefault(frame_id, []).append((kind, flags, payload))
        return self.pending[id].pop(0)

    def ask(self, kind, payload=b'', timeout=DEADLINE):
        answer, _flags, data = self.take(self.send(kind, payload), timeout)
        return answer, data

    # --- machine -------------------------------------------------------------------------------

    def hello(self, generation=None, name='box'):
        if generation is not None:
            self.generation = generation
        kind, data = self.ask(HELLO, integers('IIQ', 1, self.generation, time.time_ns()) +
                              os.urandom(32) + text(name))
        assert kind == HELLO_OK, kind
        version, echoed, uptime = struct.unpack('<IIQ', data[:16])
        assert (version, echoed) == (1, self.generation)
        return uptime, data[20:].decode()

    def setup(self, language, env=(), files=0, tmp=0, nproc=0, nofile=0, fsize=0):
        env = dict(env)
        kind, data = self.ask(SETUP, text(language) + integers(
            'QQIIIIQI', files, tmp, 0, 0, nproc, nofile, fsize, len(env)) + b''.join(
                text(k) + text(v) for k, v in env.items()))
        return self.ready(kind, data)

    @staticmethod
    def ready(kind, data):
        if kind == READY:
            return data[4:-8].decode()
        assert kind == FAILED, kind
        error, length = struct.unpack('<II', data[:8])
        raise OSError(error, data[8:8 + length].decode())

    def reset(self):
        return self.ready(*self.ask(RESET))

    def warm(self):
        return self.ready(*self.ask(WARM))

    def ping(self, data=b'x'):
        kind, echo = self.ask(PING, data)
        assert (kind, echo) == (PONG, data)

    def usage(self):
        kind, data = self.ask(USAGE)
        assert kind == USAGE_REPLY, kind
        return struct.unpack('<7QI', data)

    # --- runs ----------------------------------------------------------------------------------

    def start(self, code, timeout_ms=0, limits=(1 << 26, 1 << 26), credit=1 << 30, stdin=False):
        if isinstance(code, str):
            code = code.encode()
        return self.send(RUN, integers('IIQQI', int(stdin), timeout_ms, *limits, credit) +
                         text(code))

    def finish(self, id, hook=None, timeout=DEADLINE):
        result = Result()
        while result.how is None:
            kind, flags, data = self.take(id, timeout)
            if kind == OUTPUT:
                result.sequence.append(struct.unpack('<I', data[:4])[0])
                data = data[4:]
                if flags == 1:
                    result.out += data
                else:
                    assert flags == 2, flags
                    result.err += data
                result.both.append(data)
            elif kind == STDIN_CREDIT:
                result.stdin_credit += struct.unpack('<I', data)[0]
            else:
                assert kind == EXIT, kind
                result.finish(data)
            if hook:
                hook(result)
        assert result.sequence == list(range(len(result.sequence))), result.sequence
        return result

    def run(self, code, hook=None, **options):
        return self.finish(self.start(code, **options), hook)

    # --- files ---------------------------------------------------------------------------------

    def file(self, kind, payload):
        answer, data = self.ask(kind, payload)
        assert answer == FILE_REPLY, answer
        error = struct.unpack('<I', data[:4])[0]
        if error:
            assert len(data) == 4
            raise OSError(error, os.strerror(error))
        return data[4:]

    @staticmethod
    def entry(data):
        return struct.unpack('<Q', data[:8])[0], Attr(data[8:])

    def lookup(self, name, parent=1):
        return self.entry(self.file(LOOKUP, integers('Q', parent) + text(name)))

    def getattr(self, node, handle=0):
        return Attr(self.file(GETATTR, integers('QQ', node, handle)))

    def setattr(self, node, handle=0, mode=None, size=None, atime=None, mtime=None, valid=0):
        valid |= (mode is not None) | (size is not None) << 1 | (atime is not None) << 2 | \
            (mtime is not None) << 3
        return Attr(self.file(SETATTR, integers(
            'QQIIQqqII', node, handle, valid, mode or 0, size or 0, atime or 0, mtime or 0, 0, 0)))

    def open(self, node, flags=os.O_RDONLY):
        return struct.unpack('<Q', self.file(OPEN, integers('QI', node, flags)))[0]

    def create(self, name, parent=1, flags=os.O_RDWR, mode=0o644):
        data = self.file(CREATE, integers('QII', parent, flags, mode) + text(name))
        node, attr = self.entry(data)
        return node, attr, struct.unpack('<Q', data[-8:])[0]

    def mkdir(self, name, parent=1, mode=0o755):
        return self.entry(self.file(MKDIR, integers('QI', parent, mode) + text(name)))

    def read(self, handle, offset=0, size=131072):
        return self.file(READ, integers('QQI', handle, offset, size))

    def write(self, handle, data, offset=0):
        return struct.unpack('<I', self.file(WRITE, integers('QQ', handle, offset) + data))[0]

    def release(self, handle):
        self.send(RELEASE, integers('Q', handle))

    def listdir(self, node=1, size=4096):
        handle = struct.unpack('<Q', self.file(OPENDIR, integers('Q', node)))[0]
        offset, names = 0, []
        while True:
            data = self.file(READDIR, integers('QQI', handle, offset, size))
            assert len(data) <= size
            if not data:
                break
            while data:
                _ino, offset, kind, length = struct.unpack('<QQII', data[:24])
                names.append((data[24:24 + length].decode(), kind))
                data = data[24 + length:]
        self.release(handle)
        return names

    def contents(self, name):
        handle = self.open(self.lookup(name)[0])
        data = b''
        while piece := self.read(handle, len(data)):
            data += piece
        self.release(handle)
        return data


class LocalAgent(Host):
    """An agent as a child of this process."""

    def __init__(self):
        ours, theirs = socket.socketpair()
        super().__init__(ours)
        self.root = tempfile.mkdtemp(prefix='test_agent.')
        self.process = subprocess.Popen(
            [AGENT, '--local', str(theirs.fileno()), '--root', self.root, '--lib', DRIVERS],
            pass_fds=[theirs.fileno()], env={**os.environ, 'XSBX_BUN': BUN})
        theirs.close()

    def close(self):
        self.sock.close()
        status = self.process.wait(DEADLINE)
        shutil.rmtree(self.root, ignore_errors=True)
        return status


def is_running(pid):
    """False for a zombie, and for what is gone."""
    try:
        with open(f'/proc/{pid}/stat', 'rb') as f:
            return f.read().rpartition(b')')[2].split()[0] not in b'ZX'
    except OSError:
        return False


def session_processes(marker, expected):
    """Process numbers whose environment has `marker`; waits until there are as many as expected."""
    end = time.monotonic() + 10
    while len(found := processes_with(marker)) != expected and time.monotonic() < end:
        time.sleep(0.01)
    return found


def processes_with(marker):
    found = []
    for name in os.listdir('/proc'):
        if name.isdigit():
            with contextlib.suppress(OSError):
                with open(f'/proc/{name}/environ', 'rb') as f:
                    if marker.encode() in f.read():
                        found.append(int(name))
    return found


class Case(unittest.TestCase):
    language = None
    env = {}

    def setUp(self):
        self.agent = LocalAgent()
        self.addCleanup(self.agent.close)
        self.agent.hello()
        if self.language:
            self.marker = f'XSBX_TEST={os.getpid()}.{id(self)}'
            name, value = self.marker.split('=')
            self.version = self.agent.setup(self.language, {name: value, **self.env})

    def run_code(self, code, status=0, how=DONE, **options):
        result = self.agent.run(code, **options)
        self.assertEqual((result.how, result.status), (how, status), result)
        return result

    def error(self, number, call, *args, **kwargs):
        with self.assertRaises(OSError) as caught:
            call(*args, **kwargs)
        self.assertEqual(errno.errorcode[caught.exception.errno], errno.errorcode[number])

    def wait_gone(self, pids):
        end = time.monotonic() + 10
        while pids and time.monotonic() < end:
            pids = [p for p in pids if is_running(p)]
            time.sleep(0.01)
        self.assertEqual(pids, [])


class Protocol(Case):
    def test_ping(self):
        self.agent.ping(b'')
        self.agent.ping(bytes(range(64)))

    def assert_ends(self):
        with self.assertRaises(Closed):
            while True:
                self.agent.read_frame()
        self.assertEqual(self.agent.process.wait(DEADLINE), 1)

    def test_unknown_type(self):
        self.agent.send(99)
        self.assert_ends()

    def test_file_reply_from_host(self):
        self.agent.send(FILE_REPLY, b'\0' * 4)
        self.assert_ends()

    def test_too_long(self):
        self.agent.send_raw(HEADER.pack((1 << 20) + 65537, PING, 0, 1, 1))
        self.assert_ends()

    def test_truncated_payload(self):
        self.agent.send(RUN, b'\0' * 7)
        self.assert_ends()

    def test_trailing_bytes(self):
        self.agent.send(USAGE, b'x')
        self.assert_ends()

    def test_long_ping(self):
        self.agent.send(PING, b'x' * 65)
        self.assert_ends()

    def test_other_generation_is_dropped(self):
        self.agent.send(99, generation=7)
        self.agent.send(PING, b'old', generation=7, id=500)
        self.agent.ping()
        self.assertNotIn(500, self.agent.pending)

    def test_nothing_before_hello(self):
        agent = LocalAgent()
        agent.send(PING, b'early')
        self.assertIsNone(agent.read_frame(0.2))
        agent.hello()
        agent.ping()
        agent.close()

    def test_generations(self):
        for generation in 2, 255, 256, 257, 70000:
            self.agent.hello(generation)
            self.agent.ping()

    def test_byte_by_byte(self):
        frame = HEADER.pack(3, PING, 0, 1, 77) + b'abc'
        for i in range(len(frame)):
            self.agent.send_raw(frame[i:i + 1])
        self.assertEqual(self.agent.take(77), (PONG, 0, b'abc'))

    def test_run_without_setup(self):
        self.run_code('x', how=REFUSED, status=255)
        self.error(errno.EINVAL, self.agent.warm)

    def test_bad_setups(self):
        self.error(errno.EINVAL, self.agent.setup, 'cobol')
        self.error(errno.EINVAL, self.agent.setup, 'raw', {'A=B': 'c'})
        self.error(errno.EINVAL, self.agent.setup, 'raw', {'': 'c'})
        self.error(errno.EINVAL, self.agent.setup, 'raw', {'A': 'c\0d'})
        self.agent.ping()

    def test_shutdown(self):
        self.agent.send(SHUTDOWN)
        with self.assertRaises(Closed):
            while True:
                self.agent.read_frame()
        self.assertEqual(self.agent.process.wait(DEADLINE), 0)

    def test_usage(self):
        total, available, cpu, used, size, _, _, processes = self.agent.usage()
        self.assertGreater(total, available)
        self.assertGreater(cpu, 0)
        self.assertGreater(size, used)
        self.assertEqual(processes, 0)


class Python(Case):
    language = 'python'

    def test_version(self):
        self.assertRegex(self.version, r'^Python 3\.\d+')

    def test_output_and_status(self):
        r = self.run_code('import sys; print(6 * 7); print("e", file=sys.stderr); sys.exit(3)',
                          status=3)
        self.assertEqual((r.out, r.err, r.fresh), (b'42\n', b'e\n', 0))
        self.assertGreater(r.wall, 0)
        self.assertGreater(r.maxrss, 1000)

    def test_state_is_kept(self):
        self.run_code('x = 41')
        self.assertEqual(self.run_code('print(x + 1)').out, b'42\n')

    def test_exception(self):
        r = self.run_code('1 / 0', status=1)
        self.assertIn(b'ZeroDivisionError', r.err)

    def test_exit_by_itself(self):
        r = self.run_code('x = 1\nimport os; print("kept", flush=True); os._exit(42)', status=42)
        self.assertEqual((r.out, r.fresh), (b'kept\n', 1))
        r = self.run_code('print("x" in globals())')
        self.assertEqual((r.out, r.fresh), (b'False\n', 0))

    def test_killed_by_itself(self):
        r = self.run_code('import os; os.kill(os.getpid(), 11)', status=139)
        self.assertEqual(r.fresh, 1)
        self.run_code('import os; os.kill(os.getpid(), 9)', status=137)
        self.run_code('pass')

    def test_exit_status_of_early_end_with_child_holding_pipes(self):
        r = self.run_code('import os, time\n'
                          'if os.fork() == 0: time.sleep(60)\n'
                          'print("out", flush=True); os._exit(5)', status=5)
        self.assertEqual(r.out, b'out\n')

    def test_timeout(self):
        start = time.monotonic()
        r = self.run_code('print("begun", flush=True)\nwhile True: pass', timeout_ms=300,
                          how=TIMEOUT, status=124)
        self.assertEqual((r.out, r.fresh), (b'begun\n', 1))
        self.assertLess(time.monotonic() - start, 5)
        self.assertGreater(r.user + r.system, 20000)
        self.run_code('pass')

    def test_timeout_ends_everything_the_run_started(self):
        r = self.run_code('import os, subprocess, time\n'
                          'p = [subprocess.Popen(["sleep", "100"]).pid]\n'
                          'p.append(subprocess.Popen(["setsid", "sleep", "100"]).pid)\n'
                          'r, w = os.pipe()\n'
                          'if os.fork() == 0:\n'
                          '    os.setsid()\n'
                          '    if os.fork() == 0:\n'
                          '        os.write(w, b"%d" % os.getpid())\n'
                          '        while True: time.sleep(1)\n'
                          '    os._exit(0)\n'
                          'p.append(int(os.read(r, 99)))\n'
                          'print(*p, flush=True)\n'
                          'time.sleep(100)', timeout_ms=1500, how=TIMEOUT, status=124)
        pids = [int(p) for p in r.out.split()]
        self.assertEqual(len(pids), 3)
        self.wait_gone(pids)

    def test_timeout_spares_earlier_background(self):
        r = self.run_code('import subprocess; p = subprocess.Popen(["setsid", "sh", "-c",'
                          '"while :; do sleep 0.05; done"]); print(p.pid)')
        pid = int(r.out)
        self.run_code('import time; time.sleep(100)', timeout_ms=400, how=TIMEOUT, status=124)
        self.run_code('pass')
        self.assertTrue(is_running(pid))

    def test_fork_bomb_is_ended(self):
        self.run_code('import os, resource, time\n'
                      'end = time.time() + 20\n'
                      'n = 0\n'
                      'while time.time() < end:\n'
                      '    n += 1\n'
                      '    if n < 8: os.fork()\n'
                      '    time.sleep(0.001)', timeout_ms=500, how=TIMEOUT, status=124)
        self.assertEqual(self.agent.usage()[-1], 1)   # the new interpreter

    def test_kill(self):
        def hook(result):
            if result.out == b'begun\n' and result.how is None:
                self.agent.send(SIGNAL, integers('I', KILL), id=run)
        run = self.agent.start('print("begun", flush=True)\nwhile True: pass')
        r = self.agent.finish(run, hook)
        self.assertEqual((r.how, r.status, r.fresh), (KILLED, 137, 1))

    def test_interrupt(self):
        sent = []

        def hook(result):
            if result.out and not sent:
                sent.append(self.agent.send(SIGNAL, integers('I', INTERRUPT), id=run))
        run = self.agent.start('x = 5\nprint("begun", flush=True)\nwhile True: pass')
        r = self.agent.finish(run, hook)
        self.assertEqual((r.how, r.status, r.fresh), (DONE, 130, 0))
        self.assertEqual(self.run_code('print(x)').out, b'5\n')

    def test_signals_for_other_runs_are_ignored(self):
        self.run_code('pass')
        self.agent.send(SIGNAL, integers('I', KILL), id=self.agent.last_id)
        self.agent.send(SIGNAL, integers('I', INTERRUPT), id=12345)
        self.agent.send(CREDIT, integers('I', 1), id=12345)
        self.run_code('pass')

    def test_large_output_is_exact(self):
        r = self.run_code('import sys\nfor i in range(300000): print(i)\n'
                          'sys.stderr.write("e" * 3000000)')
        self.assertEqual(r.out, b''.join(b'%d\n' % i for i in range(300000)))
        self.assertEqual(r.err, b'e' * 3000000)

    def test_limit(self):
        r = self.run_code('import sys; sys.stdout.write("x" * 1000000); sys.stderr.write("y" * 70)',
                          limits=(1000, 64))
        self.assertEqual((r.out, r.err), (b'x' * 1000, b'y' * 64))
        self.assertEqual(r.dropped, [999000, 6])

    def test_credit(self):
        run = self.agent.start('import sys\nfor i in range(3000): sys.stdout.write("x" * 1000)',
                               credit=10000)
        got = [0]

        def hook(result):
            if result.how is None:
                self.assertLessEqual(len(result.out), granted[0])
                if len(result.out) == granted[0]:
                    granted[0] += 70000
                    self.agent.send(CREDIT, integers('I', 70000), id=run)
            got[0] = len(result.out)
        granted = [10000]
        r = self.agent.finish(run, hook)
        self.assertEqual((r.status, len(r.out)), (0, 3000000))

    def test_no_credit_blocks_the_program_only(self):
        run = self.agent.start('import sys\nwhile True: sys.stdout.write("x" * 1000)', credit=0,
                               timeout_ms=700)
        self.agent.ping()
        time.sleep(0.2)
        self.agent.ping()
        self.assertNotIn(run, self.agent.pending)
        time.sleep(0.7)
        self.agent.send(CREDIT, integers('I', 1 << 30), id=run)
        r = self.agent.finish(run)
        self.assertEqual((r.how, r.status), (TIMEOUT, 124))
        self.assertGreater(len(r.out), 60000)

    def test_ping_during_flood(self):
        run = self.agent.start('import sys\nwhile True: sys.stdout.write("x" * 100000)',
                               timeout_ms=1500, limits=(1 << 40, 0))
        worst = 0
        for _ in range(10):
            start = time.monotonic()
            self.agent.ping()
            worst = max(worst, time.monotonic() - start)
        self.assertLess(worst, 1)
        r = self.agent.finish(run)
        self.assertEqual(r.how, TIMEOUT)

    def test_flood_between_both_streams(self):
        r = self.run_code('import os\nfor i in range(2000):\n'
                          '    os.write(1, b"o%d " % i); os.write(2, b"e%d " % i)')
        self.assertEqual(r.out, b''.join(b'o%d ' % i for i in range(2000)))
        self.assertEqual(r.err, b''.join(b'e%d ' % i for i in range(2000)))

    def test_first_byte_is_not_held_back(self):
        first = []

        def hook(result):
            if result.out and not first:
                first.append(time.monotonic())
        start = time.monotonic()
        self.run_code('import time; print("a", flush=True); time.sleep(1)', hook=hook)
        self.assertLess(first[0] - start, 0.8)

    def test_background_output_belongs_to_no_run(self):
        self.run_code('import subprocess; p = subprocess.Popen("while :; do echo noise; '
                      'sleep 0.01; done", shell=True)')
        time.sleep(0.1)
        for i in range(5):
            self.assertEqual(self.run_code(f'import time; time.sleep(0.03); print({i})').out,
                             b'%d\n' % i)
        self.assertEqual(self.run_code('print(p.poll())').out, b'None\n')

    def test_many_runs_with_background_processes(self):
        for i in range(70):
            r = self.run_code('import subprocess; p = subprocess.Popen(["sleep", "100"]); print(1)')
            self.assertEqual(r.out, b'1\n')
        fds = len(os.listdir(f'/proc/{self.agent.process.pid}/fd'))
        self.assertLess(fds, 100)

    def test_stdin(self):
        r = self.run_code('import sys; print(repr(sys.stdin.read()))')
        self.assertEqual(r.out, b"''\n")
        run = self.agent.start('import sys; print(repr(sys.stdin.read()))', stdin=True)
        self.agent.send(STDIN, b'hello ', id=run)
        self.agent.send(STDIN, b'world', flags=1, id=run)
        self.assertEqual(self.agent.finish(run).out, b"'hello world'\n")

    def feed(self, code, total):
        run = self.agent.start(code, stdin=True)
        sent = 0

        def hook(result):
            nonlocal sent
            if result.how is not None:
                return
            while sent < min(result.stdin_credit, total):
                n = min(131072, result.stdin_credit - sent, total - sent)
                self.agent.send(STDIN, b'z' * n, id=run, flags=int(sent + n == total))
                sent += n
        return self.agent.finish(run, hook)

    def test_large_stdin(self):
        r = self.feed('import sys, time; time.sleep(0.1); print(len(sys.stdin.read()))', 5000000)
        self.assertEqual((r.status, r.out), (0, b'5000000\n'))

    def test_stdin_closed_early(self):
        r = self.feed('import os; os.close(0); print("done")', 1000000)
        self.assertEqual((r.status, r.out), (0, b'done\n'))
        self.run_code('print(1)')

    def test_stdin_unread(self):
        self.assertEqual(self.feed('print("done")', 1000000).out, b'done\n')
        self.run_code('print(1)')

    def test_stdin_past_the_grant_ends_the_agent(self):
        run = self.agent.start('import time; time.sleep(60)', stdin=True)
        self.agent.send(STDIN, b'z' * 131072, id=run)
        with self.assertRaises(Closed):
            while True:
                self.agent.read_frame()

    def test_certificates_are_for_guests(self):
        self.agent.send(TRUST, b'-----BEGIN CERTIFICATE-----')
        self.assertEqual(self.agent.ask(PING, b'still there'), (PONG, b'still there'))
        self.assertFalse(os.path.exists('/run/xsbx/ca.pem'))

    def test_clock(self):
        # Nothing is added: outside of a guest this is the host's clock.
        before = time.time_ns()
        kind, data = self.agent.ask(CLOCK, integers('q', 0))
        after = time.time_ns()
        self.assertEqual(kind, CLOCK_OK)
        self.assertTrue(before <= struct.unpack('<Q', data)[0] <= after)
        # At any time, in a run as well.
        run = self.agent.start('import time; time.sleep(60)')
        self.assertEqual(self.agent.ask(CLOCK, integers('q', 0))[0], CLOCK_OK)
        self.agent.send(SIGNAL, integers('I', KILL), id=run)

    def test_warm_seed_reset(self):
        self.agent.warm()
        self.run_code('import random; x = 1')
        self.agent.hello(9)
        self.assertEqual(self.run_code('print(x)').out, b'1\n')
        self.agent.reset()
        self.assertEqual(self.run_code('print("x" in globals())').out, b'False\n')

    def reserve(self, active):
        """Process numbers of interpreters that wait; there are two after WARM."""
        return [p for p in session_processes(self.marker, 3) if p != active]

    def test_reset_takes_the_spare(self):
        self.agent.warm()
        seen, draws = set(), set()
        for _ in range(4):
            pid = int(self.run_code('import os, random; x = 1; print(os.getpid())').out)
            draws.add(self.run_code('print(random.random())').out)
            self.assertEqual(len(self.reserve(pid)), 2)
            end = time.monotonic() + 10
            while self.agent.usage()[-1] != 1 and time.monotonic() < end:
                time.sleep(0.01)  # a copy that has just been made is not known yet
            self.assertEqual(self.agent.usage()[-1], 1)
            self.assertNotIn(pid, seen)
            seen.add(pid)
            r = self.run_code('os._exit(3)', status=3)
            self.assertEqual(r.fresh, 1)
            self.assertEqual(self.run_code('print("x" in globals())').out, b'False\n')
        self.assertEqual(len(draws), 4)

    def test_resets_back_to_back(self):
        self.agent.warm()
        for status in range(1, 30):
            self.run_code(f'import os; os._exit({status})', status=status)
        for _ in range(10):
            self.agent.reset()
        self.run_code('print(1)')

    def test_kills_spare_the_reserve(self):
        self.agent.warm()
        pid = int(self.run_code('import os; print(os.getpid())').out)
        before = self.reserve(pid)
        self.run_code('while True: pass', timeout_ms=200, how=TIMEOUT, status=124)
        active = int(self.run_code('import os; print(os.getpid())').out)
        self.assertIn(active, before)
        zygote = [p for p in before if p != active]
        self.agent.reset()
        self.run_code('pass')
        self.assertTrue(is_running(zygote[0]))

    def test_reserve_that_user_code_has_killed_or_stopped(self):
        for sig in signal.SIGKILL, signal.SIGSTOP:
            self.agent.warm()
            pid = int(self.run_code('import os; print(os.getpid())').out)
            for other in self.reserve(pid):
                os.kill(other, sig)
            for _ in range(2):
                self.run_code('import os; os._exit(3)', status=3)
                self.assertEqual(self.run_code('print(1)').out, b'1\n')
            self.agent.reset()
            self.assertEqual(self.run_code('print(1)').out, b'1\n')

    def test_a_new_environment_is_for_the_reserve_too(self):
        self.agent.warm()
        name, value = self.marker.split('=')
        self.agent.setup('python', {name: value, 'COLOUR': 'green'})
        for _ in range(3):
            r = self.run_code('import os; print(os.environ["COLOUR"], flush=True); os._exit(1)',
                              status=1)
            self.assertEqual(r.out, b'green\n')

    def at_once(self, code, sig):
        """A run and a signal for it that arrive together."""
        frames = []
        self.agent.send_raw = frames.append
        run = self.agent.start(code)
        self.agent.send(SIGNAL, integers('I', sig), id=run)
        del self.agent.send_raw
        self.agent.send_raw(b''.join(frames))
        return self.agent.finish(run)

    def test_kill_at_once(self):
        for _ in range(10):
            self.run_code('x = 1')
            r = self.at_once('while True: pass', KILL)
            self.assertEqual((r.how, r.status, r.fresh), (KILLED, 137, 1), r)
            self.assertEqual(self.run_code('print("x" in globals())').out, b'False\n')

    def test_interrupt_at_once(self):
        self.run_code('x = 1')
        for _ in range(10):
            r = self.at_once('while True: pass', INTERRUPT)
            self.assertEqual((r.how, r.status, r.fresh), (DONE, 130, 0), r)
            run = self.agent.start('while True: pass')
            self.agent.send(SIGNAL, integers('I', INTERRUPT), id=run)
            self.assertEqual(self.agent.finish(run).status, 130)
        self.assertEqual(self.run_code('print(x)').out, b'1\n')

    def test_reset_ends_background_processes(self):
        pid = int(self.run_code('import subprocess; print(subprocess.Popen('
                                '["setsid", "sleep", "100"]).pid)').out)
        self.assertTrue(is_running(pid))
        self.agent.reset()
        self.assertFalse(is_running(pid))
        self.run_code('print(1)')

    def test_seed_changes_random(self):
        seen = set()
        for generation in 3, 4, 5:
            self.run_code('import random; random.seed(1)')
            self.agent.hello(generation)
            seen.add(self.run_code('print(random.random())').out)
        self.assertEqual(len(seen), 3)

    def test_busy(self):
        run = self.agent.start('import time; time.sleep(1)')
        self.error(errno.EBUSY, self.agent.reset)
        self.error(errno.EBUSY, self.agent.warm)
        self.error(errno.EBUSY, self.agent.setup, 'raw')
        self.run_code('pass', how=REFUSED, status=255)
        self.assertEqual(self.agent.finish(run).status, 0)

    def test_hello_ends_a_run(self):
        r = self.agent.start('import time; print("x", flush=True); time.sleep(100)')
        self.agent.take(r)
        self.agent.hello(77)
        self.assertEqual(self.run_code('print(1)').out, b'1\n')
        self.assertFalse(self.agent.pending.get(r))

    def test_same_setup_keeps_the_interpreter(self):
        name, value = self.marker.split('=')
        self.run_code('x = 1')
        self.agent.setup('python', {name: value})
        self.run_code('x')
        self.agent.setup('python', {name: value, 'MORE': 'yes'})
        self.assertEqual(self.run_code('import os; print(os.environ["MORE"])').out, b'yes\n')
        self.run_code('x', status=1)

    def test_environment(self):
        r = self.run_code('import os; print(os.getcwd(), os.environ["HOME"], os.environ["USER"],'
                          'os.environ["LANG"], oct(os.umask(0)))')
        work = os.path.realpath(os.path.join(self.agent.root, 'files'))
        self.assertEqual(r.out.decode(), f'{work} {work} user C.UTF-8 0o22\n')

    def test_descriptors_and_signals(self):
        r = self.run_code('import os, signal\n'
                          'low = [int(n) for n in os.listdir("/proc/self/fd")]\n'
                          'print([n for n in low if n < 50 and os.path.exists(f"/proc/self/fd/{n}")])\n'
                          'print(signal.pthread_sigmask(signal.SIG_BLOCK, []))\n'
                          'print(open("/proc/self/status").read())')
        lines = r.out.decode().splitlines()
        self.assertEqual(lines[:2], ['[0, 1, 2]', 'set()'])

    def test_runs_are_fast(self):
        self.run_code('pass')
        times = []
        for _ in range(200):
            start = time.perf_counter()
            self.run_code('pass')
            times.append(time.perf_counter() - start)
        times.sort()
        print(f'\n  run round trip: p50 {times[100] * 1e3:.2f} ms, p95 {times[190] * 1e3:.2f} ms',
              file=sys.stderr)
        self.assertLess(times[100], 0.05)

    def test_closing_the_connection_ends_everything(self):
        self.run_code('import subprocess\nfor i in range(3): subprocess.Popen(["setsid", "sleep", "99"])')
        found = session_processes(self.marker, 4)
        self.assertEqual(len(found), 4)
        self.agent.close()
        self.wait_gone(found)

    def test_killed_agent_takes_its_interpreter_along(self):
        found = session_processes(self.marker, 1)
        self.assertEqual(len(found), 1)
        self.agent.process.kill()
        self.wait_gone(found)

    def test_code_of_every_size(self):
        for size in 0, 1, 4095, 4096, 65536, 1 << 20:
            code = '#' * size
            self.run_code(code)

    def test_control_socket_closed_by_user_code(self):
        r = self.agent.run('import os; os.closerange(3, 65536); print("on")', timeout_ms=5000)
        self.assertEqual(r.out, b'on\n')
        self.assertEqual(r.fresh, 1)
        self.run_code('print(1)')


class Raw(Case):
    language = 'raw'

    def test_bash(self):
        self.run_code('x=5; cd /; f() { echo "$x"; }')
        self.assertEqual(self.run_code('f; pwd; false', status=1).out, b'5\n/\n')
        r = self.run_code('exit 9', status=9)
        self.assertEqual(r.fresh, 1)
        self.assertEqual(self.run_code('echo ${x-none}').out, b'none\n')

    def test_background_job_survives(self):
        pid = int(self.run_code('sleep 100 & echo $!').out)
        self.run_code('sleep 100', timeout_ms=300, how=TIMEOUT, status=124)
        self.assertTrue(is_running(pid))

    def test_cost_counts_children(self):
        r = self.run_code("python3 -c 'for i in range(5000000): pass'")
        self.assertGreater(r.user, 50000)


@unittest.skipUnless(os.access(BUN, os.X_OK), 'no Bun: set XSBX_BUN')
class JavaScript(Case):
    language = 'javascript'

    def test_javascript(self):
        self.run_code('let x: number = 41')
        self.assertEqual(self.run_code('console.log(x + 1)').out, b'42\n')
        r = self.run_code('process.exit(7)', status=7)
        self.assertEqual(r.fresh, 0)
        self.run_code('while (true);', timeout_ms=500, how=TIMEOUT, status=124)
        self.assertEqual(self.run_code('console.log(1)').out, b'1\n')


class Files(Case):
    def path(self, name):
        return os.path.join(self.agent.root, 'files', name)

    def test_create_write_read(self):
        node, attr, handle = self.agent.create('a', mode=0o640)
        self.assertEqual(attr.mode, stat.S_IFREG | 0o640)
        self.assertEqual(self.agent.write(handle, b'hello'), 5)
        self.assertEqual(self.agent.write(handle, b'X', 10), 1)
        self.assertEqual(self.agent.read(handle), b'hello\0\0\0\0\0X')
        self.assertEqual(self.agent.read(handle, 4, 1), b'o')
        self.assertEqual(self.agent.read(handle, 100), b'')
        self.assertEqual(self.agent.getattr(node, handle).size, 11)
        self.agent.file(FSYNC, integers('Q', handle))
        self.agent.release(handle)
        self.error(errno.EBADF, self.agent.read, handle)
        with open(self.path('a'), 'rb') as f:
            self.assertEqual(f.read(), b'hello\0\0\0\0\0X')

    def test_lookup(self):
        os.mkdir(self.path('d'))
        node, attr = self.agent.lookup('d')
        self.assertTrue(stat.S_ISDIR(attr.mode))
        self.error(errno.ENOENT, self.agent.lookup, 'x', node)
        self.error(errno.ENOENT, self.agent.lookup, '..', node)
        self.error(errno.ENOENT, self.agent.lookup, '.', node)
        self.error(errno.ENOENT, self.agent.lookup, '', node)
        self.error(errno.ENOENT, self.agent.lookup, 'a/b', node)
        self.error(errno.ENOENT, self.agent.lookup, 'a\0b', node)
        self.error(errno.ESTALE, self.agent.lookup, 'x', 9999)
        self.error(errno.EINVAL, self.agent.mkdir, '..')
        self.error(errno.EINVAL, self.agent.mkdir, 'a/b')

    def test_one_node_for_one_file(self):
        node, _, handle = self.agent.create('a')
        self.assertEqual(self.agent.lookup('a')[0], node)
        data = self.agent.file(LINK, integers('QQ', node, 1) + text('b'))
        self.assertEqual(self.agent.entry(data)[0], node)
        self.assertEqual(self.agent.getattr(node).nlink, 2)
        self.agent.send(FORGET, integers('QQ', node, 3))
        self.error(errno.ESTALE, self.agent.getattr, node)
        self.assertEqual(self.agent.read(handle), b'')
        self.agent.send(FORGET, integers('QQQQ', 1, 1 << 40, 4711, 1))
        self.assertTrue(stat.S_ISDIR(self.agent.getattr(1).mode))

    def test_unlinked_file_lives_on(self):
        node, _, handle = self.agent.create('a')
        self.agent.file(UNLINK, integers('Q', 1) + text('a'))
        self.agent.write(handle, b'still')
        again = self.agent.open(node)
        self.assertEqual(self.agent.read(again), b'still')
        self.assertEqual(self.agent.getattr(node).nlink, 0)
        self.error(errno.ENOENT, self.agent.lookup, 'a')

    def test_symlinks_are_data(self):
        data = self.agent.file(SYMLINK, integers('Q', 1) + text('link') + text('/etc/passwd'))
        node, attr = self.agent.entry(data)
        self.assertTrue(stat.S_ISLNK(attr.mode))
        self.assertEqual(self.agent.file(READLINK, integers('Q', node))[4:], b'/etc/passwd')
        self.error(errno.ELOOP, self.agent.open, node)
        self.error(errno.ENOTDIR, self.agent.lookup, 'x', node)
        before = os.stat('/etc/passwd')
        with contextlib.suppress(OSError):
            self.agent.setattr(node, mode=0o777)
        self.agent.setattr(node, mtime=5)
        with self.assertRaises(OSError):
            self.agent.setattr(node, size=0)
        after = os.stat('/etc/passwd')
        self.assertEqual((before.st_mode, before.st_mtime, before.st_size),
                         (after.st_mode, after.st_mtime, after.st_size))
        self.error(errno.ELOOP, self.agent.create, 'link')
        self.error(errno.EEXIST, self.agent.create, 'link', flags=os.O_RDWR | os.O_EXCL)
        self.agent.file(LINK, integers('QQ', node, 1) + text('link2'))
        self.assertEqual(os.readlink(self.path('link2')), '/etc/passwd')
        os.symlink('/etc', self.path('dir'))
        self.error(errno.ENOTDIR, self.agent.lookup, 'passwd', self.agent.lookup('dir')[0])

    def test_special_files_are_not_opened(self):
        os.mkfifo(self.path('fifo'))
        sock = socket.socket(socket.AF_UNIX)
        here = os.open(self.path('.'), os.O_RDONLY)
        sock.bind(f'/proc/self/fd/{here}/sock')
        os.close(here)
        for name in 'fifo', 'sock':
            node, _ = self.agent.lookup(name)
            for flags in os.O_RDONLY, os.O_WRONLY, os.O_RDWR:
                self.error(errno.ENXIO, self.agent.open, node, flags)
            self.error(errno.ENXIO, self.agent.create, name)
            self.error(errno.ENXIO, self.agent.setattr, node, size=0)
        sock.close()

    def test_setattr(self):
        node, _, handle = self.agent.create('a')
        self.agent.write(handle, b'12345678')
        self.assertEqual(self.agent.setattr(node, size=3).size, 3)
        self.assertEqual(self.agent.setattr(node, handle=handle, size=6).size, 6)
        self.assertEqual(self.agent.read(handle), b'123\0\0\0')
        self.assertEqual(self.agent.setattr(node, mode=0o6751).mode, stat.S_IFREG | 0o751)
        self.assertEqual(os.stat(self.path('a')).st_mode & 0o7777, 0o751)
        attr = self.agent.setattr(node, atime=1000, mtime=-2000)
        self.assertEqual((attr.atime, attr.mtime), (1000, -2000))
        attr = self.agent.setattr(node, valid=0x20)
        self.assertEqual(attr.atime, 1000)
        self.assertLess(abs(attr.mtime - time.time()), 60)
        os.chmod(self.path('a'), 0o6755)
        self.assertEqual(self.agent.getattr(node).mode, stat.S_IFREG | 0o755)

    def test_rename(self):
        node, _, _ = self.agent.create('a')
        directory, _ = self.agent.mkdir('d')
        self.agent.create('b', directory)

        def rename(a, b, flags=0):
            self.agent.file(RENAME, integers('QQI', 1, directory, flags) + text(a) + text(b))
        self.error(errno.EEXIST, rename, 'a', 'b', 1)
        self.error(errno.EINVAL, rename, 'a', 'b', 4)
        self.error(errno.EINVAL, rename, 'a', '..')
        rename('a', 'b', 2)
        self.assertEqual(self.agent.lookup('b', directory)[0], node)
        rename('a', 'b')
        self.error(errno.ENOENT, self.agent.lookup, 'a')
        self.error(errno.ENOTEMPTY, self.agent.file, RMDIR, integers('Q', 1) + text('d'))
        self.agent.file(UNLINK, integers('Q', directory) + text('b'))
        self.agent.file(RMDIR, integers('Q', 1) + text('d'))

    def test_readdir(self):
        names = {f'file{i:04d}' for i in range(1500)}
        for name in names:
            open(self.path(name), 'w').close()
        os.mkdir(self.path('dir'))
        for size in 300, 4096, 131072:
            listed = self.agent.listdir(size=size)
            self.assertEqual({n for n, _ in listed}, names | {'dir'})
            self.assertEqual(len(listed), 1501)
        self.assertEqual(dict(listed)['dir'], stat.S_IFDIR)
        handle = struct.unpack('<Q', self.agent.file(OPENDIR, integers('Q', 1)))[0]
        self.error(errno.EINVAL, self.agent.file, READDIR, integers('QQI', handle, 0, 10))
        self.error(errno.EISDIR, self.agent.read, handle)
        node, _ = self.agent.lookup('file0001')
        self.error(errno.ENOTDIR, self.agent.file, OPENDIR, integers('Q', node))
        self.error(errno.EISDIR, self.agent.open, 1)

    def test_readdir_goes_on_where_it_was(self):
        for i in range(300):
            open(self.path(f'f{i}'), 'w').close()
        handle = struct.unpack('<Q', self.agent.file(OPENDIR, integers('Q', 1)))[0]
        seen, offset = [], 0
        while data := self.agent.file(READDIR, integers('QQI', handle, offset, 100)):
            while data:
                _, offset, _, length = struct.unpack('<QQII', data[:24])
                seen.append(data[24:24 + length].decode())
                os.unlink(self.path(seen[-1]))
                data = data[24 + length:]
        self.assertEqual(len(seen), 300)
        data = self.agent.file(READDIR, integers('QQI', handle, 0, 100))
        self.assertEqual(data, b'')

    def test_append_and_truncate_on_open(self):
        node, _, handle = self.agent.create('a')
        self.agent.write(handle, b'one')
        append = self.agent.open(node, os.O_WRONLY | os.O_APPEND)
        self.agent.write(append, b'two', 0)
        self.assertEqual(self.agent.read(handle), b'onetwo')
        self.error(errno.EBADF, self.agent.read, append)
        self.agent.open(node, os.O_WRONLY | os.O_TRUNC)
        self.assertEqual(self.agent.read(handle), b'')

    def test_holes(self):
        _, _, handle = self.agent.create('a')
        self.agent.write(handle, b'x', 1 << 20)
        at = self.agent.file(SEEK, integers('QQI', handle, 0, os.SEEK_DATA))
        self.assertEqual(struct.unpack('<Q', at)[0], 1 << 20)
        self.error(errno.EINVAL, self.agent.file, SEEK, integers('QQI', handle, 0, os.SEEK_SET))
        self.agent.file(FALLOCATE, integers('QIQQ', handle, 0, 0, 4096))
        self.error(errno.EOPNOTSUPP, self.agent.file, FALLOCATE,
                   integers('QIQQ', handle, 0x10, 0, 4096))
        self.error(errno.EFBIG, self.agent.write, handle, b'x', 1 << 63)
        self.error(errno.EINVAL, self.agent.read, handle, 1 << 63)

    def test_statfs(self):
        size, blocks, free, files, ffree = struct.unpack('<5Q', self.agent.file(STATFS, b''))
        self.assertGreater(size * blocks, 0)
        self.assertGreaterEqual(blocks, free)

    def test_large_transfer_and_many_in_flight(self):
        data = os.urandom(131072)
        _, _, handle = self.agent.create('big')
        asked = [self.agent.send(WRITE, integers('QQ', handle, i * len(data)) + data)
                 for i in range(16)]
        for id in asked:
            self.assertEqual(self.agent.take(id)[2], integers('II', 0, len(data)))
        asked = [self.agent.send(READ, integers('QQI', handle, i * len(data), len(data)))
                 for i in range(64)]
        for i, id in enumerate(asked):
            self.assertEqual(self.agent.take(id)[2][4:], data if i < 16 else b'')

    def test_malformed_requests_end_the_agent(self):
        for kind, payload in ((READ, integers('QQI', 1, 0, 131073)), (LOOKUP, b''),
                              (WRITE, integers('QQ', 1, 0) + b'x' * 131073),
                              (FORGET, b'12345'), (STATFS, b'x'),
                              (LOOKUP, integers('Q', 1) + text('n' * 256))):
            agent = LocalAgent()
            agent.hello()
            agent.send(kind, payload)
            with self.assertRaises(Closed):
                while True:
                    agent.read_frame()
            agent.close()


if __name__ == '__main__':
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    unittest.main()
