#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# needs: xsbx-agent drivers
"""A directory and variables of a run's own.

Usage: see agent_fixture.py."""

import errno
import os
import shutil
import unittest

from agent_fixture import BUN, NOT_TAKEN, Case, main


class Place:
    """For each language: WHERE prints the directory, SHOW one variable, SEE what a child sees of it."""

    def show(self, *names, **options):
        return self.run_code(self.SHOW(names), **options).out.decode().splitlines()

    def test_variables(self):
        self.run_code(self.SET('KEPT', 'before'))
        self.assertEqual(self.show('A', 'KEPT', env={'A': '1 "x" $HOME \\', 'KEPT': ''}), ['1 "x" $HOME \\', ''])
        self.assertEqual(self.show('A', 'KEPT'), ['none', 'before'])

    def test_children_see_them(self):
        self.assertEqual(self.run_code(self.SEE('A'), env={'A': 'x y'}).out, b'x y\n')
        self.assertEqual(self.run_code(self.SEE('A')).out, b'\n')

    def test_what_the_code_makes_of_them_is_gone(self):
        self.run_code(self.SET('A', 'mine'), env={'A': 'yours', 'B': 'x'})
        self.assertEqual(self.show('A', 'B'), ['none', 'none'])
        self.run_code(self.SET('OTHER', 'stays'), env={'A': '1'})
        self.assertEqual(self.show('OTHER'), ['stays'])

    def test_many(self):
        env = {f'N{i}': 'x' * 100 for i in range(1000)}
        self.assertEqual(self.show('N0', 'N999', env=env), ['x' * 100] * 2)
        self.assertEqual(self.show('N0', 'N999'), ['none'] * 2)

    def test_directory(self):
        home = self.run_code(self.WHERE).out.decode().strip()
        os.makedirs(os.path.join(home, 'a', 'b'))
        self.assertEqual(self.run_code(self.WHERE, cwd='a/b').out.decode().strip(), os.path.join(home, 'a', 'b'))
        self.assertEqual(self.run_code(self.WHERE).out.decode().strip(), home)
        self.assertEqual(self.run_code(self.WHERE, cwd='/').out, b'/\n')
        self.run_code(self.GO('..'), cwd='a/b')
        self.assertEqual(self.run_code(self.WHERE).out.decode().strip(), home)
        self.run_code(self.GO('a'))
        self.assertEqual(self.run_code(self.WHERE, cwd='/tmp').out, b'/tmp\n')
        self.assertEqual(self.run_code(self.WHERE).out.decode().strip(), os.path.join(home, 'a'))

    def test_directory_that_cannot_be(self):
        home = self.run_code(self.WHERE).out.decode().strip()
        open(os.path.join(home, 'file'), 'w').close()
        for cwd, error in ('none', errno.ENOENT), ('file', errno.ENOTDIR), ('x' * 300, errno.ENAMETOOLONG):
            self.run_code(self.SET('RAN', 'yes'), how=NOT_TAKEN, status=error, cwd=cwd, env={'A': 'x'})
            self.assertEqual(self.show('RAN', 'A'), ['none', 'none'])
            self.assertEqual(self.run_code(self.WHERE).out.decode().strip(), home)

    def test_directory_that_goes(self):
        home = self.run_code(self.WHERE).out.decode().strip()
        os.mkdir(os.path.join(home, 'goes'))
        self.run_code(self.REMOVE, cwd='goes')
        self.assertEqual(self.run_code(self.WHERE).out.decode().strip(), home)

    def test_error_and_interrupt(self):
        self.run_code(self.FAIL, status=1, env={'A': '1'}, cwd='/tmp')
        self.assertEqual(self.show('A'), ['none'])
        self.assertNotEqual(self.run_code(self.WHERE).out, b'/tmp\n')

    def test_descriptors_stay_few(self):
        self.run_code(self.WHERE, cwd='/')
        fds = lambda: self.run_code(self.FDS).out
        before = fds()
        for _ in range(20):
            self.run_code(self.WHERE, cwd='/tmp')
        self.assertEqual(fds(), before)


