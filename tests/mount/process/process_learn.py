#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""learn = yes: learned.conf is what a program has used, and under that, pasted into the configuration, it runs."""
# backends: process
# timeout: 240
# mount: none
# log-allow: did not start|the daemon died|died of the same|was killed by signal
import configparser

from deaths import *
from hosts import *

LIMITS = "[limits]\nallow_process = yes\n"


class Place:
    """A configuration to which sections are added, and its mounts."""

    def __init__(self, name, conf):
        self.name, self.conf, self.n, self.daemon = name, conf, 0, None
        self.mnt = f"{SCRATCH}/{name}.mnt"
        os.makedirs(self.mnt)

    def __enter__(self):
        path = f"{SCRATCH}/{self.name}.conf"
        write(path, self.conf)
        self.daemon = start_daemon(self.mnt, log=f"{SCRATCH}/{self.name}.log", conf=path)
        return self

    def __exit__(self, *_):
        shell(f"fusermount3 -u {self.mnt}")
        self.daemon.wait(SOON)

    def session(self, name, template, config=None):
        return Session(name, template, config, self.mnt)


def section(text, name):
    """What a section says, as a dictionary."""
    parsed = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parsed.read_string(text)
    return dict(parsed[f"template {name}"])


def tree(name):
    """A program with what it needs, and what it does not."""
    top = folder(name, mode=0o755)
    for name, text in {"bin/tool": f"#!/bin/sh\n. {top}/lib/deep/a\ncat {top}/etc/conf; ls {top}/list\n"
                                   "echo done >>$1/log && cat $1/log\n",
                       "lib/deep/a": "echo sourced\n", "etc/conf": "setting\n", "list/one": "", "never/x": "secret\n"}.items():
        os.makedirs(os.path.dirname(f"{top}/{name}"), exist_ok=True)
        write(f"{top}/{name}", text)
    os.chmod(f"{top}/bin/tool", 0o755)
    os.mkdir(f"{top}/out")
    return top


def learns():
    top = tree("first")
    call = f"{top}/bin/tool {top}/out 2>&1; cat /nowhere/at/all 2>/dev/null; test -d {top}/list"
    head = f"[xsbxfs]\nkeep = yes\nstate_dir = {SCRATCH}/state\n{LIMITS}allow_learn = yes\nlearn_paths = {top}\n"
    place = Place("learns", f"{head}[template plain]\nlanguage = raw\nbackend = process\n")
    with place:
        s = place.session("plain", "plain")
        same("without it there is no learned.conf", os.path.exists(s / "learned.conf"), False)
        ok("and nothing of that is there", "done" not in s.run(call).out)
        s = place.session("tool", "plain", "learn = yes\nmemory_mb = 256\n")
        out = s.run(call).out
        ok("it reads what it needs", "sourced\nsetting\none\n" in out, out)
        ok("but nothing is written", "done" not in out and not os.listdir(f"{top}/out"), out)
        text = s.text("learned.conf")
        got = section(text, "tool")
        same("what it needs, and no more", (set(got["ro"].split()), got["rw"].split()),
             ({f"{top}/bin", f"{top}/etc", f"{top}/lib/deep", f"{top}/list"}, [f"{top}/out"]))
        same("how", (got["backend"], got["language"]), ("process", "raw"))
        ok("within what it had", 128 <= int(got["memory_mb"]) <= 256 and 64 <= int(got["processes"]) <= 512 and
           1 <= int(got["timeout_s"]) <= 30, got)
        has("what was missed", text, "/nowhere/at/all")
        write(s / "config", "learn = no\nmemory_mb = 256\n")
        same("it stays", s.text("learned.conf"), text)
        Mortal(place.daemon.pid).die()
        same("whoever serves it", s.text("learned.conf"), text)
    place.conf += text
    with place:
        s.path = f"{place.mnt}/plain/tool"
        same("and at the next mount", s.text("learned.conf"), text)
        s = place.session("again", "tool")
        out = s.run(call).out
        same("under that it runs", out, "sourced\nsetting\none\ndone\n")
        same("and has written", read(f"{top}/out/log"), b"done\n")
        same("what it did not use is not there", s.run(f"test -e {top}/never").code, 1)


def jobs_and_threads():
    """Of programs that were started by others, in other languages, at the same time."""
    need_language("python")
    top = tree("second")
    place = Place("threads", f"{LIMITS}allow_learn = yes\nlearn_paths = {top}:/opt/app\n"
                             "[template py]\nlanguage = python\nbackend = process\n")
    with place:
        s = place.session("seen", "py", "learn = yes\n")
        r = s.run("import subprocess, os\n"
                  "ps = [subprocess.Popen(['cat', '/opt/app/etc/conf']) for _ in range(20)]\n"
                  "print(sum(p.wait() for p in ps), open('/opt/app/lib/deep/a').read())\n")
        same("they go on as ever", (r.out.count("setting"), r.out.count("sourced")), (20, 1))
        os.mkdir(s / "jobs/j")
        write(s / "jobs/j/in", "cd /opt/app/list && ls\n")
        same("a job", read(s / "jobs/j/stdout"), b"one\n")
        got = section(s.text("learned.conf"), "seen")
        same("where it lies, and where it is seen", set(got["ro"].split()),
             {f"{top}/{n}:/opt/app/{n}" for n in ("etc", "lib/deep", "list")})
        ok("several processes", int(got["processes"]) >= 64, got)


def allowed():
    place = Place("allowed", f"{LIMITS}[template plain]\nlanguage = raw\nbackend = process\n")
    with place:
        s = place.session("one", "plain")
        with raises("it needs the administrator's leave", errno.EINVAL):
            write(s / "config", "learn = yes\n")
        has("in words", s.text("error"), "allow_learn")
        same("and none is there", os.path.exists(s / "learned.conf"), False)


main(learns, jobs_and_threads, allowed)
