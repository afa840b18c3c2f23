# SPDX-License-Identifier: Apache-2.0
"""Runs the driver beside it, repl.py, as it was compiled when xsbxfs was built.

Compiling it takes a third of the time in which Python starts, and 1 MiB of each interpreter. Machines are
copied when that is done; a jail starts the host's Python each time. repl.pyc is used if it was made of this
repl.py, at this place, by this version of Python; else the source is compiled, as ever.
"""
from _frozen_importlib_external import MAGIC_NUMBER
from _imp import source_hash
from marshal import loads

HEADER = 16  # magic number, flags, hash of the source


def contents(path):
    with open(path, 'rb') as file:
        return file.read()


def driver(path):
    source = contents(path)
    try:
        made = contents(path + 'c')
        if made[:4] == MAGIC_NUMBER and made[8:HEADER] == source_hash(int.from_bytes(MAGIC_NUMBER, 'little'), source):
            code = loads(memoryview(made)[HEADER:])
            if code.co_filename == path:
                return code
    except (OSError, EOFError, ValueError, TypeError, AttributeError):
        pass
    return compile(source, path, 'exec', 0, True)


exec(driver(__file__.rpartition('/')[0] + '/repl.py'))
