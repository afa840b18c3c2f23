#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Process sandboxes need no QEMU and no images, and do not wait until it is known what machines
can run on."""
# backends: process
# timeout: 90
# mount: none
from xsbx import *

CONF = f"{SCRATCH}/conf"
IMAGES = f"{os.environ['IMAGES']}/images"


@contextlib.contextmanager
def mount(name, qemu, text):
    """A mount with a cache of its own."""
    mnt, cache = f"{SCRATCH}/{name}", f"{SCRATCH}/{name}.cache"
    os.mkdir(mnt)
    os.makedirs(cache, exist_ok=True)
    write(CONF, f"cache_dir = {cache}\nprepare = no\nimage_builder = none\nqemu = {qemu}\n"
                "backend = process\n"
                f"[limits]\nallow_process = yes\n{text}")
    status, _, err = shell(f"{BUILD}/xsbxfs -c {CONF} {mnt}")
    same(f"{name}: mounted", (status, err), (0, b""))
    try:
        yield mnt
    finally:
        shell(f"fusermount3 -u {mnt}")
        wait_for(lambda: not os.path.ismount(mnt))


def without():
    """No QEMU and no images on this host."""
    with mount("without", f"{SCRATCH}/no-such-qemu", "") as mnt:
        s = Session("alone", mnt=mnt)
        same("it runs", s.run("echo hello\n").stdout, b"hello\n")
        same("in a sandbox", s.json()["sandbox"]["backend"], "process")
        wait_for(lambda: json.loads(read(f"{mnt}/status.json"))["accelerator"] != "probing")
        same("and when that is known", s.run("exit 3\n").code, 3)
        ready = {t["name"]: t["ready"] for t in json.loads(read(f"{mnt}/status.json"))["templates"]}
        same("what needs no image is ready", set(ready.values()), {True})
        for name, report in (("doctor", read(f"{mnt}/doctor", "r")),
                             ("--check", shell(f"{BUILD}/xsbxfs -c {CONF} --check")[1].decode())):
            found = {line[5:].split(": ")[0]: line.split()[0] for line in report.splitlines()}
            same(f"{name} only warns", [found.get(x) for x in ("qemu", "kernel", "images")],
                 ["warn"] * 3)
            for what in ("user namespaces", "ids", "seccomp", "landlock", "control groups", "kvm"):
                ok(f"{name} looks at {what}", what in found, found)
            ok(f"{name} finds what this test runs on",
               found["user namespaces"] == found["seccomp"] == "ok", found)
        os.rmdir(s.path)


def stalled():
    """A QEMU that does not answer."""
    program = f"{SCRATCH}/qemu-stalled"
    write(program, "#!/bin/sh\nexec sleep 60\n")
    os.chmod(program, 0o755)
    machines = os.path.isdir(f"{IMAGES}/templates/raw")
    if machines:
        os.mkdir(f"{SCRATCH}/stalled.cache")
        os.symlink(IMAGES, f"{SCRATCH}/stalled.cache/images")
    else:
        print("(there are no images: nothing can wait for QEMU)")
    slow = "[template slow]\nimage = raw\nlanguage = raw\nbackend = microvm\n"
    with mount("stalled", program, slow) as mnt:
        machine = Session("machine", "slow", mnt=mnt)
        machine.submit("echo never\n")
        s = Session("alone", mnt=mnt)
        same("it runs", s.run("echo hello\n").stdout, b"hello\n")
        same("while QEMU has not answered", json.loads(read(f"{mnt}/status.json"))["accelerator"],
             "probing")
        if machines:
            has("for which the other waits", json.dumps(machine.json()["waiting"]), "tried out")
        same("which ends without one", machine.result().code, "EIO")
        os.rmdir(machine.path)
        os.rmdir(s.path)


main(without, stalled)
