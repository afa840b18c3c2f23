# SPDX-License-Identifier: Apache-2.0
# Python driver: runs one piece of code after another in one interpreter, for the agent.
"""Started as `python3 -s -B repl.py CTL`; agent/interp/driver.h is the contract.

Theory of operation
-------------------
User code gets a `__main__` of its own, fresh and empty, and sees of the driver what a program sees
of the interpreter that runs it: nothing on the usual ways. Four things follow from that.

* The driver must go on working whatever user code does to the modules they share. It calls the
  functions that it bound when it was loaded, through a private copy of the builtins.
* Descriptors 0, 1 and 2 are replaced for each run, so the objects `sys.stdout` and `sys.stderr`
  stay good for ever, also in the hands of a log handler made in an earlier run. They are made anew
  only when user code has closed them.
* Frames of this file are taken out of tracebacks, and sources are handed to `linecache` under the
  name `<run N>` (`<warmup>` for the code of a `warmup`), so that a traceback looks as it does for a file.
* A process forked by user code that falls out of it ends as a Python program does, and never
  comes back to the loop: only the process that was started answers.
* Requests are received and answered by turn_python.c; what it calls here is `handle`. An interpreter
  that has not been given any code can be copied.

SIGINT is Python's own during a run, so that KeyboardInterrupt ends it, and ignored between runs.
"""
# Functions take their builtins from here, so `builtins.len = None` is not our problem.
__builtins__ = dict(vars(__builtins__))

import gc
import site
import sys
from _io import BufferedRandom, BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from _imp import create_dynamic
from _signal import (SIG_IGN, SIG_UNBLOCK, SIGINT, default_int_handler, pthread_sigmask,
                     signal)
from _thread import _count as count_threads
from atexit import _run_exitfuncs as run_exit_functions
from os import F_OK, _exit, access, environ, fsdecode, fstat, getcwd, getpid, register_at_fork, unlink, urandom
from os.path import dirname, isdir
from sys import getprofile, gettrace, setprofile, settrace

READY, RUN, DONE, WARM, SEED, COPY, TIDY = range(1, 8)
PREPARE = 11
IMPORT, TRIAL = 9, 10  # kinds of RUN, as turn_python.c tells them apart
WARMUP_TURN = 4294967294  # PROTO_RUN_ID_WARMUP in agent/protocol.h
SOURCES_MAX = 16 << 20  # bytes of source text kept for tracebacks
MARK = b'\xef\xbb\xbf'  # which some editors begin a text with

OWN = sys._getframe().f_code.co_filename
ORDER = sys.byteorder
PID = getpid()
is_copy = False
NULL_DEVICE = fstat(0).st_rdev  # it is /dev/null until the first run
original_hook = sys.excepthook
write_text = TextIOWrapper.write
modules = sys.modules
builtins = modules['builtins']


# --- standard streams ----------------------------------------------------------------------------

last_writer = None


class Output(TextIOWrapper):
    """Standard output or error: buffered by line, in exact order with respect to the other one."""

    def write(self, text):
        global last_writer
        if last_writer is not self:
            other, last_writer = last_writer, self
            if other is not None:
                flush(other)
        count = write_text(self, text)
        if not text or UNBUFFERED:  # print(..., end='') ends so: progress dots are meant to be seen
            self.flush()
        return count


Output.__name__ = Output.__qualname__ = 'TextIOWrapper'
Output.__module__ = '_io'

STREAM_NAMES = ('<stdin>', '<stdout>', '<stderr>')
# The interpreter has chosen these from the locale, the same for every program it runs.
ENCODINGS = sys.stdin.encoding, sys.stdout.encoding, sys.stderr.encoding
ERRORS = sys.stdin.errors, sys.stdout.errors, sys.stderr.errors
UNBUFFERED = sys.stdout.write_through  # PYTHONUNBUFFERED


def make_output(fd):
    raw = FileIO(fd, 'wb', closefd=False)
    raw.name = STREAM_NAMES[fd]
    ordered(fd, raw)
    stream = Output(BufferedWriter(raw), ENCODINGS[fd], ERRORS[fd], '\n', True)
    stream.mode = 'w'
    return stream


def make_input():
    raw = FileIO(0, 'rb', closefd=False)
    raw.name = STREAM_NAMES[0]
    stream = TextIOWrapper(BufferedReader(raw), ENCODINGS[0], ERRORS[0], '\n')
    stream.mode = 'r'
    return stream


def is_null(fd):
    try:
        return fstat(fd).st_rdev == NULL_DEVICE
    except OSError:
        return False


