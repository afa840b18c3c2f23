#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images that are missing are built: progress, sessions that wait, failures, and the end of the
mount in the middle of it. The builder is a script of ours, which takes what is there already."""
# mount: none
# backends: vm
# timeout: 300
# log-allow: not built
# log-allow: image-failed
# log-allow: no-image
# log-allow: mirror does not answer
from xsbx import *

vm_only()

BUILDER = """#!/bin/bash
echo "$$" >{top}/pid
echo "==> $1: fetching" >&2
echo "         half of a warning." >&2
while [ -e {top}/wait ]; do sleep 0.1; done
if [ -e {top}/fail ]; then
	echo "error: the mirror does not answer" >&2
	echo "       Try another one with XSBXFS_MIRROR." >&2
	exit 1
fi
echo "    unpacking it"
mkdir -p "$XSBXFS_CACHE"
mkdir -p "$XSBXFS_CACHE/images/templates"
for name in kernel raw; do
	cp -P {images}/images/templates/$name "$XSBXFS_CACHE/images/templates"
	# Copies: a link more would be a change of the file that others use.
	cp -r "$(readlink -f {images}/images/templates/$name)" "$XSBXFS_CACHE/images"
done
sleep 1000 & # what stays behind holds up nobody
"""


def scratch(name, *files):
    """A cache with nothing in it, and a builder of its own."""
    top = f"{SCRATCH}/{name}"
    os.makedirs(f"{top}/mnt")
    for file in files:
        write(f"{top}/{file}", "")
    write(f"{top}/builder", BUILDER.format(top=top, images=os.environ["IMAGES"]))
    os.chmod(f"{top}/builder", 0o755)
    return top


def mount(top, *options):
    return start_daemon(f"{top}/mnt", f"cache_dir={top}/cache", f"image_builder={top}/builder",
                        *options)


def unmount(daemon):
    daemon.terminate()
    daemon.wait(SOON)


def image(top, name="raw"):
    status = json.loads(read(f"{top}/mnt/status.json"))
    return [t for t in status["templates"] if t["name"] == name][0]["image"]


def waits():
    top = scratch("waits", "wait")
    daemon = mount(top)
    same("missing", image(top)["state"], "missing")
    s = Session("demo", mnt=f"{top}/mnt")
    s.submit("echo hello\n")
    ok("building", wait_for(lambda: image(top)["state"] == "building" and image(top)["step"], 20),
       image(top))
    same("the step", image(top)["step"], "raw: fetching")
    same("the session", s.word(), "starting")
    error = s.text("error")
    ok("says what it waits for", "fetching" in error and "image-missing" in error, error)
    os.unlink(f"{top}/wait")
    same("runs", s.text("stdout"), "hello\n")
    same("no error is left", s.text("error"), "")
    same("there", image(top)["state"], "ready")
    unmount(daemon)


def fails():
    top = scratch("fails", "fail")
    daemon = mount(top)
    s = Session("demo", mnt=f"{top}/mnt")
    s.submit("echo hello\n")
    ok("failed", s.wait_state("failed", 20), s.word())
    error = s.text("error")
    ok("why, and what to do", "mirror does not answer" in error and "XSBXFS_MIRROR" in error
       and f"{top}/builder raw" in error, error)
    same("the run never began", s.state_of(1), "refused")
    same("the template", image(top)["state"], "failed")
    unmount(daemon)


def prepared():
    """Nobody asks, and it is built all the same."""
    top = scratch("prepared")
    daemon = mount(top, "prepare=raw")
    ok("there", wait_for(lambda: image(top)["state"] == "ready", 20), image(top))

    def kinds():
        return json.loads(read(f"{top}/mnt/status.json"))["snapshots"]
    ok("and its snapshot is next",
       wait_for(lambda: kinds() and kinds()[0]["state"] in ("building", "ready"), 60), kinds())
    unmount(daemon)


def ended():
    """An unmount while it is built leaves none of its processes."""
    top = scratch("ended", "wait")
    daemon = mount(top, "prepare=raw")
    wait_for(lambda: os.path.exists(f"{top}/pid") and read(f"{top}/pid"), 20)
    pid = int(read(f"{top}/pid"))
    s = Session("demo", mnt=f"{top}/mnt")
    s.submit("true\n")
    unmount(daemon)
    ok("gone", wait_for(lambda: not os.path.exists(f"/proc/{pid}"), 10))


def none():
    top = scratch("none")
    daemon = mount(top, "image_builder=none")
    s = Session("demo", mnt=f"{top}/mnt")
    s.submit("true\n")
    ok("failed", s.wait_state("failed", 20), s.word())
    ok("says so", "no image" in s.text("error"), s.text("error"))
    unmount(daemon)


main(waits, fails, prepared, ended, none)
