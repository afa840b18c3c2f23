#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""files.events: what changes below files/, from whichever side."""
# backends: local process vm
import re
import select
import subprocess
import threading

from xsbx import *


class Watcher:
    """An open files.events, and the lines read from it."""

    def __init__(self, s):
        self.file = open(s / "files.events", "rb", buffering=0)
        self.rest = b""

    def line(self):
        while b"\n" not in self.rest:
            more = self.file.read(1 << 16)
            if not more:
                return None
            self.rest += more
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)

    def until(self, **wanted):
        """Return: all lines before the one with these values."""
        found = []
        while True:
            line = self.line()
            if line is None or all(line.get(key) == value for key, value in wanted.items()):
                if line is None:
                    fail(f"no line with {wanted}", found)
                return found
            found.append(line)

    def close(self):
        self.file.close()


def both_sides():
    s = Session("both")
    s.run("mkdir old; echo x > old/file\n")
    w = Watcher(s)
    w.until(kind="watching")
    s.run("echo one > made; mkdir dir; mv made dir/moved; chmod 600 dir/moved; rm -r dir\n")
    found = w.until(kind="deleted", path="dir")
    kinds = [(line["kind"], line["path"]) for line in found]
    ok("made by a program", ("created", "made") in kinds and ("written", "made") in kinds, kinds)
    ok("removed by it", ("deleted", "dir/moved") in kinds or ("renamed", "dir/moved") not in kinds, kinds)
    write(s / "files/old/host", "x")
    found = w.until(kind="written", path="old/host")
    same("made by the host", [line["kind"] for line in found][:1], ["created"])
    os.rename(s / "files/old/host", s / "files/host")
    line = None
    while not line or line["kind"] != "renamed":
        line = w.line()
    same("renamed is one line", (line["path"], line["from"]), ("host", "old/host"))
    ok("it has a time and a number", line["seq"] > 0 and abs(line["time"] - time.time()) < 3600, line)
    w.close()


def told_before_the_result():
    s = Session("order")
    s.run("true\n")
    w = Watcher(s)
    w.until(kind="watching")
    os.set_blocking(w.file.fileno(), False)
    for i in range(10):
        s.run(f"echo x > file{i}\n")
        found = os.read(w.file.fileno(), 1 << 20)
        has("once a result is read, what the run did can be", found.decode(), f'"file{i}"')
    with raises("then there is nothing", errno.EAGAIN):
        os.read(w.file.fileno(), 1 << 20)
    w.close()


def before_there_is_a_sandbox():
    s = Session("new")
    w = Watcher(s)
    same("it watches at once", w.line()["kind"], "watching")
    same("and makes no sandbox", s.text("state"), "new\n")
    s.run("mkdir -p a/b; echo x > a/b/c\n")
    w.until(kind="created", path="a/b/c")
    w.close()


def reset_and_close():
    s = Session("ends")
    s.run("true\n")
    w = Watcher(s)
    w.until(kind="watching")
    s.ctl("reset")
    s.run("echo x > after\n")
    w.until(kind="created", path="after")
    s.ctl("close")
    w.until(kind="overflow", path="")
    s.ctl("reset")
    s.run("echo x > anew\n")
    w.until(kind="created", path="anew")
    w.close()
    w = Watcher(s)
    w.until(kind="watching")
    os.rmdir(s.path)
    before, last = time.monotonic(), {}
    while line := w.line():
        last = line
    ok("it ends with the session, and at once", time.monotonic() - before < SOON, last)
    w.close()


def many_readers():
    s = Session("many")
    s.run("true\n")
    all_of_them = [Watcher(s) for _ in range(20)]
    for w in all_of_them:
        w.until(kind="watching")
    s.run("echo x > file\n")
    for w in all_of_them:
        w.until(kind="written", path="file")
    late = Watcher(s)
    same("a late one sees nothing of before", late.line()["kind"], "watching")
    for w in all_of_them:
        w.close()
    s.run("echo x > other\n")
    late.until(kind="created", path="other")
    late.close()


def poll():
    s = Session("poll")
    s.run("true\n")
    w = Watcher(s)
    w.until(kind="watching")
    p = select.poll()
    p.register(w.file, select.POLLIN)
    same("nothing yet", p.poll(0), [])
    timer = threading.Timer(0.3, lambda: write(s / "files/x", "x"))
    timer.start()
    ok("poll wakes", p.poll(SOON * 1000))
    timer.join()
    w.close()