class Shell(Place, Case):
    language = 'raw'
    WHERE = 'pwd -P'
    REMOVE = 'rmdir ../goes'
    FAIL = 'false'
    FDS = 'set -- /proc/$$/fd/*; echo $#'

    @staticmethod
    def SHOW(names):
        return ''.join(f'echo "${{{name}-none}}"\n' for name in names)

    @staticmethod
    def SET(name, value):
        return f"{name}={value}"

    @staticmethod
    def SEE(name):
        return f'printenv {name} || echo'

    @staticmethod
    def GO(path):
        return f'cd {path}'

    def test_of_the_shell(self):
        self.run_code('readonly FIXED=1; declare -a LIST=(a b); declare -i NUMBER=7; export SEEN=1; HIDDEN=2')
        for name in 'FIXED', 'LIST':
            self.run_code('echo ran', how=NOT_TAKEN, status=errno.EPERM, env={'A': '1', name: 'x'})
        self.assertEqual(self.run_code('echo $FIXED ${LIST[1]} $A', env={'B': '2'}).out, b'1 b\n')
        self.assertEqual(self.run_code('echo $NUMBER', env={'NUMBER': '1+1'}).out, b'1+1\n')
        self.run_code('true', env={'HIDDEN': 'x', 'SEEN': 'y'})
        self.assertEqual(self.run_code('NUMBER=2+2; echo $NUMBER; printenv HIDDEN; printenv SEEN').out, b'4\n1\n')
        self.assertEqual(self.run_code('echo $PWD; cd /usr; echo $PWD $OLDPWD', cwd='/tmp').out, b'/tmp\n/usr /tmp\n')
        self.assertEqual(self.run_code('[ $PWD = "$(pwd -P)" ]').status, 0)

    def test_path(self):
        home = self.run_code('pwd -P; ls >/dev/null').out.decode().strip()
        os.mkdir(os.path.join(home, 'bin'))
        with open(os.path.join(home, 'bin', 'ls'), 'w') as f:
            f.write('#!/bin/sh\necho own\n')
        os.chmod(f.name, 0o755)
        self.assertEqual(self.run_code('ls', env={'PATH': home + '/bin:/usr/bin:/bin'}).out, b'own\n')
        self.assertNotEqual(self.run_code('ls').out, b'own\n')

    def test_status_stays(self):
        self.run_code('false', status=1)
        self.run_code('true', how=NOT_TAKEN, status=errno.ENOENT, cwd='none')
        self.assertEqual(self.run_code('echo $?').out, b'1\n')


class Python(Place, Case):
    language = 'python'
    WHERE = 'import os; print(os.getcwd())'
    REMOVE = 'import os; os.rmdir("../goes")'
    FAIL = 'raise ValueError'
    FDS = 'import os; print(len(os.listdir("/proc/self/fd")))'

    @staticmethod
    def SHOW(names):
        return 'import os\n' + ''.join(f'print(os.environ.get("{name}", "none"))\n' for name in names)

    @staticmethod
    def SET(name, value):
        return f'import os; os.environ["{name}"] = "{value}"'

    @staticmethod
    def SEE(name):
        return f'import subprocess; print(subprocess.run(["printenv", "{name}"], capture_output=True, text=True).stdout.strip())'

    @staticmethod
    def GO(path):
        return f'import os; os.chdir("{path}")'

    def test_replaced(self):
        self.run_code('import os; os.environ = {}', env={'A': '1'})
        self.run_code('import os; os.getcwd = os.chdir = None', cwd='/tmp')


@unittest.skipUnless(shutil.which(BUN), 'there is no Bun')
class JavaScript(Place, Case):
    language = 'javascript'
    WHERE = 'console.log(process.cwd()); if (process.cwd() !== require("fs").readlinkSync("/proc/self/cwd")) throw 1;'
    REMOVE = 'require("fs").rmdirSync("../goes")'
    FAIL = 'throw new Error("x")'
    FDS = 'console.log(require("fs").readdirSync("/proc/self/fd").length)'

    @staticmethod
    def SHOW(names):
        return ''.join(f'console.log(process.env["{name}"] ?? "none");\n' for name in names)

    @staticmethod
    def SET(name, value):
        return f'process.env["{name}"] = "{value}"; 0'

    @staticmethod
    def SEE(name):
        return f'console.log(require("child_process").spawnSync("printenv", ["{name}"], {{encoding: "utf8"}}).stdout.trim())'

    @staticmethod
    def GO(path):
        return f'process.chdir("{path}")'


if __name__ == '__main__':
    main()
