# SPDX-License-Identifier: Apache-2.0
# Python driver: imports packages in the process that all others are copies of, before there is a user.
"""Loaded by repl.py when packages are to be imported, once; agent/interp/driver.h is the contract.

Theory of operation
-------------------
What is imported here is in all sandboxes that begin from the snapshot of this machine, also in those that
never import it. So an import must leave nothing but modules: whatever else is different afterwards is a
reason not to import that package ahead, and is reported. The host then throws this machine away, and makes
the snapshot of another one, without that package. That is also what happens when an import fails, ends the
process, or does not end.

Random numbers: a generator that has begun in here would draw the same ones in all sandboxes. So the ones of
Python and NumPy that began with what the system gave are noted, and begin anew when a copy is given a seed.
One that began with a number which its package had chosen stays as it is; a package is refused after which one
cannot begin anew. What native code has drawn from the
system it draws anew where it notices forks, as OpenSSL does: no sandbox runs in this very process.
"""
import gc
import random
import secrets
from _signal import (ITIMER_PROF, ITIMER_REAL, ITIMER_VIRTUAL, SIG_BLOCK, SIG_IGN, SIGINT, default_int_handler, getitimer,
                     getsignal, pthread_sigmask, signal)
from _thread import _count as count_threads
from os import (O_RDWR, PRIO_PROCESS, WNOHANG, _exit, close, dup, dup2, fork, getcwd, getpriority, listdir, open as open_file,
                umask, urandom, waitpid, write)
from sys import modules

AT = b'\x01'
MODULES_MAX = 16  # of one package
DEPTH_MAX = 4  # a.b.c.d
SEED_BYTES = 32
PR_SET_CHILD_SUBREAPER = 36
LEAST_LEFT = 4  # one in so many parts of the memory is to be free
UNWANTED = {'test', 'tests', 'testing', 'docs', 'examples', 'benchmarks'}


# --- which modules are a package's ----------------------------------------------------------------

def roots(files):
    """The modules that are in no other: of `a/__init__.py a/b.py c.py` it is `a` and `c`."""
    folders = {file.parts[:-1] for file in files if file.name == '__init__.py'}
    for file in files:
        parts = file.parts
        if len(parts) == 1 and file.suffix in ('.py', '.so'):
            yield (file.name.partition('.')[0],)
    for folder in folders:
        if folder and len(folder) <= DEPTH_MAX and not any(folder[:n] in folders for n in range(1, len(folder))):
            yield folder


def modules_of(package):
    """The names of the modules that `package` is for: the one of its name, or else all that are not private."""
    from importlib.metadata import PackageNotFoundError, distribution
    try:
        files = distribution(package).files or ()
    except PackageNotFoundError:
        return []
    names = sorted('.'.join(parts) for parts in set(roots(files))
                   if all(part.isidentifier() and part[0] != '_' for part in parts) and parts[0] not in UNWANTED)
    own = [name for name in names if name.lower() == package.replace('-', '_').replace('.', '_')]
    return own or names[:MODULES_MAX]


# --- what else an import may leave ----------------------------------------------------------------

def limits():
    with open('/proc/self/limits', encoding='ascii') as file:
        return file.read()


def mask():
    """What no file is created with."""
    bits = umask(0o077)
    umask(bits)
    return bits


def surroundings():
    return {
        'the current directory': getcwd(),
        'the files in it': sorted(name for name in listdir('.') if name[0] != '.'),
        'how signals are handled': [getsignal(number) for number in range(1, 65)],
        'which signals are blocked': pthread_sigmask(SIG_BLOCK, ()),
        'when signals are due': [getitimer(timer)[1] or bool(getitimer(timer)[0])
                                 for timer in (ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF)],
        'the mode of new files': mask(),
        'the limits of processes': limits(),
        'the priority': getpriority(PRIO_PROCESS, 0),
        'the names in __main__': sorted(vars(modules['__main__'])),
    }


def count_tasks():
    return len(listdir('/proc/self/task'))


def has_threads():
    """Threads that end at a fork, and begin again when they are needed, do not count."""
    if count_threads():
        return True
    if count_tasks() > 1:
        child = fork()
        if not child:
            _exit(0)
        waitpid(child, 0)
    return count_tasks() > 1


