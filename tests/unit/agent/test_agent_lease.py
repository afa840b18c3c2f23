#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbx-agent drivers
"""When the agent grants a lease, what it sends during one, and when it takes it back.

Usage: see agent_fixture.py."""

import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from agent_fixture import (BUN, CONTENT, FALLOCATE, LEASE, LEASED, LINK, NOTED, RENAME, RMDIR, RUN_IMPORT, RUN_TRIAL,
                           STATFS, STDIN, SYMLINK, TOUCH, UNLEASED, UNLINK, Attr, Case, integers, main, session_processes,
                           text)
from patience import wait_until


class Leases(Case):
    language = 'raw'

    def ask(self):
        kind, data = self.agent.ask(LEASE)
        self.assertEqual(kind, LEASED)
        return struct.unpack('<I', data)[0]

    def notes(self):
        """What was sent behind the last answer. Return: [(type, number, what)]."""
        self.agent.file(STATFS, b'')  # behind which nothing is noted
        found = []
        for kind, _flags, data in self.agent.pending.pop(0, []):
            number = struct.unpack('<Q', data[:8])[0] if data else 0
            found.append((kind, number, data[8:] if kind == CONTENT else Attr(data[8:]) if kind == NOTED else None))
        return found

    def noted(self):
        return [number for kind, number, _what in self.notes() if kind == NOTED]


class Granted(Leases):
    def test_before_and_after_a_run(self):
        self.assertEqual(self.ask(), 1)
        self.run_code('true')
        self.assertEqual(self.ask(), 1)
        self.run_code('x=1; echo $(( x + 1 )); (sleep 0.01); wait')
        self.assertEqual(self.ask(), 1)

    def test_a_run_is_waited_for(self):
        run = self.agent.start('read line; exit 0', stdin=True)
        asked = self.agent.send(LEASE)
        self.agent.ping()
        self.assertFalse(self.agent.pending.get(asked))
        self.agent.send(STDIN, b'x\n', flags=1, id=run)
        self.agent.finish(run)
        self.assertEqual(self.agent.take(asked)[2], integers('I', 1))

    def test_background(self):
        self.run_code('sleep 1000 & echo $!')
        self.assertEqual(self.ask(), 0)
        self.run_code('kill %1; wait')
        self.assertEqual(self.ask(), 1)

    def test_daemon(self):
        """One that has left its parent, group and session, behind."""
        pid = int(self.run_code('( setsid sleep 1000 >/dev/null 2>&1 & echo $! )').out)
        self.assertEqual(self.ask(), 0)
        os.kill(pid, signal.SIGKILL)
        self.wait_gone([pid])
        self.assertTrue(wait_until(lambda: self.ask() == 1, 60))

    def test_traps(self):
        for name in 'ALRM', 'TERM', 'USR1', 'RTMIN':
            self.run_code(f'trap "echo x > late" {name}')
            self.assertEqual(self.ask(), 0)
            self.run_code(f'trap - {name}')
            self.assertEqual(self.ask(), 1)
        self.run_code('trap "echo x > late" INT')  # which is ignored between runs
        self.assertEqual(self.ask(), 1)

    def test_children(self):
        """Their signal is caught as long as there are any, and again when the next run has some."""
        self.run_code('trap "echo x >> ended" CHLD; sleep 0.01')
        self.assertEqual(self.ask(), 1)
        self.assertEqual(self.run_code('(exit 3); sleep 0.01 & wait $!; wc -l < ended').out.strip(), b'3')
        self.assertEqual(self.ask(), 1)


class Python(Leases):
    language = 'python'

    def test_plain(self):
        self.run_code('import json, os, re; x = open("f", "w"); x.write("a"); x.flush()')
        self.assertEqual(self.ask(), 1)

    def test_thread(self):
        self.run_code('import threading, time; e = threading.Event(); t = threading.Thread(target=e.wait); t.start()')
        self.assertEqual(self.ask(), 0)
        self.run_code('e.set(); t.join()')
        self.assertTrue(wait_until(lambda: self.ask() == 1, 60))
        self.run_code('t = threading.Thread(target=time.sleep, args=(0,)); t.start(); t.join()')
        self.assertTrue(wait_until(lambda: self.ask() == 1, 60))

    def test_timer(self):
        self.run_code('import signal; signal.signal(signal.SIGALRM, lambda *a: open("late", "w").close()); '
                      'signal.setitimer(signal.ITIMER_REAL, 1000)')
        self.assertEqual(self.ask(), 0)
        self.run_code('signal.setitimer(signal.ITIMER_REAL, 0); signal.signal(signal.SIGALRM, signal.SIG_DFL)')
        self.assertEqual(self.ask(), 1)

    def test_timer_of_another_signal(self):
        """One whose handler is nothing strange."""
        self.run_code('import ctypes, signal\n'
                      'signal.signal(signal.SIGTERM, lambda *a: open("late", "w").close())\n'
                      'event = (ctypes.c_int * 16)(0, 0, signal.SIGTERM, 0)\n'
                      'timer = ctypes.c_void_p()\n'
                      'libc = ctypes.CDLL(None)\n'
                      'assert libc.timer_create(0, event, ctypes.byref(timer)) == 0\n')
        self.assertEqual(self.ask(), 0)

    def test_child_of_a_child(self):
        pid = int(self.run_code('import os\nr, w = os.pipe()\nif not os.fork():\n'
                                '    if not os.fork():\n        os.write(w, str(os.getpid()).encode())\n'
                                '        os.close(1); os.close(2); os.setsid()\n        import time; time.sleep(1000)\n'
                                '    os._exit(0)\nos.wait()\nprint(os.read(r, 20).decode())').out)
        self.assertEqual(self.ask(), 0)
        os.kill(pid, signal.SIGKILL)
        self.assertTrue(wait_until(lambda: self.ask() == 1, 60))

    def test_interpreter_ends(self):
        """It takes the lease back, and grants another when there is a new one."""
        self.run_code('x = 1')
        self.assertEqual(self.ask(), 1)
        os.kill(session_processes(self.marker, 1)[0], signal.SIGKILL)
        kind, _flags, data = self.agent.take(0)
        self.assertEqual((kind, data), (UNLEASED, b''))
        self.assertEqual(self.ask(), 1)


