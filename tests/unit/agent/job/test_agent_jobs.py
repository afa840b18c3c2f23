#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbx-agent drivers
"""Jobs: programs beside the interpreter.

Usage: see agent_fixture.py."""

import errno
import os
import signal
import time
import unittest

from agent_fixture import (CREDIT, DONE, FAILED, FREEZE, INTERRUPT, JOB, JOB_FORGET, JOB_GONE, JOB_ID, KILL, KILLED, LOST,
                           RESET, RUN, SETUP, SIGNAL, SIGNAL_NUMBER, STDIN, TIMEOUT, Case, integers, is_running, main,
                           processes_with, text)
from patience import wait_until


class Jobs(Case):
    language = 'raw'

    def run_job(self, code='', status=0, how=DONE, **options):
        result = self.agent.job(code, **options)
        self.assertEqual((result.how, result.status), (how, status), result)
        return result

    def named(self):
        """The processes there are, each with its name."""
        found = []
        for pid in processes_with(self.marker):
            try:
                with open(f'/proc/{pid}/comm') as f:
                    found.append((pid, f.read().strip()))
            except OSError:
                pass
        return found

    def names(self):
        return [name for _pid, name in self.named()]

    def wait_alone(self):
        """Nothing is left but the interpreter, and maybe one in reserve."""
        wait_until(lambda: set(self.names()) <= {'bash'}, 10)
        wait_until(lambda: not self.children('xsbx-job'), 10)

    def children(self, name):
        agent, found = self.agent.process.pid, []
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open(f'/proc/{pid}/stat') as f:
                    stat = f.read()
            except OSError:
                continue
            if f'({name})' in stat and int(stat.rpartition(')')[2].split()[1]) == agent:
                found.append(int(pid))
        return found

    def test_shell(self):
        r = self.run_job('echo out; echo err >&2; echo more; exit 3', status=3)
        self.assertEqual((r.out, r.err), (b'out\nmore\n', b'err\n'))
        self.assertEqual(b''.join(r.both), b'out\nerr\nmore\n')
        self.assertGreater(r.wall, 0)
        self.assertGreater(r.maxrss, 100)

    def test_argv(self):
        r = self.run_job(argv=['printf', '%s|', 'a b', '', "c'd"])
        self.assertEqual(r.out, b'a b||c\'d|')

    def test_long_argv(self):
        word = 'x' * 100000
        r = self.run_job(argv=['sh', '-c', 'printf "%s" "$@" | wc -c', 'sh'] + [word] * 9)
        self.assertEqual(r.out.strip(), b'900000')

    def test_code_of_a_language(self):
        r = self.run_job('import sys; print(6 * 7, file=sys.stderr); sys.exit(5)', language='python', status=5)
        self.assertEqual(r.err, b'42\n')

    def test_first_line(self):
        r = self.run_job('#!/usr/bin/env python3\nimport sys\nprint(sys.argv[1:], sys.version_info > (3,))\n')
        self.assertEqual(r.out, b'[] True\n')

    def test_environment(self):
        r = self.run_job('echo $NAME $HOME $XSBX_TEST; pwd; echo $PWD', env={'NAME': 'a=b c', 'HOME': '/'}, cwd='/tmp')
        self.assertEqual(r.out.decode().splitlines(), ['a=b c / ' + self.marker.split('=')[1], '/tmp', '/tmp'])

    def test_below_the_working_directory(self):
        self.agent.mkdir('sub')
        self.assertTrue(self.run_job('pwd', cwd='sub').out.endswith(b'/sub\n'))

    def test_cannot_start(self):
        for what, number in (({'cwd': '/nowhere', 'code': 'echo'}, errno.ENOENT),
                             ({'argv': ['no-such-program']}, errno.ENOENT),
                             ({'argv': ['/etc/passwd']}, errno.EACCES),
                             ({'argv': ['']}, errno.EINVAL),
                             ({'code': '#!/nowhere\n'}, errno.ENOENT),
                             ({'code': 'x', 'language': 'cobol'}, errno.EINVAL)):
            with self.subTest(what=what):
                self.error(number, self.agent.job, **what)
        self.wait_alone()

    def test_root(self):
        """Where there is none."""
        self.error(errno.EPERM, self.agent.job, 'id', root=True)
        self.wait_alone()

    def test_many_at_once(self):
        jobs = {self.agent.start_job(f'for i in 1 2 3 4 5; do echo {n}; echo {n} >&2; done; exit {n}'): n for n in range(64)}
        for job, n in jobs.items():
            r = self.agent.finish_job(job)
            self.assertEqual((r.how, r.status, r.out, r.err), (DONE, n, b'%d\n' % n * 5, b'%d\n' % n * 5))
        for job in jobs:
            self.agent.forget_job(job)
        self.wait_alone()

    def test_beside_a_run(self):
        job = self.agent.start_job('until [ -e go ]; do sleep 0.01; done; echo job')
        self.assertEqual(self.run_code('x=7; touch go; echo run').out, b'run\n')
        self.assertEqual(self.agent.finish_job(job).out, b'job\n')
        self.agent.forget_job(job)
        self.assertEqual(self.run_code('echo $x').out, b'7\n')

    def test_not_killed_with_a_run(self):
        job = self.agent.start_job('echo up; exec sleep 1000')
        self.assertEqual(self.first_output(job), b'up\n')
        self.run_code('sleep 1000 & sleep 1000', how=TIMEOUT, status=124, timeout_ms=300)
        self.assertEqual(self.names().count('sleep'), 1)
        other = self.agent.start_job('exec sleep 1000')
        run = self.agent.start('echo go; sleep 1000')
        wait_until(lambda: self.names().count('sleep') == 3, 10)
        self.agent.send(SIGNAL, integers('I', KILL), id=run)
        self.assertEqual(self.agent.finish(run).how, KILLED)
        self.assertEqual(self.names().count('sleep'), 2)
        self.agent.forget_job(other)
        self.assertEqual(self.names().count('sleep'), 1)
        self.agent.forget_job(job)
        self.wait_alone()

    def first_output(self, job):
        kind, _flags, data = self.agent.take(job)
        self.assertNotEqual(kind, FAILED, data)
        return data[4:]

    def test_kill(self):
        job = self.agent.start_job('echo up; sleep 1000 & setsid sleep 1000 & (setsid sleep 1000 &) ; sleep 1000; echo no')
        self.assertEqual(self.first_output(job), b'up\n')
        wait_until(lambda: self.names().count('sleep') == 4, 10)
        self.agent.send(SIGNAL, integers('I', KILL), id=job)
        r = self.agent.finish_rest(job)
        self.assertEqual((r.how, r.status, r.out), (KILLED, 137, b''))
        self.assertEqual(self.names().count('sleep'), 0)
        self.agent.forget_job(job)

    def test_kill_at_once(self):
        for _ in range(20):
            job = self.agent.start_job('sleep 1000')
            self.agent.send(SIGNAL, integers('I', KILL), id=job)
            self.assertEqual(self.agent.finish_job(job).how, KILLED)
            self.agent.forget_job(job)
        self.wait_alone()

    def test_timeout(self):
        r = self.run_job('trap "echo asked; exit 9" TERM; echo up; sleep 1000 & wait', how=TIMEOUT, status=124,
                         timeout_ms=300, grace_ms=5000)
        self.assertEqual(r.out, b'up\nasked\n')
        r = self.run_job('trap "" TERM; echo up; while :; do :; done', how=TIMEOUT, status=124, timeout_ms=300, grace_ms=100)
        self.assertEqual(r.out, b'up\n')
        self.wait_alone()

    def test_what_it_leaves_behind(self):
        """It goes on until the job is forgotten, however it has detached itself."""
        job = self.agent.start_job('setsid sleep 1000 & (setsid sh -c "sleep 1000 & exec sleep 1000" &) ; echo $!')
        r = self.agent.finish_job(job)
        self.assertEqual((r.how, r.status), (DONE, 0))
        wait_until(lambda: self.names().count('sleep') == 3, 10)
        self.run_code('sleep 1000', how=TIMEOUT, status=124, timeout_ms=100)
        self.assertEqual(self.names().count('sleep'), 3)
        self.agent.forget_job(job)
        self.assertEqual(self.names().count('sleep'), 0)
        self.wait_alone()

    def test_gone_by_itself(self):
        """Of a job that has left nothing behind, nothing is kept."""
        for _ in range(70):
            job = self.agent.start_job('echo')
            self.assertEqual(self.agent.finish_job(job).out, b'\n')
            self.assertEqual(self.agent.take(job)[0], JOB_GONE)
        job = self.agent.start_job('sleep 0.5 &')
        self.agent.finish_job(job)
        self.assertEqual(self.agent.take(job)[0], JOB_GONE)
        job = self.agent.start_job(argv=['no-such-program'])
        self.error(errno.ENOENT, self.agent.finish_job, job)
        self.assertEqual(self.agent.take(job)[0], JOB_GONE)

    def test_forgotten_while_it_runs(self):
        jobs = [self.agent.start_job('echo $$; sleep 1000') for _ in range(3)]
        self.first_output(jobs[0])
        for job in jobs:
            self.agent.forget_job(job)
        self.wait_alone()

    def test_signals(self):
        job = self.agent.start_job('trap "echo usr1" USR1; trap "echo int; exit 4" INT; echo up; while :; do sleep 0.01; done')
        self.assertEqual(self.first_output(job), b'up\n')
        self.agent.send(SIGNAL, integers('I', SIGNAL_NUMBER + signal.SIGUSR1), id=job)
        self.assertEqual(self.first_output(job), b'usr1\n')
        self.agent.send(SIGNAL, integers('I', INTERRUPT), id=job)
        r = self.agent.finish_rest(job)
        self.assertEqual((r.how, r.status, r.out), (DONE, 4, b'int\n'))
        self.agent.send(SIGNAL, integers('I', SIGNAL_NUMBER + signal.SIGUSR1), id=job)
        self.agent.forget_job(job)
        r = self.run_job('kill -SEGV $$', status=128 + signal.SIGSEGV)

    def test_signals_before_it_is_known_to_have_started(self):
        for sig, status in (SIGNAL_NUMBER + signal.SIGTERM, 143), (INTERRUPT, 130), (SIGNAL_NUMBER + signal.SIGUSR2, 140):
            job = self.agent.start_job('sleep 1000')
            self.agent.send(SIGNAL, integers('I', sig), id=job)
            self.assertEqual(self.agent.finish_rest(job).status, status)
            self.agent.forget_job(job)

    def test_stdin(self):
        job = self.agent.start_job('wc -c', stdin=True)
        left = 1 << 20
        credit = 0
        while left:
            while not credit:
                _kind, _flags, data = self.agent.take(job)
                credit += int.from_bytes(data, 'little')
            n = min(left, credit, 1 << 16)
            left -= n
            credit -= n
            self.agent.send(STDIN, b'x' * n, flags=int(not left), id=job)
        self.assertEqual(self.agent.finish_rest(job).out, b'%d\n' % (1 << 20))
        self.agent.forget_job(job)

    def test_credit(self):
        job = self.agent.start_job('head -c 100000 /dev/zero', credit=1000)
        r = self.agent.finish_job(job, lambda result: self.agent.send(CREDIT, integers('I', 7000), id=job))
        self.assertEqual((r.how, len(r.out)), (DONE, 100000))
        self.agent.forget_job(job)

    def test_limits(self):
        r = self.run_job('head -c 3000 /dev/zero; head -c 3000 /dev/zero >&2', limits=(1000, 1 << 20))
        self.assertEqual((len(r.out), len(r.err), r.dropped), (1000, 3000, [2000, 0]))

    def test_order_of_both(self):
        """Also of several jobs at once: each is told of its own writes."""
        code = 'for ((i = 0; i < 200; i += 2)); do echo $i; echo $((i + 1)) >&2; done'
        jobs = [self.agent.start_job(code) for _ in range(8)]
        for job in jobs:
            self.assertEqual(b''.join(self.agent.finish_job(job).both).split(), [b'%d' % i for i in range(200)])
            self.agent.forget_job(job)

    def test_holder_killed(self):
        """Then nobody can know how it ends, and that is said."""
        job = self.agent.start_job('echo up; sleep 1000')
        self.assertEqual(self.first_output(job), b'up\n')
        wait_until(lambda: self.names().count('sleep') == 1, 10)  # the shell above it goes with its holder
        holder, = self.children('xsbx-job')
        os.kill(holder, signal.SIGKILL)
        self.assertEqual(self.agent.finish_rest(job).how, LOST)
        wait_until(lambda: not self.children('xsbx-job'), 10)  # until then, what is below it is the job's
        other = self.agent.start_job('echo up; sleep 1000')
        self.assertEqual(self.first_output(other), b'up\n')
        self.agent.send(SIGNAL, integers('I', KILL), id=job)
        self.agent.forget_job(job)
        self.agent.ping()
        wait_until(lambda: self.names().count('sleep') == 2, 10)  # that of the first is nobody's now
        self.agent.forget_job(other)
        self.assertEqual(self.names().count('sleep'), 1)

    def test_reset_while_it_is_set_up(self):
        """The interpreter that is being made stays, the jobs that came meanwhile go."""
        self.agent.send(SETUP, text('raw') + integers('QQIIIIQI', 0, 0, 0, 0, 0, 0, 0, 1) + text('A') + text('own'))
        id = self.agent.start_job('sleep 1000')
        self.agent.send(RESET)
        r = self.agent.finish_job(id)
        self.assertEqual((r.how, r.status), (KILLED, 137))
        self.agent.forget_job(id)
        self.assertEqual(self.run_code('echo $A').out, b'own\n')

    def test_reset(self):
        """It ends all user code."""
        job = self.agent.start_job('echo up; sleep 1000')
        self.assertEqual(self.first_output(job), b'up\n')
        self.agent.reset()
        self.assertEqual(self.agent.finish_rest(job).how, KILLED)
        self.agent.forget_job(job)
        self.wait_alone()

    def test_another_host(self):
        """Jobs of an older generation are ended, and their ids free."""
        job = self.agent.start_job('echo up; sleep 1000')
        self.assertEqual(self.first_output(job), b'up\n')
        self.agent.hello(generation=2)
        self.assertEqual(self.names().count('sleep'), 0)
        self.assertEqual(self.agent.finish_job(self.agent.start_job('echo again', id=job)).out, b'again\n')

    def test_copy(self):
        """What jobs that have ended have left behind goes on, and is nobody's: their ids are free. Those that run are ended."""
        left, runs = self.agent.start_job('sleep 1000 &'), self.agent.start_job('echo up; sleep 2000')
        self.agent.finish_job(left)
        self.assertEqual(self.first_output(runs), b'up\n')
        self.assertTrue(wait_until(lambda: self.names().count('sleep') == 2, 10))
        self.agent.hello(generation=2, copy=True)
        self.assertEqual(self.names().count('sleep'), 1)
        for job in left, runs:
            self.assertEqual(self.agent.finish_job(self.agent.start_job('echo again', id=job)).out, b'again\n')
            self.agent.forget_job(job)
        _kind, data = self.agent.ask(FREEZE, integers('I', 1))  # nothing is in the way of another one
        self.assertEqual(int.from_bytes(data, 'little'), 0)
        self.agent.send(FREEZE, integers('I', 0))
        self.assertEqual(self.names().count('sleep'), 1)
        self.assertEqual(len(self.children('xsbx-job')), 1)
        self.agent.reset()
        self.assertTrue(wait_until(lambda: not self.children('xsbx-job') and 'sleep' not in self.names(), 10))

    def test_copy_of_many(self):
        """No place for a job is lost: what was left ends with what was below it."""
        for _ in range(64):
            self.agent.finish_job(self.agent.start_job('sleep 1000 &'))
        self.agent.hello(generation=2, copy=True)
        for _ in range(64):
            self.agent.finish_job(self.agent.start_job('sleep 1000 &'))
        self.assertTrue(wait_until(lambda: self.names().count('sleep') == 128, 10))
        for pid, name in self.named():
            if name == 'sleep':
                os.kill(pid, signal.SIGKILL)
        self.assertTrue(wait_until(lambda: not self.children('xsbx-job'), 10))

    def test_no_freezing(self):
        job = self.agent.start_job('echo up; sleep 1000')
        self.assertEqual(self.first_output(job), b'up\n')
        _kind, data = self.agent.ask(FREEZE, integers('I', 1))
        self.assertEqual(int.from_bytes(data, 'little'), errno.EBUSY)
        self.agent.forget_job(job)

    def test_end_of_the_agent(self):
        job = self.agent.start_job('echo up; setsid sleep 1000 & sleep 1000')
        self.assertEqual(self.first_output(job), b'up\n')
        wait_until(lambda: self.names().count('sleep') == 2, 10)
        pids = processes_with(self.marker)
        self.agent.sock.close()
        self.agent.process.wait(10)
        wait_until(lambda: not any(map(is_running, pids)), 10)

    def test_speed(self):
        """Not asserted: what a start takes."""
        began = time.monotonic()
        for _ in range(20):
            self.run_job(argv=['true'])
        print(f'{(time.monotonic() - began) / 20 * 1000:.2f} ms for a job', flush=True)


