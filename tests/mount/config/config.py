#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""config: replace, add, refuse, and what can change while a sandbox runs."""
# backends: local vm
from xsbx import *

KEYS = {"backend": "process" if BACKEND == "process" else "microvm", "memory_mb": "192", "cpus": "1", "timeout_s": "30",
        "idle_timeout_s": "300", "fresh": "no", "network": "off"}


def values(s):
    found = {}
    for line in s.text("config").splitlines():
        line = line.split("#")[0].strip()
        if line:
            key, _, value = line.partition("=")
            found[key.strip()] = value.strip()
    return found


def append(s, text):
    with open(s / "config", "ab", buffering=0) as file:
        file.write(text.encode())


def reading():
    s = Session("reading")
    text, found = s.text("config"), values(s)
    for key, value in KEYS.items():
        same(f"default of {key}", found.get(key), value)
    ok("each with a comment", text.count("#") >= len(KEYS))
    same("size", os.stat(s / "config").st_size, len(text))
    write(s / "config", text)
    same("what is read can be written", s.text("config"), text)


def replace_and_add():
    s = Session("replace")
    write(s / "config", "timeout_s = 7\nmemory_mb=256\n")
    same("replaced", (values(s)["timeout_s"], values(s)["memory_mb"]), ("7", "256"))
    append(s, "cpus = 1\n# a comment\n\nidle_timeout_s = 60\n")
    same("added", [values(s)[k] for k in ("timeout_s", "memory_mb", "idle_timeout_s")],
         ["7", "256", "60"])
    append(s, "timeout_s = 8")
    same("added without newline", values(s)["timeout_s"], "8")
    write(s / "config", "timeout_s = 9\n")
    same("replaced: the others are at their defaults again",
         [values(s)[k] for k in ("timeout_s", "memory_mb", "idle_timeout_s")], ["9", "192", "300"])
    status, _, err = shell(f"printf 'timeout_s = 10\\n' > {s / 'config'}; "
                           f"echo 'idle_timeout_s = 61' >> {s / 'config'}")
    same("by the shell", (status, err, values(s)["timeout_s"], values(s)["idle_timeout_s"]),
         (0, b"", "10", "61"))
    same("sed -i", shell(f"sed -i 's/^timeout_s.*/timeout_s = 11/' {s / 'config'}")[::2], (0, b""))
    same("is taken", (values(s)["timeout_s"], values(s)["idle_timeout_s"]), ("11", "61"))
    same("cp", shell(f"echo 'timeout_s = 12' > {SCRATCH}/c; cp {SCRATCH}/c {s / 'config'}")[0], 0)
    same("is taken too", values(s)["timeout_s"], "12")


def refused():
    s = Session("refused")
    write(s / "config", "timeout_s = 7\n")
    before = s.text("config")
    for text in ("colour = red\n", "timeout_s = soon\n", "timeout_s = -1\n", "timeout_s = 1.5\n",
                 "timeout_s =\n", "timeout_s\n", "memory_mb = 127\n", "memory_mb = 99999999999999\n",
                 "cpus = 0\n", "fresh = maybe\n", "backend = docker\n", "network = perhaps\n",
                 "= 3\n", "env. = x\n", "env.A B = x\n", "env.A=1\ncolour = red\n",
                 "timeout_s = 5\nmemory_mb = x\n", "a" * 3000 + " = 1\n"):
        with raises(f"{text[:40]!r}", errno.EINVAL):
            write(s / "config", text)
        with raises(f">> {text[:40]!r}", errno.EINVAL):
            append(s, text)
        same(f"{text[:40]!r} changes nothing", s.text("config"), before)
    error = s.text("error")
    for word in ("code:", "cause:", "fix:"):
        has("error", error, word)
    with raises("very long", errno.EINVAL, errno.EFBIG, errno.E2BIG, errno.ENOSPC):
        write(s / "config", "# x\n" * 100000)
    same("works", s.run("echo fine\n").stdout, b"fine\n")


def live():
    s = Session("live", config="timeout_s = 60\n")
    s.run("true\n")
    append(s, "timeout_s = 1\n")
    same("timeout_s can change live", s.run("read -r x < <(sleep 60)\n").code, 124)
    append(s, "timeout_s = 30\nidle_timeout_s = 100\n")
    for text in ("memory_mb = 256\n", "cpus = 2\n", "backend = %s\n" % ("microvm" if BACKEND == "process" else "process")):
        before = s.text("config")
        with raises(f"{text!r} of a sandbox that runs", errno.EBUSY, *(
                [errno.EINVAL, errno.EPERM, errno.EACCES] if "backend" in text else [])):
            append(s, text)
        same("changed nothing", s.text("config"), before)
    write(s / "config", s.text("config"))
    same("writing what is there is no change", s.run("echo fine\n").stdout, b"fine\n")
    s.ctl("close")
    s.wait_state("closed")
    append(s, "memory_mb = 256\n")
    same("a closed one can be changed", values(s)["memory_mb"], "256")
    s.ctl("reset")
    same("and started again", s.run("echo fine\n").stdout, b"fine\n")


def by_template():
    info = json.loads(read(f"{MNT}/raw/template.json"))
    ok("template.json shows the settings", "memory_mb" in json.dumps(info), info)
    ok("a template is listed", "template.json" in os.listdir(f"{MNT}/raw"))


main(reading, replace_and_add, refused, live, by_template)
