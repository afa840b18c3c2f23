#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbx-agent drivers
"""The host's locks on files, as the agent holds them: against processes of the sandbox, which this one plays.

Usage: see agent_fixture.py. SEED repeats what the model did."""

import errno
import fcntl
import os
import random
import struct
import time

from agent_fixture import DEADLINE, RELEASE, Case, integers, main

LOCK, TEST_LOCK, DROP_LOCKS, CANCEL_LOCK = range(54, 58)
LOCKED = 75
UNLOCK, SHARED, EXCLUSIVE = range(3)
WAIT, WHOLE = 1, 2
END = (1 << 63) - 1
KERNEL = {UNLOCK: fcntl.F_UNLCK, SHARED: fcntl.F_RDLCK, EXCLUSIVE: fcntl.F_WRLCK}
OFD_GETLK, OFD_SETLK = 36, 37


class LockCase(Case):
    def setUp(self):
        super().setUp()
        self.node, _, self.handle = self.agent.create('x')
        self.token = 0
        self.fds = []

    def tearDown(self):
        for fd in self.fds:
            os.close(fd)

    # --- the host's ---

    def pack(self, owner, kind, start, end, flags, handle, token):
        return integers('QQQQQIII', handle or self.handle, owner, token, start, end, flags, kind,
                        1000 + owner)

    def ask(self, owner, kind, start=0, end=END, flags=0, handle=None):
        """Return: None, or the token of what waits."""
        self.token += 1
        waits, = struct.unpack('<I', self.agent.file(LOCK, self.pack(
            owner, kind, start, end, flags, handle, self.token)))
        return self.token if waits else None

    def word(self, *args, **kwargs):
        """Return: 'ok', 'waits' or the name of the error."""
        try:
            return 'waits' if self.ask(*args, **kwargs) else 'ok'
        except OSError as e:
            return errno.errorcode[e.errno]

    def locked(self, timeout=DEADLINE):
        """The next wait that has ended. Return: its token and how."""
        kind, _, data = self.agent.take(0, timeout)
        self.assertEqual(kind, LOCKED)
        token, err = struct.unpack('<QI', data)
        return token, errno.errorcode[err] if err else 'ok'

    def cancel(self, token, undo=0):
        self.agent.send(CANCEL_LOCK, integers('QI', token, undo))

    def drop(self, owner, handle=None):
        self.agent.file(DROP_LOCKS, integers('QQ', handle or self.handle, owner))

    def release(self, handle):
        self.agent.send(RELEASE, integers('Q', handle))

    # --- the sandbox's ---

    def local(self, flags=os.O_RDWR):
        self.fds.append(os.open(os.path.join(self.agent.root, 'files', 'x'), flags))
        return self.fds[-1]

    @staticmethod
    def take(fd, kind, start=0, length=0):
        """A process of the sandbox takes or gives back. Return: 'ok' or the name of the error."""
        try:
            fcntl.fcntl(fd, OFD_SETLK, struct.pack('hhqqi4x', KERNEL[kind], 0, start, length, 0))
        except OSError as e:
            return errno.errorcode[e.errno]
        return 'ok'

    @staticmethod
    def seen(fd, byte):
        """What others hold of a byte."""
        kind, = struct.unpack_from('h', fcntl.fcntl(fd, OFD_GETLK, struct.pack(
            'hhqqi4x', fcntl.F_WRLCK, 0, byte, 1, 0)))
        return {v: k for k, v in KERNEL.items()}[kind]

    def look(self, fd, length):
        self.agent.ping()  # what has no answer is done
        return [self.seen(fd, byte) for byte in range(length)]


