#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbx-agent drivers
"""What the agent tells of changes in the working directory.

Usage: see agent_fixture.py."""

import contextlib
import ctypes
import os
import re
import shutil
import signal
import struct
import time

from agent_fixture import CHANGED, RENAME, WATCH, Case, integers, main, text
from patience import wait_until

(CREATED, MODIFIED, WRITTEN, ATTRIBUTES, DELETED, RENAMED, OVERFLOW, WATCHING, FAILED_) = range(9)
EXCHANGE = 2
QUEUE = int(open('/proc/sys/fs/inotify/max_queued_events').read())


class Watch(Case):
    language = 'raw'

    def setUp(self):
        super().setUp()
        self.found = []
        self.dir = os.path.join(self.agent.root, 'work')
        if not os.path.isdir(self.dir):
            self.dir = self.agent.run('pwd').out.decode().strip()

    def gather(self):
        """What was told so far, without waiting."""
        for kind, _flags, data in self.agent.pending.pop(0, []):
            if kind == CHANGED:
                self.found += entries(data)
        return self.found

    def take(self):
        """Return: what is told from now on until a run has ended."""
        self.agent.run('true')
        self.gather()
        found, self.found = self.found, []
        return found

    def until(self, kind):
        """Waits for one of this kind. Return: those before it."""
        while kind not in [each[0] for each in self.gather()]:
            frame = self.agent.take(0)
            self.agent.pending.setdefault(0, []).insert(0, frame)
        at = [each[0] for each in self.found].index(kind)
        found, self.found = self.found[:at], self.found[at + 1:]
        return found

    def begin(self):
        self.agent.send(WATCH, integers('I', 1))
        return self.until(WATCHING)

    def end(self):
        self.agent.send(WATCH, integers('I', 0))

    def path(self, *names):
        return os.path.join(self.dir, *names)


def entries(data):
    found = []
    while data:
        kind, is_dir, length = struct.unpack('<BBI', data[:6])
        path, data = data[6:6 + length], data[6 + length:]
        length = struct.unpack('<I', data[:4])[0]
        found.append((kind, is_dir, os.fsdecode(path), os.fsdecode(data[4:4 + length])))
        data = data[4 + length:]
    return found