def too_slow():
    s = Session("slow")
    s.run("true\n")
    w = Watcher(s)
    w.until(kind="watching")
    s.run("i=0; while [ $i -lt 6000 ]; do : > file$i; i=$((i+1)); done\n")
    begun = w.file.read(7)
    s.run("i=0; while [ $i -lt 6000 ]; do : > again$i; i=$((i+1)); done\n")
    w.rest = begun
    same("a line that was begun goes on, and what was lost is said", w.line()["kind"], "overflow")
    same("again", w.line()["kind"], "overflow")
    s.run("echo x > next\n")
    w.until(kind="created", path="next")
    w.close()


def odd_names():
    s = Session("names")
    s.run("true\n")
    w = Watcher(s)
    w.until(kind="watching")
    s.run("""touch $'a\\nb"c' $'\\xff\\xfe' 'ünï'\n""")
    found = []
    while len(found) < 3:
        line = w.line()
        if line["kind"] == "created":
            found.append(line)
    same("all names", [f.get("path") or bytes.fromhex(f["path_hex"]) for f in found],
         ['a\nb"c', b"\xff\xfe", "ünï"])
    w.close()


def a_shell():
    s = Session("shell")
    s.run("true\n")
    text = subprocess.run(["sh", "-c", """exec 3< files.events; read -r first <&3
        echo x > files/new; grep -m 1 written <&3"""], cwd=s.path, stdout=subprocess.PIPE, timeout=SOON).stdout
    same("a shell's way", json.loads(text)["path"], "new")


def tools():
    s = Session("tools")
    s.run("true\n")
    tail = subprocess.Popen(["tail", "-f", "files.events"], cwd=s.path, stdout=subprocess.PIPE, text=True)
    has("tail begins", tail.stdout.readline(), "watching")
    s.run("for i in {1..9}; do echo x > $i; done; echo x > one\n")
    while '"one"' not in (line := tail.stdout.readline()):
        has("tail follows", line, '"path"')
    late = subprocess.Popen(["tail", "-n", "0", "-f", "files.events"], cwd=s.path, stdout=subprocess.PIPE, text=True)
    time.sleep(0.5)
    seen = threading.Event()
    torn = []

    def look():
        for line in late.stdout:
            if not line.startswith("{"):
                torn.append(line)
            if '"two"' in line:
                seen.set()

    threading.Thread(target=look, daemon=True).start()
    for _ in range(100):
        s.run("echo x > two\n")
        if seen.wait(0.2):
            break
    ok("a second one, too", seen.is_set())
    same("from the beginning of a line", torn, [])
    for each in tail, late:
        each.kill()
        each.wait()
    text = subprocess.run(["bash", "-c", """exec 3< files.events; read -r a <&3; echo x > files/a; echo x > files/b
        read -r b <&3; head -n 1 <&3; grep -m 1 '"b"' <&3; echo $a $b"""], cwd=s.path, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=SOON).stdout.splitlines()
    same("bash and head leave what they don't want",
         [re.search('"kind":"(.*?)"', line)[1] for line in text], ["modified", "created", "watching"])


def watchers_of_the_host():
    """The way that the man page shows: whoever watches attributes gets to know."""
    need("node", "jq")
    s = Session("watchers")
    s.run("mkdir src; echo old > src/file\n")
    watching = subprocess.Popen(["node", "-e", """
        const w = require("fs").watch("files/src", (kind, name) => { console.log(name); w.close(); });
        console.log("ready");"""], cwd=s.path, stdout=subprocess.PIPE, text=True)
    same("node watches", watching.stdout.readline(), "ready\n")
    s.run("echo control > src/file\n")  # of which the host knows nothing
    bridge = subprocess.Popen(["bash", "-c", """exec 3< files.events; read -r first <&3; echo "$first"
        while cat; do :; done <&3 | jq --unbuffered -r 'select(.kind == "written") | .path' |
        while IFS= read -r path; do touch -c -r "files/$path" "files/$path"; echo "$path"; done"""], cwd=s.path, stdout=subprocess.PIPE,
                              text=True, start_new_session=True)
    has("the bridge watches", bridge.stdout.readline(), "watching")
    ok("the control: nobody told node", watching.poll() is None)
    s.run("echo new > src/file\n")
    same("the bridge touches it", bridge.stdout.readline(), "src/file\n")
    same("which node sees", watching.stdout.readline(), "file\n")
    watching.wait(SOON)
    os.killpg(bridge.pid, signal.SIGKILL)
    bridge.wait()
    bridge.stdout.close()
    watching.stdout.close()


main(both_sides, told_before_the_result, before_there_is_a_sandbox, reset_and_close, many_readers, poll, too_slow, odd_names,
     a_shell, tools, watchers_of_the_host)
