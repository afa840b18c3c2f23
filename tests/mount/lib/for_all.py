# SPDX-License-Identifier: Apache-2.0
"""For tests of what root makes for all users: a shared directory in the test's own mount namespace, and another user."""

from hosts import *

BOB = MEMBER
SHARED = "/srv/xsbxfs"  # not in SCRATCH: to all that leads there anybody may write
MNT_DETACH = 2


def mount(source, target, kind=None, flags=0, data=None):
    args = [a.encode() if a else None for a in (source, target, kind)]
    if libc.mount(*args, flags, data.encode() if data else None):
        raise OSError(ctypes.get_errno(), f"mounting {target}")


def lend(name, needed=True):
    """An image of the cache's, in the shared directory, without a copy."""
    real = os.path.realpath(f"{os.environ['IMAGES']}/images/templates/{name}")
    if not os.path.exists(f"{real}/manifest.json"):
        if needed:
            skip(f"there is no image '{name}'; scripts/images builds it")
        return
    here = f"{SHARED}/images/{os.path.basename(real)}"
    os.makedirs(here, exist_ok=True)
    mount(real, here, flags=MS_BIND)
    os.symlink(f"../{os.path.basename(real)}", f"{SHARED}/images/templates/{name}")


def make_shared(*images):
    if os.geteuid():
        skip("needs root, to be an administrator and a user")
    mount("none", "/srv", "tmpfs", data="mode=755")
    os.makedirs(f"{SHARED}/images/templates", mode=0o755)
    lend("kernel")
    lend("kernel-own", needed=False)
    for name in images:
        lend(name)


def prefetch(conf, template, *options):
    """Root makes what a template needs, for all; whatever his umask is."""
    path = f"{SCRATCH}/root.conf"
    write(path, conf)
    done = subprocess.run([os.environ["XSBXFS"], "--prefetch", "-c", path, "-o",
                           ",".join([f"cache_dir={SHARED}", "image_builder=none", "accel=tcg", *options]), template],
                          env={**os.environ, "XSBXFS_SHARED": SHARED}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, timeout=10 * SOON, umask=0o077)
    same("root has made it", (done.returncode, "ok   " in done.stdout.decode()), (0, True))
    return done.stdout.decode()


def bob(name, conf, *options):
    """His mount."""
    return Host(name, conf, f"shared_dir={SHARED}", "image_builder=none", "accel=tcg", *options, uid=BOB)


def look(host, node):
    return as_user(BOB, lambda: read(f"{host.mnt}/{node}", "r"))


def begin(host, name, code="echo $((6 * 7))\n"):
    """A session of Bob's: what its first run says, and how its sandbox started."""
    def go():
        top = f"{host.mnt}/{name}"
        os.mkdir(top)
        write(f"{top}/in", code)
        return read(f"{top}/stdout", "r"), json.loads(read(f"{top}/status.json"))["sandbox"]
    out, sandbox = as_user(BOB, go)
    return out, (sandbox or {}).get("start")


def fault(host, name):
    """What a session of his says that can't start."""
    def go():
        os.mkdir(f"{host.mnt}/{name}")
        write(f"{host.mnt}/{name}/in", "true\n")
        return read(f"{host.mnt}/{name}/exit_code", "r")
    as_user(BOB, go)
    return look(host, f"{name}/error")


__all__ = [name for name in dir() if not name.startswith("_")]
