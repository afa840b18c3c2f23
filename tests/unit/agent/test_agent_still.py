#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbx-agent drivers
"""What the agent says may stand still, and what keeps a machine going.

Usage: see agent_fixture.py. The sockets of this host are none of the agent's: it gets a network of its own."""

import ctypes
import os
import shutil
import struct
import sys
import time
import unittest

from agent_fixture import BUN, FREEZE, REST, RESTING, STDIN, WAKE, Case, integers, main
from patience import wait_until

FROZEN = 76
CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000
libc = ctypes.CDLL(None, use_errno=True)


class Still(Case):
    language = 'raw'

    def ask(self):
        """Return: "" if it may stand still, or why not."""
        kind, data = self.agent.ask(REST)
        self.assertEqual(kind, RESTING)
        yes, length = struct.unpack('<II', data[:8])
        self.assertEqual(length, len(data) - 8)
        why = data[8:].decode()
        self.assertEqual(yes, why == '')
        return why

    def soon(self, wanted=''):
        """What is asked again until then: a thread needs a moment to be where it waits."""
        last = []
        return wait_until(lambda: last.insert(0, self.ask()) or wanted in last[0] and bool(last[0]) == bool(wanted), 8) or last[0]

    def assert_rests(self):
        self.assertIs(self.soon(), True)

    def assert_goes_on(self, why):
        self.assertIs(self.soon(why), True)
        self.assertIn(why, self.ask())


class Raw(Still):
    def test_before_and_after_a_run(self):
        self.assert_rests()
        self.run_code('x=1; (sleep 0.01); wait')
        self.assert_rests()

    def test_background(self):
        self.run_code('sleep 1000 & echo $!')
        self.assert_goes_on('background')
        self.run_code('kill %1; wait')
        self.assert_rests()

    def test_daemon(self):
        self.run_code('( setsid sleep 4 >/dev/null 2>&1 & )')
        self.assert_goes_on('background')
        self.assert_rests()

    def test_alarm(self):
        self.run_code('trap "echo x" ALRM')
        self.assert_goes_on('timer')
        self.run_code('trap - ALRM; trap "echo x" USR1')
        self.assert_rests()

    def test_a_run_is_waited_for(self):
        run = self.agent.start('read line; exit 0', stdin=True)
        asked = self.agent.send(REST)
        time.sleep(0.1)
        self.agent.send(STDIN, b'x\n', flags=1, id=run)
        self.agent.finish(run)
        # Another frame has ended the question.
        self.agent.ping()
        self.assertFalse(self.agent.pending.get(asked))
        self.assert_rests()

    def test_a_job(self):
        job = self.agent.start_job('sleep 1000')
        asked = self.agent.send(REST)
        time.sleep(0.2)
        self.agent.forget_job(job)
        self.assertFalse(self.agent.pending.get(asked))
        self.assert_rests()

    def test_frozen(self):
        self.run_code('while :; do sleep 0.01; done & echo')
        self.assert_goes_on('background')
        asked = self.agent.send(FREEZE, integers('I', 1))
        self.assertEqual(self.agent.take(asked)[0], FROZEN)
        self.assertEqual(self.ask(), '')
        self.agent.send(FREEZE, integers('I', 0))
        self.assert_goes_on('background')

    def test_wake_has_no_answer(self):
        asked = self.agent.send(WAKE, integers('Q', time.time_ns()))
        self.agent.ping()
        self.assertFalse(self.agent.pending.get(asked))

    def test_what_is_malformed_ends_the_connection(self):
        self.agent.send(WAKE, b'1234')
        self.assert_closed(self.agent)


class Sockets(Still):
    language = 'python'

    def test_tcp(self):
        self.run_code('import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()')
        self.assert_goes_on('socket')
        self.run_code('s.close()')
        self.assert_rests()

    def test_udp_and_6(self):
        self.run_code('import socket; s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(("::", 0))')
        self.assert_goes_on('socket')
        self.run_code('s.close()')
        self.assert_rests()


