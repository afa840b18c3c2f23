#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/package: versions in their order, a tarball that is the same each time and builds without git, and what debian/ says
against what the scripts say. Packages themselves are built and installed at night, by mount/package."""
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEBIAN = "scripts/package/debian"
# Without what make was told, of whose check this is one.
ENV = {k: v for k, v in os.environ.items()
       if not k.startswith(("MAKE", "GIT_")) and k not in ("MFLAGS", "SAN", "COV", "SHADOW", "DEV", "O", "V", "T", "VERSION")}
ENV.update(GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@x", GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a@x",
           GIT_CONFIG_GLOBAL="/dev/null", LC_ALL="C.UTF-8", TZ="UTC")
failures = []


def same(what, got, want):
    if got != want:
        failures.append(f"{what}: {got!r} and not {want!r}")


def ok(what, condition):
    if not condition:
        failures.append(what)


def text(path):
    with open(f"{ROOT}/{path}", encoding="utf-8") as file:
        return file.read()


def call(*args, cwd=None, env=None, status=0):
    """Return what it says on standard output."""
    done = subprocess.run(args, cwd=cwd, env={**ENV, **(env or {})}, check=False, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
    if done.returncode != status:
        sys.exit(f"{' '.join(args)}: exit status {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    call.said = done.stderr
    return done.stdout.strip()


def git(top, *args, time="2026-03-01T12:00:00 +0200"):
    return call("git", *args, cwd=top, env={"GIT_AUTHOR_DATE": time, "GIT_COMMITTER_DATE": time})


def plant(top, *paths):
    for path in paths:
        os.makedirs(os.path.dirname(f"{top}/{path}"), exist_ok=True)
        if os.path.isdir(f"{ROOT}/{path}"):
            shutil.copytree(f"{ROOT}/{path}", f"{top}/{path}", ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(f"{ROOT}/{path}", f"{top}/{path}")


def versions(top):
    """In the order in which Debian has to sort them."""
    plant(top, "scripts/package/version")
    say = f"{top}/scripts/package/version"
    same("neither a clone nor a tarball", call(say), "0.1")
    # Somebody else's history, around it.
    git(os.path.dirname(top), "init", "-q")
    same("in somebody else's clone", call(say), "0.1")
    shutil.rmtree(f"{os.path.dirname(top)}/.git")
    git(top, "init", "-q")
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "one")
    found = [call(say)]
    ok(f"before the first tag it has the commit's time: {found}", re.fullmatch(r"0\.1~git20260301100000\.g[0-9a-f]{8}", found[0]))
    git(top, "commit", "-q", "-m", "two", "--allow-empty", time="2026-03-01T12:00:01 +0200")
    found.append(call(say))
    git(top, "tag", "0.9-not-ours")
    same("another tag is none", call(say), found[1])
    for name in ("v0.1-rc1", "v0.1"):
        git(top, "tag", "-f", "-a", "-m", name, name)
        found.append(call(say))
        git(top, "commit", "-q", "-m", "more", "--allow-empty", time="2026-03-01T12:00:02 +0200")
    same("that of a tag", found[2:], ["0.1~rc1", "0.1"])
    git(top, "commit", "-q", "-m", "more", "--allow-empty")
    found.append(call(say))
    ok(f"behind a tag it has the number of commits: {found[-1]}", re.fullmatch(r"0\.1\+2\.g[0-9a-f]{8}", found[-1]))
    with open(say, "a", encoding="utf-8") as file:
        file.write("# changed\n")
    found.append(call(say))
    same("with changes", found[-1], found[-2] + "+dirty")
    for earlier, later in zip(found, found[1:]):
        call("dpkg", "--validate-version", later)
        call("dpkg", "--compare-versions", earlier, "lt", later)
    call("dpkg", "--compare-versions", found[0] + "+deb12", "lt", found[0] + "+deb13")
    call("dpkg", "--compare-versions", found[0] + "+deb13", "lt", found[1] + "+deb12")


def tarball(top, other):
    """The same from a clone, from another one, and from itself; and it needs no git."""
    plant(top, "Makefile", "README.md", "LICENSE", "scripts", "images/lib.sh", "images/drivers", "man", "agent", "vm/base")
    os.chmod(f"{top}/README.md", 0o664)
    git(top, "init", "-q")
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "one")
    one = call(f"{top}/scripts/package/dist", f"{top}/out")
    same("nothing to warn of", call.said, "")
    git(os.path.dirname(other), "clone", "-q", top, other)
    for place, _, names in os.walk(other):
        for name in names:
            os.utime(f"{place}/{name}", (0, 0))
    with open(f"{other}/LICENSE", "a", encoding="utf-8") as file:
        file.write("changed")
    with open(f"{other}/new", "w", encoding="utf-8") as file:
        file.write("not committed")
    two = call("sh", "-c", "umask 077; TZ=Asia/Tokyo LC_ALL=C exec scripts/package/dist out", cwd=other)
    ok(f"what is not committed is told: {call.said}", "not committed" in call.said)
    same("called by its version", os.path.basename(two), os.path.basename(one))
    with open(one, "rb") as a, open(two, "rb") as b:
        ok("another clone gives another tarball", a.read() == b.read())
    with tarfile.open(one) as file:
        members = file.getmembers()
        # What is done next is done as if somebody had fetched it.
        file.extractall(f"{top}/out")
    same("order", [m.name for m in members], sorted(m.name for m in members))
    same("owner, group, time", {(m.uid, m.gid, m.uname, m.mtime) for m in members}, {(0, 0, "", 1772359200)})
    same("modes", {m.mode for m in members}, {0o755, 0o644})
    inside = f"{top}/out/{os.path.basename(one)[:-len('.tar.xz')]}"
    os.makedirs(f"{inside}/build", exist_ok=True)
    call("sh", "-c", ": > build/thing; : > scripts/x.pyc", cwd=inside)
    three = call(f"{inside}/scripts/package/dist", f"{inside}/build")
    with open(one, "rb") as a, open(three, "rb") as b:
        ok("the tarball unpacked gives another tarball", a.read() == b.read())
    nothing = f"{top}/out/bin"
    os.mkdir(nothing)
    with open(f"{nothing}/git", "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\necho git was asked >&2\nexit 127\n")
    os.chmod(f"{nothing}/git", 0o755)
    said = call("make", "-n", "build/xsbx-agent", cwd=inside, env={"PATH": f"{nothing}:{os.environ['PATH']}"})
    version = os.path.basename(inside)[len("xsbxfs-"):]
    ok("a build of the tarball does not know its version", f'XSBX_VERSION=\'"{version}"\'' in said)
    same("a build of the tarball complains", call.said, "")
    compiled = []
    for place in inside, other:
        call("make", "-s", "build/obj/vm/base/io.o", "build/drivers/repl.pyc", cwd=place)
        for name in "obj/vm/base/io.o", "drivers/repl.pyc":
            with open(f"{place}/build/{name}", "rb") as file:
                compiled.append(file.read())
    ok("the directory gets into what is compiled", compiled[:2] == compiled[2:])
    return inside


def debian(tree, out):
    """What is built of the tarball: the version and the time are its own."""
    call(f"{tree}/scripts/package/deb", "--suite", "trixie", "--tree", out)
    version = os.path.basename(tree)[len("xsbxfs-"):]
    with open(f"{out}/xsbxfs-{version}/debian/changelog", encoding="utf-8") as file:
        lines = file.read().splitlines()
    same("changelog, first line", lines[0], f"xsbxfs ({version}+deb13) trixie; urgency=medium")
    same("changelog, last line", lines[-1], " -- " + re.search(r"^Maintainer: (.*)$", text(f"{DEBIAN}/control"), re.M)[1] +
         "  Sun, 01 Mar 2026 10:00:00 +0000")
    ok("the rules can't be executed", os.access(f"{out}/xsbxfs-{version}/debian/rules", os.X_OK))
    for script in ("postinst", "prerm", "postrm"):
        call("sh", "-n", f"{out}/xsbxfs-{version}/debian/xsbxfs.{script}")
        ok(f"{script} has no place for debhelper's part", "#DEBHELPER#" in text(f"{DEBIAN}/xsbxfs.{script}"))


def field(name):
    """The packages that a field of debian/control names."""
    found = re.search(rf"^{name}:((?:.*\n)(?: .*\n)*)", text(f"{DEBIAN}/control"), re.M)
    return set(re.findall(r"(?:^|,)\s*([a-z0-9][a-z0-9.+-]*)", found[1]))


def words(script, name):
    """The packages that a variable of scripts/deps names."""
    found = re.search(rf"^{name}='([^']*)'", text(script), re.M)
    return {word.split("?")[-1] for word in found[1].split()}


def packages():
    """Two lists of what is needed, for a source tree and for a package, and what the program that builds images asks for."""
    build, run = field("Build-Depends"), field("Depends") | field("Recommends")
    same("Build-Depends and BUILD of scripts/deps", {x for x in build if x.startswith("lib")},
         {x for x in words("scripts/deps", "BUILD") if x.startswith("lib")} - {"libc6-dev"})
    same("what scripts/deps has and the package does not",
         (words("scripts/deps", "RUN") | words("scripts/deps", "IMAGES")) - run - field("Suggests"), set())
    for program, needed in re.findall(r"^\tneed (\S+) (.*)$", text("scripts/images"), re.M):
        same(f"what {program} of scripts/images is in", set(needed.split()) - run - {"apt", "dpkg"}, set())
    ok("what others compile with is needed to run", not {x for x in run if x.endswith("-dev")} | {"gcc"} & run)
    same("man pages of commands", [x for x in ("xsbxfs", "xsbx-tty", "xsbxfs-images") if not os.path.exists(f"{ROOT}/man/{x}.1")],
         [])


def image():
    """What the image of a container has besides the package, which recommends more than belongs into it: as much as without one."""
    asked = re.findall(r"apt-get -q -y install --no-install-recommends ([^;]*);", text("scripts/containers/Containerfile"))
    of_package, of_tree = ({x for x in line.split() if x[0].isalpha() and not x.startswith("lib")} for line in asked)
    same("what the image lacks that is made of a package", of_tree - of_package - field("Depends"), set())
    ok("an image without QEMU", "qemu-system-x86" in of_package & of_tree)
    for path in "Containerfile", "README.md":
        for found in re.findall(r"\S*/xsbxfs_\S*\.deb", text(f"scripts/containers/{path}")):
            ok(f"{path}: not where make deb puts it: {found}", found.startswith("build/deb/"))


def services():
    """Units that were replaced, or are gone, are what systemd is told of; debhelper does so for those that it starts."""
    reload = "systemctl --system daemon-reload"
    for script, when in (("postinst", "configure"), ("postrm", "remove"), ("postrm", "purge")):
        with tempfile.TemporaryDirectory() as top:
            for name, body in (("systemctl", f'echo systemctl "$@" >>{top}/said; exit 1'), ("rm", "")):
                with open(f"{top}/{name}", "w", encoding="utf-8") as file:
                    file.write(f"#!/bin/sh\n{body}\n")
                os.chmod(f"{top}/{name}", 0o755)
            # As if systemd were there, and without the directory of the real one.
            code = text(f"{DEBIAN}/xsbxfs.{script}").replace("/run/systemd/system", top)
            for there, want in ((code, [reload]), (code.replace(top, f"{top}/nothing"), [])):
                call("sh", "-c", there, "sh", when, env={"PATH": f"{top}:{os.environ['PATH']}"})
                said = []
                if os.path.exists(f"{top}/said"):
                    with open(f"{top}/said", encoding="utf-8") as file:
                        said = file.read().splitlines()
                    os.unlink(f"{top}/said")
                same(f"{script} {when}", said, want)


def purge():
    """What a mount uses that another installation serves is not the package's to remove."""
    data = [f"{path}/x" for path in ("run/xsbxfs-0/part", "var/lib/xsbxfs/state", "var/cache/xsbxfs/a", "var/log/xsbxfs/a")]
    with tempfile.TemporaryDirectory() as top:
        # In a tree of its own: nothing of the host's is touched.
        code = re.sub(r"(?<![\w.*}])/(run|var|etc)/", rf"{top}/\1/", text(f"{DEBIAN}/xsbxfs.postrm"))
        same("paths of the host", re.findall(r"[\s\"]/(?!\s)\S+", code.partition("set -e")[2].replace(top, "top")), [])
        for path in (*data, "run/xsbxfs-0/part/lock", "etc/xsbxfs.conf", "etc/systemd/user/a.wants/xsbxfs.service", "etc/passwd"):
            os.makedirs(os.path.dirname(f"{top}/{path}"), exist_ok=True)
            with open(f"{top}/{path}", "w", encoding="utf-8"):
                pass
        with open(f"{top}/run/xsbxfs-0/part/lock", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            call("sh", "-c", code, "sh", "purge")
        same("left of what is in use", [x for x in data if os.path.exists(f"{top}/{x}")], data)
        ok(f"that is said: {call.said!r}", "/var/lib/xsbxfs" in call.said)
        same("the configuration", sorted(os.listdir(f"{top}/etc")), ["passwd", "systemd"])
        call("sh", "-c", code, "sh", "purge")
        same("left of what is not", [path for path, _dirs, names in os.walk(top) if names], [f"{top}/etc"])


def main():
    with tempfile.TemporaryDirectory() as top:
        versions(f"{top}/versions/here")
        tree = tarball(f"{top}/one", f"{top}/two")
        debian(tree, f"{top}/deb")
    packages()
    image()
    services()
    purge()
    for failure in failures:
        print(failure)
    print(f"{len(failures)} failures")
    sys.exit(bool(failures))


main()
