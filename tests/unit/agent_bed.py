# SPDX-License-Identifier: Apache-2.0
"""For tests of the agent as a plain process, over a socketpair: plays the host.

Usage of such a test: test_agent_NAME.py [unittest arguments]

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
import struct
import subprocess
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get('BUILD', 'build'))
AGENT = os.environ.get('XSBX_AGENT', os.path.join(BUILD, 'xsbx-agent'))
with open(AGENT, 'rb') as _file:
    SANITIZED = b'__asan_init' in _file.read()
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
DONE, TIMEOUT, KILLED, OOM, REFUSED, GONE = range(6)
GONE_EXITED, GONE_SIGNAL, GONE_OOM, GONE_SILENT = range(4)
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
        (self.how, self.status, self.fresh, self.gone, self.wall, self.user, self.system, self.maxrss,
         *self.dropped) = struct.unpack('<IIII6Q', payload)
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

    def send_hello(self, generation=None, name='box'):
        if generation is not None:
            self.generation = generation
        return self.send(HELLO, integers('IIQ', 1, self.generation, time.time_ns()) +
                         os.urandom(32) + text(name))

    def hello(self, generation=None, name='box'):
        kind, _flags, data = self.take(self.send_hello(generation, name))
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

    def start(self, code, timeout_ms=0, grace_ms=0, limits=(1 << 26, 1 << 26), credit=1 << 30,
              stdin=False):
        if isinstance(code, str):
            code = code.encode()
        return self.send(RUN, integers('IIIQQI', int(stdin), timeout_ms, grace_ms, *limits, credit) +
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

    def assert_closed(self, agent):
        """The agent closes the connection."""
        with self.assertRaises(Closed):
            while True:
                agent.read_frame()

    def wait_gone(self, pids):
        end = time.monotonic() + 10
        while pids and time.monotonic() < end:
            pids = [p for p in pids if is_running(p)]
            time.sleep(0.01)
        self.assertEqual(pids, [])


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    unittest.main()
