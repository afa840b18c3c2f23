#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""start.py: the driver of Python as it was compiled before, or not. Usage: see driver_fixture.py."""

import os
import shutil
import subprocess
import sys
import tempfile

from driver_fixture import SCRATCH, DriverCase, interpreters, main, variants

COMPILE = '''
import py_compile, sys
source, made, place = sys.argv[1:]
py_compile.compile(source, made, place, True, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
'''
MARK = b'\nimport builtins\nbuiltins.compiled = True\n'


class StartCases(DriverCase):
    """What is compiled is marked; the source is not, but for one test."""

    def setUp(self):
        super().setUp()
        self.lib = tempfile.mkdtemp(dir=SCRATCH)
        shutil.copytree(os.path.dirname(self.command[-1]), self.lib, dirs_exist_ok=True)
        os.chmod(self.lib, 0o755)
        self.source, self.made = self.lib + '/repl.py', self.lib + '/repl.pyc'
        self.command = [*self.command[:-1], self.lib + '/start.py']

    def compile(self, place=None):
        """The compiled form of a marked driver, with the hash of the one that is there."""
        with open(self.source, 'rb') as file:
            source = file.read()
        for text, name in (source, '/true'), (source.replace(b'\nmain()\n', MARK + b'main()\n'), '/marked'):
            with open(self.lib + name + '.py', 'wb') as file:
                file.write(text)
            subprocess.run([self.command[0], '-I', '-S', '-c', COMPILE, self.lib + name + '.py',
                            self.lib + name + '.pyc', place or self.source], check=True)
        with open(self.lib + '/true.pyc', 'rb') as true, open(self.lib + '/marked.pyc', 'rb') as marked:
            made = true.read(16) + marked.read()[16:]
        with open(self.made, 'wb') as file:
            file.write(made)
        return made

    def expect_start(self, compiled):
        s = self.session()
        self.expect(s, 'import builtins; print(hasattr(builtins, "compiled"))', f'{compiled}\n', 0, '')
        r = self.expect(s, 'def f():\n  1 / 0\nf()', '', 1, 'ZeroDivisionError')
        for ours in b'start.py', b'repl.py':
            self.assertNotIn(ours, r.err)
        self.expect(s, 'print(sorted(k for k in globals() if k[0] != "_"), __name__)',
                    "['builtins', 'f'] __main__\n")

    def change(self, made):
        """Have the compiled form be another one."""
        with open(self.made, 'wb') as file:
            file.write(made)

    def test_compiled(self):
        self.compile()
        self.expect_start(True)

    def test_own_directory_is_no_place_for_imports(self):
        self.compile()
        s = self.session()
        self.expect(s, f'import sys; print({self.lib!r} in sys.path, sys.path[0])', f'False {s.home}\n')

    def test_not_compiled(self):
        self.expect_start(False)

    def test_empty(self):
        """As it is where there was no Python when xsbxfs was built."""
        self.change(b'')
        self.expect_start(False)

    def test_source_is_another(self):
        self.compile()
        with open(self.source, 'ab') as file:
            file.write(b'# or so\n')
        self.expect_start(False)

    def test_version_is_another(self):
        made = self.compile()
        self.change(bytes([made[0] ^ 1]) + made[1:])
        self.expect_start(False)

    def test_place_is_another(self):
        """What frames are called by tells which are the driver's own."""
        self.compile(place='/elsewhere/repl.py')
        self.expect_start(False)

    def test_cut_off(self):
        made = self.compile()
        for length in 3, 15, 16, 17, len(made) // 2, len(made) - 1:
            self.change(made[:length])
            self.expect_start(False)

    def test_no_code(self):
        """Something that is no code at all, behind a good header."""
        made = self.compile()
        self.change(made[:16] + b'N')
        self.expect_start(False)


def starts(base):
    return variants(base, interpreters('XSBX_PYTHON', sys.executable), lambda lib: ['-s', '-B', lib + '/start.py'])


if __name__ == '__main__':
    sys.exit(main(starts, StartCases))
