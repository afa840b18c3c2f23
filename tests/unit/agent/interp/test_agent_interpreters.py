#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbx-agent drivers
"""The agent's interpreters: as they begin, warmed, in reserve, replaced.

Usage: see agent_fixture.py."""

import contextlib
import ctypes
import os
import resource
import signal
import time
import unittest

from agent_fixture import (BUN, FAILED, GONE, GONE_EXITED, GONE_SIGNAL, GONE_SILENT, HELLO_OK, READY, RESET,
                       SANITIZED, SETUP, TIMEOUT, Case, integers, is_running, main, session_processes, text)
from patience import wait_until

WALL = 0x40000000  # wait(2) for whom we trace, whose parent is another


class Interpreters(Case):
    language = 'python'

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
            wait_until(lambda: self.agent.usage()[-1] == 1, 60)  # a copy that has just been made is not known yet
            self.assertEqual(self.agent.usage()[-1], 1)
            self.assertNotIn(pid, seen)
            seen.add(pid)
            r = self.run_code('os._exit(3)', status=3)
            self.assertEqual(r.fresh, 1)
            self.assertEqual(self.run_code('print("x" in globals())').out, b'False\n')
        self.assertEqual(len(draws), 4)

    def test_reset_before_it_is_set_up(self):
        """Whoever takes a clone does not wait until it has its variables: one READY answers both."""
        self.agent.send(SETUP, text('python') + integers('QQIIIIQI', 0, 0, 0, 0, 0, 0, 0, 1) +
                        text('A') + text('own'))
        self.agent.send(RESET)
        kind = self.agent.read_frame()[0]
        while kind not in (READY, FAILED):
            kind = self.agent.read_frame()[0]
        self.assertEqual(kind, READY)
        self.assertEqual(self.run_code('import os; print(os.environ["A"])').out, b'own\n')

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

    def test_control_socket_closed_by_user_code(self):
        r = self.agent.run('import os; os.closerange(3, 65536); print("on")', timeout_ms=5000)
        self.assertEqual(r.out, b'on\n')
        self.assertEqual(r.fresh, 1)
        self.run_code('print(1)')

    def die(self, code, why, number):
        """The interpreter ends between two runs: the next run is told, the one after it goes on."""
        self.run_code(f'x = 1\nimport os, signal, threading\n'
                      f'def die(): {code}\nthreading.Timer(0.2, die).start()')
        pid = int(self.run_code('print(os.getpid())').out)
        self.wait_gone([pid])
        r = self.agent.run('print("x" in globals())')
        self.assertEqual((r.how, r.gone, r.status, r.fresh, r.out), (GONE, why, number, 1, b''))
        r = self.run_code('print("x" in globals())')
        self.assertEqual((r.out, r.fresh), (b'False\n', 0))

    def test_end_between_runs(self):
        self.die('os._exit(7)', GONE_EXITED, 7)
        self.die('os.kill(os.getpid(), 9)', GONE_SIGNAL, 9)
        self.die('os.kill(os.getpid(), 11)', GONE_SIGNAL, 11)

    @contextlib.contextmanager
    def hanging_up(self, how):
        """The interpreter ends in two steps, as a process does: its end of the socket is closed, and a
        moment later it can be waited for. The agent gets to see neither until the first is done."""
        self.run_code(f'''if True:
            import os, socket, threading, time
            def end():
                while not os.path.exists('now'): time.sleep(.01)
                os.unlink('now')
                socket.socket(fileno=1000).shutdown(socket.SHUT_RDWR)
                open('shut', 'w').close()
                time.sleep(.1)
                {how}
            x = 1
            threading.Thread(target=end).start()''')
        agent, work = self.agent.process.pid, os.path.join(self.agent.root, 'files')
        os.kill(agent, signal.SIGSTOP)
        self.wait_stopped(agent)
        try:
            yield
            with open(os.path.join(work, 'now'), 'w', encoding='ascii'):
                pass
            while not os.path.exists(os.path.join(work, 'shut')):
                time.sleep(.01)
        finally:
            os.unlink(os.path.join(work, 'shut'))
            os.kill(agent, signal.SIGCONT)

    def test_end_of_the_socket_comes_before_that_of_the_process(self):
        for how, why, number in (('os.kill(os.getpid(), 9)', GONE_SIGNAL, 9),
                                 ('os.kill(os.getpid(), 11)', GONE_SIGNAL, 11),
                                 ('os._exit(3)', GONE_EXITED, 3), ('time.sleep(60)', GONE_SILENT, 0)):
            for run_first in True, False:
                with self.hanging_up(how):
                    # What the agent hears of first is the run, or is the end of the socket.
                    id = run_first and self.agent.start('print("x" in globals())')
                r = self.agent.finish(id or self.agent.start('print("x" in globals())'))
                self.assertEqual((r.how, r.gone, r.status, r.fresh, r.out), (GONE, why, number, 1, b''))
                self.assertEqual(self.run_code('print("x" in globals())').out, b'False\n')

    def test_reset_while_it_hangs_up(self):
        for how in 'os._exit(3)', 'time.sleep(60)':
            with self.hanging_up(how):
                pass
            self.agent.reset()
            self.assertEqual(self.run_code('print("x" in globals())').out, b'False\n')

    def test_seed_while_it_hangs_up(self):
        with self.hanging_up('os.kill(os.getpid(), 9)'):
            hello = self.agent.send_hello(9)
        self.assertEqual(self.agent.take(hello)[0], HELLO_OK)
        r = self.agent.run('print("x" in globals())')
        self.assertEqual((r.how, r.gone, r.status), (GONE, GONE_SIGNAL, 9))

    def test_reset_after_an_end_between_runs(self):
        pid = int(self.run_code('import os; print(os.getpid())').out)
        os.kill(pid, signal.SIGKILL)
        self.wait_gone([pid])
        self.agent.reset()
        self.run_code('print(1)')

    @staticmethod
    def wait_stopped(pid):
        for _ in range(1000):
            with open(f'/proc/{pid}/stat', encoding='ascii') as f:
                if f.read().rsplit(')', 1)[1].split()[0] == 'T':
                    return
            time.sleep(0.01)

    @staticmethod
    def trace(request, pid):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.ptrace(ctypes.c_long(request), ctypes.c_long(pid), ctypes.c_void_p(), ctypes.c_void_p()) < 0:
            raise OSError(ctypes.get_errno(), 'ptrace')

    def hold(self, pid):
        """Stop a process in a way that no SIGCONT undoes."""
        self.trace(0x4206, pid)  # PTRACE_SEIZE
        self.trace(0x4207, pid)  # PTRACE_INTERRUPT
        os.waitpid(pid, WALL)

    def test_end_before_the_code_was_taken(self):
        for holder in '', 'import time\nif os.fork() == 0: time.sleep(60)':
            pid = int(self.run_code(f'import os; print(os.getpid(), flush=True)\n{holder}').out)
            self.hold(pid)
            id = self.agent.start('print("ran")')
            self.agent.ping()
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, WALL)
            r = self.agent.finish(id)
            self.assertEqual((r.how, r.gone, r.status, r.fresh, r.out), (GONE, GONE_SIGNAL, 9, 1, b''))
            self.run_code('print(1)')

    def test_stopped_before_the_code_comes(self):
        pid = int(self.run_code('import os; x = 5; print(os.getpid())').out)
        os.kill(pid, signal.SIGSTOP)
        self.assertEqual(self.run_code('print(x)').out, b'5\n')

    def test_ends_that_are_known(self):
        self.run_code('import os; os._exit(3)', status=3)
        self.run_code('pass')
        self.run_code('while True: pass', timeout_ms=200, how=TIMEOUT, status=124)
        self.run_code('pass')


