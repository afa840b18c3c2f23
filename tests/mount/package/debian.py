#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packages for Debian 12 and 13, each built in a fresh Debian of that release: twice the same bytes, nothing that lintian or
blhc finds, and in another fresh one installed, used, replaced by the next version while mounts are in use, removed and
purged, which leaves no file that was not there before. And a user makes an image of what a package recommends."""
# backends: process
# mount: none
# timeout: 5400
# night: process
# alone: compiles for minutes
import re

from xsbx import *

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
SUITES = os.environ.get("SUITES", "bookworm trixie").split()
FRESH = f"{SCRATCH}/fresh"
# What apt and dpkg know of packages, and what is written on the way, is not what a package leaves; nor what root has at home.
NOISE = re.compile(r"/(proc|sys|dev|tmp|debs)(/|$)|/var/(lib/(dpkg|apt)|cache|log|tmp)(/|$)|/root/|/home/user(/|$)|"
                   r"/etc/(ld\.so\.cache|resolv\.conf|\.pwd\.lock|passwd-?|group-?|g?shadow-?|sub[ug]id-?)$")


def call(*args, status=0, **how):
    """Return what it prints, both streams; fails the test if it ends otherwise."""
    done = subprocess.run(args, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          encoding="utf-8", errors="replace", **how)
    if done.returncode != status:
        print(done.stdout[-2500:], flush=True)
        raise RuntimeError(f"{' '.join(args)[:200]}: exit status {done.returncode}")
    return done.stdout


def clone(name):
    """The last commit, and as it would be with another one on top, which is the next version."""
    top = f"{SCRATCH}/{name}/tree"
    call("git", "clone", "-q", "--no-hardlinks", f"file://{TOP}", top)
    return top


def next_version(top):
    env = dict(os.environ, GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@x", GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a@x")
    call("git", "commit", "-q", "--allow-empty", "-m", "the next version", cwd=top, env=env)


def build(top, suite, out):
    """Return the paths of what was built."""
    env = {k: v for k, v in os.environ.items() if k not in ("XDG_CACHE_HOME", "HOME")}
    env.update(XSBXFS_CACHE=os.environ.get("PACKAGE_CACHE") or os.environ["IMAGES"], HOME=os.path.expanduser("~root"))
    call(f"{top}/scripts/package/deb", "--suite", suite, out, env=env)
    return sorted(f"{out}/{name}" for name in os.listdir(out))


def one(paths, end):
    found = [path for path in paths if path.endswith(end) and "dbgsym" not in path]
    if len(found) != 1:
        raise RuntimeError(f"{end}: {paths}")
    return found[0]


class Fresh:
    """A fresh Debian, entered with pivot_root: from below chroot no user namespace can be made."""

    def __init__(self, suite, *packages):
        self.root = f"{FRESH}/{suite}"
        os.makedirs(FRESH, exist_ok=True)
        call("mmdebstrap", "--mode=root", "--variant=apt", f"--include={','.join(('mount', *packages))}", suite, f"{self.root}.tar", mirror())
        os.makedirs(self.root)
        call("tar", "-x", "-C", self.root, "--numeric-owner", "--exclude=./dev/*", "-f", f"{self.root}.tar")
        os.unlink(f"{self.root}.tar")
        shutil.copy("/etc/resolv.conf", f"{self.root}/etc/resolv.conf")
        os.mkdir(f"{self.root}/debs")
        if not os.path.lexists(f"{self.root}/etc/mtab"):  # as installers make it
            os.symlink("/proc/self/mounts", f"{self.root}/etc/mtab")
        self.init = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", """
            cd "$1"
            mount --bind . . && cd "$1"
            mount -t tmpfs -o mode=755 dev dev
            for d in null zero full random urandom tty fuse; do : > dev/$d; mount --bind /dev/$d dev/$d; done
            mkdir dev/shm && mount -t tmpfs shm dev/shm && ln -s /proc/self/fd dev/fd
            mount -t tmpfs -o mode=755 run run && mkdir -p run/lock
            mount -t sysfs sysfs sys
            mkdir -p tmp/old && mount -t proc proc proc
            pivot_root . tmp/old && cd /
            umount -l tmp/old && rmdir tmp/old
            chmod 666 dev/fuse
            echo ready && exec sleep infinity""", "sh", self.root],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding="utf-8")
        if self.init.stdout.readline() != "ready\n":
            raise RuntimeError("the fresh Debian can't be entered")
        with open(f"/proc/{self.init.pid}/task/{self.init.pid}/children", encoding="utf-8") as file:
            self.pid = file.read().split()[0]

    def sh(self, script, status=0, user=None):
        env = ["env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8",
               "DEBIAN_FRONTEND=noninteractive", "HOME=" + (f"/home/{user}" if user else "/root")]
        who = ["setpriv", "--reuid", user, "--regid", user, "--init-groups"] if user else []
        return call("nsenter", "-t", self.pid, "-m", "-p", "-r", "-w", *env, *who, "bash", "-euc", script, status=status)

    def put(self, path):
        shutil.copy(path, f"{self.root}/debs/")
        return f"/debs/{os.path.basename(path)}"

    def files(self):
        """What there is, with its mode and owner."""
        found = self.sh("find / /run -xdev -printf '%p %m %u:%g\\n'")
        return {line for line in found.splitlines() if not NOISE.match(line.rsplit(" ", 2)[0])}

    def end(self):
        os.kill(int(self.pid), signal.SIGKILL)  # with all that is in there; unshare waits for it
        self.init.wait()
        call("rm", "-rf", "--one-file-system", self.root)


def mirror():
    return call("bash", "-c", f". {TOP}/scripts/lib.sh; . {TOP}/images/lib.sh; apt_mirror").strip()


def looked_at(suite, paths):
    """By that release's own lintian, and by blhc, which reads the compiler's command lines."""
    fresh = Fresh(suite, "lintian", "blhc")
    try:
        for path in paths:
            fresh.put(path)
        changes, log = (os.path.basename(one(paths, end)) for end in (".changes", ".log"))
        said = fresh.sh(f"lintian --allow-root --fail-on error,warning --display-info --pedantic /debs/{changes} 2>&1 || echo FAILED")
        print(f"{suite}: lintian: {said}", flush=True)
        ok(f"{suite}: lintian finds nothing", "FAILED" not in said)
        # It can find something: in a package whose binary is not stripped of its rights.
        fresh.sh(f"cd /tmp && dpkg-deb -R /debs/{os.path.basename(one(paths, '.deb'))} bad && chmod 777 bad/usr/bin/xsbxfs && "
                 "rm bad/usr/share/doc/xsbxfs/copyright && dpkg-deb -b bad bad.deb")
        has(f"{suite}: lintian finds what was done to it", fresh.sh("lintian --allow-root bad.deb || :; cd /tmp; lintian --allow-root bad.deb || :"),
            "no-copyright-file")
        same(f"{suite}: blhc finds nothing", fresh.sh(f"blhc --all /debs/{log} 2>&1 || echo FAILED").strip(), "")
    finally:
        fresh.end()


BUILT = {}  # by suite
CONFIG = "\n[limits]\nallow_process = yes\n[xsbxfs]\nbackend = process\nprepare = no\nkeep = yes\nimage_builder = none\n"


def run(fresh, code, at="/sbx/python/s", user=None):
    return fresh.sh(f"cd {at}; cat > in <<'END'\n{code}\nEND\ncat stdout; test $(cat exit_code) = 0 || cat error stderr", user=user)


def used(fresh, suite):
    with open(f"{fresh.root}/etc/xsbxfs.conf", "a", encoding="utf-8") as file:
        file.write(CONFIG)
    for name in ("xsbxfs", "xsbx-tty", "xsbxfs-images"):
        fresh.sh(f"test -x /usr/bin/{name}; test -e /usr/share/man/man1/{name}.1.gz || test ! -d /usr/share/man/man1")
    has(f"{suite}: xsbxfs-images", fresh.sh("xsbxfs-images --help"), "usage: xsbxfs-images")
    has(f"{suite}: it names what it lacks, and its package", fresh.sh("xsbxfs-images raw || :"), "apt-get install")
    fresh.sh("useradd -m -s /bin/bash user; mkdir /sbx '/sbx two'; setpriv --reuid user --regid user --init-groups mkdir /home/user/sbx")
    fresh.sh("xsbxfs /sbx; xsbxfs '/sbx two'; mkdir /sbx/python/s /sbx/shell/f '/sbx two/shell/s'")
    fresh.sh("xsbxfs /home/user/sbx; mkdir ~/sbx/shell/s", user="user")
    same(f"{suite}: Python", run(fresh, "x = 6; print(x * 7)"), "42\n")
    same(f"{suite}: bash", run(fresh, "y=5; echo hi > f; ls", "/sbx/shell/f"), "f\n")
    same(f"{suite}: bash, in the other mount", run(fresh, "z=7", "'/sbx two/shell/s'"), "")
    same(f"{suite}: of a user", run(fresh, "u=8; id -u > /dev/null; echo $u", "~/sbx/shell/s", "user"), "8\n")


def version(fresh, at="/sbx", user=None):
    return json.loads(fresh.sh(f"cat {at}/status.json", user=user))["version"]


def replaced(fresh, suite, deb, old, new):
    """While all mounts are in use, and somebody waits for a run."""
    same(f"{suite}: the old one serves", version(fresh), old)
    fresh.sh("cd /sbx/shell/f; echo 'sleep 20; echo waited' > in; (cat stdout > /tmp/waited) >/dev/null 2>&1 &")
    said = fresh.sh(f"apt-get -q -y --no-install-recommends install {fresh.put(deb)} 2>&1")
    has(f"{suite}: the upgrade tells that it takes mounts over", said, "xsbxfs: /sbx two: process")
    has(f"{suite}: and that of a user's it does not", said, "xsbxfs --takeover /home/user/sbx")
    same(f"{suite}: the new one is installed", fresh.sh("xsbxfs --version"), f"xsbxfs {new}\n")
    for at in ("/sbx", "'/sbx two'"):
        same(f"{suite}: and serves {at}", version(fresh, at), new)
    same(f"{suite}: not what a user has mounted", version(fresh, "~/sbx", "user"), old)
    same(f"{suite}: Python still knows", run(fresh, "print(x)"), "6\n")
    same(f"{suite}: so does the other mount", run(fresh, "echo $z", "'/sbx two/shell/s'"), "7\n")
    same(f"{suite}: and a user's", run(fresh, "echo $u", "~/sbx/shell/s", "user"), "8\n")
    same(f"{suite}: bash, behind what ran", run(fresh, "echo $y", "/sbx/shell/f"), "5\n")
    same(f"{suite}: who waited has it", fresh.sh("cat /tmp/waited"), "waited\n")
    fresh.sh("xsbxfs --takeover ~/sbx", user="user")
    same(f"{suite}: the user has it serve, too", version(fresh, "~/sbx", "user"), new)
    has(f"{suite}: what the administrator has written is there", fresh.sh("cat /etc/xsbxfs.conf"), CONFIG)


def removed(fresh, suite, deb, before):
    said = fresh.sh("apt-get -q -y remove xsbxfs 2>&1")
    has(f"{suite}: a user is told of", said, "/home/user/sbx is still mounted")
    same(f"{suite}: root's mounts have ended", fresh.sh("grep ' fuse.xsbxfs ' /proc/mounts | cut -d' ' -f2"), "/home/user/sbx\n")
    fresh.sh("fusermount3 -u ~/sbx", user="user")
    ok(f"{suite}: what root's mounts keep is kept", fresh.sh("find /var/lib/xsbxfs -type f"))
    fresh.sh(f"apt-get -q -y --no-install-recommends install {deb} && xsbxfs /sbx")
    same(f"{suite}: a session of then", run(fresh, "cat f", "/sbx/shell/f"), "hi\n")
    fresh.sh("umount /sbx; for i in $(seq 300); do cat /proc/[0-9]*/stat 2>/dev/null | grep -q '(xsbxfs) [^ZX]' || exit 0; sleep 0.1; done; exit 1")
    # What an administrator has made of it; and what only looks like it.
    fresh.sh("mkdir /etc/xsbxfs; touch /etc/xsbxfs/a.conf /etc/xsbxfs.key /etc/xsbxfsx; "
             "ln -s /usr/lib/systemd/system/xsbxfs@.service /etc/systemd/system/multi-user.target.wants/xsbxfs@a.service")
    fresh.sh("apt-get -q -y purge xsbxfs 2>&1; rm /etc/xsbxfsx; rmdir /sbx '/sbx two'")
    after = fresh.files()
    same(f"{suite}: a purge leaves nothing", sorted(after - before), [])
    same(f"{suite}: and takes nothing else", sorted(before - after), [])


def installed(suite, deb, later, old, new):
    fresh = Fresh(suite, "python3", "curl")
    try:
        path = fresh.put(deb)
        fresh.sh("apt-get -q update; dpkg-deb -f " + path + " Depends > /tmp/depends; "
                 "apt-get -q -y --no-install-recommends satisfy \"$(cat /tmp/depends)\"; rm /tmp/depends")
        fresh.sh("mkdir -p /etc/systemd/system/multi-user.target.wants")
        before = fresh.files()
        fresh.sh(f"apt-get -q -y --no-install-recommends install {path}")
        ok(f"{suite}: it is seen what an installation adds", len(fresh.files() - before) > 40)
        used(fresh, suite)
        replaced(fresh, suite, later, old, new)
        removed(fresh, suite, f"/debs/{os.path.basename(later)}", before)
    finally:
        fresh.end()


def packages():
    if os.getuid():
        skip("makes whole systems, for which it has to be root")
    need("mmdebstrap", "git", "xz")
    trees = {"one": clone("one"), "two": clone("other/place/two")}
    for suite in SUITES:
        first = build(trees["one"], suite, f"{SCRATCH}/{suite}.one")
        again = build(trees["two"], suite, f"{SCRATCH}/{suite}.two")
        for end in (".deb", "dbgsym"):
            a, b = ([p for p in paths if p.endswith(".deb") and ("dbgsym" in p) == (end == "dbgsym")] for paths in (first, again))
            same(f"{suite}: two builds give the same name ({end})", [os.path.basename(p) for p in a], [os.path.basename(p) for p in b])
            with open(a[0], "rb") as x, open(b[0], "rb") as y:
                ok(f"{suite}: and the same bytes ({end})", x.read() == y.read())
        looked_at(suite, first)
        next_version(trees["two"])
        later = build(trees["two"], suite, f"{SCRATCH}/{suite}.later")
        call("git", "reset", "-q", "--hard", "HEAD~1", cwd=trees["two"])
        debs = [one(paths, ".deb") for paths in (first, later)]
        old, new = (re.search(r"xsbxfs_(.*)\+deb", deb)[1] for deb in debs)
        BUILT[suite] = debs[0]
        installed(suite, *debs, old, new)


def images():
    """What the package recommends is enough to build them, without what that recommends in turn (pip: a compiler); QEMU is left out
    here, which takes no part in it."""
    suite, deb = list(BUILT.items())[-1]
    fresh = Fresh(suite)
    try:
        names = call("dpkg-deb", "-f", deb, "Recommends")
        names = " ".join(name.split()[0] for name in names.split(",") if "qemu" not in name)
        fresh.sh(f"apt-get -q update; apt-get -q -y --no-install-recommends install {fresh.put(deb)} {names}; useradd -m user")
        fresh.sh("! command -v gcc")
        said = fresh.sh("xsbxfs-images raw 2>&1", user="user")
        has(f"{suite}: a user builds images", said, "images: built kernel raw")
        ok(f"{suite}: and has them", fresh.sh("stat -L -c %s ~/.cache/xsbxfs/images/templates/raw/rootfs.erofs", user="user"))
        has(f"{suite}: and the daemon finds them", fresh.sh("xsbxfs --check | cat", user="user"), "image raw: complete")
        has(f"{suite}: they have what was compiled with the package",
            fresh.sh("fsck.erofs --extract=/tmp/x /home/user/.cache/xsbxfs/images/templates/raw/rootfs.erofs >/dev/null; "
                     "cmp /tmp/x/usr/lib/xsbx/turn.so /usr/libexec/xsbxfs/drivers/turn.so && echo same"), "same")
    finally:
        fresh.end()


main(packages, images)
