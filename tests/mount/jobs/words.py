#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `error` says in the directories of jobs and named runs: what it is about, and what can be done."""
# backends: local process
from xsbx import *


def make(s, name, config=None):
    d = s / name
    os.mkdir(d)
    if config:
        write(f"{d}/config", config)
    return d


def told(d, *parts):
    """The parts are in its error, and nothing of another noun."""
    text = read(f"{d}/error", "r")
    for part in parts:
        has(os.path.basename(d), text, part)
    return text


def refused(what, path, data, d, *parts):
    with raises(what, errno.EINVAL, errno.EBUSY, errno.ESRCH, errno.EPIPE, errno.EOPNOTSUPP, errno.EPERM):
        write(path, data)
    return told(d, *parts)


def settings():
    s = Session("settings")
    a = make(s, "jobs/a")
    for key, example in (("timeout_s", 60), ("rows", 24), ("cols", 80), ("nice", 5)):
        refused(key, f"{a}/config", f"{key} = 1h\n", a, f"e.g. {key} = {example}.")
    refused("language", f"{a}/config", "language = perl\n", a, "there is no perl here", "language = shell or raw;")
    if BACKEND == "process":
        refused("root", f"{a}/config", "user = root\n", a, "machines only", "backend = microvm")
    refused("a long word", f"{a}/config", f"argv = printf {'x' * 131072}\n", a, "a word of 131072 bytes")
    write(f"{a}/config", f"argv = printf %s {'x' * 131071}\n")
    write(f"{a}/ctl", "start\n")
    same("the longest word", len(read(f"{a}/stdout")), 131071)


def names():
    s = Session("names")
    for where, noun in ("jobs", "job"), ("runs", "run"):
        with raises(f"{where}/.x", errno.EINVAL):
            os.mkdir(s / f"{where}/.x")
        for error in s.text("error"), read(f"{MNT}/error", "r"):
            has(where, error, f'".x" can\'t be the name of a {noun}')
            has(where, error, "code: bad-name")
            has(where, error, "begin with neither a dot nor a dash")
        os.mkdir(s / f"{where}/_x")
    with raises("a number", errno.EINVAL):
        os.mkdir(s / "runs/5")
    for error in s.text("error"), read(f"{MNT}/error", "r"):
        has("a number", error, "numbers are those that the session gives to its runs")
        has("a number", error, "mkdir runs/NAME")
    has("the root names the session", read(f"{MNT}/error", "r"), "cause: raw/names: ")


def two_writers():
    s = Session("two")
    for name, words in ("jobs/a", "a job is started once"), ("runs/a", "a named run takes code once"):
        d = make(s, name)
        first, second = (open(f"{d}/in", "w", encoding="ascii") for _ in range(2))
        for file, code in (second, "echo second\n"), (first, "echo first\n"):
            file.write(code)
            file.flush()
        first.close()
        second.close()
        same("who closes first", (read(f"{d}/stdout"), read(f"{d}/exit_code")), (b"first\n", b"0\n"))
        told(d, "code: dropped", words, "another writer of `in` was first", "Make another one: mkdir " + name[:4])


def not_started():
    s = Session("refused")
    for name, config, code, *words in (
            ("argv", "argv = nosuchprog x\n", None, '"nosuchprog": No such file', "whose argv begins with a program"),
            ("cwd", "cwd = nosuch\n", "true\n", "cwd = nosuch: No such file", "with a cwd that is there"),
            ("line", None, "#!/no/such\ntrue\n", '"#!/no/such": No such file', "a first line #! names one"),
            ("file", "argv = /etc/passwd\n", None, '"/etc/passwd": Permission denied', "whose argv")):
        d = make(s, f"jobs/{name}", config)
        write(f"{d}/{'in' if code else 'ctl'}", code or "start\n")
        with raises(name, errno.EIO):
            read(f"{d}/exit_code")
        told(d, "code: not-started", "the job could not be started: ", "mkdir jobs/NAME", *words)
        has("its summary", read(f"{d}/summary", "r"), words[0])


main(settings, names, two_writers, not_started)
