#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each template has the programs that agents look for, and they run."""
# backends: vm
# night: vm
# timeout: 200
from xsbx import *

vm_only()

# A command each, whose output has the word.
ALL = [("ip -V", "iproute2"), ("ss -V", "iproute2"), ("ping -V", "iputils"), ("nc -h 2>&1", "OpenBSD"),
       ("dig -v 2>&1", "DiG"), ("wget --version", "Wget"), ("rsync --version", "rsync"),
       ("ssh -V 2>&1", "OpenSSH"), ("sqlite3 :memory: 'select 6*7'", "42"), ("git --version", "git"),
       ("curl --version", "curl"), ("jq -n 6*7", "42"), ("make --version", "GNU Make")]
PYTHON = [("python3 -c 'print(6*7)'", "42"), ("python -c 'print(6*7)'", "42")]
DEV = [("echo 'int main(void) { return 42; }' >a.c; gcc -o a a.c; ./a; echo $?", "42"),
       ("printf 'job:\\n\\techo made it\\n' >Makefile; make -s job 2>&1", "made"),
       ("echo 'int main() { return 42; }' >b.cc; g++ -o b b.cc; ./b; echo $?", "42")]


def shell_of(template, commands):
    s = Session("tools", template)
    for command, word in commands:
        result = s.run(command)
        has(f"{template}: {command}", result.out, word)
    s.remove()


def shells():
    shell_of("shell", ALL + PYTHON)
    shell_of("raw", PYTHON)
    snapshots = json.loads(read(f"{MNT}/status.json"))["snapshots"]
    same("shell and raw are machines of one kind", len(snapshots), 1)


def through(template, code):
    """The same from a program in the template's language."""
    s = Session("tools", template)
    result = s.run(code)
    for (command, word), line in zip(ALL, result.out.split("\0")):
        has(f"{template}: {command}", line, word)
    return s


def python():
    s = through("python", f"import subprocess\nfor c, _ in {ALL!r}:\n"
                "    print(subprocess.run(c, shell=True, capture_output=True, text=True).stdout, end='\\0')\n")
    same("python: cloudpickle", s.run("import cloudpickle\n"
         "print(cloudpickle.loads(cloudpickle.dumps(lambda x: x * 7))(6))\n").out, "42\n")
    s.remove()


def javascript():
    through("javascript", f"for (const c of {[c for c, _ in ALL]!r})\n"
            "  process.stdout.write(require('child_process').spawnSync('sh', ['-c', c])"
            ".stdout.toString() + '\\0')\n").remove()


def dev():
    if not os.path.exists(f"{os.environ['IMAGES']}/images/templates/dev"):
        print("not tried: dev, whose image is not built (scripts/images dev)", flush=True)
        return
    shell_of("dev", ALL + PYTHON + DEV)


main(shells, python, javascript, dev)