def exchange(one, other):
    """As renameat2(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    at_fdcwd = -100
    if libc.renameat2(at_fdcwd, os.fsencode(one), at_fdcwd, os.fsencode(other), EXCHANGE) < 0:
        raise OSError(ctypes.get_errno(), 'renameat2')


class Told(Watch):
    def test_of_programs(self):
        self.begin()
        self.agent.run('echo one > file; echo two >> file; chmod 600 file; rm file')
        self.assertEqual(self.take(), [
            (CREATED, 0, 'file', ''), (MODIFIED, 0, 'file', ''), (WRITTEN, 0, 'file', ''), (MODIFIED, 0, 'file', ''),
            (WRITTEN, 0, 'file', ''), (ATTRIBUTES, 0, 'file', ''), (DELETED, 0, 'file', '')])

    def test_of_the_host(self):
        self.begin()
        _node, _attr, handle = self.agent.create('made')
        self.assertEqual(self.gather(), [(CREATED, 0, 'made', '')])
        self.agent.write(handle, b'x')
        self.assertEqual(self.gather()[1:], [(MODIFIED, 0, 'made', '')])
        self.agent.file(RENAME, integers('QQI', 1, 1, 0) + text('made') + text('moved'))
        self.assertEqual(self.gather()[2:], [(RENAMED, 0, 'moved', 'made')])

    def test_reading_is_no_change(self):
        with open(self.path('old'), 'w') as f:
            f.write('x')
        self.begin()
        self.agent.contents('old')
        self.agent.listdir()
        self.agent.run('cat old; ls; grep -r x .')
        self.assertEqual(self.take(), [])

    def test_below_what_was_there(self):
        os.makedirs(self.path('a', 'b', 'c'))
        self.begin()
        self.agent.run('mkdir a/b/new; touch a/b/c/x; ln -s /etc a/link; touch a/link/no 2>/dev/null')
        found = self.take()
        self.assertEqual([each for each in found if each[0] == CREATED],
                         [(CREATED, 1, 'a/b/new', ''), (CREATED, 0, 'a/b/c/x', ''), (CREATED, 0, 'a/link', '')])

    def test_below_what_is_new(self):
        self.begin()
        self.agent.run('mkdir -p one/two/three; echo x > one/two/three/file; mkdir later; sleep 0.2; echo y > later/x')
        names = {each[2] for each in self.take() if each[0] == CREATED}
        self.assertEqual(names, {'one', 'one/two', 'one/two/three', 'one/two/three/file', 'later', 'later/x'})

    def test_renamed_directories(self):
        os.makedirs(self.path('a', 'sub'))
        self.begin()
        self.agent.run('mv a b; sleep 0.1; touch b/sub/x; mkdir c; sleep 0.1; mv b c/b; sleep 0.1; touch c/b/sub/y')
        self.assertEqual([each for each in self.take() if each[0] in (RENAMED, CREATED)], [
            (RENAMED, 1, 'b', 'a'), (CREATED, 0, 'b/sub/x', ''), (CREATED, 1, 'c', ''), (RENAMED, 1, 'c/b', 'b'),
            (CREATED, 0, 'c/b/sub/y', '')])

    def test_renamed_into_what_is_new(self):
        for i in range(20):
            os.makedirs(self.path(f'a{i}', 'sub', 'sub'))
        self.begin()
        self.agent.run('for i in $(seq 0 19); do mkdir c$i; mv a$i c$i/b; done; sleep 0.1; for i in $(seq 0 19); do touch c$i/b/sub/sub/y; done')
        found = self.take()
        for i in range(20):
            self.assertIn((CREATED, 0, f'c{i}/b/sub/sub/y', ''), found)

    def test_in_and_out(self):
        os.makedirs(self.path('goes', 'sub'))
        outside = self.agent.root + '.outside'
        os.makedirs(os.path.join(outside, 'sub'))
        self.addCleanup(shutil.rmtree, outside, True)
        self.begin()
        os.rename(self.path('goes'), os.path.join(outside, 'gone'))
        os.rename(os.path.join(outside, 'sub'), self.path('comes'))
        open(os.path.join(outside, 'gone', 'sub', 'x'), 'w').close()
        time.sleep(0.1)
        open(self.path('comes', 'x'), 'w').close()
        found = self.take()
        self.assertEqual([each for each in found if each[0] in (CREATED, DELETED)], [
            (DELETED, 1, 'goes', ''), (CREATED, 1, 'comes', ''), (CREATED, 0, 'comes/x', '')])

    def test_from_the_moment_of_asking(self):
        self.agent.send(WATCH, integers('I', 1))
        self.agent.run('echo x > at-once')
        self.assertIn((CREATED, 0, 'at-once', ''), self.take())

    def test_many_directories(self):
        for i in range(100):
            os.makedirs(self.path(f'd{i}', 'x'))
        self.assertEqual(self.begin(), [(OVERFLOW, 1, '', '')])  # what was asked for meanwhile may be missing
        self.agent.run('for i in $(seq 0 99); do : > d$i/x/y; done')
        self.assertEqual(len([each for each in self.take() if each[0] == CREATED]), 100)

    def test_names_of_all_bytes(self):
        self.begin()
        for name in ('\n"\\', '\udcff\udcfe', 'x' * 255, ' '):
            open(self.path(name), 'w').close()
        self.assertEqual([each[2] for each in self.take() if each[0] == CREATED],
                         ['\n"\\', '\udcff\udcfe', 'x' * 255, ' '])

    def test_many_writes_are_one(self):
        self.begin()
        self.agent.run('for i in $(seq 2000); do echo $i; done > file')
        found = self.take()
        self.assertLess(len(found), 500)
        self.assertEqual({each[0] for each in found}, {CREATED, MODIFIED, WRITTEN})

    def test_removed_tree(self):
        os.makedirs(self.path('t', 'a', 'b'))
        self.begin()
        self.agent.run('rm -r t; mkdir t; sleep 0.1; touch t/x')
        self.assertEqual([each[:3] for each in self.take() if each[0] in (CREATED, DELETED)], [
            (DELETED, 1, 't/a/b'), (DELETED, 1, 't/a'), (DELETED, 1, 't'), (CREATED, 1, 't'), (CREATED, 0, 't/x')])


class Lost(Watch):
    def until_watched(self, where):
        """After OVERFLOW, which may have been the first of two."""
        made = []

        def watched():
            made.append(f'{where}/x{len(made)}')
            open(self.path(made[-1]), 'w').close()
            return set(made) & {each[2] for each in self.take() if each[0] == CREATED}

        self.assertTrue(wait_until(watched, 20))

    def test_overflow(self):
        self.begin()
        # The agent stands still meanwhile, as far as the kernel knows.
        self.agent.process.send_signal(19)
        for i in range(QUEUE // 2 + 100):
            path = self.path(f'{i}')
            open(path, 'w').close()
            os.unlink(path)
        os.makedirs(self.path('made', 'meanwhile'))
        self.agent.process.send_signal(18)
        self.until(OVERFLOW)
        open(self.path('made', 'meanwhile', 'x'), 'w').close()
        self.assertIn((CREATED, 0, 'made/meanwhile/x', ''), self.take())

    def test_overflow_while_looking(self):
        """There is still something to be looked at when the kernel says that it has lost events."""
        self.begin()
        new = 2000
        self.agent.process.send_signal(signal.SIGSTOP)
        for i in range((QUEUE - new) // 3):
            path = self.path(f'{i}')
            open(path, 'w').close()
            os.unlink(path)
        for i in range(new + 100):
            os.mkdir(self.path(f'd{i}'))
        os.makedirs(self.path('made', 'meanwhile'))
        self.agent.process.send_signal(signal.SIGCONT)
        self.until(OVERFLOW)
        self.until_watched('made/meanwhile')

    def test_exchanged_while_looking(self):
        for name in 'ab':
            os.mkdir(self.path(name))
            os.mkdir(self.path(name, 'sub' + name))
        self.begin()
        self.agent.process.send_signal(signal.SIGSTOP)
        for i in range(500):
            os.mkdir(self.path(f'd{i}'))
        exchange(self.path('a'), self.path('b'))
        self.agent.process.send_signal(signal.SIGCONT)
        self.until(OVERFLOW)
        self.until_watched('a/subb')

    def test_exchanged_directories(self):
        for name in 'ab':
            os.mkdir(self.path(name))
            os.mkdir(self.path(name, 'sub' + name))
        self.begin()
        self.agent.file(RENAME, integers('QQI', 1, 1, EXCHANGE) + text('a') + text('b'))
        self.until(OVERFLOW)
        open(self.path('a', 'subb', 'x'), 'w').close()
        self.assertIn((CREATED, 0, 'a/subb/x', ''), self.take())

    def test_cannot_be_entered(self):
        if os.geteuid() == 0:
            self.skipTest('root enters everything')
        os.mkdir(self.path('closed'), 0)
        self.assertIn((OVERFLOW, 1, 'closed', ''), self.begin())

    def test_too_deep(self):
        fd = os.open(self.dir, os.O_RDONLY)
        for _ in range(20):
            os.mkdir('d' * 250, dir_fd=fd)
            below = os.open('d' * 250, os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = below
        self.begin()
        os.close(fd)
        open(self.path('x'), 'w').close()
        self.assertIn((CREATED, 0, 'x', ''), self.take())

    def test_moved_too_deep_and_back(self):
        """A name that is too long to be told is OVERFLOW, once; and what was moved is known where it is."""
        os.makedirs(self.path('m', 'sub'))
        fd = os.open(self.dir, os.O_RDONLY)
        for _ in range((4090 - len('m')) // 251):
            os.mkdir('d' * 250, dir_fd=fd)
            below = os.open('d' * 250, os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = below
        self.begin()
        os.rename(self.path('m'), 'e' * 200, dst_dir_fd=fd)
        self.until(OVERFLOW)
        time.sleep(0.2)
        self.assertNotIn((OVERFLOW, 1, '', ''), self.take())
        os.rename('e' * 200, self.path('n'), src_dir_fd=fd)
        os.close(fd)
        self.until(OVERFLOW)
        self.until_watched('n/sub')

    def test_full_connection(self):
        self.begin()
        id = self.agent.start('i=0; long=$(printf "%0200d" 0); while [ $i -lt 3000 ]; do : > "$long$i"; i=$((i+1)); done')
        time.sleep(1)  # nobody reads
        self.agent.finish(id)
        self.agent.run('touch last')

        def told():
            self.agent.ping()
            return (CREATED, 0, 'last', '') in self.gather()

        self.assertTrue(wait_until(told, 20))


class Ends(Watch):
    def test_nothing_is_told_without(self):
        self.agent.run('touch x')
        self.assertEqual(self.take(), [])
        self.begin()
        self.end()
        self.agent.run('touch y')
        self.assertEqual(self.take(), [])
        self.assertFalse(self.descriptors())

    def descriptors(self):
        where = f'/proc/{self.agent.process.pid}/fd'
        links = []
        for fd in os.listdir(where):
            with contextlib.suppress(OSError):
                links.append(os.readlink(os.path.join(where, fd)))
        return [link for link in links if re.search('inotify', link)]

    def test_control_it_has_a_descriptor(self):
        self.begin()
        self.assertTrue(self.descriptors())

    def test_again(self):
        for _ in range(50):
            self.agent.send(WATCH, integers('I', 1))
        self.until(WATCHING)
        self.agent.run('touch x')
        self.assertIn((CREATED, 0, 'x', ''), self.take())
        self.assertEqual(len(self.descriptors()), 1)

    def test_survives_reset(self):
        self.begin()
        self.agent.reset()
        self.agent.run('touch x')
        self.assertIn((CREATED, 0, 'x', ''), self.take())


if __name__ == '__main__':
    main()
