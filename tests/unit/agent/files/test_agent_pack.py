#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbx-agent
"""All files of the working directory as one stream, and put back: PACK and UNPACK.

Usage: see agent_fixture.py. XSBX_MEASURE=1 also prints how fast that was."""

import errno
import os
import shutil
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from agent_fixture import HEADER, PACK, PACKED, RESET, UNPACK, UNPACKED, Case, integers, main, text

EOF, FIRST, NUMBERS, ORIGINS = 1, 2, 1, 2
DIR, FILE, DATA, LINK, SAME, OTHER, UP, NUMBER, ORIGIN = range(1, 10)
DATA_MAX = 128 << 10
DEPTH_MAX = 1024
MEASURE = os.environ.get('XSBX_MEASURE')
if os.access('/dev/shm', os.W_OK):
    tempfile.tempdir = '/dev/shm'  # a tmpfs is what sandboxes have


def record(kind, body=b''):
    return struct.pack('<BI', kind, len(body)) + body


def name_of(name):
    name = os.fsencode(name)
    return bytes([len(name)]) + name + b'\0'


def attr(mode, time_ns=1):
    return struct.pack('<IqI', mode, time_ns // 10**9, time_ns % 10**9)


def dir_record(name='', mode=0o755):
    return record(DIR, attr(stat.S_IFDIR | mode) + name_of(name))


def file_record(name, content=b'', size=None, shared=False, mode=0o644):
    head = record(FILE, attr(stat.S_IFREG | mode) + name_of(name) +
                  struct.pack('<QB', len(content) if size is None else size, shared))
    return head + (record(DATA, struct.pack('<Q', 0) + content) if content else b'')


def link_record(name, target):
    return record(LINK, attr(stat.S_IFLNK | 0o777) + name_of(name) + text(target) + b'\0')


def same_record(name, entry):
    return record(SAME, name_of(name) + struct.pack('<I', entry))


def records(data):
    """Of a whole stream: (kind, body)."""
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from('<BI', data, at)
        assert at + 5 + length <= len(data)
        yield kind, data[at + 5:at + 5 + length]
        at += 5 + length


def parse(body):
    """Of a record with attributes: mode, time in ns, name, and what follows."""
    mode, seconds, ns = struct.unpack_from('<IqI', body)
    length = body[16]
    assert body[17 + length] == 0
    return mode, seconds * 10**9 + ns, body[17:17 + length], body[18 + length:]


def state(top):
    """All that a pack should keep, by path."""
    found = {}
    names_of = {}
    for place, names, files in os.walk(os.fsencode(top)):
        for path in [place] + [os.path.join(place, n) for n in files + [n for n in names if os.path.islink(
                os.path.join(place, n))]]:
            st = os.lstat(path)
            kind = stat.S_IFMT(st.st_mode)
            extra = None
            if kind == stat.S_IFLNK:
                extra = os.readlink(path)
            elif kind == stat.S_IFREG:
                with open(path, 'rb') as file:
                    extra = file.read(), st.st_nlink
                names_of.setdefault(st.st_ino, set()).add(os.path.relpath(path, os.fsencode(top)))
            found[os.path.relpath(path, os.fsencode(top))] = (
                st.st_mode & ~0o6000, st.st_mtime_ns, extra)
    return found, sorted(map(sorted, names_of.values()))


class Packs(Case):
    def setUp(self):
        super().setUp()
        self.work = os.path.join(self.agent.root, 'files')
        self.addCleanup(subprocess.run, ['rm', '-rf', self.path('d')], check=True)  # for shutil it may be too deep

    def path(self, *names):
        return os.path.join(self.work, *names)

    def write(self, name, content=b'', mode=0o644):
        with open(self.path(name), 'wb') as file:
            file.write(content)
        os.chmod(self.path(name), mode)

    def pack(self, size=1 << 40, entries=1 << 20, meanwhile=None, flags=0):
        """Return: errno, changed, left out, path, records."""
        id = self.agent.send(PACK, integers('QI', size, entries), flags=flags)
        got = bytearray()
        while True:
            kind, flags, data = self.agent.take(id)
            self.assertEqual(kind, PACKED)
            if flags & EOF:
                error, changed, left_out, length = struct.unpack_from('<IIII', data)
                self.assertEqual(len(data), 16 + length)
                return error, changed, left_out, data[16:].decode(errors='surrogateescape'), bytes(got)
            self.assertLessEqual(len(data), DATA_MAX)
            for _record in records(data):  # whole ones
                pass
            got += data
            if meanwhile:
                meanwhile()
                meanwhile = None

    def whole(self):
        error, changed, left_out, path, got = self.pack()
        self.assertEqual((error, changed, left_out, path), (0, 0, 0, ''))
        return got

    def unpack(self, data, piece=100_000):
        """Return: errno, path."""
        id = self.agent.send(UNPACK, flags=FIRST)
        granted, at, ended = 0, 0, False
        while True:
            kind, flags, answer = self.agent.take(id)
            self.assertEqual(kind, UNPACKED)
            if flags & EOF:
                error, length = struct.unpack_from('<II', answer)
                self.assertEqual(len(answer), 8 + length)
                return error, answer[8:].decode(errors='surrogateescape')
            granted += struct.unpack('<I', answer)[0]
            while granted and not ended:
                part = data[at:at + min(piece, granted)]
                at += len(part)
                granted -= len(part)
                ended = at == len(data)
                self.agent.send(UNPACK, part, id=id, flags=EOF if ended else 0)

    def again(self):
        """Into an agent of its own. Return: where its files are."""
        data = self.whole()
        before = state(self.work)
        first = self.agent
        Case.setUp(self)
        self.work = os.path.join(self.agent.root, 'files')
        self.assertEqual(self.unpack(data), (0, ''))
        self.assertEqual(state(self.work), before)
        self.assertEqual(self.whole() if len(list(records(data))) < 3 else data, data)
        first.ping()
        return self.work


class Numbers(Packs):
    """Files that were unpacked have the inode numbers that they had before, and new ones those of none before."""

    def numbered(self):
        """Return: of each name the number that PACK tells, and all records."""
        error, _changed, _left_out, _path, got = self.pack(flags=NUMBERS)
        self.assertEqual(error, 0)
        numbers, name = {}, None
        for kind, body in records(got):
            if kind in (DIR, FILE, LINK, OTHER):
                name = parse(body)[2]
            elif kind == NUMBER:
                self.assertNotIn(name, numbers)
                numbers[name], = struct.unpack('<Q', body)
        return numbers, got

    def test_as_they_are(self):
        self.write('a', b'x')
        os.mkdir(self.path('d'))
        os.symlink('a', self.path('l'))
        os.link(self.path('a'), self.path('b'))
        os.mkfifo(self.path('f'))
        numbers, _ = self.numbered()
        first = 'a' if b'a' in numbers else 'b'  # SAME has none
        self.assertEqual({name.decode(): number for name, number in numbers.items() if name},
                         {name: os.lstat(self.path(name)).st_ino for name in (first, 'd', 'l', 'f')})

    def test_through_two_others(self):
        self.write('a', b'content')
        os.mkdir(self.path('d'))
        self.write('d/hole', b'')
        os.truncate(self.path('d/hole'), 1 << 20)
        os.symlink('a', self.path('l'))
        os.mkfifo(self.path('f'))
        numbers, data = self.numbered()
        for generation in (1, 2):
            Case.setUp(self)
            self.work = os.path.join(self.agent.root, 'files')
            for n in range(5):  # so that they are other ones
                self.write(f'before{n}')
            self.assertEqual(self.unpack(data), (0, ''))
            self.write(f'new{generation}')
            again, data = self.numbered()
            new = again.pop(f'new{generation}'.encode())
            del again[b''], numbers[b'']
            self.assertEqual(again, numbers)
            self.assertEqual(new >> 32, generation)
            self.assertEqual(new & 0xffffffff, os.stat(self.path(f'new{generation}')).st_ino & 0xffffffff)
            numbers = {**again, f'new{generation}'.encode(): new, b'': 0}

    def test_bad(self):
        number = record(NUMBER, struct.pack('<Q', 7))
        end = record(UP)
        self.assertEqual(self.unpack(dir_record() + number + file_record('a') + number + end), (0, ''))
        for data in (number + dir_record() + end, dir_record() + record(NUMBER, struct.pack('<Q', 0)) + end,
                     dir_record() + record(NUMBER, b'1234') + end,
                     dir_record() + file_record('a', shared=True) + same_record('b', 1) + number + end,
                     dir_record() + dir_record('d') + end + number + end):
            self.assertEqual(self.unpack(data)[0], errno.EBADMSG)


def origin_record(text):
    return record(ORIGIN, bytes([len(text)]) + text + b'\0')


class Origins(Packs):
    """Who wrote what goes along, for as long as nobody changes it."""

    def origins(self):
        error, _changed, _left_out, _path, got = self.pack(flags=ORIGINS)
        self.assertEqual(error, 0)
        found, name = {}, None
        for kind, body in records(got):
            if kind in (DIR, FILE, LINK, OTHER):
                name = parse(body)[2].decode()
            elif kind == ORIGIN:
                found[name] = body[1:-1].decode()
        return found

    def test_through_another(self):
        text = b'run 7 of demo:5 or client'
        self.assertEqual(self.unpack(dir_record() + origin_record(b'run 1') + file_record('a') + origin_record(text) +
                                     file_record('b') + origin_record(text) + file_record('c') + record(UP)), (0, ''))
        self.assertEqual(self.origins(), {'': 'run 1', 'a': text.decode(), 'b': text.decode()})
        time.sleep(0.05)
        self.write('b', b'changed')
        self.assertEqual(self.origins(), {'': 'run 1', 'a': text.decode()})  # by nobody who was announced
        self.assertNotIn(ORIGIN, [kind for kind, _ in records(self.pack()[4])])  # unless it is asked for

    def test_bad(self):
        end = record(UP)
        for data in (origin_record(b'x') + dir_record() + end, dir_record() + origin_record(b'') + end,
                     dir_record() + record(ORIGIN, b'\x01x') + end, dir_record() + record(ORIGIN, b'\x05x\0') + end,
                     dir_record() + origin_record(b'a\nb') + end,
                     dir_record() + file_record('a', shared=True) + same_record('b', 1) + origin_record(b'x') + end):
            self.assertEqual(self.unpack(data)[0], errno.EBADMSG)


class RoundTrip(Packs):
    def test_nothing(self):
        self.assertEqual([kind for kind, _ in records(self.whole())], [DIR, UP])
        self.again()

    def test_kinds(self):
        os.mkdir(self.path('d'))
        self.write('d/small', b'content', 0o600)
        self.write('empty')
        self.write('large', os.urandom(1 << 20) + b'end')
        os.symlink('d/small', self.path('link'))
        os.symlink('/etc/passwd', self.path('d/out'))
        os.symlink('x' * 4000, self.path('d/long'))
        os.chmod(self.path('d'), 0o1750)
        os.utime(self.path('d/small'), ns=(5, 1234567890123456789))
        os.utime(self.path('link'), ns=(5, 987654321), follow_symlinks=False)
        os.utime(self.path('d'), ns=(5, 42))
        os.utime(self.work, ns=(5, 77))
        self.again()

    def test_names(self):
        for name in (b'\xff\xfe', b'n' * 255, b' ', b'line\nfeed', 'ä'.encode(), b'-', b'...'):
            self.write(os.fsdecode(name), name)
            os.mkdir(os.path.join(os.fsencode(self.work), name[:250] + b'.d'))
        self.again()

    def test_holes(self):
        with open(self.path('holes'), 'wb') as file:
            file.truncate(1 << 40)
            for at in 0, 1 << 20, (1 << 30) + 4096:
                file.seek(at)
                file.write(b'x' * 5000)
        with open(self.path('all'), 'wb') as file:
            file.truncate(12345)
        data = self.whole()
        self.assertLess(len(data), 100_000)
        first = self.work
        Case.setUp(self)
        self.work = os.path.join(self.agent.root, 'files')
        self.assertEqual(self.unpack(data), (0, ''))
        for name in 'holes', 'all':
            ours, theirs = (os.stat(os.path.join(d, name)) for d in (first, self.work))
            self.assertEqual((ours.st_size, ours.st_blocks), (theirs.st_size, theirs.st_blocks))
        with open(self.path('holes'), 'rb') as file:
            for at in 0, 1 << 20, (1 << 30) + 4096:
                file.seek(at)
                self.assertEqual(file.read(8192), b'x' * 5000 + bytes(3192))

    def test_hard_links(self):
        os.mkdir(self.path('a'))
        os.mkdir(self.path('b'))
        self.write('a/one', b'shared')
        os.link(self.path('a/one'), self.path('b/two'))
        os.link(self.path('a/one'), self.path('three'))
        self.write('only', b'x')
        for n in range(300):
            self.write(f'a/{n}', b'%d' % n)
            os.link(self.path(f'a/{n}'), self.path(f'b/{n}'))
        # Those who look for the first name must not depend on what its user left him.
        os.chmod(self.path('a'), 0o500)
        kinds = [kind for kind, _ in records(self.whole())]
        self.assertEqual(kinds.count(SAME), 302)
        self.again()

    @unittest.skipIf(os.geteuid(), 'what a user can not read himself only root can pack')
    def test_unreadable(self):
        os.mkdir(self.path('d'))
        self.write('d/x', b'secret', 0)
        os.chmod(self.path('d'), 0)
        os.chmod(self.work, 0)
        self.again()

    def test_deep(self):
        here = os.open(self.work, os.O_RDONLY)
        for n in range(DEPTH_MAX - 1):
            os.mkdir(b'd', dir_fd=here)
            below = os.open(b'd', os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(os.open(b'file', os.O_WRONLY | os.O_CREAT, dir_fd=here))
        data = self.whole()
        os.mkdir(b'deeper', dir_fd=here)
        error, _changed, _left, path, _got = self.pack()
        self.assertEqual(error, errno.ENAMETOOLONG)
        self.assertTrue(path.startswith('...') and path.endswith('/d/deeper'), path)
        os.rmdir(b'deeper', dir_fd=here)
        os.close(here)
        self.assertEqual(self.unpack(data), (0, ''))
        self.assertEqual(len(self.whole()), len(data))

    def test_others(self):
        os.mkfifo(self.path('fifo'), 0o640)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(self.path('socket'))
            error, _changed, left_out, _path, data = self.pack()
        self.assertEqual((error, left_out), (0, 2))
        self.assertEqual(self.unpack(data), (0, ''))
        self.assertEqual(os.listdir(self.work), ['fifo'])
        self.assertEqual(os.lstat(self.path('fifo')).st_mode, stat.S_IFIFO | 0o640)

    def test_extended_attributes(self):
        """They are left out, and that is said."""
        self.write('x')
        try:
            os.setxattr(self.path('x'), 'user.x', b'y')
        except OSError as e:
            self.skipTest(f'no extended attributes here: {e}')
        self.assertEqual(self.pack()[:3], (0, 0, 1))

    def test_set_id(self):
        self.write('x', b'', 0o6755)
        data = self.whole()
        self.assertEqual(self.unpack(data), (0, ''))
        self.assertEqual(os.stat(self.path('x')).st_mode & 0o7777, 0o755)

    def test_replaces(self):
        os.makedirs(self.path('a/b/c'))
        self.write('a/b/c/x', b'x')
        self.write('y', b'y')
        os.symlink('/etc', self.path('etc'))
        for n in range(3000):
            self.write(f'a/{n}')
        for n in range(300):
            os.makedirs(self.path(f'a/b/{n}/sub'))
        self.assertEqual(self.unpack(dir_record() + file_record('new', b'new') + record(UP)), (0, ''))
        self.assertEqual(os.listdir(self.work), ['new'])
        self.assertTrue(os.path.exists('/etc/passwd'))

    def test_many(self):
        """A hundred thousand small files; and the agent answers meanwhile."""
        count = 100_000 if MEASURE else 20_000
        for n in range(count // 1000):
            os.mkdir(self.path(f'd{n}'))
            for k in range(1000):
                fd = os.open(self.path(f'd{n}', f'{k}'), os.O_WRONLY | os.O_CREAT)
                os.write(fd, b'%d' % k)
                os.close(fd)
        began = time.monotonic()
        data = self.whole()
        packed = time.monotonic()
        self.assertEqual(self.unpack(data), (0, ''))
        replaced = time.monotonic()
        self.assertEqual(sum(len(files) for _place, _names, files in os.walk(self.work)), count)
        if MEASURE:
            print(f'{count} files: packed {count / (packed - began):.0f}/s, replaced {count / (replaced - packed):.0f}/s',
                  file=sys.stderr)

    @unittest.skipUnless(MEASURE, 'only to measure')
    def test_fast(self):
        self.write('large', os.urandom(1 << 20) * 256)
        began = time.monotonic()
        data = self.whole()
        packed = time.monotonic()
        self.assertEqual(self.unpack(data, 131072), (0, ''))
        replaced = time.monotonic()
        print(f'256 MiB: packed {256 / (packed - began):.0f} MiB/s, put back {256 / (replaced - packed):.0f} MiB/s',
              file=sys.stderr)


class Meanwhile(Packs):
    def test_answers(self):
        """While much is packed, the agent does what else it is asked for."""
        self.write('large', bytes(200) * (1 << 20))
        id = self.agent.send(PACK, integers('QI', 1 << 40, 1 << 20))
        self.agent.ping()
        self.assertLess(sum(len(p) for _k, _f, p in self.agent.pending.get(id, [])), 100 << 20)

    def test_changes(self):
        self.write('large', bytes(64 << 20))
        for n in range(100):
            self.write(f'f{n}', b'x' * 100_000)

        def change():
            with open(self.path('large'), 'r+b') as file:
                file.truncate(40 << 20)
            for n in range(100):
                os.rename(self.path(f'f{n}'), self.path(f'g{n}'))

        error, changed, _left, path, data = self.pack(meanwhile=change)
        self.assertEqual((error, path), (0, ''))
        self.assertGreater(changed, 0)
        self.assertEqual(self.unpack(data)[0], 0)

    def test_vanished(self):
        """Directories that are gone, and another kind of thing, when it is their turn."""
        for n in range(50):
            os.mkdir(self.path(f'd{n}'))
        self.write('large', bytes(64 << 20))

        def change():
            for n in range(50):
                os.rmdir(self.path(f'd{n}'))
                os.symlink('/', self.path(f'd{n}'))

        error, changed, _left, _path, data = self.pack(meanwhile=change)
        self.assertEqual(error, 0)
        links = [kind for kind, _ in records(data)].count(LINK)  # those it came to only then
        self.assertGreater(changed, 0)
        self.assertGreaterEqual(changed + links, 50)
        self.assertNotIn(b'passwd', data)

    def test_reset(self):
        self.write('large', bytes(100) * (1 << 20))
        id = self.agent.send(PACK, integers('QI', 1 << 40, 1 << 20))
        self.agent.setup('raw')
        self.agent.reset()
        frames = len(self.agent.pending.get(id, []))
        self.agent.ping()
        self.assertEqual(len(self.agent.pending.get(id, [])), frames)
        self.assertFalse(any(flags & EOF for _k, flags, _p in self.agent.pending.get(id, [])))
        self.assertEqual(self.pack()[0], 0)

    def test_unpack_reset(self):
        id = self.agent.send(UNPACK, flags=FIRST)
        self.agent.take(id)
        self.agent.send(UNPACK, dir_record() + file_record('x', b'y'), id=id)
        self.agent.setup('raw')
        self.agent.reset()
        self.agent.send(UNPACK, file_record('z', b'y'), id=id)
        self.agent.ping()
        self.assertEqual(os.listdir(self.work), ['x'])
        self.assertEqual(self.unpack(dir_record() + record(UP)), (0, ''))
        self.assertEqual(os.listdir(self.work), [])


class Limits(Packs):
    def test_limits(self):
        self.write('x', bytes(1000))
        self.write('y', bytes(1000))
        self.assertEqual(self.pack(size=2000)[0], 0)
        self.assertEqual(self.pack(size=1999)[0], errno.EFBIG)
        self.assertEqual(self.pack(entries=3)[0], 0)
        self.assertEqual(self.pack(entries=2)[0], errno.EFBIG)
        self.assertEqual(self.pack(entries=0)[0], errno.EFBIG)

    @unittest.skipIf(os.geteuid(), 'only root can mount')
    def test_full(self):
        """Into less room than it takes: an answer, and where."""
        self.write('x', os.urandom(1 << 20))
        data = self.whole()
        # In a namespace of its own, of which nothing is left.
        done = subprocess.run(['unshare', '-m', sys.executable, __file__, 'Full.child'], input=data,
                              stdout=subprocess.PIPE, check=False, env={**os.environ, 'XSBX_FULL': '1'})
        self.assertEqual(done.returncode, 0)


class Full(Packs):
    @unittest.skipUnless(os.environ.get('XSBX_FULL'), 'only of Limits.test_full')
    def child(self):
        data = sys.stdin.buffer.read()
        subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=512k,nr_inodes=10', 'tmpfs', self.agent.root], check=True)
        root = self.agent.root
        self.addCleanup(subprocess.run, ['umount', '-l', root], check=True)
        # An agent that begins there.
        tempfile.tempdir = root
        Case.setUp(self)
        self.assertTrue(self.agent.root.startswith(root))
        self.assertEqual(self.unpack(data), (errno.ENOSPC, 'x'))
        many = dir_record() + b''.join(file_record(f'{n}') for n in range(20)) + record(UP)
        error, path = self.unpack(many)
        self.assertEqual(error, errno.ENOSPC)
        self.assertTrue(path.isdigit())
        self.assertEqual(self.unpack(dir_record() + record(UP)), (0, ''))


class Hostile(Packs):
    def refused(self, data, error=errno.EBADMSG):
        outside = set(os.listdir(self.agent.root))
        self.assertEqual(self.unpack(data)[0], error)
        self.assertEqual(set(os.listdir(self.agent.root)), outside)
        self.agent.ping()

    def test_names(self):
        for name in '..', '.', 'a/b', '/etc/x', '../x', '', 'a\0b':
            self.refused(dir_record() + record(FILE, attr(stat.S_IFREG | 0o644) + name_of(name) +
                                               struct.pack('<QB', 0, 0)) + record(UP))
            self.refused(dir_record() + dir_record(name) + record(UP) * 2)
            self.refused(dir_record() + link_record(name, 'x') + record(UP))
            self.refused(dir_record() + file_record('x', shared=True) + same_record(name, 1) + record(UP))
        self.refused(dir_record() + record(FILE, attr(stat.S_IFREG | 0o644) + b'\5abc\0'))
        self.refused(dir_record('name') + record(UP))

    def test_through_links(self):
        outside = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, outside)
        for way in outside, '..', '/':
            start = dir_record() + link_record('l', way)
            self.refused(start + dir_record('l') + file_record('x', b'x') + record(UP) * 2, errno.EEXIST)
            self.refused(start + file_record('l', b'x') + record(UP), errno.EEXIST)
        # One more name of what lies behind a link.
        self.refused(dir_record() + dir_record('d') + file_record('f', b'', shared=True) + record(UP) +
                     same_record('d', 2) + record(UP), errno.EEXIST)
        self.refused(dir_record() + link_record('l', '/etc/passwd') + same_record('x', 1) + record(UP))
        self.assertEqual(os.listdir(outside), [])

    def test_order(self):
        file = file_record('f', b'x')
        for bad in (record(UP), file, dir_record() + record(UP) * 2, dir_record() + record(UP) + file,
                    dir_record() + record(UP) + dir_record() + record(UP), dir_record(), b'',
                    dir_record() + record(DATA, bytes(8) + b'x') + record(UP),
                    dir_record() + file_record('f', b'', size=1) + record(DATA, bytes(8) + b'xx') + record(UP),
                    dir_record() + file_record('f', b'', size=1) + record(DATA, b'\xff' * 8 + b'x') + record(UP),
                    dir_record() + file + link_record('l', 'x') + record(DATA, bytes(8) + b'x') + record(UP),
                    dir_record() + same_record('x', 1) + record(UP), dir_record() + file + same_record('x', 1) + record(UP),
                    record(0), record(8), record(255, b'x'), dir_record() + record(UP, b'x'), dir_record()[:10],
                    dir_record() + link_record('l', b'a\0b'), dir_record() + link_record('l', b''),
                    dir_record() + struct.pack('<BI', FILE, 1 << 31)):
            self.refused(bad)
        self.refused(dir_record() + file + file + record(UP), errno.EEXIST)
        self.refused(dir_record() + dir_record('d') * DEPTH_MAX, errno.ENAMETOOLONG)

    def test_any_bytes(self):
        data = dir_record() + dir_record('d') + file_record('f', b'content', shared=True) + record(UP) + \
            link_record('l', 'd') + same_record('s', 2) + record(UP)
        for at in range(0, len(data), 3):
            for flip in 1, 0x80:
                bad = bytearray(data)
                bad[at] ^= flip
                self.unpack(bytes(bad))
            self.refused(data[:at])
        self.assertEqual(self.unpack(data), (0, ''))
        self.assertEqual(self.unpack(data, piece=1), (0, ''))

    def test_more_than_granted(self):
        first = HEADER.pack(0, UNPACK, FIRST, 1, 7)
        self.agent.send_raw(first + HEADER.pack(1, UNPACK, 0, 1, 7) + b'x')
        self.assert_closed(self.agent)

    def test_frames(self):
        self.agent.send(UNPACK, b'x', flags=FIRST)
        self.assert_closed(self.agent)

    def test_short(self):
        self.agent.send(PACK, b'x')
        self.assert_closed(self.agent)


if __name__ == '__main__':
    del RESET
    main()
