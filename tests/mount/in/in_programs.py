#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs other than shells that write `in`: each makes exactly one run."""
# backends: local vm
from xsbx import *

s = None


def one_run(what, action, want=b"hello\n"):
    before = len(s.runs())
    action()
    result = s.result()
    same(f"{what}: one run", len(s.runs()), before + 1)
    same(f"{what}: stdout", result.stdout, want)


def run_tool(*command, **options):
    def action():
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=SOON, check=False, **options)
        same(f"{command[0]}: exit status", (done.returncode, done.stdout), (0, b""))
    return action


def python_ways():
    def with_open():
        with open(s / "in", "w") as file:
            file.write("echo ")
            file.flush()
            file.write("hello\n")

    def replace():
        with open(s / "part", "w") as file:
            file.write("echo hello\n")
        os.replace(s / "part", s / "in")

    def forked():
        fd = os.open(s / "in", os.O_WRONLY | os.O_TRUNC)
        pid = os.fork()
        if not pid:
            os.write(fd, b"echo ")
            os._exit(0)
        os.waitpid(pid, 0)
        copy = os.dup(fd)
        os.write(copy, b"hel")
        os.close(copy)
        os.write(fd, b"lo\n")
        os.close(fd)

    def positioned():
        fd = os.open(s / "in", os.O_RDWR | os.O_TRUNC)
        os.pwrite(fd, b"echo hal", 0)
        os.pwrite(fd, b"lo\n", 8)
        os.pwrite(fd, b"e", 6)
        same("what was written can be read back", os.pread(fd, 100, 0), b"echo hello\n")
        os.close(fd)

    def shortened():
        fd = os.open(s / "in", os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b"echo hello\nexit 9\n")
        os.ftruncate(fd, 11)
        os.fsync(fd)
        os.close(fd)

    def unlinked():
        os.unlink(s / "in")
        write(s / "in", "echo hello\n")

    one_run("python with open", with_open)
    one_run("python os.replace", replace)
    one_run("python fork and dup", forked)
    one_run("python pwrite", positioned)
    one_run("python ftruncate and fsync", shortened)
    one_run("python unlink first", unlinked)


def other_programs():
    code = f"{SCRATCH}/hello.sh"
    # Of another size than what is there: rsync looks at size and time only.
    write(code, "echo hello # rsync\n")
    target = s / "in"
    if shutil.which("rsync"):
        one_run("rsync", run_tool("rsync", code, target))
        write(code, "echo hello # inplace\n")
        one_run("rsync --inplace", run_tool("rsync", "--inplace", code, target))
    if shutil.which("node"):
        one_run("node writeFileSync", run_tool(
            "node", "-e", f"require('fs').writeFileSync({target!r}, 'echo hello\\n')"))
        one_run("node stream", run_tool("node", "-e", f"""
            const out = require('fs').createWriteStream({target!r});
            out.write('echo '); setTimeout(() => out.end('hello\\n'), 50)"""))
    if shutil.which("perl"):
        one_run("perl", run_tool(
            "perl", "-e", f"open(F, '>', '{target}') or die; print F \"echo hello\\n\"; close F"))
    write(s / "in", "echo bye\n")
    s.result()
    one_run("sed -i", run_tool("sed", "-i", "s/bye/hello/", target))
    one_run("sed -i with a backup", run_tool("sed", "-i.bak", "s/hello/hello/", target))
    ok("the backup is beside it", os.path.exists(s / "in.bak"))
    os.unlink(s / "in.bak")
    write(f"{SCRATCH}/sorted", "echo hello\n")
    one_run("sort -o", run_tool("sort", "-o", target, f"{SCRATCH}/sorted"))
    one_run("awk", run_tool("awk", f'BEGIN {{ print "echo hello" > "{target}" }}'))


def main_test():
    global s
    s = Session("programs")
    python_ways()
    other_programs()


main(main_test)