class Imported(Leases):
    """Packages that were imported ahead: nobody's code has run yet, but theirs has."""
    language = 'python'
    timer = ('import ctypes, signal\n'
             'libc = ctypes.CDLL(None)\n'
             'handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda number: None)\n'
             'libc.signal(signal.SIGTERM, handler)\n'
             'event = (ctypes.c_int * 16)(0, 0, signal.SIGTERM, 0)\n'
             'assert libc.timer_create(0, event, ctypes.byref(ctypes.c_void_p())) == 0\n')

    def setUp(self):
        base = tempfile.TemporaryDirectory()
        self.addCleanup(base.cleanup)
        self.base, self.env = base.name, {'PYTHONUSERBASE': base.name}
        super().setUp()

    def site(self):
        version = '.'.join(self.version.split()[1].split('.')[:2])
        return f'{self.base}/lib/python{version}/site-packages'

    def have_imported(self, name, code):
        site = self.site()
        os.makedirs(f'{site}/{name}-1.0.dist-info')
        for path, content in {
                f'{name}.py': code, f'{name}-1.0.dist-info/RECORD': f'{name}.py,,\n',
                f'{name}-1.0.dist-info/METADATA': f'Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n'}.items():
            with open(f'{site}/{path}', 'w', encoding='utf-8') as file:
                file.write(content)
        result = self.run_code(name, flags=RUN_TRIAL | RUN_IMPORT)
        self.assertEqual(result.err, f'\x01{name}\n'.encode())

    def test_plain(self):
        self.have_imported('harmless', 'x = 1\n')
        self.assertEqual(self.ask(), 1)

    def test_timer(self):
        self.have_imported('ticking', self.timer)
        self.assertEqual(self.ask(), 0)

    def test_exercise(self):
        """The host's own code is known to leave nothing."""
        self.run_code('print(1)', flags=RUN_TRIAL)
        self.assertEqual(self.ask(), 1)

    def test_site(self):
        """What a directory of packages has executed is not the host's own, even if that is all that has run."""
        os.makedirs(self.site())
        with open(f'{self.site()}/ticking.py', 'w', encoding='utf-8') as file:
            file.write(self.timer)
        with open(f'{self.site()}/ticking.pth', 'w', encoding='utf-8') as file:
            file.write('import ticking\n')
        self.run_code('print(1)', flags=RUN_TRIAL)
        self.assertEqual(self.ask(), 0)


class Preloaded(Leases):
    """Code that a variable of the user's names is executed before the driver, and goes on beside it."""
    source = '''#include <pthread.h>
#include <unistd.h>
static void *tick(void *data)
{
	for (;;)
		pause();
	return data;
}
__attribute__((constructor)) static void begin(void)
{
	pthread_t thread;
	pthread_create(&thread, 0, tick, 0);
}
'''

    def setUp(self):
        compiler = shutil.which('cc')
        if not compiler:
            self.skipTest('there is no compiler')
        base = tempfile.TemporaryDirectory()
        self.addCleanup(base.cleanup)
        library = f'{base.name}/ticking.so'
        subprocess.run([compiler, '-shared', '-fPIC', '-pthread', '-x', 'c', '-', '-o', library], input=self.source.encode(),
                       check=True)
        self.env = {'LD_PRELOAD': library}
        super().setUp()

    def test_thread(self):
        self.assertEqual(self.ask(), 0)


@unittest.skipUnless(shutil.which(BUN) or os.path.exists(BUN), 'Bun is not there')
class JavaScript(Leases):
    language = 'javascript'

    def test_event_loop(self):
        self.assertEqual(self.ask(), 1)
        self.run_code('setTimeout(() => require("fs").writeFileSync("late", ""), 1000000)')
        self.assertEqual(self.ask(), 0)


