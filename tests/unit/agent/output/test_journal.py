#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbx-agent drivers
"""The order of two outputs that anything but a driver's streams writes to, when the agent does not get to read in between.

Usage: see agent_fixture.py."""

import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import subprocess
import sys
import time
import unittest

from agent_fixture import CREDIT, KILL, SIGNAL, Case, LocalAgent, integers, main, processes_with
from patience import wait_until

libc = ctypes.CDLL(None, use_errno=True)
SYS_PIDFD_GETFD = 438
SIZES = 1, 100, 4095, 4097, 5000, 8191, 8193, 20000, 1

# A program that knows nothing of us: what it is given is written as it comes.
WRITER = '''import os, signal
os.kill({agent}, signal.SIGSTOP)
try:
    {code}
finally:
    os.kill({agent}, signal.SIGCONT)
'''


# Some bytes that are merged with what follows, then writes that are kept apart.
APART = '''import fcntl
flags = fcntl.fcntl(1, fcntl.F_GETFL)
fcntl.fcntl(1, fcntl.F_SETFL, flags & ~os.O_DIRECT)
os.write(1, b"n" * 3000)
fcntl.fcntl(1, fcntl.F_SETFL, flags | os.O_DIRECT)
for i in range(3): os.write(1, b"a" * 4000)'''


class Shell(Case):
    language = 'raw'

    def stopped(self, code, **options):
        return self.run_code('kill -STOP $PPID\n' + code + '\nkill -CONT $PPID', **options)

    def test_turns(self):
        r = self.stopped('for ((i = 0; i < 200; i += 2)); do echo $i; echo $((i + 1)) >&2; done')
        self.assertEqual(b''.join(r.both).split(), [b'%d' % i for i in range(200)])
        self.assertEqual(r.out.split(), [b'%d' % i for i in range(0, 200, 2)])

    def test_unequal_turns(self):
        """Several writes of one stream are not put together, whatever is between them."""
        r = self.stopped('for i in {1..60}; do (( i % 7 && i % 5 )) && echo $i || echo $i >&2; done')
        self.assertEqual(b''.join(r.both).split(), [b'%d' % i for i in range(1, 61)])

    def test_children(self):
        r = self.stopped("for i in {1..20}; do echo o$i; sh -c \"echo e$i >&2; exit\"; /bin/echo p$i; done")
        self.assertEqual(b''.join(r.both).decode().split(), [f'{c}{i}' for i in range(1, 21) for c in 'oep'])

    def test_trace(self):
        r = self.stopped("set -x; echo a; eval 'echo b'; (echo c); echo $(echo d); set +x")
        self.assertEqual(b''.join(r.both).decode().splitlines(),
                         ['+ echo a', 'a', "+ eval 'echo b'", '++ echo b', 'b', '+ echo c', 'c',
                          '++ echo d', '+ echo d', 'd', '+ set +x'])
        self.assertEqual(r.out, b'a\nb\nc\nd\n')

    def test_trace_after_an_error(self):
        self.run_code('set -x; : ${none?}', status=1)
        r = self.run_code('echo a; set +x')
        self.assertEqual(r.err, b'+ echo a\n+ set +x\n')

    def test_live(self):
        def hook(result):
            if result.how is None and result.out.endswith(b'three\n'):
                self.agent.send(SIGNAL, integers('I', KILL), id=run)
        run = self.agent.start('echo one; sleep 0.1; echo two >&2; sleep 0.01; echo three; sleep 1000')
        r = self.agent.finish(run, hook)
        self.assertEqual(b''.join(r.both), b'one\ntwo\nthree\n')

    def test_flood(self):
        """More than pipes hold: nothing is lost but, where one was full, the order."""
        r = self.run_code('for ((i = 0; i < 20000; i++)); do echo $i; (( i % 4 )) || echo $i >&2; done')
        self.assertEqual(r.out.split(), [b'%d' % i for i in range(20000)])
        self.assertEqual(r.err.split(), [b'%d' % i for i in range(0, 20000, 4)])

    def test_nothing_of_the_last_run(self):
        for i in range(5):
            self.run_code(f'(until [ -e go{i} ]; do sleep 0.01; done; echo late; echo late >&2; > gone{i}) & :')
            r = self.run_code(f'echo a; > go{i}; until [ -e gone{i} ]; do sleep 0.01; done; echo b >&2')
            self.assertEqual((r.out, r.err), (b'a\n', b'b\n'))

    def test_many_of_one(self):
        """Whose writes are merged then, and are told apart as lines."""
        many = 'kill -STOP $PPID; for i in {1..200}; do echo $i; done; kill -CONT $PPID; sleep 0.05\n'
        r = self.run_code(many + 'kill -STOP $PPID; for i in {1..100}; do echo o$i; done; echo e >&2; echo p\n'
                          'echo f >&2; kill -CONT $PPID; sleep 0.05\n' + many + 'echo g >&2')
        numbers = [f'{i}' for i in range(1, 201)]
        self.assertEqual(b''.join(r.both).decode().split(),
                         numbers + [f'o{i}' for i in range(1, 101)] + ['e', 'p', 'f'] + numbers + ['g'])

    def test_many_that_are_no_lines(self):
        r = self.run_code('for i in {1..3000}; do printf .; done; printf - >&2; for i in {1..3000}; do printf ,; done\n'
                          'for i in {1..300}; do printf "a\\nb\\n"; done; printf - >&2; printf "e\\n"')
        self.assertEqual(r.out, b'.' * 3000 + b',' * 3000 + b'a\nb\n' * 300 + b'e\n')
        self.assertEqual(r.err, b'--')

    def test_many_that_are_no_lines_live(self):
        def hook(result):
            if result.how is None and result.out.endswith(b'e\n') and result.err == b'--':
                self.agent.send(SIGNAL, integers('I', KILL), id=run)
        run = self.agent.start('for i in {1..3000}; do printf "a\\nb\\n"; done; printf - >&2; printf -- - >&2\n'
                               'for i in {1..30}; do printf "c"; done; printf "e\\n"; sleep 1000')
        r = self.agent.finish(run, hook)
        self.assertEqual((r.out, r.err), (b'a\nb\n' * 3000 + b'c' * 30 + b'e\n', b'--'))