class Locks(LockCase):
    def wait_outlives(self, kind, flags=0):
        """A process waits by one descriptor, and closes another, by which it had something."""
        fd, other = self.local(), self.agent.open(self.node, os.O_RDWR)
        self.assertEqual(self.take(fd, EXCLUSIVE, 10, 1), 'ok')
        self.assertEqual(self.word(5, SHARED, 0, 0), 'ok')
        token = self.ask(5, kind, 10, 10, WAIT | flags, other)
        self.drop(5)
        self.release(self.handle)
        self.assertEqual(self.look(fd, 1), [UNLOCK])
        self.handle = other
        self.take(fd, UNLOCK)
        self.assertEqual(self.locked(), (token, 'ok'))
        self.assertEqual(self.look(fd, 12), [UNLOCK] * 10 + [kind, UNLOCK])
        self.release(other)
        self.assertEqual(self.look(fd, 12), [UNLOCK] * 12)

    def test_wait_outlives_another_handle(self):
        self.wait_outlives(SHARED)

    def test_wait_outlives_another_handle_exclusive(self):
        self.wait_outlives(EXCLUSIVE)

    def test_wait_behind_the_host_outlives_another_handle(self):
        fd, other = self.local(), self.agent.open(self.node, os.O_RDWR)
        mine = self.agent.open(self.node, os.O_RDWR)
        self.assertEqual(self.word(6, EXCLUSIVE, 10, 10, handle=other), 'ok')
        self.assertEqual(self.word(5, SHARED, 0, 0), 'ok')
        token = self.ask(5, EXCLUSIVE, 10, 10, WAIT, mine)
        self.drop(5)
        self.release(self.handle)
        self.drop(6, other)
        self.assertEqual(self.locked(), (token, 'ok'))
        self.assertEqual(self.look(fd, 12), [UNLOCK] * 10 + [EXCLUSIVE, UNLOCK])
        self.handle = mine

    def test_closed_handle_ends_its_own_waits(self):
        fd, other = self.local(), self.agent.open(self.node, os.O_RDWR)
        self.take(fd, EXCLUSIVE)
        token = self.ask(5, EXCLUSIVE, 0, END, WAIT, other)
        self.release(other)
        self.assertEqual(self.locked(), (token, 'EINTR'))
        self.take(fd, UNLOCK)
        self.assertEqual(self.look(fd, 1), [UNLOCK])

    def test_later_handle_keeps_what_it_got(self):
        """A descriptor that was closed here lives on in a child; its end takes nothing along."""
        fd, other = self.local(), self.agent.open(self.node, os.O_RDWR)
        self.take(fd, EXCLUSIVE, 20, 1)
        self.assertEqual(self.word(5, SHARED, 0, 0), 'ok')
        token = self.ask(5, SHARED, 20, 20, WAIT, other)
        self.drop(5)
        self.assertEqual(self.word(5, EXCLUSIVE, 3, 3, handle=other), 'ok')
        self.release(self.handle)
        self.assertEqual(self.look(fd, 5), [UNLOCK] * 3 + [EXCLUSIVE, UNLOCK])
        self.handle = other
        self.take(fd, UNLOCK)
        self.assertEqual(self.locked(), (token, 'ok'))

    def test_granted_after_widening(self):
        """What waits in a thread moves to the owner's new open file, and so does what he has."""
        fd, reader = self.local(), self.agent.open(self.node, os.O_RDONLY)
        self.take(fd, EXCLUSIVE, 10, 1)
        self.assertEqual(self.word(5, SHARED, 0, 3, handle=reader), 'ok')
        token = self.ask(5, SHARED, 10, 10, WAIT, reader)
        self.assertEqual(self.word(5, EXCLUSIVE, 2, 2), 'ok')
        self.take(fd, UNLOCK)
        self.assertEqual(self.locked(), (token, 'ok'))
        self.assertEqual(self.take(fd, EXCLUSIVE, 10, 1), 'EAGAIN')
        self.assertEqual(self.look(fd, 12), [SHARED, SHARED, EXCLUSIVE, SHARED] + [UNLOCK] * 6 +
                         [SHARED, UNLOCK])
        self.drop(5)
        self.assertEqual(self.look(fd, 12), [UNLOCK] * 12)

    def test_writer_then_reader(self):
        fd = self.local()
        writer, reader = self.agent.open(self.node, os.O_WRONLY), self.agent.open(self.node, os.O_RDONLY)
        self.assertEqual(self.word(5, EXCLUSIVE, 0, 0, handle=writer), 'ok')
        self.assertEqual(self.word(5, SHARED, 1, 1, handle=reader), 'ok')
        self.assertEqual(self.look(fd, 3), [EXCLUSIVE, SHARED, UNLOCK])

    # --- what nobody wants any more ---

    def test_taken_back(self):
        fd = self.local()
        self.assertEqual(self.word(5, SHARED, 2, 6), 'ok')
        self.assertEqual(self.word(5, UNLOCK, 4, 4), 'ok')
        before = self.look(fd, 12)
        self.assertEqual(self.word(5, EXCLUSIVE, 3, 9), 'ok')
        self.cancel(self.token, 1)
        self.assertEqual(self.look(fd, 12), before)
        self.cancel(self.token, 1)  # for nothing
        self.assertEqual(self.look(fd, 12), before)
        self.assertEqual(self.word(6, SHARED, 0, 9), 'ok')  # the book knows it, too
        self.assertEqual(self.word(6, EXCLUSIVE, 7, 9), 'ok')
        self.assertEqual(self.word(6, EXCLUSIVE, 6, 9), 'EAGAIN')

    def test_taken_back_but_changed_since(self):
        """It is too late when the owner has asked for something else."""
        fd = self.local()
        self.assertEqual(self.word(5, SHARED, 0, 3), 'ok')
        self.assertEqual(self.word(5, EXCLUSIVE, 0, 3), 'ok')
        token = self.token
        self.assertEqual(self.word(5, EXCLUSIVE, 2, 2), 'ok')
        self.cancel(token, 1)
        self.assertEqual(self.look(fd, 4), [EXCLUSIVE] * 4)

    def test_wait_given_up_keeps_the_shared_one(self):
        fd = self.local()
        self.take(fd, SHARED, 0, 4)
        self.assertEqual(self.word(5, SHARED, 0, 3), 'ok')
        for undo in (0, 1):
            token = self.ask(5, EXCLUSIVE, 0, 9, WAIT)
            self.cancel(token, undo)
            self.assertEqual(self.locked(), (token, 'EINTR'))
            self.assertEqual(self.look(fd, 10), [SHARED] * 4 + [UNLOCK] * 6)

    def test_wait_given_up_while_it_is_granted(self):
        """Whichever comes first, what is told is what is held."""
        fd = self.local()
        self.assertEqual(self.word(5, SHARED, 0, 3), 'ok')
        for n in range(100):
            self.assertEqual(self.take(fd, SHARED, 0, 4), 'ok')
            token = self.ask(5, EXCLUSIVE, 0, 9, WAIT)
            self.take(fd, UNLOCK)
            self.cancel(token, n % 2)
            got, how = self.locked()
            self.assertEqual(got, token)
            want = [EXCLUSIVE] * 10 if how == 'ok' and not n % 2 else [SHARED] * 4 + [UNLOCK] * 6
            self.assertEqual(self.look(fd, 10), want)
            self.assertEqual(self.word(5, UNLOCK), 'ok')
            self.assertEqual(self.word(5, SHARED, 0, 3), 'ok')

    def test_whole_files_taken_back(self):
        fd = self.local()
        for before in (UNLOCK, SHARED):
            self.assertEqual(self.word(5, before, flags=WHOLE), 'ok')
            self.assertEqual(self.word(5, EXCLUSIVE, flags=WHOLE), 'ok')
            self.cancel(self.token, 1)
            self.agent.ping()
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if before == SHARED:
                with self.assertRaises(BlockingIOError):
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(fd, fcntl.LOCK_UN)

    def test_conversion_that_makes_room(self):
        """Who waits behind one that waits goes on with it."""
        self.assertEqual(self.word(1, EXCLUSIVE, 5, 5), 'ok')
        self.assertEqual(self.word(2, EXCLUSIVE, 0, 0), 'ok')
        first = self.ask(3, SHARED, 0, 0, WAIT)
        second = self.ask(2, SHARED, 0, 5, WAIT)
        self.assertEqual(self.word(1, UNLOCK), 'ok')
        self.assertEqual({self.locked(), self.locked()}, {(first, 'ok'), (second, 'ok')})


