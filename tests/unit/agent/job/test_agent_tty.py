#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbx-agent drivers
"""Jobs on a terminal.

Usage: see agent_fixture.py."""


import time


from agent_fixture import (CREDIT, DONE, EXIT, FAILED, INTERRUPT, JOB_WINDOW, KILL, KILLED, OUTPUT, SIGNAL, STDIN, STDIN_CLOSED,
                           STDIN_CREDIT, TIMEOUT, Case, Result, integers, main)


class Terminal:
    """A job with one, and what it has shown so far."""
    def __init__(self, agent, code='', tty=(24, 80), **options):
        self.agent, self.shown, self.result = agent, b'', None
        self.id = agent.start_job(code, tty=tty, stdin=True, **options)

    def take(self):
        kind, flags, data = self.agent.take(self.id)
        if kind == OUTPUT:
            assert flags == 1, flags
            self.shown += data[4:]
        elif kind == EXIT:
            self.result = Result()
            self.result.finish(data)
        elif kind == FAILED:
            raise AssertionError(data)
        else:
            assert kind in (STDIN_CREDIT, STDIN_CLOSED), kind

    def until(self, text):
        while text not in self.shown:
            assert not self.result, (text, self.shown)
            self.take()

    def type(self, text, eof=False):
        self.agent.send(STDIN, text, id=self.id, flags=int(eof))

    def end(self):
        while not self.result:
            self.take()
        self.agent.forget_job(self.id)
        return self.result