def flush(stream):
    """Flush something that user code may have closed, detached or replaced by anything at all."""
    try:
        stream.flush()
    except BaseException:
        pass


def usable(stream, fd):
    """Whether an output is still ours to use; puts back settings that user code has changed."""
    try:
        if stream.closed or stream.buffer.raw.fileno() != fd:
            return False
        stream.reconfigure(encoding=ENCODINGS[fd], errors=ERRORS[fd], newline='\n',
                           line_buffering=True, write_through=False)
        return True
    except Exception:
        return False


outputs = []


def flush_all():
    # What user code put in the place of our streams may write into them: those first.
    for name in 'stdout', 'stderr':
        stream = getattr(sys, name, None)
        if stream is not outputs[0] and stream is not outputs[1]:
            flush(stream)
    for stream in outputs:
        flush(stream)


def bind_outputs():
    """Make `sys.stdout` and `sys.stderr` mean descriptors 1 and 2 again."""
    global last_writer
    # Dropping a wrapper that user code made around our buffer closes that buffer: drop, then look.
    sys.stdout = sys.__stdout__ = outputs[0]
    sys.stderr = sys.__stderr__ = outputs[1]
    for i in 0, 1:
        if not usable(outputs[i], i + 1):
            outputs[i] = make_output(i + 1)
            last_writer = None
    sys.stdout = sys.__stdout__ = outputs[0]
    sys.stderr = sys.__stderr__ = outputs[1]


def are_bound():
    """Whether the outputs are as bind_outputs left them, as far as that shows at a glance."""
    try:
        return (sys.stdout is outputs[0] and sys.stderr is outputs[1] and
                sys.__stdout__ is outputs[0] and sys.__stderr__ is outputs[1] and
                not outputs[0].closed and not outputs[1].closed)
    except Exception:  # detached
        return False


spare_input = None  # made between two runs, for the next one that has no input


def bind_input():
    global spare_input
    stream, spare_input = spare_input, None
    if stream is None or not is_null(0):
        stream = make_input()
    sys.stdin = sys.__stdin__ = stream


# --- sources, and the modules that must know of them ---------------------------------------------

sources = {}  # file name -> entry of linecache.cache
sources_size = 0
current_file = ''  # __file__ of the running code
current_code = b''
spawn_files = []  # copies of the code made for children of multiprocessing


def decode(code):
    """Source text as the compiler reads it, for display only."""
    if b'coding' in code[:200]:
        try:
            from importlib._bootstrap_external import decode_source
            return decode_source(code)
        except Exception:
            pass
    # By the codec that is there: that of `utf-8-sig` would first be imported.
    return (code[len(MARK):] if code.startswith(MARK) else code).decode('utf-8', 'replace')


def remember(name, path, code):
    global sources_size
    entry = (len(code), None, decode(code).splitlines(True), name)
    for key in name, path:
        sources[key] = entry
    sources_size += len(code)
    cache = getattr(modules.get('linecache'), 'cache', None)
    while sources_size > SOURCES_MAX and len(sources) > 2:
        for _ in 0, 1:
            old = next(iter(sources))
            size = sources.pop(old)[0]
            if isinstance(cache, dict):
                cache.pop(old, None)
        sources_size -= size
    if isinstance(cache, dict):
        cache[name] = cache[path] = entry


def on_linecache(module):
    module.cache.update(sources)


def on_context(module):
    """Functions of a session live in this process only: `fork` is the method that finds them."""
    module._default_context._default_context = module._concrete_contexts['fork']


def on_spawn(module):
    """Whoever asks for `spawn` gets in the children what `python3 file` gives: the file again."""
    original = module.get_preparation_data

    def get_preparation_data(name):
        data = original(name)
        if data.get('init_main_from_path') == current_file:
            import tempfile
            fd, path = tempfile.mkstemp('.py', 'run-')
            with open(fd, 'wb') as f:
                f.write(current_code)
            spawn_files.append(path)
            data['init_main_from_path'] = path
        return data

    module.get_preparation_data = get_preparation_data


class Loader:
    """Stands in for a module's loader while it is loaded, and then does something more."""

    def __init__(self, inner, after):
        self.inner, self.after = inner, after

    def create_module(self, spec):
        return self.inner.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self.inner
        self.inner.exec_module(module)
        self.after(module)


class Finder:
    """Imports as ever, but for the few modules that have to learn how this interpreter is run."""

    after = {
        'linecache': on_linecache,
        'multiprocessing.context': on_context,
        'multiprocessing.spawn': on_spawn,
    }

    def find_spec(self, name, path=None, target=None):
        if name not in self.after:
            return None
        for finder in sys.meta_path:
            if finder is not self:
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    spec.loader = Loader(spec.loader, self.after[name])
                    return spec
        return None


