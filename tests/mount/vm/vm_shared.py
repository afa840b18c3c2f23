#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images and snapshots that root has made for all: another user's first session is a clone of root's snapshot, of root's image,
with nothing in a cache of his own. Whatever of it somebody else could have made is not used, and it is said why."""
# backends: vm
# mount: none
# timeout: 300
# log-allow: not used|not there|can't be started|image-missing|no-image|no snapshot
import stat

from for_all import *

vm_only()

CONF = "prepare = no\n[template raw]\nmemory_mb = 192\npool = 0\n"


def root_makes():
    make_shared("raw")
    prefetch(CONF, "raw")
    keys = [n for n in os.listdir(f"{SHARED}/snapshots") if n[0] != "."]
    same("one snapshot", len(keys), 1)
    for name, mode in ("", 0o755), ("/ram", 0o644), ("/state", 0o644), ("/manifest.json", 0o644):
        st = os.stat(f"{SHARED}/snapshots/{keys[0]}{name}")
        same(f"all may read it: {name}", (st.st_uid, stat.S_IMODE(st.st_mode)), (0, mode))
    same("its checksums", stat.S_IMODE(os.stat(f"{SHARED}/snapshots/.contents").st_mode), 0o644)
    return f"{SHARED}/snapshots/{keys[0]}"


def exported():
    """Of what root has made he can take something along for another host."""
    home, path = folder("export.home", BOB), f"{SCRATCH}/export.conf"
    write(path, CONF)
    done = subprocess.run([os.environ["XSBXFS"], "--export", f"{home}/bundle", "-c", path, "-o",
                           f"shared_dir={SHARED},image_builder=none,accel=tcg", "raw"], user=BOB, group=BOB, extra_groups=[],
                          env={**os.environ, "HOME": home, "XDG_CACHE_HOME": f"{home}/cache", "XDG_RUNTIME_DIR": home},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=4 * SOON)
    ok("--export", done.returncode == 0, done.stdout)
    other = f"{SCRATCH}/export.to"
    subprocess.run([f"{os.environ['BUILD']}/xsbxfs-store", "import", f"{home}/bundle", other], check=True, timeout=2 * SOON)
    same("its image and the kernel", {"kernel", "raw"} - set(os.listdir(f"{other}/images/templates")), set())
    same("its snapshot", [n for n in os.listdir(f"{other}/snapshots") if n[0] != "."],
         [n for n in os.listdir(f"{SHARED}/snapshots") if n[0] != "."])


def bob_uses():
    snapshot = root_makes()
    host = bob("first", CONF)
    same("his first session is a clone of root's", begin(host, "raw/one"), ("42\n", "snapshot"))
    template = json.loads(look(host, "raw/template.json"))
    same("root's image", (template["image_shared"], os.path.dirname(template["image_dir"])), (True, f"{SHARED}/images"))
    kinds = json.loads(look(host, "status.json"))["snapshots"]
    same("root's snapshot", [(k["state"], k["shared"], k["built_ms"]) for k in kinds], [("ready", True, 0)])
    report = look(host, "doctor")
    has("doctor: where it is", report, f"shared directory: {SHARED}\n")
    has("doctor: whose it is", report, f"image raw: complete, shared: {SHARED}/images/raw-")
    cache = f"{SCRATCH}/first.home/cache/xsbxfs"
    exported()
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
    has("... who has not is told", fault(host, "raw/two"), f"nor in {SHARED}/images/templates")
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
    host = bob("boots", CONF)
    same("a snapshot that others can change", begin(host, "raw/one"), ("42\n", "cold"))
    has("it is said", read(os.environ["LOG"], "r"), f"the shared snapshot of raw (192 MiB) is not used: {snapshot}/ram may be written to by its group")
    host.close()
    os.chmod(f"{snapshot}/ram", 0o644)

    # The directory is his: nothing of it is used.
    os.chown(SHARED, BOB, BOB)
    host = bob("his", CONF)
    why = f"{SHARED} belongs to user {BOB}, not to root"
    has("the session", fault(host, "raw/one"), why)
    has("doctor", look(host, "doctor"), f"warn shared directory: not used: {why}")
    has("the log", read(os.environ["LOG"], "r"), f"snapshots are not used: {why}")
    host.close()
    os.chown(SHARED, 0, 0)

    # ... and with the owner it had, it is used again; but not by who wants none.
    host = bob("again", CONF)
    same("as it was", begin(host, "raw/one"), ("42\n", "snapshot"))
    host.close()
    host = Host("none", CONF, "shared_dir=none", "image_builder=none", "accel=tcg", uid=BOB)
    said = fault(host, "raw/one")
    same("who wants none", ("there is no image" in said, SHARED in said), (True, False))
    host.close()


main(not_used)
