# SPDX-License-Identifier: Apache-2.0
"""Foreign suites: tests that others have written for sandboxes, which scripts/deps --suites installs."""
import pwd
import re
import subprocess
import tempfile

from xsbx import *

TOP = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../..")


def run_suite(name, code, passed, xfailed, python=0, template="python"):
    """Runs the tests that @code collects, of which so many have to pass, and to fail as is expected; @python: of those that
    pass, so many need a program of this name; @template: of machines."""
    home = pwd.getpwuid(os.getuid()).pw_dir  # a test has another HOME
    where = f"{home}/.cache/xsbxfs-test/{name}-{sys.version_info[0]}.{sys.version_info[1]}"
    if not os.path.isdir(where):
        skip(f"there is no {where}; scripts/deps --suites installs it")

    def suite():
        chosen = template if VM else "raw"
        probe = Session("probe", chosen)
        has_python = probe.run("import shutil; print(shutil.which('python'))\n" if VM else "command -v python\n").out[:1] == "/"
        missing = 0 if has_python else python
        with tempfile.TemporaryDirectory() as work:
            write(f"{work}/test_suite.py", code.encode())
            env = dict(os.environ, PYTHONPATH=f"{where}:{TOP}/scripts/adapters", XSBX_TEMPLATE=f"{MNT}/{chosen}",
                       HAS_PYTHON=str(has_python))
            done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o",
                                   "asyncio_mode=auto", "test_suite.py"], cwd=work, env=env, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
        said = done.stdout.decode(errors="replace")
        last = said.rstrip().rpartition("\n")[2]
        got = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", last)}
        same(last, (got.get("passed", 0), got.get("xfailed", 0), got.get("failed", 0), got.get("errors", 0)),
             (passed - missing, xfailed + missing, 0, 0))
        if done.returncode:
            print(said[-6000:])

    main(suite)