class Writes(Case):
    language = 'raw'

    def stopped(self, *lines, **options):
        code = WRITER.format(agent=self.agent.process.pid, code='\n    '.join(lines))
        return self.run_code("python3 -c '" + code.replace("'", '"') + "'", **options)

    def test_sizes(self):
        r = self.stopped(f'for n in {SIZES}:', '    os.write(1, b"o" * n); os.write(2, b"e" * n)')
        self.assertEqual(b''.join(r.both), b''.join(b'o' * n + b'e' * n for n in SIZES))

    def test_whole_pages(self):
        """Where such a write ends is not known, but nothing of it is lost."""
        r = self.stopped('for i in range(9):', '    os.write(1, b"%d" % i * 4096); os.write(2, b"%d" % i)')
        self.assertEqual(r.out, b''.join(b'%d' % i * 4096 for i in range(9)))
        self.assertEqual(r.err, b'012345678')

    def test_much_of_one(self):
        """Its writes are merged, and kept apart again when the other one is written."""
        r = self.run_code("""python3 -c '
import fcntl, os, time
def wait(apart):
    while bool(fcntl.fcntl(1, fcntl.F_GETFL) & os.O_DIRECT) != apart: time.sleep(0.001)
for n in range(3):
    wait(True)
    for i in range(5): os.write(1, b"x" * 99999 + b"\\n")
    wait(False)
    os.write(2, b"e\\n")
'""", timeout_ms=30000)
        self.assertEqual((r.out, r.err), ((b'x' * 99999 + b'\n') * 15, b'e\n' * 3))

    def test_apart_behind_others(self):
        """A read that ends in the middle of a write that is kept apart would lose the rest of it."""
        r = self.stopped(*APART.splitlines())
        self.assertEqual(r.out, b'n' * 3000 + b'a' * 4000 * 3)

    def test_end_after_much(self):
        for code, status in (('kill -9 $$', 137), ('exit 3', 3)):
            r = self.run_code('for i in {1..3000}; do echo $i; done; ' + code, status=status)
            self.assertEqual(r.out.split(), [b'%d' % i for i in range(1, 3001)])

    def test_small_credit(self):
        def hook(result):
            if result.how is None:
                self.agent.send(CREDIT, integers('I', 777), id=run)
        code = f'for n in {SIZES}: os.write(1, b"o" * n); os.write(2, b"e" * n)'
        run = self.agent.start(f"python3 -c 'import os\n{code}'", credit=1)
        r = self.agent.finish(run, hook)
        self.assertEqual(b''.join(r.both), b''.join(b'o' * n + b'e' * n for n in SIZES))

    def test_limits(self):
        r = self.stopped('for i in range(9):', '    os.write(1, b"o" * 1000); os.write(2, b"e" * 1000)',
                         limits=(2500, 1 << 20))
        self.assertEqual((r.out, r.err, r.dropped), (b'o' * 2500, b'e' * 9000, [6500, 0]))

    def test_too_many_to_be_told(self):
        """Nothing is lost then but the order, and that is found again."""
        limit = resource.prlimit(self.agent.process.pid, resource.RLIMIT_SIGPENDING)
        resource.prlimit(self.agent.process.pid, resource.RLIMIT_SIGPENDING, (20, limit[1]))
        r = self.stopped('for i in range(100):', '    os.write(1, b"o\\n"); os.write(2, b"e\\n")')
        self.assertEqual((r.out, r.err), (b'o\n' * 100, b'e\n' * 100))
        resource.prlimit(self.agent.process.pid, resource.RLIMIT_SIGPENDING, limit)
        r = self.stopped('for i in range(5):', '    os.write(1, b"o\\n"); os.write(2, b"e\\n")')
        self.assertEqual(b''.join(r.both), b'o\ne\n' * 5)

    def test_too_many_to_be_told_live(self):
        """What the kernel has no room to tell of is found all the same, and does not wait for the run's end."""
        for room, many in (20, 100), (100, 150), (400, 255):
            with self.subTest(room=room):
                hard = resource.getrlimit(resource.RLIMIT_SIGPENDING)[1]
                resource.prlimit(self.agent.process.pid, resource.RLIMIT_SIGPENDING, (room, hard))

                def hook(result, many=many):
                    if result.how is None and len(result.out + result.err) == 4 * many:
                        self.agent.send(SIGNAL, integers('I', KILL), id=run)
                code = WRITER.format(agent=self.agent.process.pid, code=f'for i in range({many}): os.write(1, b"o\\n"); '
                                                                        'os.write(2, b"e\\n")').replace("'", '"')
                run = self.agent.start(f"python3 -c '{code}'; sleep 1000")
                r = self.agent.finish(run, hook)
                self.assertEqual((r.out, r.err), (b'o\n' * many, b'e\n' * many))

    def test_idle_ones_are_small(self):
        """All pipes of a user together may have 64 MiB: an agent that waits has enlarged none."""
        self.run_code('echo')
        wait_until(lambda: max(self.pipes()) <= 1 << 16, 5)
        self.assertGreaterEqual(len(self.pipes()), 2)
        self.assertLessEqual(max(self.pipes()), 1 << 16)

    def pipes(self):
        """What the agent's pipes have room for."""
        sizes, fds = [], f'/proc/{self.agent.process.pid}/fd'
        for fd in os.listdir(fds):
            with contextlib.suppress(FileNotFoundError):
                if os.readlink(f'{fds}/{fd}').startswith('pipe:'):
                    pipe = os.open(f'{fds}/{fd}', os.O_RDONLY | os.O_NONBLOCK)
                    sizes.append(fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ))
                    os.close(pipe)
        return sizes

    def test_other_ways_to_write(self):
        """Whatever puts something into a pipe is heard, also while the program goes on."""
        ways = ('os.writev(1, [b"a", b"b"])',
                'open("f", "wb").write(b"xyz") and os.sendfile(1, os.open("f", os.O_RDONLY), 0, 3)',
                'open("f", "wb").write(b"xyz") and os.splice(os.open("f", os.O_RDONLY), 1, 3)',
                'os.write(w, b"xyz") and os.splice(r, 1, 3)',
                'open("/dev/stdout", "w").write("xyz")')

        def hook(result):
            if result.how is None:
                self.agent.send(SIGNAL, integers('I', KILL), id=run)
        for way in ways:
            run = self.agent.start(f"exec python3 -c 'import os, time\nr, w = os.pipe()\n{way}\ntime.sleep(1000)'")
            self.assertIn(self.agent.finish(run, hook).out, (b'ab', b'xyz'), way)

    def test_opened_anew(self):
        r = self.stopped('for i in range(30):',
                         '    print(i, file=open("/dev/stdout", "w")); print(i, file=open("/dev/stderr", "w"))')
        self.assertEqual(r.out.split(), [b'%d' % i for i in range(30)])
        self.assertEqual(r.err.split(), [b'%d' % i for i in range(30)])

    def test_told_late(self):
        """Who has written may lose the processor before the kernel tells of it: what was read unheard is not taken for
        what comes later."""
        outputs = {}

        def hook(result):
            if result.out == b'a\n' and not outputs.get('late'):
                self.late(outputs)
                outputs['late'] = True
            elif len(result.out + result.err) == 8:
                self.agent.send(SIGNAL, integers('I', KILL), id=run)
        run = self.agent.start('echo x >&2; sleep 1000')
        wait_until(lambda: self.ends(outputs), 10)
        self.listen(outputs, False)
        os.write(outputs['out'], b'a\n')
        os.write(outputs['err'], b'y\n')
        r = self.agent.finish(run, hook)
        self.assertEqual(b''.join(r.both), b'x\ny\na\nb\nc\n')

    def ends(self, outputs):
        """Finds the agent's ends of both pipes, and has them here as well."""
        agent = self.agent.process.pid
        child = [pid for pid in processes_with(self.marker) if os.path.basename(os.readlink(f'/proc/{pid}/exe')) == 'sleep']
        if not child:
            return False
        pidfd = os.pidfd_open(agent)
        pipes = {os.readlink(f'/proc/{child[0]}/fd/{fd}'): name for fd, name in ((1, 'out'), (2, 'err'))}
        for fd in os.listdir(f'/proc/{agent}/fd'):
            name = pipes.get(os.readlink(f'/proc/{agent}/fd/{fd}'))
            if name:
                ours = libc.syscall(SYS_PIDFD_GETFD, pidfd, int(fd), 0)
                self.addCleanup(os.close, ours)
                writes = fcntl.fcntl(ours, fcntl.F_GETFL) & os.O_ACCMODE
                outputs[name if writes else f'read {name}'] = ours
                outputs[f'number {name}'] = int(fd) if not writes else outputs.get(f'number {name}')
        os.close(pidfd)
        return True

    @staticmethod
    def listen(outputs, on):
        """Has the kernel tell the agent of writes to stdout, or not."""
        number = outputs['number out']
        saved = os.dup(number) if os.path.exists(f'/proc/self/fd/{number}') else None
        os.dup2(outputs['read out'], number)
        fcntl.fcntl(number, fcntl.F_SETFL, os.O_NONBLOCK | (os.O_ASYNC if on else 0))
        os.close(number)
        if saved is not None:
            os.dup2(saved, number)
            os.close(saved)

    def late(self, outputs):
        """The kernel tells of a write to stdout that is not there any more, then of one to each."""
        os.kill(self.agent.process.pid, signal.SIGSTOP)
        try:
            self.listen(outputs, True)
            os.write(outputs['out'], b'a\n')
            os.read(outputs['read out'], 2)
            os.write(outputs['err'], b'b\n')
            os.write(outputs['out'], b'c\n')
        finally:
            os.kill(self.agent.process.pid, signal.SIGCONT)

    def test_signals_of_others(self):
        r = self.run_code('for i in {1..50}; do kill -RTMIN $PPID; kill -IO $PPID; done; echo o; echo e >&2; echo p')
        self.assertEqual((r.out, r.err), (b'o\np\n', b'e\n'))


