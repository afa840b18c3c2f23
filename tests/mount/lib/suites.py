# SPDX-License-Identifier: Apache-2.0
"""Foreign programs: frameworks, and tests that others have written for sandboxes, each in a directory that pip fills."""
import fcntl
import hashlib
import pwd
import re
import subprocess
import tempfile

from xsbx import *

TOP = os.path.abspath(f"{os.path.dirname(os.path.realpath(__file__))}/../../..")
ADAPTERS, TESTS = f"{TOP}/scripts/adapters", f"{TOP}/tests/mount/adapters"
HOME = pwd.getpwuid(os.getuid()).pw_dir  # a test has another one
KEPT_DAYS = 30


def installed(name, program, command):
    """
    A directory below the user's cache that @command(directory) fills, once for each content of requirements/NAME and
    each @program, which says its version. Skips where that can't be done.
    """
    cache, source = f"{HOME}/.cache/xsbxfs-test", f"{TESTS}/requirements/{name}"
    key = hashlib.sha256(read(source) + program.encode()).hexdigest()[:12]
    os.makedirs(cache, exist_ok=True)
    stem = name.partition(".")[0]
    with open(f"{cache}/.{stem}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the same test may run for another backend at the same time
        where = f"{cache}/{stem}-{key}"
        if not os.path.isdir(where):
            new = tempfile.mkdtemp(prefix=f"{stem}-new-", dir=cache)
            done = subprocess.run(command(new, source), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  env=dict(os.environ, HOME=HOME, TMPDIR=new), cwd=new)
            if done.returncode:
                shutil.rmtree(new)
                lines = done.stdout.decode(errors="replace").strip().splitlines() or ["nothing"]
                skip(f"what {source} names can't be installed: {lines[-1]}")
            os.rename(new, where)
        os.utime(where)
        for other in os.listdir(cache):  # of other versions
            path = f"{cache}/{other}"
            if other.startswith(f"{stem}-") and os.stat(path).st_mtime < time.time() - KEPT_DAYS * 86400:
                shutil.rmtree(path)
    return where


def pip(name, *options):
    """What requirements/NAME.txt names, for this Python."""
    return installed(f"{name}.txt", sys.version, lambda where, source: [
        sys.executable, "-m", "pip", "install", "-q", "--no-warn-script-location", "--root-user-action=ignore",
        "--disable-pip-version-check", "--target", where, "-r", source, *options])


def npm(name):
    """What requirements/NAME.json, a package.json, names."""
    need("node", "npm")
    return installed(f"{name}.json", shell("node --version")[1].decode(), lambda where, source: [
        "sh", "-c", 'cp "$1" package.json && exec npm install --silent --no-audit --no-fund --ignore-scripts', "sh", source])


def go(name, package):
    """A program of Go, built from what requirements/NAME.mod and .sum name. Return: the directory that it is in."""
    need("go")
    # go knows no module in the directory for temporary files itself.
    build = "mkdir tmp; export TMPDIR=$PWD/tmp; cp $1 go.mod; cp ${1%.mod}.sum go.sum; export GOTOOLCHAIN=local GOFLAGS=-modcacherw GOPATH=$PWD/go GOCACHE=$PWD/cache; " \
        "go build -o $2 $3 && rm -r go cache tmp && chmod 755 ."  # for who has the sandbox
    return installed(f"{name}.mod", shell("go version")[1].decode() + package, lambda where, source: [
        "sh", "-c", build, "sh", source, name, package])


def environment(where, template, **more):
    """For a program that uses an adapter, and what is in these directories; @template: of the mount, by name."""
    return dict(os.environ, PYTHONPATH=":".join(filter(None, [ADAPTERS, where])), XSBX_MOUNT=MNT, XSBX_TEMPLATE=f"{MNT}/{template}", PYTHONWARNINGS="ignore",
                **more)


def foreign(what, arguments, env):
    """Runs a Python program; return what it printed. It has to end well, and to leave no session."""
    with tempfile.TemporaryDirectory() as work:
        done = subprocess.run([sys.executable, *arguments], cwd=work, env=dict(env, TMPDIR=work), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    if not same(f"{what}: exit status", done.returncode, 0):
        print(out[-3000:], err[-6000:])
    template = env["XSBX_TEMPLATE"]
    same(f"{what}: sessions that are left", [name for name in os.listdir(template) if os.path.isdir(f"{template}/{name}")], [])
    return out


def example(name, env, want, *arguments):
    """scripts/adapters/examples/NAME.py prints that."""
    out = foreign(name, [f"{ADAPTERS}/examples/{name}.py", *arguments], env)
    same(f"{name}: the example's output", out, want)


def checks(name, env):
    """checks/check_NAME.py, whose checks stop at the first that fails."""
    out = foreign(f"checks of {name}", [f"{TESTS}/checks/check_{name}.py"], env)
    print(out, end="")


def run_suite(where, code, passed, xfailed, python=0, template="python"):
    """Runs the tests that @code collects, of which so many have to pass, and to fail as is expected; @python: of those that
    pass, so many need a program of this name; @template: of machines."""
    chosen = template if VM else "raw"
    probe = Session("probe", chosen)
    has_python = probe.run("import shutil; print(shutil.which('python'))\n" if VM else "command -v python\n").out[:1] == "/"
    probe.remove()
    missing = 0 if has_python else python
    with tempfile.TemporaryDirectory() as work:
        write(f"{work}/test_suite.py", code.encode())
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto",
                               "test_suite.py"], cwd=work, env=environment(where, chosen, HAS_PYTHON=str(has_python)),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = done.stdout.decode(errors="replace")
    last = said.rstrip().rpartition("\n")[2]
    got = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", last)}
    same(last, (got.get("passed", 0), got.get("xfailed", 0), got.get("failed", 0), got.get("errors", 0)),
         (passed - missing, xfailed + missing, 0, 0))
    if done.returncode:
        print(said[-6000:])


__all__ = [name for name in dir() if not name.startswith("_")]