# --- the user's module and paths -----------------------------------------------------------------

main_module = type(sys)('__main__')
user_site = None  # the directory, once it exists and has been added


own_path = sys.path[1:] if sys.path[:1] == [dirname(OWN)] else list(sys.path)


def set_up_paths():
    """What the user's environment asks for, and the working directory where we were."""
    for name in 'PYTHONPATH', 'PYTHONHOME', 'PYTHONPYCACHEPREFIX':
        value = environ.pop('XSBX_' + name, None)
        if value is not None:
            environ[name] = value
    extra = [] if environ.get('PYTHONSAFEPATH') else [getcwd()]
    extra += [p for p in environ.get('PYTHONPATH', '').split(':') if p]
    sys.path[:] = extra + own_path
    sys.pycache_prefix = environ.get('PYTHONPYCACHEPREFIX') or None
    sys.argv[:] = ['']
    sys.orig_argv[:] = [sys.executable]
    if 'PYTHONINTMAXSTRDIGITS' not in environ and hasattr(sys, 'set_int_max_str_digits'):
        sys.set_int_max_str_digits(0)  # big numbers are printed in full


def add_user_site():
    """Add ~/.local/... as `site` does; a package may be installed there at any time."""
    global user_site
    if user_site is not None or environ.get('PYTHONNOUSERSITE'):
        return
    path = site.getusersitepackages()
    if not access(path, F_OK) or not isdir(path):
        return
    user_site = path
    site.ENABLE_USER_SITE = True
    before = list(sys.path)
    site.addsitedir(path)
    added = [p for p in sys.path if p not in before]
    system = site.getsitepackages()
    at = next((i for i, p in enumerate(before) if p in system), len(before))
    sys.path[:] = before[:at] + added + before[at:]


def forget_listings():
    """Files may have come from outside since the last import, within one tick of the clock."""
    for path, finder in list(sys.path_importer_cache.items()):
        if hasattr(finder, 'invalidate_caches') and not path.startswith(sys.base_prefix + '/lib'):
            finder.invalidate_caches()


def look_around():
    """Take in what has changed outside. Never worth failing a run for."""
    try:
        add_user_site()
        if count_threads():  # they may have imported something since tidy_up()
            forget_listings()
    except Exception:
        pass


def set_up_module(name):
    """Give __main__ what the interpreter gives to that of a file, for the run called `name`."""
    global current_file
    try:
        current_file = getcwd() + '/' + name
    except OSError:  # the directory is gone
        current_file = name
    modules['__main__'] = main_module
    space = main_module.__dict__
    space['__builtins__'] = builtins
    space['__name__'] = '__main__'
    space['__file__'] = current_file
    space['__doc__'] = None
    try:
        if sys.argv[0] == '' or sys.argv[0].startswith(('<run ', '<warmup>')):
            sys.argv[0] = name
    except Exception:  # whatever user code has made of it
        pass
    return space


# --- one run -------------------------------------------------------------------------------------