# Makes as many long pipes as its user may have, less those that it is told to leave to others.
HOLDER = '''import fcntl, os, sys
pipes = []
try:
    while True:
        pipes.append(os.pipe())
        fcntl.fcntl(pipes[-1][1], fcntl.F_SETPIPE_SZ, 1 << 20)
except PermissionError:
    for fd in sum(pipes[:int(sys.argv[1])], ()):
        os.close(fd)
    print(flush=True)
    input()
'''

# What the pipes of both outputs are like: their lengths, and whether writes to them are kept apart.
LOOK = '''python3 -c '
from fcntl import *
import os
for fd in 1, 2:
    print(fcntl(fd, F_GETPIPE_SZ), bool(fcntl(fd, F_GETFL) & os.O_DIRECT))
' '''


class ShortPipes(unittest.TestCase):
    """Without long pipes the order is not always known."""

    def agent_with(self, pipes):
        """Return: the agent of a user who can make so many long pipes."""
        if os.getuid():
            self.skipTest('only root can be a user of whom nobody else has pipes')
        user = 3000000000 + os.getpid() + pipes * 10000000
        holder = subprocess.Popen([sys.executable, '-c', HOLDER, str(pipes)], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, user=user, group=user, extra_groups=[])
        self.addCleanup(holder.communicate, b'\n')
        holder.stdout.readline()
        agent = LocalAgent(user)
        self.addCleanup(agent.close)
        agent.hello()
        agent.setup('raw')
        return agent

    def test_both_long(self):
        agent = self.agent_with(4)
        self.assertEqual(agent.run(LOOK).out, b'1048576 True\n1048576 True\n')

    def test_one_long(self):
        """That the writes to one are kept apart would tell nobody anything."""
        agent = self.agent_with(2)
        out = agent.run(LOOK).out.split()
        self.assertEqual(out[::2].count(b'1048576'), 1, out)
        self.assertEqual(out[1::2], [b'False'] * 2)
        code = 'for i in {1..2000}; do echo $i; done; grep SigPnd -h /proc/$PPID/status >&2; grep ShdPnd -h /proc/$PPID/status >&2'
        result = agent.run(code)
        self.assertEqual(len(result.out.split()), 2000)
        self.assertEqual([int(pending, 16) for pending in result.err.split()[1::2]], [0, 0])

    def test_said(self):
        """The agent says so, once."""
        agent = self.agent_with(0)
        for _ in range(2):
            self.assertEqual(agent.run('echo o; echo e >&2; echo p').out, b'o\np\n')
        agent.ping()
        self.assertEqual(agent.log.count(b'there are only short pipes'), 1, agent.log)

    def test_apart_behind_others(self):
        """As above; and what is sent in parts for lack of credit does not wait for the next write."""
        agent = self.agent_with(0)
        def hook(result):
            if result.how is None and len(result.out) == 15000:
                agent.send(SIGNAL, integers('I', KILL), id=run)
            elif result.how is None:
                agent.send(CREDIT, integers('I', 777), id=run)
        run = agent.start(f"python3 -c 'import os\n{APART}'; sleep 1000", credit=1)
        r = agent.finish(run, hook)
        self.assertEqual(r.out, b'n' * 3000 + b'a' * 4000 * 3)

    def test_limit(self):
        """What is past it is counted, byte by byte."""
        agent = self.agent_with(0)
        r = agent.run(f"python3 -c 'import os\n{APART}'", limits=(100, 100))
        self.assertEqual((r.out, r.dropped), (b'n' * 100, [14900, 0]))