class Model(LockCase):
    """Random requests of owners on both sides, against a table of bytes."""
    BYTES, STEPS = 12, 2500

    def blocks(self, other, owner, kind, start, end):
        return other != owner and kind and any(
            self.held[other][b] and self.held[other][b] + kind > 2 for b in range(start, end + 1))

    def blocked(self, owner, kind, start, end):
        return any(self.blocks(other, owner, kind, start, end) for other in self.held)

    def circle(self, first, owner, ask, seen=()):
        return any(self.blocks(other, owner, *ask) and (other == first or (
            other in self.waits and other not in seen and
            self.circle(first, other, self.waits[other][1], (*seen, other))))
                   for other in self.held)

    def hold(self, owner, kind, start, end):
        self.held[owner][start:end + 1] = [kind] * (end - start + 1)

    def settle(self):
        while any(not self.blocked(o, *ask) for o, (_, ask, _) in self.waits.items()):
            token, how = self.locked()
            owner, ask = next((o, w[1]) for o, w in self.waits.items() if w[0] == token)
            del self.waits[owner]
            self.assertEqual(how, 'ok')
            self.assertFalse(self.blocked(owner, *ask), (owner, ask))
            self.hold(owner, *ask)
        self.assertEqual(self.look(self.eye, self.BYTES),
                         [max(column) for column in zip(*self.held.values())])
        self.assertFalse(self.agent.pending.get(0))

    def host(self, owner):
        start = self.random.randrange(self.BYTES)
        ask = self.random.randrange(3), start, self.random.randrange(start, self.BYTES)
        wait = owner not in self.waits and self.random.randrange(2)
        can, dead = not self.blocked(owner, *ask), wait and self.circle(owner, owner, ask)
        before = list(self.held[owner])
        handle = self.random.choice(self.handles[owner])
        got = self.word(owner, *ask, WAIT if wait else 0, handle)
        self.assertEqual(got, 'ok' if can else 'EDEADLOCK' if dead else 'waits' if wait else 'EAGAIN')
        if got == 'ok':
            self.hold(owner, *ask)
            # An exclusive one that becomes shared is for others to take at once, who may be waiting.
            if ask[0] and not self.random.randrange(4) and all(
                    b <= ask[0] for b in before[ask[1]:ask[2] + 1]):
                self.settle()
                self.cancel(self.token, 1)
                self.held[owner] = before
        elif got == 'waits':
            self.waits[owner] = self.token, ask, handle

    def sandbox(self, owner):
        start = self.random.randrange(self.BYTES)
        ask = self.random.randrange(3), start, self.random.randrange(start, self.BYTES)
        got = self.take(self.local_fd[owner], ask[0], start, ask[2] - start + 1)
        self.assertEqual(got, 'EAGAIN' if self.blocked(owner, *ask) else 'ok')
        if got == 'ok':
            self.hold(owner, *ask)

    def close_one(self, owner):
        """A process closes a descriptor: what it has goes, its wait stays."""
        if owner in self.waits and self.waits[owner][2] == self.handles[owner][0]:
            return  # the kernel keeps it open, and would take back what it gets
        self.left.append(self.handles[owner].pop(0))
        self.handles[owner].append(self.agent.open(self.node, os.O_RDWR))
        self.drop(owner, self.left[-1])
        self.held[owner] = [UNLOCK] * self.BYTES

    def test_model(self):
        seed = int(os.environ.get('SEED', time.time_ns() & 0xffffffff))
        print(f'SEED={seed}')
        self.random = random.Random(seed)
        hosts, locals_ = range(1, 6), range(101, 104)
        self.eye = self.local()
        self.local_fd = {o: self.local() for o in locals_}
        self.held = {o: [UNLOCK] * self.BYTES for o in (*hosts, *locals_)}
        self.handles = {o: [self.agent.open(self.node, os.O_RDWR) for _ in range(2)] for o in hosts}
        self.waits, self.left = {}, []
        for _ in range(self.STEPS):
            owner = self.random.choice((*hosts, *locals_))
            what = self.random.randrange(16)
            if owner in locals_:
                self.sandbox(owner)
            elif what == 0:
                self.close_one(owner)
            elif what == 1 and self.left:
                self.release(self.left.pop(0))
            elif what < 4 and owner in self.waits:
                token, *_ = self.waits.pop(owner)
                self.cancel(token, self.random.randrange(2))
                self.assertEqual(self.locked(), (token, 'EINTR'))
            else:
                self.host(owner)
            self.settle()


if __name__ == '__main__':
    main()