class Notes(Leases):
    def test_none_without_a_lease(self):
        _node, _attr, handle = self.agent.create('a')
        self.agent.write(handle, b'x')
        self.assertEqual(self.notes(), [])
        self.assertEqual(self.ask(), 1)
        self.agent.write(handle, b'x')
        self.assertEqual(len(self.notes()), 1)
        self.run_code('true')
        self.agent.write(handle, b'x')
        self.assertEqual(self.notes(), [])

    def test_directories(self):
        self.assertEqual(self.ask(), 1)
        folder = self.agent.mkdir('d')[0]
        self.assertEqual(self.noted(), [1])
        node, _attr, _handle = self.agent.create('a', folder)
        notes = self.notes()
        self.assertEqual([(kind, number) for kind, number, _what in notes], [(NOTED, folder)])
        self.assertEqual(notes[0][2].mtime, self.agent.getattr(folder).mtime)
        self.agent.file(LINK, integers('QQ', node, 1) + text('b'))
        self.assertEqual(self.noted(), [1])
        self.agent.file(RENAME, integers('QQI', folder, 1, 0) + text('a') + text('c'))
        self.assertEqual(self.noted(), [folder, 1])
        self.agent.file(SYMLINK, integers('Q', folder) + text('l') + text('x'))
        self.assertEqual(self.noted(), [folder])
        self.agent.file(UNLINK, integers('Q', folder) + text('l'))
        self.assertEqual(self.noted(), [folder])
        self.agent.file(RMDIR, integers('Q', 1) + text('d'))
        self.assertEqual(self.noted(), [1])

    def test_files(self):
        self.assertEqual(self.ask(), 1)
        node, _attr, handle = self.agent.create('a')
        self.notes()
        self.agent.write(handle, b'hello')
        self.assertEqual([(kind, number, what.size) for kind, number, what in self.notes()], [(NOTED, node, 5)])
        self.agent.file(FALLOCATE, integers('QIQQ', handle, 0, 0, 10))
        self.assertEqual([(number, what.size) for _kind, number, what in self.notes()], [(node, 10)])
        self.agent.file(UNLINK, integers('Q', 1) + text('a'))
        self.notes()
        self.agent.write(handle, b'x', 20)
        self.assertEqual([(number, what.size, what.nlink) for _kind, number, what in self.notes()], [(node, 21, 0)])

    def test_contents(self):
        self.assertEqual(self.ask(), 1)
        node, _attr, handle = self.agent.create('a')
        for data in b'', b'hello', b'x' * 32768:
            self.agent.write(handle, data)
            self.notes()
            number = self.agent.open(node)
            notes = self.notes()
            self.assertEqual([(kind, n) for kind, n, _what in notes[:-1]], [(NOTED, node)])
            self.assertEqual(notes[-1], (CONTENT, number, data))
            self.assertEqual(self.agent.read(number), data)
        for flags in os.O_RDWR, os.O_WRONLY, os.O_RDONLY | os.O_TRUNC:
            self.agent.open(node, flags)
            notes = self.notes()
            self.assertEqual([(kind, n) for kind, n, _what in notes], [(NOTED, node)])
        self.assertEqual(notes[0][2].size, 0)
        self.agent.write(handle, b'x', 32768)
        self.notes()
        self.agent.open(node)
        self.assertEqual(self.noted(), [node])

    def last_access(self, node):
        attr = self.agent.getattr(node)
        return attr.atime, attr.atime_ns

    def test_last_access(self):
        """That is when somebody has read it, not when its content was fetched."""
        self.assertEqual(self.ask(), 1)
        for data in b'hello', b'':
            node, _attr, handle = self.agent.create('a')
            self.agent.write(handle, data)
            before = self.last_access(node)
            self.agent.setattr(node, mode=0o644)
            time.sleep(0.02)  # the kernel's clock for files is a coarse one
            number = self.agent.open(node)
            self.assertIn((CONTENT, number, data), self.notes())
            self.assertEqual(self.last_access(node), before)
            self.agent.send(TOUCH, integers('Q', node))
            notes = self.notes()
            self.assertEqual([(kind, n) for kind, n, _what in notes], [(NOTED, node)])
            self.assertGreater((notes[0][2].atime, notes[0][2].atime_ns), before)
            self.assertEqual(self.agent.read(number), data)
            self.agent.file(UNLINK, integers('Q', 1) + text('a'))
            self.notes()

    def test_last_access_of_what_cannot_be_read(self):
        self.assertEqual(self.ask(), 1)
        folder = self.agent.mkdir('d')[0]
        os.mkfifo(os.path.join(self.agent.root, 'files', 'fifo'))
        for node in folder, self.agent.lookup('fifo')[0], 12345:
            self.agent.send(TOUCH, integers('Q', node))
        self.agent.ping()

    def test_failed_requests(self):
        self.assertEqual(self.ask(), 1)
        with self.assertRaises(FileNotFoundError):
            self.agent.file(UNLINK, integers('Q', 1) + text('none'))
        self.assertEqual(self.notes(), [])


if __name__ == '__main__':
    main()