class Python(Case):
    """Records, which are older than the rest."""
    language = 'python'

    def test_with_records(self):
        r = self.run_code('import os, signal, subprocess, sys\n'
                          'agent = os.getppid()\n'
                          'os.kill(agent, signal.SIGSTOP)\n'
                          'for i in range(0, 90, 3):\n'
                          '    print(i, file=sys.stderr if i % 2 else sys.stdout)\n'
                          '    subprocess.run(["sh", "-c", f"echo {i + 1} >&2"])\n'
                          '    print(i + 2)\n'
                          'os.kill(agent, signal.SIGCONT)\n')
        self.assertEqual(b''.join(r.both).split(), [b'%d' % i for i in range(90)])

    def test_with_records_meanwhile(self):
        r = self.run_code('import os, subprocess, sys\n'
                          'for i in range(0, 900, 3):\n'
                          '    print(i, file=sys.stderr if i % 2 else sys.stdout)\n'
                          '    os.write(1 + i % 2, b"%d\\n" % (i + 1))\n'
                          '    print(i + 2, file=sys.stderr if i % 4 else sys.stdout, flush=True)\n')
        self.assertEqual(b''.join(r.both).split(), [b'%d' % i for i in range(900)])

    def test_records_behind_a_piece(self):
        """What was read and waits for credit is older than records that are written meanwhile: the driver finds nothing
        in the pipes."""
        for what, end in ('w' * 4000, 'time.sleep(0.3)'), ('w' * 9000, ''), ('lines\n' * 1500, 'time.sleep(0.3)'), ('w' * 4000, ''):
            for stream in 1, 2:
                with self.subTest(what=what[:6], end=end, stream=stream):
                    run = self.agent.start(f'import os, sys, time\nos.write({stream}, b"{{}}")\ntime.sleep(0.2)\n'
                                           f'print("e", file=sys.stderr)\nprint("o")\n{end}'.replace('{}', repr(what)[1:-1]),
                                           credit=100)
                    time.sleep(0.4)
                    r = self.agent.finish(run, lambda result: result.how is None and
                                          self.agent.send(CREDIT, integers('I', 777), id=run))
                    self.assertEqual(b''.join(r.both).decode(), what + 'e\no\n')


if __name__ == '__main__':
    main()
