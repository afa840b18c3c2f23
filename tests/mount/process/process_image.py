#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes with the programs of an image: unpacked when it is first needed, and not without need."""
# backends: process
# timeout: 240
# mount: none
# log-allow: not built|did not start|boot-failed|can't be started
from hosts import *
import layers
from layers import MIRROR, PACKAGES, wheel

CACHE = f"{SCRATCH}/borrowed"
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
TEMPLATE = "[template {0}]\nimage = {0}\nlanguage = {0}\nview = image\npool = 0\n"


def borrow(name):
    """A cache of the test's own, whose image is a link to the shared one's file system."""
    real = os.path.realpath(f"{os.environ['IMAGES']}/images/templates/{name}")
    if not os.path.exists(f"{real}/rootfs.erofs"):
        skip(f"there is no image '{name}'; scripts/images builds it")
    here = f"{CACHE}/images/{os.path.basename(real)}"
    os.makedirs(here, exist_ok=True)
    os.makedirs(f"{CACHE}/images/templates", exist_ok=True)
    for file in "rootfs.erofs", "manifest.json":
        os.symlink(f"{real}/{file}", f"{here}/{file}")
    os.symlink(f"../{os.path.basename(real)}", f"{CACHE}/images/templates/{name}")
    return here


def builder(name):
    """A program that notes that it was run, and then does what it should."""
    path = f"{SCRATCH}/{name}"
    write(path, f"#!/bin/sh\necho \"$@\" >> {path}.calls\nexec {TOP}/scripts/images \"$@\"\n")
    os.chmod(path, 0o755)
    return path


def calls(path):
    try:
        return read(f"{path}.calls").decode().split("\n")[:-1]
    except FileNotFoundError:
        return []


def unpacked():
    need("fsck.erofs")
    here = borrow("python")
    program = builder("unpacks")
    host = Host("unpacked", TEMPLATE.format("python"), f"cache_dir={CACHE}", f"image_builder={program}")
    s = host.session("one", template="python")
    run = s.run("import sys, os\nx = 41\nprint(sys.version.split()[0], os.path.exists('/usr/lib/xsbx'))\n")
    want = json.loads(read(f"{here}/manifest.json"))
    version = run.out.split()[0] if run.out else repr((run, s.text("error")))
    ok("the image's Python", version in json.dumps(want), f"{version} is not in its manifest")
    same("not the host's files", run.out.endswith(" True\n"), True)
    same("it was unpacked for that", calls(program), ["--unpack python"])
    same("state stays", s.run("print(x + 1)\n").out, "42\n")
    same("files too", (write(s / "files/a", "1"), s.run("print(open('a').read())\n").out), (None, "1\n"))
    same("nothing of it can be changed", s.run("open('/usr/bin/x', 'w')\n").code, 1)
    same("another one has it at once", host.session("two", template="python").run("print(1)\n").out,
         "1\n")
    same("which nobody unpacked", len(calls(program)), 1)
    same("bash of the image", host.session("sh", template="python").run(
        "import subprocess\nprint(subprocess.run(['bash', '-c', 'echo ok'], capture_output=True).stdout)\n"
    ).out, "b'ok\\n'\n")
    host.close()


def packages():
    """They are installed by the image's Python, for it."""
    wheel("alpha", "1.0", {"alpha.py": "import sys\nMADE = __cached__\n"})
    host = Host("packages", f"[packages]\ninstaller = {PACKAGES}\noffline = {MIRROR}\npython_list = any\n" + TEMPLATE.format("python"),
                f"cache_dir={layers.CACHE}", f"image_builder={TOP}/scripts/images")
    s = host.session("one", template="python", config="packages = alpha==1.0\n")
    run = s.run("import alpha, sys\nprint(sys.implementation.cache_tag in alpha.MADE)\n")
    same("a package", run.out, "True\n") or print(run, s.text("error"))
    host.close()


def missing():
    host = Host("missing", TEMPLATE.format("raw"), f"cache_dir={folder('empty')}")
    s = host.session("one", template="raw")
    s.run("true\n")
    same("it does not start", s.word(), "failed")
    has("and says how it would", s.text("error"), "xsbxfs-images --unpack raw")
    host.close()


def not_needed():
    """Processes that see the host's programs need no images, and none are built for them."""
    program = builder("idle")
    host = Host("idle.daemon", "", f"cache_dir={folder('idle.cache')}", f"image_builder={program}",
                "prepare=yes")
    s = host.session("one", template="raw")
    same("it works", s.run("echo 1\n").out, "1\n")
    ok("pools are filled", wait_for(lambda: all(
        kind["pool"]["ready"] for kind in json.loads(read(f"{host.mnt}/status.json"))["snapshots"]), 20))
    same("and nothing was built", calls(program), [])
    host.close()


def mistakes():
    has("a word", refused("[template raw]\nbackend = process\nview = guest\n"), "neither host nor image")


main(unpacked, packages, missing, not_needed, mistakes)
