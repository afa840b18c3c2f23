#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images and snapshots that root has made for all: another user's first session is a clone of root's snapshot, of root's image,
with nothing in a cache of his own. Whatever of it somebody else could have made is not used, and it is said why."""
# backends: vm
# mount: none
# timeout: 300
# log-allow: not used|not there|can't be started|image-missing|no-image|no snapshot
import stat

from hosts import *

vm_only()

BOB = MEMBER
SHARED = "/srv/xsbxfs"  # in this test's own mount namespace: all that leads to SCRATCH anybody may write to
CONF = "prepare = no\n[template raw]\nmemory_mb = 192\npool = 0\n"
MNT_DETACH = 2


def mount(source, target, kind=None, flags=0, data=None):
    args = [a.encode() if a else None for a in (source, target, kind)]
    if libc.mount(*args, flags, data.encode() if data else None):
        raise OSError(ctypes.get_errno(), f"mounting {target}")


def lend(name):
    """An image of the cache's, in the shared directory, without a copy."""
    real = os.path.realpath(f"{os.environ['IMAGES']}/images/templates/{name}")
    if not os.path.exists(f"{real}/manifest.json"):
        if name == "kernel-own":
            return
        skip(f"there is no image '{name}'; scripts/images builds it")
    here = f"{SHARED}/images/{os.path.basename(real)}"
    os.makedirs(here, exist_ok=True)
    mount(real, here, flags=MS_BIND)
    os.symlink(f"../{os.path.basename(real)}", f"{SHARED}/images/templates/{name}")


def root_makes():
    if os.geteuid():
        skip("needs root, to be an administrator and a user")
    mount("none", "/srv", "tmpfs", data="mode=755")
    for name in "images/templates", "layers", "snapshots":
        os.makedirs(f"{SHARED}/{name}", mode=0o755)
    for name in "kernel", "kernel-own", "raw":
        lend(name)
    write(f"{SCRATCH}/root.conf", CONF)
    done = subprocess.run([os.environ["XSBXFS"], "--prefetch", "-c", f"{SCRATCH}/root.conf", "-o",
                           f"cache_dir={SHARED},image_builder=none,accel=tcg", "raw"],
                          env={**os.environ, "XSBXFS_SHARED": SHARED}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, timeout=10 * SOON, umask=0o077)
    same("root has made it", done.returncode, 0)
    has("it says so", done.stdout.decode(), "ok   raw")
    keys = [n for n in os.listdir(f"{SHARED}/snapshots") if n[0] != "."]
    same("one snapshot", len(keys), 1)
    for name, mode in ("", 0o755), ("/ram", 0o644), ("/state", 0o644), ("/manifest.json", 0o644):
        st = os.stat(f"{SHARED}/snapshots/{keys[0]}{name}")
        same(f"all may read it: {name}", (st.st_uid, stat.S_IMODE(st.st_mode)), (0, mode))
    same("its checksums", stat.S_IMODE(os.stat(f"{SHARED}/snapshots/.contents").st_mode), 0o644)
    return f"{SHARED}/snapshots/{keys[0]}"


def bob(name, *options):
    return Host(name, CONF, f"shared_dir={SHARED}", "image_builder=none", "accel=tcg", *options, uid=BOB)


def look(host, node):
    return as_user(BOB, lambda: read(f"{host.mnt}/{node}", "r"))


def begin(host, name):
    """A session of Bob's, and how its sandbox started."""
    def go():
        top = f"{host.mnt}/raw/{name}"
        os.mkdir(top)
        write(f"{top}/in", "echo $((6 * 7))\n")
        return read(f"{top}/stdout", "r"), json.loads(read(f"{top}/status.json"))["sandbox"]
    out, sandbox = as_user(BOB, go)
    return out, (sandbox or {}).get("start")


def fault(host, name):
    """What a session says that can't start."""
    def go():
        os.mkdir(f"{host.mnt}/raw/{name}")
        write(f"{host.mnt}/raw/{name}/in", "true\n")
        return read(f"{host.mnt}/raw/{name}/exit_code", "r")
    as_user(BOB, go)
    return look(host, f"raw/{name}/error")


def bob_uses():
    snapshot = root_makes()
    host = bob("first")
    same("his first session is a clone of root's", begin(host, "one"), ("42\n", "snapshot"))
    template = json.loads(look(host, "raw/template.json"))
    same("root's image", (template["image_shared"], os.path.dirname(template["image_dir"])), (True, f"{SHARED}/images"))
    kinds = json.loads(look(host, "status.json"))["snapshots"]
    same("root's snapshot", [(k["state"], k["shared"], k["built_ms"]) for k in kinds], [("ready", True, 0)])
    report = look(host, "doctor")
    has("doctor: where it is", report, f"shared directory: {SHARED}\n")
    has("doctor: whose it is", report, f"image raw: complete, shared: {SHARED}/images/raw-")
    cache = f"{SCRATCH}/first.home/cache/xsbxfs"
    same("nothing of his own", (os.path.exists(f"{cache}/images"), os.listdir(f"{cache}/snapshots")), (False, []))

    # What root removes is there for those who have it.
    image = os.path.realpath(f"{SHARED}/images/templates/raw")
    os.rename(f"{SHARED}/images/templates/raw", f"{SHARED}/images/gone")
    os.rename(snapshot, f"{SHARED}/snapshots/.away")
    if libc.umount2(image.encode(), MNT_DETACH):
        raise OSError(ctypes.get_errno(), image)
    same("removed: who has it goes on", as_user(BOB, lambda: (
        write(f"{host.mnt}/raw/one/in", "ls /etc/hostname /usr/bin/rsync; dd if=/usr/bin/rsync bs=1M | wc -c\n"),
        read(f"{host.mnt}/raw/one/exit_code"))[1]), b"0\n")
    has("... who has not is told", fault(host, "two"), f"nor in {SHARED}/images/templates")
    host.close()
    os.rmdir(image)
    os.unlink(f"{SHARED}/images/gone")
    os.rename(f"{SHARED}/snapshots/.away", snapshot)
    lend("raw")
    return snapshot


def not_used():
    snapshot = bob_uses()

    # A snapshot that its group may write to: he boots, and makes his own.
    os.chmod(f"{snapshot}/ram", 0o664)
    host = bob("boots")
    same("a snapshot that others can change", begin(host, "one"), ("42\n", "cold"))
    has("it is said", read(os.environ["LOG"], "r"), f"the shared snapshot of raw (192 MiB) is not used: {snapshot}/ram may be written to by its group")
    host.close()
    os.chmod(f"{snapshot}/ram", 0o644)

    # The directory is his: nothing of it is used.
    os.chown(SHARED, BOB, BOB)
    host = bob("his")
    why = f"{SHARED} belongs to user {BOB}, not to root"
    has("the session", fault(host, "one"), why)
    has("doctor", look(host, "doctor"), f"warn shared directory: not used: {why}")
    has("the log", read(os.environ["LOG"], "r"), f"snapshots are not used: {why}")
    host.close()
    os.chown(SHARED, 0, 0)

    # ... and with the owner it had, it is used again; but not by who wants none.
    host = bob("again")
    same("as it was", begin(host, "one"), ("42\n", "snapshot"))
    host.close()
    host = Host("none", CONF, "shared_dir=none", "image_builder=none", "accel=tcg", uid=BOB)
    same("none", f" nor in {SHARED}" in fault(host, "one"), False)
    host.close()


main(not_used)
