#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbx-agent drivers
"""Runs of the agent: how they end, what they write, what they are fed.

Usage: see agent_fixture.py."""

import os
import time

from agent_fixture import (CREDIT, DONE, INTERRUPT, KILL, KILLED, SIGNAL, STDIN, TIMEOUT, Case,
                       integers, is_running, main)
from patience import wait_until


class Runs(Case):
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
        r = self.run_code('print("begun", flush=True)\nwhile True: pass', timeout_ms=1500,
                          how=TIMEOUT, status=124)
        self.assertEqual((r.out, r.fresh), (b'begun\n', 1))
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
                          'time.sleep(100)', timeout_ms=4000, how=TIMEOUT, status=124)
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

    def test_order_is_kept_where_credit_ends(self):
        run = self.agent.start('import array, fcntl, os, termios\nos.write(2, b"e" * 3000)\n'
                               'n = array.array("i", [3000])\n'
                               'while n[0] == 3000: fcntl.ioctl(2, termios.FIONREAD, n)\n'
                               'os.write(1, b"o" * 3000)\n'
                               'os.write(2, b"E" * 3000)\nopen("written", "w")', credit=1000)
        wait_until(lambda: 'written' in dict(self.agent.listdir()), 60)
        self.agent.send(CREDIT, integers('I', 1000), id=run)
        self.agent.ping()
        self.agent.send(CREDIT, integers('I', 1 << 20), id=run)
        both = b''.join(self.agent.finish(run).both)
        self.assertEqual((len(both), both.rfind(b'e')), (9000, 2999))

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

    def test_output_that_user_code_reads_itself(self):
        # Part of what the run has left in its pipe is gone when there is credit to send it.
        run = self.agent.start('import subprocess; p = subprocess.Popen("sleep 0.3; dd bs=4096 count=1 </proc/$$/fd/1 >part 2>/dev/null;'
                               'echo > taken; sleep 100", shell=True)\nprint("x" * 9999)', credit=1000)
        while 'taken' not in [name for name, _ in self.agent.listdir()]:
            time.sleep(0.01)
        self.agent.send(CREDIT, integers('I', 1 << 30), id=run)
        r = self.agent.finish(run)
        self.assertEqual((r.how, r.status, r.out), (DONE, 0, b'x' * 5903 + b'\n'))
        self.run_code('p.kill()')

    def test_ping_during_flood(self):
        # It never ends by itself: who is answered at all is answered while it goes on.
        run = self.agent.start('import sys\nwhile True: sys.stdout.write("x" * 100000)',
                               limits=(1 << 40, 0))
        pings = []

        def hook(result):
            if result.out and result.how is None and len(pings) < 10:
                self.agent.ping()
                pings.append(len(result.out))
                if len(pings) == 10:
                    self.agent.send(SIGNAL, integers('I', KILL), id=run)
        r = self.agent.finish(run, hook)
        self.assertEqual((r.how, len(pings)), (KILLED, 10))

    def test_flood_between_both_streams(self):
        r = self.run_code('import os\nfor i in range(2000):\n'
                          '    os.write(1, b"o%d " % i); os.write(2, b"e%d " % i)')
        self.assertEqual(r.out, b''.join(b'o%d ' % i for i in range(2000)))
        self.assertEqual(r.err, b''.join(b'e%d ' % i for i in range(2000)))

    def test_first_byte_is_not_held_back(self):
        # The program goes on only when it has been seen.
        run = self.agent.start('print("a", flush=True); print(input())', stdin=True)
        sent = []

        def hook(result):
            if result.out and not sent:
                sent.append(bytes(result.out))
                self.agent.send(STDIN, b'b\n', flags=1, id=run)
        r = self.agent.finish(run, hook)
        self.assertEqual((sent, r.out), ([b'a\n'], b'a\nb\n'))

    def test_background_output_belongs_to_no_run(self):
        self.run_code('import subprocess; p = subprocess.Popen("while :; do echo noise; '
                      'sleep 0.01; done", shell=True)')
        time.sleep(0.1)
        for i in range(5):
            self.assertEqual(self.run_code(f'import time; time.sleep(0.03); print({i})').out,
                             b'%d\n' % i)
        self.assertEqual(self.run_code('print(p.poll())').out, b'None\n')

    def test_many_runs_with_background_processes(self):
        def fds():
            return len(os.listdir(f'/proc/{self.agent.process.pid}/fd'))
        self.run_code('import subprocess; many = []\n'
                      'first = subprocess.Popen("while echo noise; do sleep 0.01; done", shell=True)')
        before = fds()
        for i in range(70):
            r = self.run_code('many.append(subprocess.Popen(["sleep", "100"])); print(1)')
            self.assertEqual(r.out, b'1\n')
        self.assertLess(fds(), before + 150)
        time.sleep(0.1)
        self.assertEqual(self.run_code('print(first.poll())').out, b'None\n')
        self.run_code('for p in many: p.kill()')
        wait_until(lambda: fds() <= before + 10, 60)
        self.assertLessEqual(fds(), before + 10)

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
        self.assert_closed(self.agent)

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

    def test_many_runs(self):
        for i in range(200):
            self.assertEqual(self.run_code(f'print({i})').out, b'%d\n' % i)

    def test_code_of_every_size(self):
        for size in 0, 1, 4095, 4096, 65536, 1 << 20:
            code = '#' * size
            self.run_code(code)


if __name__ == '__main__':
    main()
