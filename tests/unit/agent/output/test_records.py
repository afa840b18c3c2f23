#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbx-agent drivers
"""What Python's streams write as records: its order, whatever the agent does meanwhile, and what is no record.

Usage: see agent_fixture.py."""

from agent_fixture import CREDIT, KILL, KILLED, SIGNAL, Case, integers, main

# As if it had no processor: the order cannot come from when it reads.
STOPPED = '''import os, signal, subprocess, sys
os.kill(os.getppid(), signal.SIGSTOP)
try:
    {}
finally:
    os.kill(os.getppid(), signal.SIGCONT)
'''

# The pipe for records, by its mark.
FIND = '''import fcntl, os, signal
def is_records(fd):
    try:
        return fcntl.fcntl(fd, fcntl.F_GETSIG) == signal.SIGWINCH
    except OSError:
        return False
pipe, = filter(is_records, map(int, os.listdir('/proc/self/fd')))
'''


class Records(Case):
    language = 'python'

    def stopped(self, *lines, **options):
        return self.run_code(STOPPED.format('\n    '.join(lines)), **options)

    def test_order_of_both(self):
        r = self.stopped('for i in range(500):',
                         '    print(i, file=sys.stderr if i % 2 else sys.stdout)')
        self.assertEqual(b''.join(r.both).split(), [b'%d' % i for i in range(500)])
        self.assertEqual(r.out.split(), [b'%d' % i for i in range(0, 500, 2)])

    def test_order_after_many_lines_of_one(self):
        r = self.stopped('for i in range(100): print(i)', 'print("e", file=sys.stderr)', 'print(100)')
        self.assertEqual(r.out.split(), [b'%d' % i for i in range(101)])
        self.assertEqual(r.err, b'e\n')

    def test_order_after_a_stretch(self):
        """However many writes of one stream alone came before: what follows is in order, where the agent reads in time.

        An agent that finds no processor for 10 ms does not, and on a busy host some rounds are of that kind."""
        for many in 'for i in range(5000): print(i)', 'for i in range(300): print(".", end="", flush=True)':
            right = 0
            for _ in range(20):
                r = self.run_code(f'import sys\n{many}\nprint("E", file=sys.stderr)\nprint("AFTER")\n')
                right += b''.join(r.both).endswith(b'E\nAFTER\n')
            self.assertGreaterEqual(right, 12, many)

    def test_a_steady_stream(self):
        """It is written as without us, until the other one is written, or the next run."""
        code = ('import sys\nours = lambda: ["write" in f.buffer.raw.__dict__ for f in (sys.stdout, sys.stderr)]\n'
                'seen = [ours()]\nfor i in range(100): print(i)\nseen.append(ours())\n')
        r = self.run_code(code + 'print("e", file=sys.stderr)\nseen.append(ours())\n'
                          'for i in range(100): print(i, file=sys.stderr)\nseen.append(ours())\nprint(seen)')
        self.assertEqual(r.out.splitlines()[-1], b'[[True, True], [False, True], [True, True], [True, False]]')
        self.run_code(code)
        r = self.run_code('print(ours())')
        self.assertEqual(r.out, b'[True, True]\n')
        self.test_order_of_both()

    def test_a_steady_stream_with_a_method_of_the_users(self):
        code = ('import sys\nraw, seen = sys.stdout.buffer.raw, []\n{before}own = raw.write\n'
                'def spy(data):\n    seen.append(1)\n    return own(data)\nraw.write = spy\n'
                'for i in range(100): print(i)\nprint("e", file=sys.stderr)\nprint(100)\n'
                'assert raw.write is spy\nprint(len(seen))\nraw.write = own\n')
        many = 'for i in range(100): print(i)\n'
        for before, n in (('', 101), (many, 101)):
            r = self.run_code(code.format(before=before))
            self.assertEqual(r.out.split()[-1], b'%d' % n)
            self.assertEqual(r.err, b'e\n')
            self.run_code('for i in range(100): print(i)')

    def test_order_with_other_writers(self):
        """Of one stream it is exact, whoever writes to it."""
        r = self.stopped('for i in range(0, 60, 3):',
                         '    print(i)',
                         '    os.write(1, b"%d\\n" % (i + 1)) if i % 2 else subprocess.run(["echo", str(i + 1)])',
                         '    print(i + 2)')
        self.assertEqual(r.out.split(), [b'%d' % i for i in range(60)])

    def test_order_of_processes(self):
        r = self.stopped('for i in range(0, 60, 2):',
                         '    if not (pid := os.fork()):',
                         '        print(i, file=sys.stderr, flush=True)',
                         '        os._exit(0)',
                         '    os.waitpid(pid, 0)',
                         '    print(i + 1)')
        self.assertEqual(b''.join(r.both).split(), [b'%d' % i for i in range(60)])

    def test_more_than_fits(self):
        """What does not fit into the pipe for records goes the other way, and nothing waits for ever."""
        n = 5250  # more than 64 KiB of records, and less than 256 writes more
        r = self.stopped(f'for i in range({n}):', '    print("%07d" % i)',
                         '    if i % 10 == 0: print(i, file=sys.stderr)')
        self.assertEqual(r.out.split(), [b'%07d' % i for i in range(n)])
        self.assertEqual(r.err.split(), [b'%d' % i for i in range(0, n, 10)])
        r = self.run_code('import sys\nfor i in range(30000):\n    print("%07d" % i)\n'
                          '    if i % 10 == 0: print(i, file=sys.stderr)')
        self.assertEqual(r.out.split(), [b'%07d' % i for i in range(30000)])
        self.assertEqual(r.err.split(), [b'%d' % i for i in range(0, 30000, 10)])

    def test_long_lines(self):
        r = self.stopped('for n in 1, 4091, 4092, 4093, 9000, 1:',
                         '    print("x" * n)',
                         '    print(n, file=sys.stderr)')
        self.assertEqual([len(line) for line in r.out.split()], [1, 4091, 4092, 4093, 9000, 1])
        self.assertEqual(r.err, b'1\n4091\n4092\n4093\n9000\n1\n')

    def test_what_was_written_before_a_crash_is_kept(self):
        for end in 'os._exit(9)', 'os.kill(os.getpid(), 9)', 'os.kill(os.getpid(), 11)', 'os.abort()':
            r = self.agent.run('import os, sys\nfor i in range(200):\n'
                               f'    print(i, file=sys.stderr if i % 2 else sys.stdout)\n{end}')
            self.assertNotEqual(r.status, 0)
            self.assertEqual(b''.join(r.both).split(), [b'%d' % i for i in range(200)], end)

    def test_killed(self):
        def hook(result):
            if result.err.count(b'\n') == 50 and result.how is None:
                self.agent.send(SIGNAL, integers('I', KILL), id=run)
        run = self.agent.start('import sys\nfor i in range(100):\n'
                               '    print(i, file=sys.stderr if i % 2 else sys.stdout)\nwhile True: pass')
        r = self.agent.finish(run, hook)
        self.assertEqual(r.how, KILLED)
        self.assertEqual(b''.join(r.both).split(), [b'%d' % i for i in range(100)])

    def test_output_is_live(self):
        def hook(result):
            if result.how is None:
                self.agent.send(SIGNAL, integers('I', KILL), id=run)
        run = self.agent.start('import sys, time\nprint("e", file=sys.stderr)\ntime.sleep(1000)')
        self.assertEqual(self.agent.finish(run, hook).err, b'e\n')

    def test_descriptors_that_were_replaced(self):
        """What user code puts in their places gets what the streams write."""
        self.run_code('import os, sys\nprint("before")\nsaved = os.dup(1)\n'
                      'f = os.open("f", os.O_RDWR | os.O_CREAT)\nos.dup2(f, 1)\nprint("to the file")\n'
                      'print("e", file=sys.stderr)\nos.dup2(saved, 1)\nprint("after")')
        r = self.run_code('print(open("f").read(), end="")')
        self.assertEqual(r.out, b'to the file\n')
        r = self.run_code('import os, sys\nos.dup2(1, 2)\nfor i in range(4):\n'
                          '    print(i, file=sys.stderr if i % 2 else sys.stdout)')
        self.assertEqual((r.out.split(), r.err), ([b'0', b'1', b'2', b'3'], b''))
        r = self.run_code('import os, sys\nr, w = os.pipe()\nsaved = os.dup(2)\nos.dup2(w, 2)\n'
                          'print("x", file=sys.stderr)\nos.dup2(saved, 2)\nprint(os.read(r, 9))')
        self.assertEqual((r.out, r.err), (b"b'x\\n'\n", b''))

    def test_a_file_in_the_place_of_the_pipe(self):
        self.run_code(FIND + 'f = os.open("g", os.O_RDWR | os.O_CREAT)\nos.dup2(f, pipe)\nprint("o")\n'
                      'assert os.fstat(f).st_size == 0')
        r = self.run_code('import sys\nprint("o")\nprint("e", file=sys.stderr)')
        self.assertEqual((r.out, r.err), (b'o\n', b'e\n'))
        r = self.run_code(FIND + 'import sys\nos.close(pipe)\nprint("o")\nprint("e", file=sys.stderr)')
        self.assertEqual((r.out, r.err), (b'o\n', b'e\n'))

    def test_limits(self):
        r = self.run_code('import sys\nfor i in range(1000):\n'
                          '    print("xxxx")\n    print("yyyyyyyyy", file=sys.stderr)',
                          limits=(1000, 64))
        self.assertEqual((len(r.out), len(r.err), r.dropped), (1000, 64, [4000, 9936]))
        r = self.run_code('import sys\nprint("xxxx")\nprint("y", file=sys.stderr)', limits=(0, 0), credit=0)
        self.assertEqual((r.out, r.err, r.dropped), (b'', b'', [5, 2]))

    def test_what_is_dropped_needs_no_credit(self):
        """Of one stream, while the other one might still be sent."""
        many = 'import os, sys\nfor i in range(1000): print("xxxx")\n'
        r = self.run_code(many, limits=(0, 100), credit=0)
        self.assertEqual((r.out, r.err, r.dropped), (b'', b'', [5000, 0]))
        r = self.run_code(many + 'for i in range(100): print("y", file=sys.stderr)\n', limits=(10, 0), credit=10)
        self.assertEqual((r.out, r.err, r.dropped), (b'xxxx\nxxxx\n', b'', [4990, 200]))
        r = self.run_code('print("x")\n' * 3 + 'import os\nos.write(1, b"y" * 50)', limits=(0, 100), credit=0)
        self.assertEqual((r.out, r.err, r.dropped), (b'', b'', [56, 0]))

    def test_a_turn_that_finds_no_place_for_the_pipe(self):
        """Then it does without, and writes nothing into the last one's."""
        self.run_code('import resource\nprint(1)\n'
                      'resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))')
        r = self.run_code('import sys\nprint("o")\nprint("e", file=sys.stderr)')
        self.assertEqual((r.out, r.err), (b'o\n', b'e\n'))

    def test_a_background_thread(self):
        """What it prints is somebody's, in order."""
        self.run_code('import threading\ndef count():\n    i = 0\n    while not done:\n        print(i); i += 1\n'
                      'done = False\nthread = threading.Thread(target=count)\nthread.start()')
        for _ in range(30):
            got = [int(line) for line in self.run_code('pass').out.split(b'\n')[1:-1] if line]
            self.assertEqual(got, sorted(got))
        self.run_code('done = True\nthread.join()')

    def test_credit(self):
        """It ends anywhere in a record."""
        def hook(result):
            if result.how is None:
                self.agent.send(CREDIT, integers('I', 1), id=run)
        run = self.agent.start('import sys\nfor i in range(20):\n'
                               '    print(i)\n    print(-i, file=sys.stderr)', credit=1)
        r = self.agent.finish(run, hook)
        self.assertEqual(b''.join(r.both), b''.join(b'%d\n%d\n' % (i, -i) for i in range(20)))

    def test_who_writes_later(self):
        """A process that an earlier run left behind writes into nobody's output."""
        self.run_code('import os, time\nif os.fork() == 0:\n    while not os.path.exists("go"): time.sleep(0.01)\n'
                      '    print("late", flush=True)\n    open("gone", "w")\n    os._exit(0)')
        r = self.run_code('import os, time\nopen("go", "w")\nwhile not os.path.exists("gone"): time.sleep(0.01)\n'
                          'print("mine")')
        self.assertEqual((r.out, r.err), (b'mine\n', b''))

    def test_what_is_no_record(self):
        for junk in 'bytes(4)', 'b"\\3\\0\\1\\0x"', 'b"\\1\\1\\1\\0x"', 'b"\\1\\0\\0\\0"', 'os.urandom(4096)':
            r = self.run_code(FIND + f'import sys, time\nprint("before")\nos.write(pipe, {junk})\ntime.sleep(0.05)\n'
                              'print("after")\nprint("e", file=sys.stderr)')
            self.assertIn(b'before\n', r.out)
            self.assertTrue(r.out.endswith(b'after\n') and r.err.endswith(b'e\n'), r)
        self.assertEqual(self.run_code('print(1)').out, b'1\n')

    def test_a_record_that_never_ends(self):
        r = self.run_code(FIND + 'print("before")\nos.write(pipe, b"\\1\\0\\377\\377x")')
        self.assertEqual(r.out, b'before\nx')
        self.assertEqual(self.run_code('print(1)').out, b'1\n')


if __name__ == '__main__':
    main()
