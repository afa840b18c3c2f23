#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/adapters/exec_sandbox has the names, parameters, fields and exceptions of the package exec_sandbox."""
# backends: process
# night: process
# timeout: 300
import ast

from suites import *

# Nothing of it runs, so it need not be for this Python.
THEIRS = pip("exec_sandbox", "--no-deps", "--only-binary=:all:", "--ignore-requires-python") + "/exec_sandbox"
OURS = f"{ADAPTERS}/exec_sandbox"


def classes(folder, file):
    return {node.name: node for node in ast.parse(read(f"{folder}/{file}", "r")).body if isinstance(node, ast.ClassDef)}


def methods(node):
    """Names of public methods and properties, with their parameters."""
    return {item.name: [arg.arg for arg in [*item.args.args, *item.args.kwonlyargs]] for item in node.body
            if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and not item.name.startswith("_")}


def fields(node):
    return {item.target.id for item in node.body if isinstance(item, ast.AnnAssign)}


def calls():
    for file, name in (("scheduler.py", "Scheduler"), ("session.py", "Session")):
        ours, theirs = (methods(classes(folder, file)[name]) for folder in (OURS, THEIRS))
        ok(f"{name} of the package has methods", len(theirs) > 2, str(theirs))
        for method, parameters in theirs.items():
            if method in ("vm_id", "exec_count", "exposed_ports"):  # attributes
                has(file, read(f"{OURS}/{file}", "r"), f"self.{method}")
            else:
                same(f"{name}.{method}()", ours.get(method), parameters)


def models():
    theirs = classes(THEIRS, "models.py")
    for name, node in classes(OURS, "models.py").items():
        if name != "Language":
            same(name, fields(node), fields(theirs[name]))
    same("models", set(classes(OURS, "models.py")), set(theirs))
    theirs = fields(classes(THEIRS, "config.py")["SchedulerConfig"])
    same("SchedulerConfig", fields(classes(OURS, "config.py")["SchedulerConfig"]) - {"mount"}, theirs)


def exceptions():
    bases = {name: node.bases[0].id for name, node in classes(THEIRS, "exceptions.py").items()}
    code = ("import exec_sandbox, exec_sandbox.exceptions as e, json\n"
            "print(json.dumps([{n: getattr(e, n).__base__.__name__ for n in e.__all__ if getattr(e, n).__name__ == n},"
            " sorted(vars(exec_sandbox))]))")
    ours, exported = json.loads(foreign("exceptions", ["-c", code], environment(None, "raw")))
    same("exceptions", ours, bases)
    for node in ast.parse(read(f"{THEIRS}/__init__.py", "r")).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            wanted = set(ast.literal_eval(node.value))
            ok("the package exports something", len(wanted) > 30, str(wanted))
            same("missing", wanted - set(exported), set())


main(calls, models, exceptions)
