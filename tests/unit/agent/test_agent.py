#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbx-agent drivers
"""The agent as a plain process: the protocol, the connection, and one run of each other language.

Usage: see agent_fixture.py."""

import errno
import os
import struct
import time
import unittest

from agent_fixture import (BUN, CLOCK, CLOCK_OK, DEADLINE, FILE_REPLY, HEADER, KILL, PING, PONG,
                       REFUSED, RUN, SHUTDOWN, SIGNAL, TIMEOUT, TRUST, USAGE, Case,
                       LocalAgent, integers, is_running, main, session_processes)


class Protocol(Case):
    def test_ping(self):
        self.agent.ping(b'')
        self.agent.ping(bytes(range(64)))

    def assert_ends(self):
        self.assert_closed(self.agent)
        self.assertEqual(self.agent.process.wait(DEADLINE), 1)

    def test_unknown_type(self):
        self.agent.send(99)
        self.assert_ends()

    def test_file_reply_from_host(self):
        self.agent.send(FILE_REPLY, b'\0' * 4)
        self.assert_ends()

    def test_too_long(self):
        self.agent.send_raw(HEADER.pack((3 << 19) + 1, PING, 0, 1, 1))
        self.assert_ends()

    def test_truncated_payload(self):
        self.agent.send(RUN, b'\0' * 7)
        self.assert_ends()

    def test_trailing_bytes(self):
        self.agent.send(USAGE, b'x')
        self.assert_ends()

    def test_long_ping(self):
        self.agent.send(PING, b'x' * 65)
        self.assert_ends()

    def test_other_generation_is_dropped(self):
        self.agent.send(99, generation=7)
        self.agent.send(PING, b'old', generation=7, id=500)
        self.agent.ping()
        self.assertNotIn(500, self.agent.pending)

    def test_nothing_before_hello(self):
        agent = LocalAgent()
        agent.send(PING, b'early')
        self.assertIsNone(agent.read_frame(0.2))
        agent.hello()
        agent.ping()
        agent.close()

    def test_generations(self):
        for generation in 2, 255, 256, 257, 70000:
            self.agent.hello(generation)
            self.agent.ping()

    def test_byte_by_byte(self):
        frame = HEADER.pack(3, PING, 0, 1, 77) + b'abc'
        for i in range(len(frame)):
            self.agent.send_raw(frame[i:i + 1])
        self.assertEqual(self.agent.take(77), (PONG, 0, b'abc'))

    def test_run_without_setup(self):
        self.run_code('x', how=REFUSED, status=255)
        self.error(errno.EINVAL, self.agent.warm)

    def test_bad_setups(self):
        self.error(errno.EINVAL, self.agent.setup, 'cobol')
        self.error(errno.EINVAL, self.agent.setup, 'raw', {'A=B': 'c'})
        self.error(errno.EINVAL, self.agent.setup, 'raw', {'': 'c'})
        self.error(errno.EINVAL, self.agent.setup, 'raw', {'A': 'c\0d'})
        self.agent.ping()

    def test_shutdown(self):
        self.agent.send(SHUTDOWN)
        self.assert_closed(self.agent)
        self.assertEqual(self.agent.process.wait(DEADLINE), 0)

    def test_usage(self):
        total, available, cpu, used, size, _, _, processes = self.agent.usage()
        self.assertGreater(total, available)
        self.assertGreater(cpu, 0)
        self.assertGreater(size, used)
        self.assertEqual(processes, 0)


class Connection(Case):
    language = 'python'

    def test_certificates_are_for_guests(self):
        self.agent.send(TRUST, b'-----BEGIN CERTIFICATE-----')
        self.assertEqual(self.agent.ask(PING, b'still there'), (PONG, b'still there'))
        self.assertFalse(os.path.exists('/run/xsbx/ca.pem'))

    def test_clock(self):
        # Nothing is added: outside of a guest this is the host's clock.
        before = time.time_ns()
        kind, data = self.agent.ask(CLOCK, integers('q', 0))
        after = time.time_ns()
        self.assertEqual(kind, CLOCK_OK)
        self.assertTrue(before <= struct.unpack('<Q', data)[0] <= after)
        # At any time, in a run as well.
        run = self.agent.start('import time; time.sleep(60)')
        self.assertEqual(self.agent.ask(CLOCK, integers('q', 0))[0], CLOCK_OK)
        self.agent.send(SIGNAL, integers('I', KILL), id=run)

    def test_busy(self):
        run = self.agent.start('import time; time.sleep(1)')
        self.error(errno.EBUSY, self.agent.reset)
        self.error(errno.EBUSY, self.agent.warm)
        self.error(errno.EBUSY, self.agent.setup, 'raw')
        self.run_code('pass', how=REFUSED, status=255)
        self.assertEqual(self.agent.finish(run).status, 0)

    def test_hello_ends_a_run(self):
        r = self.agent.start('import time; print("x", flush=True); time.sleep(100)')
        self.agent.take(r)
        self.agent.hello(77)
        self.assertEqual(self.run_code('print(1)').out, b'1\n')
        self.assertFalse(self.agent.pending.get(r))

    def test_closing_the_connection_ends_everything(self):
        self.run_code('import subprocess\nfor i in range(3): subprocess.Popen(["setsid", "sleep", "99"])')
        found = session_processes(self.marker, 4)
        self.assertEqual(len(found), 4)
        self.agent.close()
        self.wait_gone(found)

    def test_killed_agent_takes_its_interpreter_along(self):
        found = session_processes(self.marker, 1)
        self.assertEqual(len(found), 1)
        self.agent.process.kill()
        self.wait_gone(found)


class Raw(Case):
    language = 'raw'

    def test_bash(self):
        self.run_code('x=5; cd /; f() { echo "$x"; }')
        self.assertEqual(self.run_code('f; pwd; false', status=1).out, b'5\n/\n')
        r = self.run_code('exit 9', status=9)
        self.assertEqual(r.fresh, 1)
        self.assertEqual(self.run_code('echo ${x-none}').out, b'none\n')

    def test_background_job_survives(self):
        pid = int(self.run_code('sleep 100 & echo $!').out)
        self.run_code('sleep 100', timeout_ms=300, how=TIMEOUT, status=124)
        self.assertTrue(is_running(pid))

    def test_cost_counts_children(self):
        r = self.run_code("python3 -c 'for i in range(5000000): pass'")
        self.assertGreater(r.user, 50000)


@unittest.skipUnless(os.access(BUN, os.X_OK), 'no Bun: set XSBX_BUN')
class JavaScript(Case):
    language = 'javascript'

    def test_javascript(self):
        self.run_code('let x: number = 41')
        self.assertEqual(self.run_code('console.log(x + 1)').out, b'42\n')
        r = self.run_code('process.exit(7)', status=7)
        self.assertEqual(r.fresh, 0)
        self.run_code('while (true);', timeout_ms=500, how=TIMEOUT, status=124)
        self.assertEqual(self.run_code('console.log(1)').out, b'1\n')


if __name__ == '__main__':
    main()
