#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`output` has both streams in the order in which they were written, also while the host is busy."""
# backends: local process vm
# night: vm
# timeout: 240
from xsbx import *

N = 5 if VM else 40

CASES = (
    ("raw", "sh -c 'echo a >&2; exit'; echo b\n", "a\nb\n"),
    ("raw", "echo x; echo e >&2; echo y\n", "x\ne\ny\n"),
    ("raw", "set -x; echo a; echo b; set +x\n", "+ echo a\na\n+ echo b\nb\n+ set +x\n"),
    ("raw", "for i in {1..50}; do echo $i; echo $i >&2; done\n", "".join(f"{i}\n{i}\n" for i in range(1, 51))),
    ("python", "import subprocess\nprint('x')\nsubprocess.run('echo a >&2', shell=True)\nprint('b')\n", "x\na\nb\n"),
    ("python", "import os\nos.write(1, b'x\\n')\nos.write(2, b'e\\n')\nos.write(1, b'y\\n')\n", "x\ne\ny\n"),
)


@contextlib.contextmanager
def busy():
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count())]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def order(cpus):
    sessions = {template: Session(f"order{cpus}", template=template, config=f"cpus = {cpus}\n")
                for template in ("raw", "python")}
    for s in sessions.values():
        s.run(":\n" if s is sessions["raw"] else "pass\n")
    with busy():
        for template, code, expected in CASES:
            s, wrong = sessions[template], []
            for _ in range(N):
                s.run(code)
                if s.text("output") != expected:
                    wrong.append(s.text("output"))
            ok(f"{template} {code[:30]!r} with {cpus} processors: {len(wrong)} of {N}", not wrong, wrong[:1])
    for s in sessions.values():
        s.remove()


def one():
    order(1)


def two():
    order(2)


main(one, two)
