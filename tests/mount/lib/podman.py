# SPDX-License-Identifier: Apache-2.0
"""For tests in containers: Debian's podman, as root and rootless, with everything that it makes in the test's directory.
The test has a mount namespace of its own, see tests/run."""

import pwd

from xsbx import *

ROOT = os.path.realpath(f"{os.path.dirname(os.path.realpath(__file__))}/../../..")
CONTAINERS = f"{ROOT}/scripts/containers"
KEPT = os.path.join(pwd.getpwuid(os.getuid()).pw_dir, ".cache/xsbxfs-test")
BASE = f"{KEPT}/containers-bookworm.tar"
# As Containerfile has them, so that building an image of this base takes seconds.
PACKAGES = "fuse3 qemu-system-x86 libuv1 libjansson4 libinih1 libseccomp2 libslirp0 libglib2.0-0 libcurl4 libzstd1 " \
           "ca-certificates procps python3-minimal"
USER, UID = "podtest", 12345
DAEMON = "allow_process=yes,backend=process,prepare=no,accel=tcg,image_builder=none"
# What README.md of scripts/containers names.
FLAGS = "--device /dev/fuse --cap-add SYS_ADMIN --security-opt unmask=ALL"
LONG = 120 * slack()

# crun sets limits that a container of its own may not have without CAP_SYS_RESOURCE.
CRUN = r"""#!/bin/bash
args=("$@")
while [ $# -gt 1 ]; do
    case $1 in
    --bundle | -b)
        python3 - "$2/config.json" <<'END'
import json, sys
with open(sys.argv[1]) as file:
    config = json.load(file)
config["process"].pop("rlimits", None)
with open(sys.argv[1], "w") as file:
    json.dump(config, file)
END
        ;;
    esac
    shift
done
exec crun "${args[@]}"
"""


