#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbx-agent drivers
"""The agent before a machine is copied, and in the copy.

Usage: see agent_fixture.py."""

import errno
import os
import signal
import struct
import time

from agent_fixture import (CHANGED, FREEZE, FROZEN, KILL, PING, POINT, POINTED, SIGNAL, WATCH, Case, integers, main)

WHO = 1  # on FREEZE
WOKEN_AGAIN = 3  # in FROZEN


class Point(Case):
    language = 'raw'

    def point(self):
        kind, data = self.agent.ask(POINT)
        self.assertEqual(kind, POINTED)
        return struct.unpack('<I', data)[0]

    def change(self, name):
        with open(os.path.join(self.agent.root, 'files', name), 'w', encoding='ascii'):
            pass

    def is_told(self, timeout):
        """Is a change told within so many seconds?"""
        frame = self.agent.read_frame(timeout)
        return frame is not None and frame[0] == CHANGED

    def test_is_the_last_frame(self):
        self.agent.send(WATCH, integers('I', 1))
        self.agent.ping()
        while self.is_told(0.3):
            pass
        self.change('before')
        self.assertTrue(self.is_told(5))
        while self.is_told(0.3):
            pass
        self.assertEqual(self.point(), 0)
        self.change('after')
        self.assertFalse(self.is_told(0.5))
        self.agent.ping()
        self.assertTrue(self.agent.pending.pop(0, None) or self.is_told(5))

    def test_comes_behind_what_is_queued(self):
        for _ in range(200):
            self.agent.send(WATCH, integers('I', 1))
        pings = [self.agent.send(PING, b'x' * 64) for _ in range(200)]
        self.assertEqual(self.point(), 0)
        for ping in pings:
            self.assertEqual(self.agent.pending[ping][0][2], b'x' * 64)

    def test_not_during_a_run(self):
        run = self.agent.start('sleep 1000')
        self.assertEqual(self.point(), errno.EBUSY)
        self.agent.ping()
        self.agent.send(SIGNAL, integers('I', KILL), id=run)
        self.agent.finish(run)
        self.assertEqual(self.point(), 0)

    def test_user_code_may_stand_still(self):
        kind, data = self.agent.ask(FREEZE, integers('I', 1))
        self.assertEqual((kind, struct.unpack('<I', data)[0]), (FROZEN, 0))
        self.assertEqual(self.point(), 0)
        self.agent.send(FREEZE, integers('I', 0))
        self.assertEqual(self.run_code('echo on').out, b'on\n')

    def test_a_copy_goes_on(self):
        self.run_code('x=41; sleep 1000 & echo $! >pid')
        self.agent.ask(FREEZE, integers('I', 1))
        self.assertEqual(self.point(), 0)
        self.agent.hello(generation=2, copy=True)
        self.agent.setup('raw', {name: value for name, value in [self.marker.split('=')]})
        result = self.run_code('echo $((x + 1)); kill -0 $(cat pid) && echo lives; kill $(cat pid)')
        self.assertEqual(result.out, b'42\nlives\n')
        self.assertEqual(result.fresh, 0)


# A kernel timer that sends SIGCONT to its process, after half a second and from then on.
WOKEN = """
import ctypes, signal
libc = ctypes.CDLL(None, use_errno=True)
class Event(ctypes.Structure):
    _fields_ = [('value', ctypes.c_void_p), ('signo', ctypes.c_int), ('notify', ctypes.c_int), ('pad', ctypes.c_byte * 64)]
signal.signal(signal.SIGCONT, lambda *_: None)
if {timer}:
    timer = ctypes.c_void_p()
    assert libc.timer_create(1, ctypes.byref(Event(None, signal.SIGCONT, 0)), ctypes.byref(timer)) == 0
    assert libc.timer_settime(timer, 0, (ctypes.c_long * 4)(0, 300000000, 0, 500000000), None) == 0
"""