class Others(Case):
    """The same of the other languages."""

    def end(self, language, code):
        self.agent.setup(language)
        pid = int(self.run_code(code).out)
        os.kill(pid, signal.SIGKILL)
        self.wait_gone([pid])
        r = self.agent.run(code)
        self.assertEqual((r.how, r.gone, r.status, r.out), (GONE, GONE_SIGNAL, 9, b''))
        self.run_code(code)

    def test_bash(self):
        self.end('raw', 'echo $$')

    @unittest.skipUnless(os.path.exists(BUN), 'there is no Bun')
    def test_bun(self):
        self.end('javascript', 'console.log(process.pid)')

    @unittest.skipUnless(os.path.exists(BUN), 'there is no Bun')
    @unittest.skipIf(SANITIZED, 'a sanitizer of the agent maps more than that itself')
    def test_bun_where_each_process_is_limited(self):
        """As in a jail without control groups, with the memory that a session has by default."""
        resource.prlimit(self.agent.process.pid, resource.RLIMIT_DATA, (196 << 20, 196 << 20))
        self.agent.setup('javascript')
        r = self.run_code('let a = []; try { for (;;) a.push(Buffer.alloc(1 << 20, 1)) } catch (e) {'
                          ' const n = a.length; a = null; console.log(n > 32, String(e)) }')
        self.assertEqual(r.out, b'true RangeError: Out of memory\n')


if __name__ == '__main__':
    main()
