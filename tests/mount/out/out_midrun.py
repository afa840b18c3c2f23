#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tools started while a run writes: streaming ones wait and get all of it."""
# timeout: 120
from xsbx import *

CODE = "echo begin; for i in 1 2 3 4 5 6 7 8; do sleep 0.12; echo line $i; done; " \
       "until [ -e go ]; do sleep 0.05; done; echo end >&2\n"
WANT = b"begin\n" + b"".join(b"line %d\n" % i for i in range(1, 9))

# {} is the file, {copy} something to write to.
WHOLE = {
    "cat": "cat {}",
    "grep": "grep '' {}",
    "awk": "awk 1 {}",
    "sort": "sort -s -k1,1 {} | cat",
    "dd": "dd if={} status=none",
    "cp": "cp {} {copy}; cat {copy}",
    "tee": "tee /dev/null < {}",
    "python": "python3 -c \"import sys; sys.stdout.write(open('{}').read())\"",
    "python lines": "python3 -c \"import sys\nfor l in open('{}'): sys.stdout.write(l)\"",
    "python os.read": "python3 -c \"import os\nf = os.open('{}', 0)\n"
                      "while d := os.read(f, 9): os.write(1, d)\"",
    "node readFileSync": "node -e \"process.stdout.write(require('fs').readFileSync('{}'))\"",
    "node stream": "node -e \"require('fs').createReadStream('{}').pipe(process.stdout)\"",
    "node promises": "node -e \"require('fs').promises.readFile('{}')"
                     ".then(d => process.stdout.write(d))\"",
    "perl": "perl -pe '' {}",
    "less": "less -FX {} | cat",
    "bash read": "while IFS= read -r l; do printf '%s\\n' \"$l\"; done < {}",
    "bash $(<)": "x=$(<{}); printf '%s\\n' \"$x\"",
    "cmp": "cmp {} {want} && cat {want}",
    "tail -n": "tail -n 100 {}",
    "sed": "sed -n p {}",
    "base64": "base64 {} | base64 -d",
    "head -c": "head -c 1000 {}",
    "wc": "test $(wc -c < {}) = $(wc -c < {want}) && cat {want}",
}
NEEDS = {"node": "node", "perl": "perl", "less": "less"}


def all_tools():
    want = f"{SCRATCH}/want"
    write(want, WANT)
    tools = {name: command for name, command in WHOLE.items()
             if shutil.which(NEEDS.get(name.split()[0], "cat"))}
    s = Session("tools")
    s.run("true\n")
    s.submit(CODE)
    s.wait_run(2, "running")
    children = {}
    for name, command in tools.items():
        command = command.replace("{want}", want).replace("{copy}", f"{SCRATCH}/copy")
        children[name] = subprocess.Popen(
            ["bash", "-c", command.replace("{}", s / "stdout")], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    ok("size while it runs, and is open", os.stat(s / "stdout").st_size > 1 << 20)
    time.sleep(0.5)
    same("none of them ends before the run does", [name for name, child in children.items()
                                                   if child.poll() is not None], [])
    same("it runs still", s.state_of(2), "running")
    write(s / "files/go", "")
    for name, child in children.items():
        same(f"{name} in the middle of a run", child.communicate(timeout=3 * SOON)[0], WANT)
    same("size at the end", os.stat(s / "stdout").st_size, len(WANT))


def satisfied():
    """Tools that have seen enough go before the end."""
    s = Session("satisfied", config="timeout_s = 3000\n")
    s.submit("echo a; echo b; read -r x < <(sleep 600)\n")
    for command in (f"head -n 2 {s / 'stdout'}", f"grep -m1 b {s / 'stdout'}",
                    f"head -c 4 {s / 'stdout'}", f"sed 2q {s / 'stdout'}",
                    f"dd if={s / 'stdout'} bs=4 count=1 status=none"):
        status, out, err = shell(command)
        same(f"{command.split()[0]} returns before the end", s.word(), "running")
        ok(f"{command.split()[0]}: output", status == 0 and out in (b"a\nb\n", b"b\n"), f"{out} {err}")
    s.ctl("kill")


def sizes():
    s = Session("sizes")
    s.submit("echo 123456789; echo 12345 >&2; read -r x < <(sleep 600)\n")
    fd = os.open(s / "stdout", os.O_RDONLY)
    same("what there is so far", os.read(fd, 100), b"123456789\n")
    ok("stdout, which is open: more than there can be", os.stat(s / "stdout").st_size > 1 << 20)
    for node in ("stderr", "output"):
        same(f"{node}: 0 while it is not known", os.stat(s / node).st_size, 0)
    ok("runs/1/stderr has its exact size so far",
       wait_for(lambda: os.stat(s / "runs/1/stderr").st_size == 6))
    same("runs/1/stdout too", os.stat(s / "runs/1/stdout").st_size, 10)
    same("runs/1/output too", os.stat(s / "runs/1/output").st_size, 16)
    same("and does not wait", read(s / "runs/1/stdout"), b"123456789\n")
    ok("no exit code yet", not os.path.exists(s / "runs/1/exit_code"))
    same("state", s.state_of(1), "running")
    s.ctl("kill")
    same("the end of it", os.read(fd, 100), b"")
    os.close(fd)
    same("stdout at the end", os.stat(s / "stdout").st_size, 10)
    same("stderr at the end", os.stat(s / "stderr").st_size, 6)
    same("output at the end", os.stat(s / "output").st_size, 16)


def blocking_code():
    """exit_code waits; so do summary-like readers of it."""
    s = Session("code")
    s.submit("until [ -e go ]; do read -r -t 0.02 x < <(:); done; exit 9\n")
    with together(lambda _: same("cat exit_code waits", read(s / "exit_code"), b"9\n"), 1) as problems:
        ok("it runs", s.wait_run(1, "running"))
        fd = os.open(s / "exit_code", os.O_RDONLY | os.O_NONBLOCK)
        with raises("there is none before the end", errno.EAGAIN):
            os.read(fd, 10)
        os.close(fd)
        write(s / "files/go", "")
    same("nothing went wrong", problems, [])
    same("size", os.stat(s / "exit_code").st_size, 2)
    s.submit("sleep 0.4; exit 10\n")
    same("wait, in runs/2", read(s / "runs/2/wait"), b"10\n")
    same("runs/1/wait still says what it said", read(s / "runs/1/wait"), b"9\n")
    same("python text", int(open(s / "exit_code").read()), 10)


def idle():
    """With nothing queued or active, reads do not wait."""
    s = Session("idle")
    same("stdout of a new session", read(s / "stdout"), b"")
    s.run("echo x\n")
    fd = os.open(s / "in", os.O_WRONLY | os.O_TRUNC)
    same("in is open, with nothing in it", read(s / "stdout"), b"x\n")
    os.write(fd, b"echo later\n")
    os.close(fd)
    same("now it is a run", s.result().stdout, b"later\n")


main(all_tools, satisfied, sizes, blocking_code, idle)