def base():
    """A Debian root as a tar file, made once."""
    if os.path.exists(BASE):
        return
    need("mmdebstrap")
    os.makedirs(KEPT, exist_ok=True)
    print("making a Debian root", flush=True)
    done = subprocess.run(["mmdebstrap", "--variant=minbase", f"--include={PACKAGES.replace(' ', ',')}",
                           "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
                           "--dpkgopt=path-exclude=/usr/share/locale/*", "bookworm", f"{BASE}.{os.getpid()}.tar"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        skip(f"no Debian root could be made: {done.stdout[-300:]!r}")
    os.rename(f"{BASE}.{os.getpid()}.tar", BASE)


def prepare_host():
    """What podman wants of a host, in this mount namespace."""
    if os.geteuid():
        skip("needs root, to run podman as root and as a user that it makes")
    need("podman", "crun", "newuidmap", "catatonit")
    subprocess.run(["mount", "--make-rshared", "/"], check=True)
    # crun takes no hierarchy of version 2 beside those of version 1.
    if os.path.ismount("/sys/fs/cgroup/unified"):
        subprocess.run(["umount", "/sys/fs/cgroup/unified"], check=True)
    os.mkdir(f"{SCRATCH}/etc")
    for name, line in (("passwd", f"{USER}:x:{UID}:{UID}::{SCRATCH}/home:/bin/bash"), ("group", f"{USER}:x:{UID}:"),
                       ("subuid", f"{USER}:200000:65536"), ("subgid", f"{USER}:200000:65536")):
        if not os.path.exists(f"/etc/{name}"):
            skip(f"there is no /etc/{name}")
        write(f"{SCRATCH}/etc/{name}", read(f"/etc/{name}") + line.encode() + b"\n")
        subprocess.run(["mount", "--bind", f"{SCRATCH}/etc/{name}", f"/etc/{name}"], check=True)
    write(f"{SCRATCH}/etc/fuse.conf", "user_allow_other\n")
    subprocess.run(["mount", "--bind", f"{SCRATCH}/etc/fuse.conf", "/etc/fuse.conf"], check=True)
    # Everybody may open it where udev is.
    os.mknod(f"{SCRATCH}/fuse", 0o666 | 0o020000, os.makedev(10, 229))
    os.chmod(f"{SCRATCH}/fuse", 0o666)
    subprocess.run(["mount", "--bind", f"{SCRATCH}/fuse", "/dev/fuse"], check=True)
    os.chmod(SCRATCH, 0o755)
    write(f"{SCRATCH}/crun", CRUN)
    os.chmod(f"{SCRATCH}/crun", 0o755)


def install(to):
    """What `make install` puts into a tree, of this build."""
    libexec = f"{to}/usr/local/libexec/xsbxfs"
    os.makedirs(f"{to}/usr/local/bin")
    os.makedirs(libexec)
    shutil.copy(f"{BUILD}/xsbxfs", f"{to}/usr/local/bin/")
    for name in ("xsbxfs-net", "xsbxfs-dial", "xsbxfs-store", "xsbx-agent"):
        shutil.copy(f"{BUILD}/{name}", libexec)
    shutil.copytree(f"{BUILD}/drivers", f"{libexec}/drivers")


class Podman:
    """podman as root, or as a user."""

    def __init__(self, rootless):
        self.rootless = rootless
        self.home = f"{SCRATCH}/home" if rootless else f"{SCRATCH}/root"
        os.makedirs(f"{self.home}/run", mode=0o700)
        self.prefix = []
        if rootless:
            os.chown(self.home, UID, UID)
            os.chown(f"{self.home}/run", UID, UID)
            self.prefix = ["setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups"]
        self.env = dict(os.environ, HOME=self.home, XDG_RUNTIME_DIR=f"{self.home}/run", TMPDIR="/tmp",
                        PATH="/usr/sbin:/usr/bin:/sbin:/bin", XDG_DATA_HOME=f"{self.home}/data",
                        XDG_CONFIG_HOME=f"{self.home}/config", XDG_CACHE_HOME=f"{self.home}/cache")
        self.podman = ["podman", "--cgroup-manager=cgroupfs", "--events-backend=file", "--log-level=fatal",
                       "--storage-driver=overlay"]
        if not rootless:
            self.podman += ["--root", f"{self.home}/store", "--runroot", f"{self.home}/run/podman"]
        if not int(status_of(os.getpid())["CapEff"], 16) >> 24 & 1:
            self.podman += ["--runtime", f"{SCRATCH}/crun"]

    def __call__(self, *args):
        """Return (status, what it prints)."""
        try:
            done = subprocess.run([*self.prefix, *self.podman, *args], env=self.env, check=False, cwd="/", timeout=LONG,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired as late:
            return 124, f"no end: {late.stdout}"
        return done.returncode, done.stdout.decode(errors="replace").replace("\r", "")

    def do(self, *args):
        status, text = self(*args)
        ok(f"podman {args[0]}", status == 0, text)
        return text

    def build(self):
        """localhost/xsbxfs, as Containerfile makes it of an installed tree; and as a file, for others."""
        self.do("import", "-q", BASE, "localhost/debian:12")
        install(f"{SCRATCH}/image")
        self.do("build", "-q", "--network=host", "--build-arg=BASE=localhost/debian:12", "-t", "localhost/xsbxfs", "-f",
                f"{CONTAINERS}/Containerfile", f"{SCRATCH}/image")
        self.do("save", "-q", "-o", f"{SCRATCH}/image.tar", "localhost/xsbxfs")
        os.chmod(f"{SCRATCH}/image.tar", 0o644)

    def load(self):
        self.do("load", "-q", "-i", f"{SCRATCH}/image.tar")

    def run(self, flags, script, *, name=None):
        """A shell in a container; in the background, if it has a name."""
        detached = ["-d", "--name", name] if name else ["--rm"]
        return self("run", "--pull=never", *detached, "--network=none", *flags.split(), "localhost/xsbxfs", "bash", "-c", script)

    def inside(self, name, script):
        return self("exec", name, "bash", "-c", script)

    def close(self):
        """Nothing of it is left, not even the process that holds a user's namespace."""
        self("pod", "rm", "-a", "-f", "-t", "0")
        self("rm", "-a", "-f", "-t", "0")
        if self.rootless:
            self("unshare", "rm", "-rf", f"{self.home}/data")
            for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
                if "podman" in name_of(pid) or name_of(pid) == "catatonit":
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
        for line in reversed(read("/proc/self/mountinfo", "r").splitlines()):
            if line.split()[4].startswith(f"{self.home}/"):
                subprocess.run(["umount", "-l", line.split()[4]], check=False, stderr=subprocess.DEVNULL)
        for kind in os.listdir("/sys/fs/cgroup"):
            for folder, _, _ in os.walk(f"/sys/fs/cgroup/{kind}/libpod_parent", topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
