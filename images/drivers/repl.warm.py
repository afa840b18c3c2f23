# SPDX-License-Identifier: Apache-2.0
# Python driver: what programs use most, imported and exercised before anybody waits for it.
"""Loaded by repl.py, once, when an interpreter is warmed up or packages are imported."""
import sys

# What programs use most, bought once, before the template of all sandboxes is frozen.
USUAL = '''json re hashlib os subprocess random datetime collections itertools functools math
typing dataclasses pathlib io string time traceback linecache inspect threading tempfile shutil
socket contextlib enum copy heapq bisect operator textwrap base64 csv statistics decimal fractions
logging argparse urllib.parse uuid pickle queue glob signal platform struct zlib asyncio'''

# What programs do most. An emulated processor translates code when it first comes to it, in each
# clone of a machine anew, so this is done in each before anybody waits for it.
EXERCISE = r'''
import hashlib, json, re
def f(n: int, *rest, word='a', **more):
    return [i * 2 for i in range(n) if i % 3] or {word: rest}
class A:
    def __init__(self, x):
        self.x = x
    def __repr__(self):
        return f'<{self.x!r:>5} {1.5:.2f}>'
lines = [str(x) for x in (1, 'two', f(9), A(3), 2**70, 7 // 2, 1 / 3, None)]
for k, v in sorted({'a': 1, 'b': (2, 3)}.items()):
    lines.append('%s=%s' % (k, v))
try:
    lines[99]
except IndexError as error:
    lines.append(error.args)
text = json.dumps({'n': [1, 2.5, 'x', None, True]}, indent=1)
json.loads(text)
re.sub(r'(\w+)@', r'\1!', 'me@home')
hashlib.sha256(text.encode()).hexdigest()
with open('/dev/null') as file:
    file.read().split()
1 / 0
'''


def exercise():
    from traceback import format_exception
    try:
        exec(compile(EXERCISE, '<warm>', 'exec', 0, True), {'__name__': '__main__'})
    except ZeroDivisionError as error:
        format_exception(error)


def import_usual(own_path):
    """Import them from `own_path`: a file of the user's is no module of the library."""
    path = list(sys.path)
    sys.path[:] = own_path
    for name in USUAL.split():
        try:
            __import__(name)
        except Exception:
            pass
    sys.path[:] = path