def strip_frames(error):
    """Take our own frames out of the traceback of an exception and of those behind it."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        head = tail = None
        entry = error.__traceback__
        while entry is not None:
            if entry.tb_frame.f_code.co_filename != OWN:
                if tail is None:
                    head = entry
                else:
                    tail.tb_next = entry
                tail = entry
            entry = entry.tb_next
        if tail is not None:
            tail.tb_next = None
        error.__traceback__ = head
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def display(error):
    """What the interpreter prints about an exception that nobody caught."""
    try:
        # Up to 3.12 the interpreter looks for source lines in files only.
        from traceback import format_exception
        sys.stderr.write(''.join(format_exception(error)))
    except BaseException:
        original_hook(type(error), error, error.__traceback__)


def exit_status(error):
    """The exit status that an uncaught SystemExit asks for, as pythonrun.c has it."""
    code = getattr(error, 'code', error)
    if code is None:
        return 0
    if isinstance(code, int):
        code = int.__index__(code)
        return code & 255 if -(1 << 63) <= code < 1 << 63 else 255
    try:
        text = str(code)
    except Exception:
        text = ''
    sys.stderr.write(text + '\n')
    return 1


def outcome(error):
    """Report an exception that ended a run. Return: the exit status."""
    if isinstance(error, SystemExit):
        return exit_status(error)
    strip_frames(error)
    kind, trace = type(error), error.__traceback__
    sys.last_exc = sys.last_value = error
    sys.last_type, sys.last_traceback = kind, trace
    hook = getattr(sys, 'excepthook', original_hook)
    if hook is original_hook:
        display(error)
    else:
        try:
            hook(kind, error, trace)
        except SystemExit as second:
            return exit_status(second)
        except Exception as second:
            strip_frames(second)
            sys.stderr.write('Error in sys.excepthook:\n')
            display(second)
            sys.stderr.write('\nOriginal exception was:\n')
            display(error)
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def execute(code, name, space):
    """Run `code`. Return: its exit status; SIGINT is ignored again."""
    status = 130

    def inside():
        nonlocal status
        try:
            pthread_sigmask(SIG_UNBLOCK, (SIGINT,))
            signal(SIGINT, default_int_handler)
            try:
                # One with a zero in it is refused.
                exec(compile(code, name, 'exec', 0, True) if b'\0' in code else compile_text(code, name), space)
                status = 0
            except BaseException as error:
                status = 130 if isinstance(error, KeyboardInterrupt) else 1
                # Without need these would be events for audit hooks, which may raise, and a
                # function of ours for both places would be one for the tracer.
                if gettrace() is not None:
                    settrace(None)
                if getprofile() is not None:
                    setprofile(None)
                status = outcome(error)
            flush_all()
        except BaseException:  # interrupted before it began, or again while reporting
            pass

    let_in(inside)  # no handler of a signal runs but in there
    if getpid() == PID:
        signal(SIGINT, SIG_IGN)
    if gettrace() is not None:
        settrace(None)
    if getprofile() is not None:
        setprofile(None)
    return status


own_modules = ()  # names of the modules that were there before any user code


def enter(place):
    """Set the variables that this run has of its own. Return: what they were before."""
    before = []
    for word in place.split(b'\0')[1:-1]:
        name, _, value = fsdecode(word).partition('=')
        before.append((name, environ.get(name)))
        environ[name] = value
    return before


def leave(before):
    """They are again what they were."""
    for name, value in before:
        try:
            if value is None:
                environ.pop(name, None)
            else:
                environ[name] = value
        except Exception:  # whatever user code has made of it
            pass


def run(turn, code, place=b''):
    global current_code, is_tidy, own_modules
    if not is_tidy:  # the next run was there at once
        tidy_up()
    is_tidy = False
    own_modules = own_modules or frozenset(modules)
    name = '<warmup>' if turn == WARMUP_TURN else f'<run {turn}>'
    while spawn_files:
        try:
            unlink(spawn_files.pop())
        except OSError:
            pass
    current_code = code
    space = set_up_module(name)
    remember(name, current_file, code)
    look_around()
    if not are_bound():
        bind_outputs()
    bind_input()
    before = enter(place)
    status = execute(code, name, space)
    if getpid() != PID:
        end_child(status)
    leave(before)
    flush_all()
    if not are_bound():
        bind_outputs()  # which may end what user code made, and so write more
    return status


def end_child(status):
    """End a process that user code has forked, as the interpreter would end it.

    Which means: wait for threads, run what was registered with `atexit`, let go of what the program
    made, so that its files are flushed. But the interpreter would then visit all that it ever
    loaded, and so get a copy of each page that it shares with its parent, some MiB in all.
    """
    for step in join_threads, run_exit_functions, flush_all, let_go, flush_all:
        try:
            step()
        except BaseException as error:
            strip_frames(error)
            original_hook(type(error), error, error.__traceback__)
    _exit(status)


def join_threads():
    if 'threading' in modules:
        modules['threading']._shutdown()


def let_go():
    """Drop the program's objects and modules, which finalises what nobody else holds."""
    # In what order a collection closes a file and the buffers in front of it is left to chance.
    for kind in TextIOWrapper, BufferedWriter, BufferedRandom:
        for thing in gc.get_objects():  # without what was frozen
            if issubclass(type(thing), kind):
                flush(thing)
    thing = sys.last_exc = sys.last_value = sys.last_traceback = None
    for name in list(modules):
        if name not in own_modules:
            del modules[name]
    # What finalisers may need goes last. (A collection alone would not do: our dictionary of the
    # module may have been frozen.)
    space = main_module.__dict__
    needed = type, type(sys), type(flush)
    for name in list(space):
        if not issubclass(type(space[name]), needed):
            space[name] = None
    gc.collect()
    space.clear()
    gc.collect()


is_tidy = True  # since the last run, or since it was started


def tidy_up():
    """A run has been answered, and nobody waits: get ready for the next."""
    global is_tidy, spare_input
    bind_outputs()
    try:
        forget_listings()
        if is_null(0):
            spare_input = make_input()
    except Exception:
        pass
    is_tidy = True


# --- requests that are not runs ------------------------------------------------------------------

parts = {}