class Protocol(Case):
    language = 'raw'

    def refused(self, *args, **options):
        self.agent.start_job(*args, **options)
        self.assert_closed(self.agent)

    def test_id_of_a_run(self):
        self.refused('echo', id=5)

    def test_ids_of_runs(self):
        """Those of what no user has written are the highest."""
        for id in 1, JOB_ID - 1, 0xf0000000, 0xfffffffd, 0xffffffff:
            self.agent.send(RUN, integers('IIIQQI', 0, 0, 0, 99, 99, 99) + text('echo') + text('') * 2, id=id)
            self.assertEqual(self.agent.finish(id).out, b'\n')
        self.agent.send(RUN, integers('IIIQQI', 0, 0, 0, 99, 99, 99) + text('echo') + text('') * 2, id=0xefffffff)
        self.assert_closed(self.agent)

    def test_id_twice(self):
        self.agent.start_job('sleep 1000', id=JOB_ID + 7)
        self.refused('echo', id=JOB_ID + 7)

    def test_nothing_to_execute(self):
        self.refused('')

    def test_words_without_an_end(self):
        self.agent.send(JOB, integers('IIIQQIII', 0, 0, 0, 1, 1, 1, 0, 0) + integers('III', 0, 0, 0) + integers('I', 1) + b'x' +
                        integers('I', 0), id=JOB_ID)
        self.assert_closed(self.agent)

    def test_too_many(self):
        for _ in range(64):
            self.agent.start_job('sleep 1000')
        self.refused('echo')

    def test_forget_nobody(self):
        """It may have gone by itself a moment ago."""
        self.agent.send(JOB_FORGET, id=JOB_ID + 1)
        self.agent.ping()
        self.agent.send(JOB_FORGET, id=1)
        self.assert_closed(self.agent)


if __name__ == '__main__':
    main()
