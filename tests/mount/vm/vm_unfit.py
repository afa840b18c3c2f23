#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of a machine that there is no longer: between two mounts the image has changed. Sessions go on with their files, and say so;
with the image that it was, they have their memory."""
# mount: none
# backends: vm
# timeout: 300
# log-allow: snapshot of
from kept import *

vm_only()

CACHE = f"{SCRATCH}/cache"


def copy_images():
    os.makedirs(f"{CACHE}/images/templates")
    for name in "kernel", "raw":
        path = os.path.realpath(f"{os.environ['IMAGES']}/images/templates/{name}")
        shutil.copytree(path, f"{CACHE}/images/{os.path.basename(path)}", symlinks=True, ignore=shutil.ignore_patterns("tree"))
        os.symlink(f"../{os.path.basename(path)}", f"{CACHE}/images/templates/{name}")
    return os.path.realpath(f"{CACHE}/images/templates/raw") + "/rootfs.erofs"


def begin(k):
    k.begin(f"cache_dir={CACHE}", "boot_timeout_s=240")


def wait_ready(k):
    def there():
        return any(s["image"] == "raw" and s["state"] == "ready" for s in json.loads(read(f"{k.mnt}/status.json"))["snapshots"])
    ok("a snapshot", wait_for(there, 120))


def changed():
    rootfs = copy_images()
    k = Kept("unfit", wait=False)
    begin(k)
    k.make("first").run("true\n")
    wait_ready(k)
    names = ("fits", "reset", "back")
    for name in names:
        s = k.make(name, "idle_timeout_s = 0\n")
        same(f"{name}: it begins", s.run("x=remembered; echo file > f\n").code, 0)
        os.mkdir(s / "checkpoints/c")
        same(f"{name}: a checkpoint", read(s / "checkpoints/c/wait"), b"whole\n")
        ok(f"{name}: with memory", s.json("checkpoints/c/status.json")["memory"])
    same("it ends", k.end(), 0)
    begin(k)
    s = k.there("fits")
    same("as it was it goes on", (s.run("echo $x; cat f\n").out, s.json()["state_kept"]), ("remembered\nfile\n", True))
    same("it ends", k.end(), 0)

    with open(rootfs, "ab") as file:
        file.write(bytes(4096))
    begin(k)
    for name in names:
        s = k.there(name)
        same(f"{name}: it sleeps", (s.word(), read(s / "files/f")), ("asleep", b"file\n"))
    for name, verb in (("fits", None), ("reset", "reset"), ("back", "restore c")):
        s = k.there(name)
        if verb:
            s.ctl(verb)
        same(f"{name}: its files are there, and no more", s.run("echo x$x; cat f\n").out, "x\nfile\n")
        if verb != "reset":  # of which nobody expects more
            same(f"{name}: which is said", s.json()["state_kept"], False)
            has(f"{name}: in a word", s.text("error"), "code: state-lost")
            has(f"{name}: and why", s.text("error"), "rootfs has changed")
    same("it ends", k.end(), 0)


main(changed)