def part(name):
    """Return: what repl.NAME.py defines. It is read when it is first needed."""
    if name not in parts:
        path, space = f'{dirname(OWN)}/repl.{name}.py', {}
        with open(path, 'rb') as file:
            exec(compile(file.read(), path, 'exec'), space)
        parts[name] = space
    return parts[name]


def rehearse():
    """Touch what each run touches."""
    set_up_module('<run 0>')
    look_around()
    bind_outputs()
    bind_input()
    execute(b'print(end="")', '<warm>', {'__name__': '__main__'})
    tidy_up()


warmed = False  # in this process


def warm():
    global warmed
    again, warmed = warmed, True
    if is_copy:  # of one that has done the rest
        if again:  # in a clone of the machine
            part('warm')['exercise']()
        rehearse()
        return
    part('warm')['import_usual'](own_path)
    part('warm')['exercise']()
    rehearse()
    # Objects that live as long as the interpreter: no collection need look at them again, which
    # also leaves the pages that clones of this machine share untouched.
    gc.collect()
    gc.freeze()


def import_packages(names):
    """Import them in this process, before any user code; see there."""
    global own_modules
    part('warm')['import_usual'](own_path)
    look_around()
    # A child that ends lets go of the others, as of what user code has imported.
    own_modules = frozenset(modules)
    return part('imports')['import_packages'](names.decode().split(), let_in, seed)


has_run = False  # code that nobody knows


# What draws the same numbers in each clone of a frozen interpreter, and how it begins anew.
RENEWALS = {
    'random': lambda module, data: module.seed(data),
    # OpenSSL notices forks, but not that the machine was copied.
    '_ssl': lambda module, data: has_run and module.RAND_add(data, 32.0),
    # The key that its listeners ask for; code that has run may have children which know it.
    'multiprocessing.process': lambda module, data: has_run or setattr(module.current_process(), 'authkey', urandom(32)),
    'tempfile': lambda module, data: setattr(module, '_name_sequence', None),
    'uuid': lambda module, data: setattr(module, '_node', None),
    'numpy.random': lambda module, data: module.seed([int.from_bytes(data[i:i + 4], ORDER) for i in range(0, 32, 4)]),
}


def seed(data):
    """Let all begin anew. Return: whether all did; one that does not, keeps no other from it."""
    done = True
    for name, renew in RENEWALS.items():
        try:
            if name in modules:
                renew(modules[name], data)
        except BaseException:  # not the module we think it is
            done = False
    if 'imports' in parts and not parts['imports']['reseed'](data):
        done = False
    return done


def prepare():
    """The machine is about to be copied: do what would only be slower in each copy."""
    module = has_run and modules.get('_ssl')
    try:
        if module:
            # The first use of OpenSSL's generator sets it up, which takes longer than all else that seed() does.
            module.RAND_add(urandom(32), 32.0)
    except BaseException:  # as in seed()
        pass


# --- requests ------------------------------------------------------------------------------------

def become_copy():
    """In a copy of this interpreter; see agent/interp/driver.h."""
    global PID, is_copy, warmed
    PID = getpid()
    is_copy, warmed = True, False


def handle(kind, turn, code, data, place):
    """Do what is asked for. Return: the status to answer with."""
    global has_run
    if data:
        seed(data)
    if kind == RUN or kind == TRIAL:
        has_run = has_run or kind == RUN
        return run(turn, code, place)
    if kind == IMPORT:
        return import_packages(code)
    if kind == WARM:
        warm()
    elif kind == TIDY:
        tidy_up()
    elif kind == PREPARE:
        prepare()
    elif kind == COPY:
        become_copy()
    return 0


def load_turn():
    """Return: the loop of turn.so, what calls user code, what compiles it, and what makes `write` of an output.

    The "import" fails by design, after it has left the functions behind.
    """
    spec = type(sys.implementation)(name='turn', origin=dirname(OWN) + '/turn.so')
    try:
        create_dynamic(spec)
    except (ImportError, SystemError):
        pass
    return [sys.__dict__.pop('_xsbx_' + name) for name in ('serve', 'let_in', 'compile_text', 'ordered')]


def main():
    global let_in, compile_text, ordered
    signal(SIGINT, SIG_IGN)
    serve, let_in, compile_text, ordered = load_turn()
    outputs[:] = make_output(1), make_output(2)
    ctl = int(sys.argv[1])
    set_up_paths()
    sys.meta_path.insert(0, Finder())
    register_at_fork(before=flush_all)
    bind_outputs()
    bind_input()
    set_up_module('<run 0>')
    serve(ctl, handle, 'Python ' + sys.version.split()[0])


main()
