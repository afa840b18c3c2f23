#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbx-agent drivers
"""Files of the agent's working directory, as the host asks for them.

Usage: see agent_fixture.py."""

import contextlib
import errno
import os
import socket
import stat
import struct
import time

from agent_fixture import (FALLOCATE, FORGET, FSYNC, LINK, LOOKUP, OPENDIR, READ, READDIR, READLINK,
                       RENAME, RMDIR, SEEK, STATFS, SYMLINK, UNLINK, WRITE, Case,
                       LocalAgent, integers, main, text)


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

    def test_readdir_has_room_on_the_host(self):
        """There an entry is a struct fuse_dirent, which takes more: what was left out would be skipped."""
        for i in range(300):
            open(self.path(f'f{i}'), 'w').close()
        handle = struct.unpack('<Q', self.agent.file(OPENDIR, integers('Q', 1)))[0]
        for size in 100, 500, 4096:
            data, took = self.agent.file(READDIR, integers('QQI', handle, 0, size)), 0
            while data:
                length = struct.unpack('<QQII', data[:24])[3]
                took += (24 + length + 7) & ~7
                data = data[24 + length:]
            self.assertTrue(size - 40 < took <= size, (size, took))

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
            self.assert_closed(agent)
            agent.close()


if __name__ == '__main__':
    main()
