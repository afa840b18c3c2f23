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


def refused_for_good():
    """Behind a line that is refused none of the same open is taken, and what was wrong stays to be read."""
    s = Session("for-good", config="timeout_s = 7\n")
    for mode in (">", ">>"):
        for command in (r"printf 'timeout_s = %s\n' soon 9 MODE config", r"printf 'colour = red\ntimeout_s = 9\n' MODE config",
                        "{ echo colour = red; echo timeout_s = 9; } MODE config",
                        r"printf 'bad name!\nexample.test\n' MODE net/allow"):
            before = s.text("config")
            shell(f"cd {s / '.'}; {command.replace('MODE', mode)}")  # bash's printf does not say that it failed
            same(f"{mode} {command} changes nothing", s.text("config"), before)
            has("and says why", s.text("error"), "code:")
    with open(s / "config", "wb", buffering=0) as file:
        for text in (b"colour = red\n", b"timeout_s = 9\n"):
            with raises("one by one", errno.EINVAL):
                file.write(text)
        os.ftruncate(file.fileno(), 0)
        os.lseek(file.fileno(), 0, 0)
        file.write(b"timeout_s = 8\n")
    same("truncated, it starts over", (values(s)["timeout_s"], s.text("error")), ("8", ""))


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


def words():
    """Errors are about what was written, and say where."""
    s = Session("words", config="memory_mb = 256\nenv.KEPT = 1\n")
    s.run("true\n")
    with raises("> with other values of the template's", errno.EBUSY):
        write(s / "config", "timeout_s = 5\n")
    error = s.text("error")
    for word in ("starts again from the settings of the template", "memory_mb", "Use >> to add a line"):
        has("what > does", error, word)
    append(s, "timeout_s = 5\n")
    same("and that works", (values(s)["timeout_s"], s.text("error")), ("5", ""))
    with raises("what could not be added either", errno.EBUSY):
        write(s / "config", "timeout_s = 5\ncpus = 2\n")
    ok("is no case for >>", "Use >>" not in s.text("error"), s.text("error"))
    for text, name in (("env.NEW = 1\n", "env.NEW"), ("env.KEPT = 2\n", "env.KEPT"), ("unset env.KEPT\n", "env.KEPT")):
        with raises(text, errno.EBUSY):
            append(s, text)
        has("which variable", s.text("error"), f"{name} cannot change")
    s.ctl("close")
    s.wait_state("closed")
    write(s / "config", "memory_mb = 1024\nfiles_mb = 700\n")
    with raises("two that do not fit together", errno.EINVAL):
        write(s / "config", "files_mb = 600\n")
    for word in ("starts again", "memory_mb", "Use >> to add a line"):
        has("what > does", s.text("error"), word)
    append(s, "files_mb = 600\n")


def lines():
    s = Session("lines")
    with raises("replaced", errno.EINVAL):
        write(s / "config", "timeout_s = 5\n\ncolour = red\n")
    has("the line of what was written", s.text("error"), "line 3: ")
    n = len(s.text("config").splitlines())
    with raises("added", errno.EINVAL):
        append(s, "timeout_s = 5\ncolour = red\n")
    has("as it would be read", s.text("error"), f"line {n + 2}: ")
    append(s, "env.A = 1\n")
    status, _, err = shell(f"{{ echo 'env.B = 1'; echo 'env.C = 1'; echo 'colour = red'; }} >> {s / 'config'}")
    ok("line by line", status != 0 and err, err)
    same("what came before is there", (values(s)["env.B"], values(s)["env.C"]), ("1", "1"))
    has("the line behind them", s.text("error"), f"line {len(s.text('config').splitlines()) + 1}: ")


def by_template():
    info = json.loads(read(f"{MNT}/raw/template.json"))
    ok("template.json shows the settings", "memory_mb" in json.dumps(info), info)
    ok("a template is listed", "template.json" in os.listdir(f"{MNT}/raw"))


main(reading, replace_and_add, refused, refused_for_good, live, words, lines, by_template)