def adopt(yes):
    """Whether a process whose parent has ended becomes a child of this one: a daemon does not escape then."""
    try:
        from ctypes import CDLL
        CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0)
    except Exception:  # a Python without it: such processes are not seen
        pass


def has_children():
    try:
        while waitpid(-1, WNOHANG)[0]:
            pass  # one that has ended
        return True
    except ChildProcessError:
        return False


def memory(name):
    with open('/proc/meminfo', encoding='ascii') as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name))


def trace_left(before):
    """What is different now, in words; or None."""
    after = surroundings()
    for name, was in before.items():
        if after[name] != was:
            return f'it changes {name}'
    if has_threads():
        return 'it starts threads'
    if has_children():
        return 'it starts processes'
    if memory('MemAvailable:') < memory('MemTotal:') // LEAST_LEFT:
        return 'it takes too much of the memory'
    return None


# --- random numbers -------------------------------------------------------------------------------

unseeded = {}  # id -> generator of Python's that began with what the system gave
entropies = set()  # what generators of NumPy's began with, where that came from the system
numpy_generators = {}  # by id
noting = False
seed_random, draw_bits = random.Random.seed, secrets.randbits


def note_seed(self, a=None, version=2):
    unseeded.pop(id(self), None)
    if a is None:
        unseeded[id(self)] = self
    return seed_random(self, a, version)


def note_bits(k):  # NumPy binds this one for good
    number = draw_bits(k)
    if noting:
        entropies.add(number)
    return number


def begin_noting():
    global noting
    noting = True
    random.Random.seed, secrets.randbits = note_seed, note_bits


def end_noting():
    global noting
    noting = False
    random.Random.seed, secrets.randbits = seed_random, draw_bits


def note_generators():
    kind = getattr(modules.get('numpy.random'), 'BitGenerator', None)
    for thing in gc.get_objects() if kind else ():
        if issubclass(type(thing), kind) and getattr(thing.seed_seq, 'entropy', None) in entropies:
            numpy_generators[id(thing)] = thing


def renew_numpy(generator, words):
    generator.state = type(generator)(modules['numpy.random'].SeedSequence(words)).state


def reseed(data):
    """Let the generators that packages made for themselves begin anew. Return: whether each one did."""
    words = [int.from_bytes(data[i:i + 4], 'little') for i in range(0, 32, 4)]
    steps = [(seed_random, one, data + n.to_bytes(4, 'little')) for n, one in enumerate(unseeded.values())]
    steps += [(renew_numpy, one, [n, *words]) for n, one in enumerate(numpy_generators.values())]
    done = True
    for renew, one, value in steps:
        try:
            renew(one, value)
        except BaseException:  # whatever its package has made of it; the others are to begin anew all the same
            done = False
    return done


# --- the imports ----------------------------------------------------------------------------------

def silence():
    """Let standard streams lead nowhere. Return: a descriptor that leads to where errors went."""
    report = dup(2)
    null = open_file('/dev/null', O_RDWR)
    for fd in 0, 1, 2:
        dup2(null, fd)
    close(null)
    return report


def import_all(packages, report, seed):
    """Return: 0, or 1 at the first that should not have been imported."""
    before = surroundings()
    for package in packages:
        write(report, AT + package.encode() + b'\n')
        try:
            for name in modules_of(package):
                __import__(name)
            note_generators()
            why = trace_left(before) or (None if seed(urandom(SEED_BYTES)) else 'its random numbers cannot begin anew')
        except BaseException as error:
            why = f'{type(error).__name__}: {error}'
        if why:
            write(report, why.encode('utf-8', 'replace')[:1000])
            return 1
    return 0


def import_packages(packages, let_in, seed):
    """Import what is named, and try whether `seed` works then. Return: 0, or 1 if this process is good for nothing more."""
    status = 1
    report = silence()

    def inside():
        nonlocal status
        signal(SIGINT, default_int_handler)
        status = import_all(packages, report, seed)

    begin_noting()
    adopt(True)
    let_in(inside)
    adopt(False)
    end_noting()
    signal(SIGINT, SIG_IGN)
    close(report)
    return status