class Python(Still):
    language = 'python'

    def test_plain(self):
        self.run_code('import json, re; x = 1')
        self.assert_rests()

    def test_timer_of_a_thread(self):
        self.run_code('import threading; t = threading.Timer(1000, print); t.daemon = True; t.start()')
        self.assert_goes_on('limited time')
        self.run_code('t.cancel(); t.join()')
        self.assert_rests()

    def test_threads_that_wait_for_others(self):
        self.run_code('import queue, threading; q = queue.Queue()\n'
                      'threading.Thread(target=q.get, daemon=True).start()\n'
                      'import os; r, w = os.pipe(); threading.Thread(target=os.read, args=(r, 1), daemon=True).start()')
        self.assert_rests()
        self.run_code('q.put(1); os.write(w, b"x")')
        self.assert_rests()

    def test_a_thread_that_sleeps_or_computes(self):
        self.run_code('import threading, time\nt = threading.Thread(target=time.sleep, args=(1000,), daemon=True); t.start()')
        self.assertTrue(self.ask())
        self.agent.reset()
        self.run_code('import threading\ndef f():\n while not end: pass\nend = False\nt = threading.Thread(target=f); t.start()')
        self.assert_goes_on('computes')
        self.run_code('end = True; t.join()')
        self.assert_rests()

    def test_limits_of_select_and_poll(self):
        for wait, limited in (('select.select([r], [], [], 1000)', True), ('select.select([r], [], [])', False),
                              ('p.poll(1000000)', True), ('p.poll()', False),
                              ('e.poll(1000)', True), ('e.poll()', False)):
            with self.subTest(wait):
                self.run_code('import os, select, threading; r, w = os.pipe(); p = select.poll(); p.register(r); e = select.epoll()\n'
                              f'e.register(r); t = threading.Thread(target=lambda: {wait}, daemon=True); t.start()')
                if limited:
                    self.assert_goes_on('limited time')
                else:
                    self.assert_rests()
                self.run_code('os.write(w, b"x"); t.join(); e.close(); os.close(r); os.close(w)')

    def test_interval(self):
        self.run_code('import signal; signal.signal(signal.SIGALRM, lambda *a: None); signal.setitimer(signal.ITIMER_REAL, 1000)')
        self.assert_goes_on('timer')

    def test_timerfd(self):
        self.run_code('import ctypes, os, struct; c = ctypes.CDLL(None); f = c.timerfd_create(1, 0)')
        self.assert_rests()
        self.run_code('c.timerfd_settime(f, 0, struct.pack("4q", 0, 0, 1000, 0), None)')
        self.assert_goes_on('timer')
        self.run_code('os.close(f)')
        self.assert_rests()


@unittest.skipUnless(os.access(BUN, os.X_OK), 'no Bun')
class JavaScript(Still):
    language = 'javascript'

    def test_plain(self):
        """Also soon behind a run, when Bun's own timers and threads are busy with what it left."""
        self.run_code('let many = []; for (let i = 0; i < 100000; i++) many.push({ i }); many.length')
        self.assert_rests()

    def test_timers(self):
        for begin, end in (('var t = setTimeout(() => {}, 1e6)', 'clearTimeout(t)'),
                           ('var t = setInterval(() => {}, 1e6); t.unref()', 'clearInterval(t)'),
                           ('var t = setTimeout(() => {}, 300); 0', '')):
            with self.subTest(begin):
                self.run_code(begin)
                self.assertIn('set timers', self.ask())
                self.run_code(end)
                self.assert_rests()

    def test_promises_of_time(self):
        self.run_code('Bun.sleep(1e6); 0')
        self.assertIn('set timers', self.ask())
        self.agent.reset()
        self.run_code('require("node:timers/promises").setTimeout(1e6); 0')
        self.assertIn('set timers', self.ask())

    def test_what_user_code_replaces(self):
        self.run_code('Array.prototype.filter = Array.prototype.push = globalThis.setTimeout = Object.getPrototypeOf = null')
        self.assert_rests()

    def test_worker(self):
        self.run_code('const w = new Worker(URL.createObjectURL(new Blob(["setInterval(() => {}, 1000)"]))); '
                      'await new Promise((r) => setTimeout(r, 200))')
        self.assert_goes_on('worker')
        self.run_code('w.terminate()')
        self.assert_rests()

    def test_busy(self):
        """It does not answer, and the next frame is not late for that."""
        self.run_code('setTimeout(() => { const end = Date.now() + 1000; while (Date.now() < end); }, 1); 0')
        time.sleep(0.1)
        asked = self.agent.send(REST)
        time.sleep(0.2)
        self.agent.ping()
        self.assertEqual(self.run_code('console.log(1)').out, b'1\n')
        self.assertFalse(self.agent.pending.get(asked))
        self.assert_rests()


if __name__ == '__main__':
    if libc.unshare(CLONE_NEWNET) < 0 and libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0:
        print('skipped: there is no network of its own to be had')
        sys.exit(77)
    main()
