#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the adapters share, exec_sandbox's interface, and their size; what needs no framework."""
# backends: process vm
# night: vm
# timeout: 200
# conf: output_limit = 2M
import ast
import glob

from suites import *

LINES = 150  # of a file, so that it can be read before it is trusted
LIBRARY = set(sys.stdlib_module_names) | {"xsbx"}


def sizes():
    paths = sorted(glob.glob(f"{ADAPTERS}/**/*.py", recursive=True))
    ok("they are all there", len(paths) > 20, str(paths))
    for path in paths:
        text = read(path, "r")
        name = os.path.relpath(path, ADAPTERS)
        ok(f"{name} has at most {LINES} lines", text.count("\n") <= LINES, str(text.count("\n")))
        compile(text, path, "exec")


def imports():
    """xsbx.py and exec_sandbox/ need nothing but Python."""
    for path in [f"{ADAPTERS}/xsbx.py", *glob.glob(f"{ADAPTERS}/exec_sandbox/*.py")]:
        names = [alias.name for node in ast.walk(ast.parse(read(path, "r"))) if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module for node in ast.walk(ast.parse(read(path, "r"))) if isinstance(node, ast.ImportFrom) and not node.level]
        same(path, [name for name in names if name.partition(".")[0] not in LIBRARY], [])


def helper():
    checks("helper", environment(None, "raw"))


def exec_sandbox():
    checks("exec_sandbox", environment(None, "raw"))
    example("with_exec_sandbox", environment(None, "python"),
            "heard: hello\nexit code 0\n[1, 1, 3, 4, 5] ['numbers.txt', 'sorted.txt']\n")


main(sizes, imports, helper, exec_sandbox)