class Terminals(Case):
    language = 'raw'

    def test_is_one(self):
        t = Terminal(self.agent, 'tty; test -t 0 && test -t 1 && test -t 2 && echo all; stty size; echo $TERM; echo >/dev/tty own')
        self.assertEqual(t.end().status, 0)
        lines = t.shown.split(b'\r\n')
        self.assertRegex(lines[0], rb'^/dev/pts/\d+$')
        self.assertEqual(lines[1:], [b'all', b'24 80', b'xterm-256color', b'own', b''])

    def test_variables(self):
        t = Terminal(self.agent, 'echo $TERM', env={'TERM': 'dumb'})
        t.end()
        self.assertEqual(t.shown, b'dumb\r\n')

    def test_typing(self):
        t = Terminal(self.agent, 'read -r x; echo "got $x"; cat; echo end')
        t.type(b'one\r')
        t.until(b'got one\r\n')
        t.type(b'two\n')
        t.until(b'two\r\ntwo\r\n')  # its echo, and what cat says
        t.type(b'\x04')
        self.assertEqual(t.end().status, 0)
        self.assertTrue(t.shown.endswith(b'end\r\n'), t.shown)

    def test_end_of_file(self):
        t = Terminal(self.agent, 'cat; echo end; cat; echo twice')
        t.type(b'x\n')
        t.until(b'x\r\nx\r\n')
        t.type(b'', eof=True)
        t.until(b'end\r\n')
        self.agent.send(SIGNAL, integers('I', KILL), id=t.id)
        self.assertEqual(t.end().how, KILLED)

    def test_last_words(self):
        """What is written just before the end is there."""
        for i in range(20):
            t = Terminal(self.agent, 'seq 1 2000')
            t.end()
            self.assertEqual(t.shown, b''.join(b'%d\r\n' % n for n in range(1, 2001)))

    def test_interrupts(self):
        t = Terminal(self.agent, 'trap "echo caught" INT; echo up; sleep 100; echo went on')
        t.until(b'up')
        time.sleep(0.1)
        t.type(b'\x03')  # ^C reaches both
        t.until(b'went on')
        self.assertIn(b'^C', t.shown)
        self.assertIn(b'caught', t.shown)
        t.end()
        t = Terminal(self.agent, 'trap "echo caught" INT; echo up; sleep 100; echo went on')
        t.until(b'up')
        time.sleep(0.1)
        self.agent.send(SIGNAL, integers('I', INTERRUPT), id=t.id)
        t.until(b'went on')
        t.end()

    def test_job_control(self):
        t = Terminal(self.agent, argv=['bash', '--norc', '-i'], env={'PS1': '$ '})
        t.until(b'$ ')
        t.type(b'sleep 100\r')
        t.until(b'sleep 100\r\n')
        time.sleep(0.3)
        t.type(b'\x1a')
        t.until(b'Stopped')
        t.type(b'kill -9 %1; sleep 0.3; jobs; exit 5\r')
        self.assertEqual(t.end().status, 5)
        self.assertNotIn(b'no job control', t.shown)
        self.assertNotIn(b'cannot set terminal', t.shown)

    def test_size(self):
        t = Terminal(self.agent, 'trap "stty size" WINCH; stty size; while :; do sleep 0.05; done', tty=(50, 132))
        t.until(b'50 132')
        self.agent.send(JOB_WINDOW, integers('I', 10 << 16 | 20), id=t.id)
        t.until(b'10 20')
        self.agent.send(SIGNAL, integers('I', KILL), id=t.id)
        t.end()

    def test_deadline(self):
        t = Terminal(self.agent, 'echo up; cat', timeout_ms=300)
        self.assertEqual(t.end().how, TIMEOUT)

    def test_without_credit(self):
        t = Terminal(self.agent, 'yes | head -n 20000', credit=100)
        t.until(b'y\r\n' * 33)
        while not t.result:
            self.agent.send(CREDIT, integers('I', 20000), id=t.id)
            before = len(t.shown)
            while not t.result and len(t.shown) < before + 20000:
                t.take()
        self.agent.forget_job(t.id)
        self.assertEqual(t.shown, b'y\r\n' * 20000)

    def test_limit(self):
        t = Terminal(self.agent, 'yes | head -n 20000', limits=(3000, 0), credit=5000)
        r = t.end()
        self.assertEqual((len(t.shown), r.dropped[0]), (3000, 57000))

    def test_limit_without_end(self):
        """Who writes for ever, past the limit, keeps nobody else from his turn."""
        t = Terminal(self.agent, 'stty raw; cat /dev/zero', limits=(3000, 0), credit=5000, timeout_ms=1000)
        t.until(b'\0' * 1000)
        other = Terminal(self.agent, 'echo other')
        other.end()
        self.assertEqual(other.shown, b'other\r\n')
        r = t.end()
        self.assertEqual((r.how, len(t.shown)), (TIMEOUT, 3000))
        self.assertGreater(r.dropped[0], 0)

    def test_goes_on_after_its_end(self):
        """What others write after the end is not waited for, however fast they are."""
        for limit, credit in (3000, 5000), (1 << 30, 1 << 30):
            with self.subTest(limit=limit):
                t = Terminal(self.agent, 'trap "" HUP; stty raw; cat /dev/zero & cat /dev/zero & sleep 0.2; exit 5',
                             limits=(limit, 0), credit=credit)
                self.assertEqual(t.end().status, 5)

    def test_children_go_on(self):
        """Its end does not wait for who has the terminal still open, and they are hung up."""
        t = Terminal(self.agent, 'trap "" HUP; (sleep 100; echo late) & echo now')
        self.assertEqual(t.end().status, 0)
        self.assertEqual(t.shown, b'now\r\n')

    def test_closed_and_opened_again(self):
        t = Terminal(self.agent, 'echo one; x=$(tty); exec <&- >&- 2>&-; sleep 0.3; exec >$x; echo two')
        self.assertEqual(t.end().status, 0)
        self.assertEqual(t.shown, b'one\r\ntwo\r\n')

    def test_not_read(self):
        """What nobody reads stops at a bound, and nothing else does."""
        t = Terminal(self.agent, 'stty raw -echo; echo up; sleep 100')
        t.until(b'up')
        t.type(b'x' * 60000)
        other = Terminal(self.agent, 'echo other')
        other.end()
        self.assertEqual(other.shown, b'other\r\n')
        self.agent.send(SIGNAL, integers('I', KILL), id=t.id)
        self.assertEqual(t.end().how, KILLED)

    def test_echo_is_quick(self):
        t = Terminal(self.agent, 'stty -icanon; echo up; cat >/dev/null')
        t.until(b'up\r\n')
        times = []
        for _ in range(300):
            t.shown = b''
            start = time.monotonic()
            t.type(b'x')
            t.until(b'x')
            times.append(time.monotonic() - start)
        times.sort()
        print(f'keystroke to echo: p50 {times[150] * 1e3:.2f} ms, p99 {times[297] * 1e3:.2f} ms')
        self.agent.send(SIGNAL, integers('I', KILL), id=t.id)
        t.end()


main()