class Prepared(Case):
    """What is to be copied gets ready for that before it is stopped."""
    language = 'python'

    def freeze(self, *hows):
        for how in hows:
            kind, data = self.agent.ask(FREEZE, integers('I', how))
            self.assertEqual((kind, struct.unpack('<I', data)[0]), (FROZEN, 0))
        self.agent.send(FREEZE, integers('I', 0))

    def test_interpreter_gets_ready(self):
        self.run_code('import _ssl; told = []\n_ssl.RAND_add = lambda *_: told.append(1)')
        self.freeze(1)
        self.assertEqual(self.run_code('print(len(told))').out, b'0\n')
        self.freeze(2, 1)
        self.assertEqual(self.run_code('print(len(told))').out, b'1\n')
        self.freeze(1, 2, 1)  # what stands still does not get ready
        self.assertEqual(self.run_code('print(len(told))').out, b'1\n')

    def test_nothing_is_stopped_for_that(self):
        self.run_code('import _ssl; told = []\n_ssl.RAND_add = lambda *_: told.append(1)')
        kind, _ = self.agent.ask(FREEZE, integers('I', 2))
        self.assertEqual(kind, FROZEN)
        self.assertEqual(self.run_code('print(len(told))').out, b'1\n')

    def test_whether_something_ran_is_told_at_the_end(self):
        for timer, error in ((False, 0), (True, errno.ECANCELED)):
            self.run_code(WOKEN.format(timer=timer))
            self.agent.ask(FREEZE, integers('I', 1))
            time.sleep(1)
            kind, data = self.agent.ask(FREEZE, integers('I', 3))
            self.assertEqual((kind, struct.unpack('<I', data)[0]), (FROZEN, error))
            self.assertEqual(self.run_code('print(1)').out, b'1\n')

    def freeze_awake(self, pid, flags):
        """It is let go on again and again. A busy host may not get round to that, and it is stopped after all."""
        for _ in range(30):
            self.agent.send(FREEZE, integers('I', 1), flags)
            while not (frame := self.agent.read_frame(0.001)) or frame[0] != FROZEN:
                os.kill(pid, signal.SIGCONT)
            if frame[4][:4] == integers('I', errno.EBUSY):
                return frame[4]
            self.agent.send(FREEZE, integers('I', 0))
        self.fail('it was always stopped')

    def test_who_could_not_be_stopped_is_told_to_who_asks(self):
        pid = int(self.run_code(WOKEN.format(timer=False) + 'import os; print(os.getpid())').out)
        for flags, known in ((0, False), (WHO, True)):
            data = self.freeze_awake(pid, flags)
            self.assertEqual(data[4:12], integers('II', WOKEN_AGAIN, pid) if known else b'')
            self.assertEqual(known, b'python' in data)
        self.assertEqual(self.run_code('print(1)').out, b'1\n')

    def test_who_does_not_get_ready_is_not_waited_for(self):
        self.run_code('import _ssl, time; old = _ssl.RAND_add\n_ssl.RAND_add = lambda *_: time.sleep(20)')
        begin = time.monotonic()
        self.freeze(2)
        self.assertLess(time.monotonic() - begin, 15)
        self.assertEqual(self.run_code('_ssl.RAND_add = old; print(1)').out, b'1\n')

    def test_not_during_a_run(self):
        run = self.agent.start('import time; time.sleep(1000)')
        kind, data = self.agent.ask(FREEZE, integers('I', 2))
        self.assertEqual((kind, struct.unpack('<I', data)[0]), (FROZEN, errno.EBUSY))
        self.agent.send(SIGNAL, integers('I', KILL), id=run)
        self.agent.finish(run)
        self.freeze(2)

    def test_another_host_ends_it(self):
        self.run_code('import _ssl, time; _ssl.RAND_add = lambda *_: time.sleep(0.5)')
        asked = self.agent.send(FREEZE, integers('I', 2))
        self.agent.hello(generation=2)
        self.assertFalse(self.agent.pending.get(asked))
        self.agent.setup('python', {name: value for name, value in [self.marker.split('=')]})
        self.assertEqual(self.run_code('print(1)').out, b'1\n')


class Copy(Case):
    """What its first host knew is unknown to the host of a copy."""

    def test_forgets_nodes_and_handles(self):
        node, _attr, handle = self.agent.create('file')
        self.agent.hello(generation=2)
        self.agent.getattr(node)
        self.assertEqual(self.agent.write(handle, b'abc'), 3)
        self.agent.hello(generation=3, copy=True)
        self.error(errno.ESTALE, self.agent.getattr, node)
        self.error(errno.EBADF, self.agent.write, handle, b'abc')
        again, attr = self.agent.lookup('file')
        self.assertNotEqual(again, node)
        self.assertEqual(attr.size, 3)
        self.agent.getattr(1)

    def test_is_not_watched(self):
        self.agent.send(WATCH, integers('I', 1))
        self.agent.ping()
        while self.agent.read_frame(0.3):
            pass
        self.agent.hello(generation=2, copy=True)
        self.agent.create('file')
        self.assertIsNone(self.agent.read_frame(0.5))


if __name__ == '__main__':
    main()
