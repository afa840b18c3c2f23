#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packages from the real registries, as this host's pip and npm would take them: pure ones, compiled
ones, of npm; what is wrong, withdrawn, or in conflict; and the next session, which finds it done."""
# backends: process vm
# night: vm
# timeout: 400
# mount: none
# log-allow: packages-failed|packages
import socket

from layers import *

LIMIT = "memory_mb = 512\ntimeout_s = 240\n"


def reachable(language):
    """Can the registry of a language be reached at all?"""
    tool = ("uv", "/usr/local/bin/uv") if language == "python" else (
        "bun", "/usr/local/lib/node_modules/@oven/bun-linux-x64-baseline/bin/bun")
    done = subprocess.run([f"{PACKAGES}/prepare", language, "host", *tool], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, timeout=4 * SOON,
                          env={**os.environ, "XSBXFS_CACHE": CACHE})
    hosts = [line.split()[1] for line in done.stdout.decode().splitlines() if line.startswith("host ")]
    if done.returncode or not hosts:
        return done.stdout.decode()[-300:]
    for host in hosts:
        name, _, port = host.partition(":")
        try:
            socket.create_connection((name, int(port or 443)), 10).close()
        except OSError as error:
            return f"{name}: {error}"
    return ""


why = reachable("python")
if why:
    skip(f"the registry of Python cannot be reached: {why}")
need_language("python")
host = Mount("host", "[template python]\npool = 1\n", packages="")


def pure():
    s = host.session("pure", "six==1.16.0")
    run = s.run("import six; print(six.__version__)\n")
    same("six", run.out, "1.16.0\n")
    if run.code:
        print(s.text("error"), s.text("console")[-2000:])
    s.remove()


def compiled():
    start = time.monotonic()
    s = host.session("compiled", "pandas==2.3.3 numpy==2.3.5", more=LIMIT)
    run = s.run("import pandas as pd, numpy as np\n"
                "print(pd.DataFrame({'a': np.arange(4)}).a.sum(), pd.__version__)\n")
    same("pandas", run.out, "6 2.3.3\n")
    print(f"(the first session with pandas: {time.monotonic() - start:.1f} s)")
    s.remove()
    s = host.session("second", "numpy==2.3.5 pandas==2.3.3", more=LIMIT)
    same("the second session", s.run("print(1)\n").out, "1\n")
    ok("installs nothing", "Installed" not in s.text("console"))
    s.remove()


def refusals():
    for name, packages, words in (("version", "six==99.1", "six==99.1"),
                                  ("old", "pandas==2.2.0" if VM else "pandas==0.25.3", "wheel"),
                                  ("conflict", "pandas==2.3.3 numpy==1.20.0", "numpy")):
        s = host.session(name, packages)
        same(f"{name}: refused", s.run("print(1)\n").code, "EIO")
        has(f"{name}: in words", s.text("error"), words)
        s.remove()
    same("nothing half-made", [n for n in layers() if n.startswith(".")], [])


def offered():
    """Without a version the newest is offered, and can be had."""
    s = Session("offered", template="python", mnt=host.mnt)
    fix = offer(s, "six")
    has("six", fix, "echo 'packages = six==")
    same("as it is offered", shell(fix.split(": ", 1)[1], cwd=s.path)[::2], (0, b""))
    same("it runs", s.run("import six; print(f'six=={six.__version__}' in %r)\n" % fix).out, "True\n")
    s.remove()
    if not reachable("javascript") and has_language("javascript"):
        s = Session("offered", template="javascript", mnt=host.mnt)
        has("lodash", offer(s, "lodash"), "echo 'packages = lodash@4.")
        s.remove()


def unreachable():
    """No registry: that is said, and nobody waits for it for long."""
    far = Mount("far", "[template python]\npool = 1\n", packages="python_index = https://192.0.2.1/simple\n")
    s = Session("far", template="python", mnt=far.mnt)
    has("no way there", offer(s, "six"), "could not be looked up: ")
    s.remove()
    far.close()


def withdrawn():
    """A version that its author has withdrawn ("yanked") can be had by its exact number, with a warning."""
    s = host.session("withdrawn", "requests==2.32.0")
    same("installed", s.run("import requests; print(requests.__version__)\n").out, "2.32.0\n")
    has("the console warns", s.text("console"), "yanked")
    s.remove()


def javascript():
    why = reachable("javascript")
    if why or not has_language("javascript"):
        print(f"(no packages of npm: {why or 'no bun'})")
        return
    s = host.session("js", "lodash@4.17.21 @types/node@22.0.0", template="javascript")
    same("lodash", s.run("import _ from 'lodash'; console.log(_.VERSION, require('lodash').chunk([1,2,3],2).length)\n").out,
         "4.17.21 2\n")
    s.remove()
    s = host.session("js2", "lodash@99.0.0", template="javascript")
    same("a version that there is not", s.run("1\n").code, "EIO")
    has("in words", s.text("error"), "lodash")
    s.remove()


main(pure, compiled, refusals, offered, unreachable, withdrawn, javascript, lambda: host.close())
