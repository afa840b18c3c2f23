#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How Python ends, is interrupted, forks and is copied under its driver, images/drivers/repl.py.

Usage: see driver_fixture.py."""

import os
import random
import signal
import sys
import time

from driver_fixture import DEADLINE, SEED, TIDY, WARM, DriverCase, Gone, main, pythons


class ProcessCases(DriverCase):
    """How runs of repl.py end, by themselves or interrupted, and what they start beside them."""

    def test_end_of_process(self):
        self.expect_gone(self.session(), 'import os\nprint("kept")\nos._exit(42)', 42, 'kept\n')
        self.expect_gone(self.session(), 'import os, signal; os.kill(os.getpid(), 11)', 139)
        self.expect_gone(self.session(), 'import os; os.kill(os.getpid(), 9)', 137)
        self.expect_gone(self.session(), 'import os; os.execvp("sh", ["sh", "-c", "exit 5"])', 5)

    def test_handlers_that_raise_between_runs(self):
        s = self.session()
        self.expect(s, '''
            import os, signal, threading
            def late(*args):
                seen.append(1)
                raise RuntimeError('late')
            seen = []
            signal.signal(signal.SIGALRM, late)
            signal.setitimer(signal.ITIMER_REAL, .1)''', '', 0, '')
        time.sleep(.3)
        self.expect(s, 'print(len(seen))', '1\n', 0, '')
        for _ in range(20):  # while it tidies up, or right before or after
            os.kill(s.process.pid, signal.SIGALRM)
            s.send(TIDY)
            os.kill(s.process.pid, signal.SIGALRM)
        time.sleep(.1)
        # Another thread takes the signal: its handler runs when the main thread has something to do.
        self.expect(s, '''
            print(len(seen) > 1)
            seen.clear()
            threading.Thread(target=threading.Event().wait, daemon=True).start()
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])''', 'True\n', 0, '')
        os.kill(s.process.pid, signal.SIGALRM)
        time.sleep(.1)
        self.expect(s, 'print(len(seen))', '1\n', 0, 'late')
        self.expect(s, 'print(len(seen))', '1\n', 0, '')
        self.expect(s, 'signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])\n'
                    'def bye(*args): raise SystemExit(5)\nsignal.signal(signal.SIGALRM, bye)', '', 0, '')
        # One that comes right before it waits for its next request is heard of with that.
        while s.process.poll() is None:
            os.kill(s.process.pid, signal.SIGALRM)
            time.sleep(.05)
        self.assertEqual(s.process.returncode, 5)

    def test_handlers_that_raise_all_the_time(self):
        s = self.session()
        self.expect(s, '''
            import os, signal
            def late(*args): raise RuntimeError('late')
            kept = os.getpid()
            signal.signal(signal.SIGALRM, late)
            signal.setitimer(signal.ITIMER_REAL, .001, .001)''', status=None)
        for _ in range(200):
            s.run('print(kept)')
        while not (r := s.run('signal.setitimer(signal.ITIMER_REAL, 0); print("off")')).out:
            # Where it raises while the traceback is printed, only the status tells.
            self.assertTrue(b'late' in r.err or r.status, (r.status, r.err))
        self.expect(s, 'print(kept == os.getpid())', 'True\n', 0, '')

    def test_audit_hook_that_raises(self):
        s = self.session()
        self.expect(s, 'import sys\nsys.addaudithook(lambda *a: 1 / 0)', '')
        with self.assertRaises(Gone) as caught:  # nothing can be done in there any more
            s.run('1')
        self.compare(caught.exception.result, '', b'', 1, 'ZeroDivisionError')
        s = self.session()
        self.expect(s, '''
            import sys
            def hook(event, args):
                if event.startswith('sys.set'): 1 / 0
            x = 1
            sys.addaudithook(hook)''', '', 0, '')
        self.expect(s, 'print(x)', '1\n', 0, '')

    def test_interrupt(self):
        s = self.session()
        r = self.interrupted(s, 'x = 5\nimport time\nprint("go", flush=True)\nwhile True: pass')
        self.compare(r, '', 'go\n', 130, 'KeyboardInterrupt')
        self.assertNotIn(b'repl.py', r.err)
        r = self.interrupted(s, 'x += 1\nprint("go")\ntime.sleep(100)')
        self.compare(r, '', 'go\n', 130, '    time.sleep(100)')
        r = self.interrupted(s, 'print("go")\nwhile True: print("spam")')
        self.assertEqual(r.status, 130)
        self.assertNotIn(b'repl.py', r.err)
        r = self.interrupted(s, '''
            print('go')
            try: time.sleep(100)
            except KeyboardInterrupt: print('caught')''')
        self.compare(r, '', 'go\ncaught\n', 0, '')
        r = self.interrupted(s, '''
            import signal
            signal.signal(signal.SIGINT, lambda *a: print('mine') or exit(3))
            print('go'); time.sleep(100)''')
        self.compare(r, '', 'go\nmine\n', 3, '')
        for _ in range(20):  # between runs nothing happens
            s.interrupt()
        self.expect(s, 'signal.signal(signal.SIGINT, signal.SIG_IGN); print(x)', '6\n')
        r = self.interrupted(s, 'signal.pthread_sigmask(0, [2]); print("go"); time.sleep(.5); sys.x')
        r = self.interrupted(s, 'print("go"); time.sleep(100)')
        self.compare(r, '', 'go\n', 130, 'KeyboardInterrupt')
        r = self.interrupted(s, 'import asyncio\nprint("go")\nasyncio.run(asyncio.sleep(100))')
        self.compare(r, '', 'go\n', 130, 'KeyboardInterrupt')
        r = self.interrupted(s, 'import subprocess\nprint("go")\nsubprocess.run(["sleep", "100"])')
        self.compare(r, '', 'go\n', 130, 'KeyboardInterrupt')
        r = self.interrupted(s, 'print("go")\ninput()', stdin=None)
        self.compare(r, '', 'go\n', 130, 'KeyboardInterrupt')

    def test_interrupts_at_any_time(self):
        s = self.session()
        self.expect(s, 'n = 0')
        chance = random.Random(1)
        for _ in range(150):
            pending = s.start('n += 1\nfor i in range(20000): pass\nprint("x")')
            time.sleep(chance.random() * .003)
            s.interrupt()
            r = s.finish(pending)
            self.assertIn(r.status, (0, 130), r)
            self.assertNotIn(b'repl.py', r.err)
        self.expect(s, 'print("alive", n > 10)', 'alive True\n')

    def test_forks(self):
        s = self.session()
        self.expect(s, '''
            import os, sys
            pids = []
            for i in range(20):
                pid = os.fork()
                if pid == 0: sys.exit(0)
                pids.append(pid)
            print([os.waitpid(p, 0)[1] for p in pids] == [0] * 20)''', 'True\n', 0, '')
        self.expect(s, '''
            print('partial ', end=''); sys.stdout.write('line ')
            pid = os.fork()
            if pid == 0:
                print('child')
            else:
                print('parent', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))''',
                    'partial line child\nparent 0\n')
        self.expect(s, 'pid = os.fork()\nif pid == 0: 1/0\n'
                    'print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))', '1\n', 0,
                    'ZeroDivisionError')
        for status in 0, 42, 99:
            self.expect(s, f'pid = os.fork()\nif pid == 0: sys.exit({status})\n'
                        'print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))', f'{status}\n')
        self.expect(s, '''
            import atexit
            pid = os.fork()
            if pid == 0:
                atexit.register(print, 'at exit'); print('text', end='')
            else:
                os.waitpid(pid, 0)''', 'textat exit\n')
        self.expect(s, '''
            for i in range(50):
                p = os.fork()
                if not p: os._exit(0)
                os.waitpid(p, 0)
            print('parent')''', 'parent\n')
        self.expect(s, '''
            import time
            pid = os.fork()
            if pid == 0:
                if os.fork() == 0: time.sleep(.3); sys.exit(1)
                time.sleep(.2); sys.exit(5)
            print('here')''', 'here\n')
        self.expect(s, 'print(os.waitpid(pid, 0)[1] >> 8); time.sleep(.3)', '5\n')
        self.expect(s, '''
            import threading
            def work():
                if os.fork() == 0: sys.exit(0)
            t = threading.Thread(target=work); t.start(); t.join(); os.wait(); print('one')''', 'one\n')
        self.expect(s, 'print("once")', 'once\n')

    def test_forked_children_end_like_programs(self):
        s = self.session()
        s.simple(WARM)
        self.expect(s, '''
            import os, sys, threading, time
            open('mod.py', 'w').write('f = open("mod.txt", "w"); f.write("of a module")')
            class D:
                def __del__(self): os.write(1, b'del ')
            pid = os.fork()
            if pid == 0:
                import mod
                f = open('own.txt', 'w'); f.write('not flushed')
                d = D(); ring = [f]; ring.append(ring)
                t = threading.Thread(target=lambda: (time.sleep(.2), print('thread', end=' ')))
                t.start()
                sys.exit(9)
            print(os.waitpid(pid, 0)[1] >> 8, open('own.txt').read(), open('mod.txt').read())''',
                    'thread del 9 not flushed of a module\n', 0, '')
        self.expect(s, '''
            import atexit
            pid = os.fork()
            if pid == 0: atexit.register(lambda: 1 / 0)
            else: print(os.waitpid(pid, 0)[1])''', '0\n', 0, 'ZeroDivisionError')

    def test_copy(self):
        s = self.session(env={'MARK': 'yes'})
        s.simple(WARM)
        copies = [self.copy_of(s) for _ in range(3)]
        pids = []
        for n, c in enumerate(copies):
            c.simple(SEED, os.urandom(32))
            pids.append(int(self.expect(c, 'import os, random; x = random.random()\n'
                                        'print(os.getpid())').out))
            self.expect(c, f'{n}\nprint(os.getppid() == {os.getpid()}, os.getsid(0) == os.getpid(),'
                        ' os.environ["MARK"], os.getcwd())', f'True True yes {s.home}\n')
        self.assertEqual(pids, [c.pid for c in copies])
        self.assertEqual(len({self.expect(c, 'print(x)').out for c in copies}), 3)
        self.expect(copies[0], 'y = 1\nif os.fork() == 0: print("child"); raise SystemExit(3)\n'
                    'print(os.wait()[1] >> 8)', 'child\n3\n')
        self.interrupted(copies[1], 'print("go", flush=True)\nwhile True: pass')
        self.expect(copies[1], 'print(x == x, "y" in globals())', 'True False\n')
        self.expect_gone(copies[2], 'os._exit(7)', 7)
        self.expect(self.copy_of(s), 'print("x" in globals())', 'False\n')

    def test_multiprocessing(self):
        s = self.session()
        self.expect(s, 'def f(x): return x * x')
        self.expect(s, '''
            import multiprocessing as mp
            with mp.Pool(2) as p: print(p.map(f, range(5)))
            print(mp.get_start_method())''', '[0, 1, 4, 9, 16]\nfork\n', 0, '')
        self.expect(s, '''
            from concurrent.futures import ProcessPoolExecutor
            with ProcessPoolExecutor(2) as p: print(list(p.map(f, range(3))))
            q = mp.Queue()
            p = mp.Process(target=q.put, args=(5,)); p.start(); print(q.get()); p.join()
            def g(): print('from a child')
            p = mp.Process(target=g); p.start(); p.join(); print(p.exitcode)
            p = mp.Process(target=exit, args=(3,)); p.start(); p.join(); print(p.exitcode)''',
                    '[0, 1, 4]\n5\nfrom a child\n0\n3\n')
        for method in 'spawn', 'forkserver':
            self.expect(s, f'''
                import multiprocessing as mp
                def g(x): return x + 1
                if __name__ == '__main__':
                    with mp.get_context('{method}').Pool(2) as p: print(p.map(g, range(3)))''',
                        '[1, 2, 3]\n', 0, '')
        self.expect(s, 'print("once")', 'once\n')

    def test_threads_and_children_go_on(self):
        s = self.session()
        self.expect(s, '''
            import threading, time, subprocess
            ticks = 0
            def count():
                global ticks
                while True: ticks += 1; time.sleep(.01)
            threading.Thread(target=count).start()
            child = subprocess.Popen(['sleep', '100'])''', '', 0, '')
        time.sleep(.1)
        self.expect(s, 'print(ticks > 3, child.poll()); child.kill()', 'True None\n')

    def test_asyncio(self):
        s = self.session()
        for _ in range(3):
            self.expect(s, 'import asyncio\nasync def f(): await asyncio.sleep(0); print("a")\n'
                        'asyncio.run(f())', 'a\n', 0, '')


if __name__ == '__main__':
    sys.exit(main(pythons, ProcessCases))
