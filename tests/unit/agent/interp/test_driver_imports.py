#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packages imported before there is a user: images/drivers/repl.imports.py, without a sandbox.
Usage: see driver_fixture.py."""

import fcntl
import os
import random
import signal
import tempfile
import termios
import textwrap
import time

from driver_fixture import PREPARE, RUN_TRIAL, SCRATCH, SEED, WARM, DriverCase, Gone, main, pythons
from patience import wait_until

GENERATORS = '''
import random, uuid
own, chosen = random.Random(), random.Random(7)
again = random.Random(); again.seed(8)
node = uuid.getnode()
'''
# What repl.imports.py knows of NumPy, and no more.
NUMPY = '''
from secrets import randbits
class SeedSequence:
    def __init__(self, entropy=None):
        self.entropy = randbits(128) if entropy is None else entropy
class BitGenerator:
    def __init__(self, seed=None):
        self.seed_seq = seed if isinstance(seed, SeedSequence) else SeedSequence(seed)
        self.state = repr(self.seed_seq.entropy).replace(' ', '')
legacy = None
def seed(words):
    global legacy
    legacy = words[0]
'''


class ImportCases(DriverCase):
    """What becomes of packages, and of the process they were imported in."""

    def packages(self, **files):
        """An interpreter with packages: modules by the name of the package."""
        base = tempfile.mkdtemp(dir=SCRATCH)
        s = self.session(env={'PYTHONUSERBASE': base})
        version = '.'.join(s.version.split()[1].split('.')[:2])
        self.site = f'{base}/lib/python{version}/site-packages'
        os.makedirs(self.site)
        for name, modules in files.items():
            self.package(name, modules if isinstance(modules, dict) else {f'{name}.py': modules})
        return s

    def package(self, name, modules):
        info = f'{name.replace("-", "_")}-1.0.dist-info'
        for path, text in {**modules, f'{info}/METADATA': f'Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n',
                           f'{info}/RECORD': ''.join(f'{path},,\n' for path in modules)}.items():
            os.makedirs(os.path.dirname(f'{self.site}/{path}'), exist_ok=True)
            with open(f'{self.site}/{path}', 'w', encoding='utf-8') as file:
                file.write(text)

    def imported(self, s, *names):
        """Have them imported, and what follows done. Return: a copy."""
        result = s.imports(*names)
        self.assertEqual((result.status, result.out, result.err),
                         (0, b'', b''.join(b'\x01%s\n' % name.encode() for name in names)))
        self.assertEqual(s.simple(WARM), 0)
        return self.copy_of(s)

    def refused(self, s, name, *words):
        result = s.imports(name)
        self.assertEqual((result.status, result.out), (1, b''))
        where, _, why = result.err.decode().rpartition(f'\x01{name}\n')
        self.assertEqual(where, '')
        for word in words:
            self.assertIn(word, why)

    def test_modules_stay_and_nothing_else(self):
        s = self.packages(alpha='import sys\nprint("noise"); print("noise", file=sys.stderr)\nPID = __import__("os").getpid()\n'
                                'import beta\n', beta='X = 5\n', gamma='')
        copy = self.imported(s, 'alpha')
        self.expect(copy, 'import sys; print("alpha" in sys.modules, "beta" in sys.modules, "gamma" in sys.modules)',
                    'True True False\n')
        self.expect(copy, 'print(sorted(k for k in globals() if k[0] != "_"))', "['sys']\n")
        self.expect(copy, f'import alpha; print(alpha.PID == {s.process.pid}, __import__("os").getpid())',
                    f'True {copy.pid}\n')
        self.expect(self.copy_of(s), 'import alpha, sys; print(alpha.beta.X, sys.stdin.read())', '5 \n')

    def test_which_modules(self):
        s = self.packages(
            one={'other.py': '', 'one/__init__.py': '', 'one/part.py': ''},
            many={'first.py': '', 'second/__init__.py': '', '_private.py': '', 'tests/__init__.py': ''},
            space={'space/deep/__init__.py': '', 'space/deep/part/__init__.py': '', 'space/more/x.txt': ''},
            **{'my-name': {'My_Name.py': '', 'else_.py': ''}, 'empty': {'data.txt': ''}})
        copy = self.imported(s, 'one', 'many', 'space', 'my-name', 'empty', 'absent')
        self.expect(copy, 'import sys; print(sorted(m for m in ("other one one.part first second _private tests space '
                          'space.deep space.deep.part My_Name else_").split() if m in sys.modules))',
                    "['My_Name', 'first', 'one', 'second', 'space', 'space.deep']\n")

    def test_refused(self):
        for code, *words in (
                ('raise ValueError("so bad")', 'ValueError: so bad'),
                ('import nothing_of_this_name', 'ModuleNotFoundError', 'nothing_of_this_name'),
                ('raise SystemExit(0)', 'SystemExit'),
                ('import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()',
                 'starts threads'),
                ('import subprocess; p = subprocess.Popen(["sleep", "60"])', 'starts processes'),
                # as daemons do it
                ('import os, time\nif not (p := os.fork()):\n os.setsid()\n if not os.fork(): time.sleep(60)\n os._exit(0)\n'
                 'os.waitpid(p, 0)', 'starts processes'),
                ('import os; os.chdir("/")', 'the current directory'),
                ('open("left", "w")', 'the files in it'),
                ('import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)', 'signals'),
                ('import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)', 'signals'),
                ('import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])', 'signals are blocked'),
                ('import signal; signal.alarm(60)', 'signals are due'),
                ('import signal; signal.setitimer(signal.ITIMER_PROF, 60, 7)', 'signals are due'),
                ('import os; os.umask(0)', 'the mode of new files'),
                ('import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (500, r.getrlimit(r.RLIMIT_NOFILE)[1]))', 'the limits'),
                ('import os; os.nice(1)', 'the priority'),
                ('import __main__; __main__.left = 1', '__main__'),
                ('import sys; sys.modules["__main__"] = sys', '__main__')):
            s = self.packages(bad=code + '\n')
            self.refused(s, 'bad', *words)

    def test_first_bad_one_is_named(self):
        s = self.packages(good='', bad='1 / 0\n', more='')
        result = s.imports('good', 'bad', 'more')
        self.assertEqual((result.status, result.err), (1, b'\x01good\n\x01bad\nZeroDivisionError: division by zero'))

    def test_ends_the_process(self):
        s = self.packages(bad='import os, sys; print("noise", file=sys.stderr, flush=True); os._exit(0)\n')
        with self.assertRaises(Gone) as caught:
            s.imports('bad')
        self.assertEqual((caught.exception.result.status, caught.exception.result.err), (0, b'\x01bad\n'))

    def test_children_that_have_ended(self):
        s = self.packages(alpha='import subprocess; p = subprocess.Popen(["true"])\n'
                                'import time\nwhile open(f"/proc/{p.pid}/stat").read().split()[2] != "Z": time.sleep(.01)\n')
        self.imported(s, 'alpha')

    def test_interrupts_are_as_ever(self):
        s = self.packages(alpha='')
        copy = self.imported(s, 'alpha')
        result = self.interrupted(copy, 'import time\nprint("go", flush=True)\ntime.sleep(60)\n')
        self.assertEqual(result.status, 130)
        self.expect(copy, 'print(1)', '1\n')

    def test_random_numbers(self):
        s = self.packages(alpha=GENERATORS, numpy={'numpy/__init__.py': 'from . import random\n',
                                                   'numpy/random/__init__.py': NUMPY},
                          beta='import numpy.random as r\nfree, fixed = r.BitGenerator(), r.BitGenerator(1 << 100)\n')
        self.imported(s, 'alpha', 'numpy', 'beta')
        code = '''
            import alpha, beta, numpy, random
            print(alpha.own.random(), random.random(), beta.free.state, numpy.random.legacy)
            print(alpha.chosen.random(), alpha.again.random(), beta.fixed.state)'''
        copies = [self.copy_of(s) for _ in range(3)]
        outs = [copy.run(textwrap.dedent(code), seed=seed).out.split(b'\n')
                for copy, seed in zip(copies, (b'a' * 32, b'b' * 32, b'a' * 32))]
        self.assertEqual(outs[0], outs[2])
        for one, other in zip(outs[0][0].split(), outs[1][0].split()):
            self.assertNotEqual(one, other)
        self.assertEqual(outs[0][1], outs[1][1])
        self.assertEqual(outs[0][1].split()[0], repr(random.Random(7).random()).encode())

    def test_generator_that_cannot_begin_anew(self):
        """Its package is refused, and named; other generators begin anew all the same."""
        numpy = {'numpy/__init__.py': 'from . import random\n', 'numpy/random/__init__.py': NUMPY}
        odd = ('import numpy.random as r, random\nclass Odd(r.BitGenerator):\n def __init__(self, name, size):\n'
               '  r.BitGenerator.__init__(self)\nodd, own = Odd("x", 1), random.Random()\nfree = r.BitGenerator()\n')
        s = self.packages(good='', numpy=numpy, odd=odd, more='')
        result = s.imports('good', 'numpy', 'odd', 'more')
        self.assertEqual((result.status, result.err),
                         (1, b'\x01good\n\x01numpy\n\x01odd\nits random numbers cannot begin anew'))
        self.seeds_decide(s, 'import odd; print(odd.own.random(), odd.free.state, odd.random.random())')

    def test_seed_that_does_not_work(self):
        numpy = {'numpy/__init__.py': 'from . import random\n', 'numpy/random/__init__.py': 'def seed(): pass\n'}
        self.refused(self.packages(numpy=numpy), 'numpy', 'random numbers')

    def test_one_that_fails_leaves_the_others(self):
        """User code may bend a module: what of the others is to begin anew does."""
        s = self.packages()
        for name in '_ssl', 'uuid', 'tempfile', 'random':
            bend = f"""
                import sys, random, tempfile, uuid, ssl
                class Bent:
                    def __setattr__(self, name, value): raise SystemExit(1)
                    def seed(self, data): raise SystemExit(2)
                    def RAND_add(self, data, n): raise SystemExit(3)
                kept, sys.modules[{name!r}] = sys.modules[{name!r}], Bent()
                """
            self.expect(s, bend)
            if name != 'random':
                self.seeds_decide(s, 'print(random.random())')
            self.expect(s, 'tempfile._name_sequence = 1')
            self.assertEqual(s.simple(SEED, b'd' * 32), 0)
            if name != 'tempfile':
                self.expect(s, 'print(tempfile._name_sequence)', 'None\n')
            self.expect(s, f'sys.modules[{name!r}] = kept')

    def test_key_of_multiprocessing(self):
        """It is made when that is imported, and who knows it may connect to what listens."""
        look = 'import multiprocessing; key = multiprocessing.current_process().authkey; print(key.hex(), len(key))'
        s = self.packages(many='import multiprocessing')
        copies = [self.imported(s, 'many'), self.copy_of(s)]
        first, second = [copy.run(look, seed=seed).out for copy, seed in zip(copies, (b'a' * 32, b'b' * 32))]
        self.assertNotEqual(first, second)
        self.assertTrue(first.endswith(b' 32\n') and second.endswith(b' 32\n'), (first, second))
        self.assertEqual(copies[0].run(look, seed=b'c' * 32).out, first)  # its children may know it

    def test_openssl_after_a_run(self):
        """What a warm-up in the process itself has drawn: the fork does not help there."""
        s = self.packages()
        self.expect(s, 'import ssl; ssl.RAND_bytes(8)')
        code = 'import sys; print(sys.modules["_ssl"].added)'
        s.run('import _ssl; _ssl.added = 0\ndef add(data, n): _ssl.added += len(data)\n_ssl.RAND_add = add\n')
        self.assertEqual(s.simple(SEED, b'c' * 32), 0)
        self.expect(s, code, '32\n')

    def test_pages_that_tell_of_forks(self):
        """A seed empties them, if code has run that may have drawn from what they are for."""
        make = 'import mmap; m = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m.madvise(18); m[0] = 1'
        for how, left in (0, '0\n'), (RUN_TRIAL, '1\n'):
            s = self.packages()
            self.assertEqual(s.run(make, how=how).status, 0)
            self.assertEqual(s.simple(SEED, b'a' * 32), 0)
            self.expect(s, 'print(m[0])', left)

    def prepared(self, setup, between=None):
        """Code runs, the machine is about to be copied, something happens or does not, and there is the copy."""
        s = self.packages()
        self.expect(s, 'import mmap, signal, threading, os, time\n'
                       'def make():\n'
                       '    m = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n'
                       '    m.madvise(18); m[0] = 1\n'
                       '    return m\n'
                       'm, late = make(), []\n' + setup)
        s.send(PREPARE)
        self.assertTrue(wait_until(lambda: all(self.waits(s) for _ in range(20)), 30))
        if between:
            between(s)
        self.assertEqual(s.simple(SEED, b'a' * 32), 0)
        return s

    def test_prepared_for_copies(self):
        s = self.prepared('')
        self.expect(s, 'print(m[0])', '0\n')
        # That is over, and does not count for the next.
        self.expect(s, 'm[0] = 1; late = make()')
        self.assertEqual(s.simple(SEED, b'b' * 32), 0)
        self.expect(s, 'print(m[0], late[0])', '0 0\n')

    def test_prepared_but_something_happened(self):
        """Pages that came after it are found as well."""
        path = os.path.join(SCRATCH, 'happened')

        def send_signal(s):
            # Python hears of one that comes just before it waits when the next one comes.
            self.assertTrue(wait_until(lambda: os.kill(s.process.pid, signal.SIGUSR1) or os.path.exists(path), 30))

        def tell_thread(_s):
            with open(f'{path}.go', 'w', encoding='ascii'):
                pass
            self.assertTrue(wait_until(lambda: os.path.exists(path), 30))

        note = f'late or late.append(make()); open({path!r}, "w").close()'
        handler = f'signal.signal(signal.SIGUSR1, lambda *_: ({note.replace("; ", ", ")}))'
        thread = (f'def wait():\n    while not os.path.exists({path + ".go"!r}): time.sleep(0.01)\n    {note}\n'
                  'threading.Thread(target=wait, daemon=True).start()')
        for setup, between in (handler, send_signal), (thread, tell_thread):
            s = self.prepared(setup, between)
            self.expect(s, 'print(m[0], {one[0] for one in late})', '0 {0}\n')
            os.unlink(path)

    def waits(self, s):
        """Has it read what it was sent, and does it sleep?"""
        time.sleep(0.001)
        unread = fcntl.ioctl(s.ctl, termios.TIOCOUTQ, b'0123')
        with open(f'/proc/{s.process.pid}/stat', encoding='ascii') as file:
            return unread == bytes(4) and file.read().split(') ')[1][0] == 'S'

    def test_openssl_is_prepared(self):
        s = self.packages()
        self.expect(s, 'import _ssl; _ssl.added = 0\ndef add(data, n): _ssl.added += len(data)\n_ssl.RAND_add = add\n')
        s.send(PREPARE)
        self.expect(s, 'print(_ssl.added)', '32\n')
        self.expect(s, '_ssl.RAND_add = lambda *_: 1 / 0')
        s.send(PREPARE)
        self.expect(s, 'print(1)', '1\n')


if __name__ == '__main__':
    raise SystemExit(main(pythons, ImportCases))
