#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbx-agent drivers
"""Another host goes on where one has ended: RESUME, records that are sent twice, what the host holds.

Usage: see agent_fixture.py."""

import errno
import struct
import time

from agent_fixture import (CREDIT, EXIT, FORGET, FREEZE, FROZEN, GETATTR, HEADER, HOLD, LOCKED, OUTPUT, RECORD, RESUME,
                           RESUMED, RUN, STDIN, VERSION, WATCH, Case, integers, main, text)

READY, FROZEN_DUE, STILL, WATCHED, PACKING, INTERP = (1 << n for n in range(6))
ENDED, STDIN_OPEN = 1, 2
FIRST, LAST = 1, 2


class Resumed:
    def __init__(self, data):
        self.version, self.generation, self.number, self.flags, n = struct.unpack_from('<5I', data)
        self.execs = {}
        for i in range(n):
            id, flags, sequence, granted, credit = struct.unpack_from('<IIIIQ', data, 20 + 24 * i)
            self.execs[id] = (flags, sequence, granted, credit)
        assert len(data) == 20 + 24 * n


class Resume(Case):
    language = 'raw'

    def resume(self):
        """The host is replaced by another one."""
        self.agent = self.agent.heir()
        sent = self.agent.next
        kind, data = self.agent.ask(RESUME, integers('II', VERSION, self.agent.seen))
        self.assertEqual(kind, RESUMED)
        result = Resumed(data)
        self.assertEqual((result.version, result.generation), (VERSION, self.agent.generation))
        self.assertEqual(result.number, sent)
        return result

    def test_nothing_under_way(self):
        result = self.resume()
        self.assertEqual((result.flags, result.execs), (INTERP, {}))
        self.assertEqual(self.run_code('echo on').out, b'on\n')

    def test_a_run_goes_on(self):
        """Output comes whole, whatever was read of it when the host was replaced."""
        whole, credit = b''.join(b'%d\n' % n for n in range(1, 200001)), 100000
        run = self.agent.start('seq 200000', credit=credit)
        out, sequence, resumed = bytearray(), 0, 0
        while True:
            kind, _flags, data = self.agent.take(run)
            if kind == EXIT:
                break
            self.assertEqual(kind, OUTPUT)
            self.assertEqual(struct.unpack('<I', data[:4])[0], sequence)
            sequence += 1
            out += data[4:]
            self.agent.send(CREDIT, integers('I', len(data) - 4), id=run)
            if sequence % 3 == 0:
                told = self.resume()
                if len(out) + credit < len(whole):  # else its end may be on the way
                    self.assertEqual(list(told.execs), [run])
                    resumed += 1
        self.assertEqual(bytes(out), whole)
        self.assertGreater(resumed, 2)
        self.assertEqual(self.resume().execs, {})

    def test_what_is_told_of_a_run(self):
        run = self.agent.start('echo 1; read x; echo $x', stdin=True, credit=5000)
        self.agent.take(run)  # its credit
        kind, _flags, data = self.agent.take(run)
        self.assertEqual((kind, data), (OUTPUT, integers('I', 0) + b'1\n'))
        self.assertEqual(self.resume().execs, {run: (STDIN_OPEN, 1, 65536, 4998)})
        self.agent.send(STDIN, b'word\n', id=run, flags=1)
        r = self.agent.finish_rest(run)
        self.assertEqual((r.out, r.how), (b'word\n', 0))

    def test_jobs(self):
        sleeper = self.agent.start_job('exec sleep 1000')
        done = self.agent.start_job('sleep 1000 & echo x')
        self.agent.finish_job(done)
        self.agent.start('true')
        told = self.resume().execs
        while len(told) > 2:  # the run
            told = self.resume().execs
        self.assertEqual(told[sleeper][:2], (0, 0))
        self.assertEqual(told[done][:2], (ENDED, 1))
        self.agent.forget_job(done)
        self.assertEqual(set(self.resume().execs), {sleeper})

    def test_what_stands_still_and_what_is_watched(self):
        self.agent.send(WATCH, integers('I', 1))
        self.assertEqual(self.agent.ask(FREEZE, integers('I', 1)), (FROZEN, integers('I', 0)))
        self.assertEqual(self.resume().flags, INTERP | STILL | WATCHED)
        self.agent.send(FREEZE, integers('I', 0))
        self.assertEqual(self.run_code('echo on').out, b'on\n')

    def test_records_that_are_sent_twice(self):
        """A host that does not know whether its last words were sent says them again."""
        self.agent.ping()
        number = self.agent.next
        run = self.agent.start('echo x >>twice')
        frame = text('echo x >>twice') + text('') + text('')
        record = HEADER.pack(36 + len(frame), RUN, 0, self.agent.generation, run) + \
            integers('IIIQQI', 0, 0, 0, 1 << 26, 1 << 26, 1 << 30) + frame
        self.agent.finish(run)
        self.agent = self.agent.heir()
        for _ in range(3):
            self.agent.send_record(record, number)
        self.resume()
        self.assertEqual(self.run_code('cat twice').out, b'x\n')

    def test_half_a_record(self):
        """The rest of a record comes from the next host."""
        self.agent.ping()
        payload = b'y' * 40
        wire = HEADER.pack(len(payload), 2, 0, self.agent.generation, 999) + payload
        wire = RECORD.pack(len(wire), self.agent.next) + wire
        self.agent.next += 1
        self.agent.sock.sendall(wire[:20])
        time.sleep(0.1)
        self.agent = self.agent.heir()
        self.agent.sock.sendall(wire[20:])
        self.assertEqual(self.agent.take(999)[2], payload)
        self.resume()

    def test_numbers_that_make_no_sense(self):
        self.agent.send(RESUME, integers('II', VERSION, self.agent.seen + 100))
        self.assert_closed(self.agent)

    def test_a_record_is_missing(self):
        self.agent.next += 1
        self.agent.send(WATCH, integers('I', 0))
        self.assert_closed(self.agent)

    def test_a_host_that_is_too_old(self):
        self.agent.send(RESUME, integers('II', 1, self.agent.seen))
        self.assert_closed(self.agent)

    def test_what_the_host_holds(self):
        self.run_code('touch a b c d')
        nodes = {name: self.agent.lookup(name)[0] for name in 'abcd'}
        self.agent.lookup('a')
        self.resume()
        self.agent.send(HOLD, integers('I', FIRST) + integers('QQ', nodes['a'], 3))
        self.agent.send(HOLD, integers('I', LAST) + integers('QQQQ', nodes['b'], 1, 4711, 9))
        for name in 'ab':
            self.agent.file(GETATTR, integers('QQ', nodes[name], 0))
        for name in 'cd':
            with self.assertRaises(OSError) as caught:
                self.agent.file(GETATTR, integers('QQ', nodes[name], 0))
            self.assertEqual(caught.exception.errno, errno.ESTALE)
        self.agent.send(FORGET, integers('QQQQ', nodes['a'], 2, nodes['b'], 1))
        self.agent.file(GETATTR, integers('QQ', nodes['a'], 0))
        self.agent.send(HOLD, integers('I', FIRST | LAST))
        with self.assertRaises(OSError):
            self.agent.file(GETATTR, integers('QQ', nodes['a'], 0))
        self.agent.file(GETATTR, integers('QQ', 1, 0))

    def test_a_lock_is_kept(self):
        self.run_code('touch a')
        node = self.agent.lookup('a')[0]
        one, other = (self.agent.open(node, 2) for _ in range(2))
        lock = 54  # handle, owner, token, start, end, flags, type, pid
        self.agent.file(lock, integers('QQQQQIII', one, 1, 1, 0, 9, 0, 2, 1))
        self.assertEqual(self.agent.file(lock, integers('QQQQQIII', other, 2, 2, 0, 9, 1, 2, 1)), integers('I', 1))
        self.resume()
        with self.assertRaises(OSError) as caught:
            self.agent.file(lock, integers('QQQQQIII', other, 3, 3, 5, 9, 0, 2, 1))
        self.assertEqual(caught.exception.errno, errno.EAGAIN)
        self.agent.file(lock, integers('QQQQQIII', one, 1, 4, 0, 9, 0, 0, 1))
        told = [data for kind, _flags, data in sum(self.agent.pending.values(), []) if kind == LOCKED]
        self.assertEqual(told, [integers('QI', 2, 0)])


if __name__ == '__main__':
    main()
