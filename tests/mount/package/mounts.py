#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/package/mounts, which is what a package does with mounts when it is replaced or removed: which it takes over and ends,
which it leaves, why a takeover was refused, and that what others have named their mounts does nothing to a terminal."""
# backends: process
# mount: none
# timeout: 120
import ctypes

from xsbx import *

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
CONF = f"{SCRATCH}/conf"
PROGRAM = "/usr/bin/xsbxfs"
OURS, OTHER, DEAD = (f"{SCRATCH}/{name}" for name in ("our own", "other", "dead"))
# Either would be root's, for who reads carelessly; what is in the second is for a terminal, and for a shell.
FOREIGN = {f"{SCRATCH}/alice": "a user_id=0,b", f"{SCRATCH}/x\x1b]0;y\x07 '$(id)'": "xsbxfs"}
libc = ctypes.CDLL(None, use_errno=True)


def mount(source, target, kind, data):
    if libc.mount(source.encode(), target.encode(), kind.encode(), 6, data.encode()):  # nosuid, nodev
        raise OSError(ctypes.get_errno(), f"mounting {target}")


def fuse(source, target, uid):
    """A mount of that user, which nobody serves once this descriptor is closed."""
    os.mkdir(target)
    fd = os.open("/dev/fuse", os.O_RDWR)
    mount(source, target, "fuse.xsbxfs", f"fd={fd},rootmode=40000,user_id={uid},group_id={uid}")
    return fd


def places():
    """A /run and a /usr/bin of this test's own, which runs in a mount namespace of its own."""
    mount("run", "/run", "tmpfs", "mode=755")
    for path in ("/run/xsbxfs", "/run/upper", "/run/work"):
        os.mkdir(path)
    if libc.mount(b"bin", b"/usr/bin", b"overlay", 0, b"lowerdir=/usr/bin,upperdir=/run/upper,workdir=/run/work"):
        skip(f"there is no overlay file system here: {os.strerror(ctypes.get_errno())}")


def serve(program, mnt):
    os.mkdir(mnt)
    subprocess.run([program, "-c", CONF, "-o", ",".join(["runtime_dir=/run/xsbxfs-0", *OPTIONS]), mnt], check=True, timeout=SOON,
                   stdin=subprocess.DEVNULL)


def script(what):
    done = subprocess.run([f"{TOP}/scripts/package/mounts", what], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, timeout=4 * SOON)
    same(f"{what} never fails", done.returncode, 0)
    text = done.stdout.decode("latin-1")
    ok(f"{what}: it can be printed", all(" " <= c <= "~" or c == "\n" for c in text), text)
    return text


def mounts():
    if os.getuid():
        skip("a package's scripts are root's")
    places()
    shutil.copy(os.environ["XSBXFS"], PROGRAM)
    shutil.copy(os.environ["CONF"], CONF)
    serve(PROGRAM, OURS)
    serve(os.environ["XSBXFS"], OTHER)
    held = [fuse(source, target, ALICE) for target, source in FOREIGN.items()]
    os.close(fuse("xsbxfs", DEAD, 0))

    said = script("takeover")
    has("ours is taken over", said, f"xsbxfs: {OURS}: process ")
    has("another installation's is not", said, f"xsbxfs: {OTHER} is not served by {PROGRAM}")
    has("a user is told how", said, f"xsbxfs --takeover {SCRATCH}/alice\n")
    has("what a user has called it is one word", said, f"xsbxfs --takeover '{SCRATCH}/x?]0;y? '\\''$(id)'\\'''\n")

    # The next version, with a configuration that it does not like.
    shutil.copy(PROGRAM, f"{PROGRAM}.new")
    os.rename(f"{PROGRAM}.new", PROGRAM)
    write(CONF, read(CONF) + b"[xsbxfs]\nnonsense = 1\n")
    said = script("takeover")
    has("why it was not taken over", said, f"{OURS} was not taken over: ")
    ok("and nothing else", "no xsbxfs of this user" not in said, said)
    has("what that means", said, f"'{OURS}' is served by the former version")

    said = script("end")
    ok("ours has ended", not mounted(OURS), said)
    ok("what was dead is gone", DEAD not in read("/proc/self/mountinfo", "r"), said)
    has("another installation's is named", said, f"umount {OTHER}\n")
    ok("and serves", os.path.exists(f"{OTHER}/status.json"))
    for target in FOREIGN:
        ok(f"{target!r} is left", target.replace(" ", "\\040") in read("/proc/self/mountinfo", "r"))
    has("and named", said, f"fusermount3 -u {SCRATCH}/alice\n")
    subprocess.run(["umount", OTHER], check=True)
    for fd in held:
        os.close(fd)
    for target in FOREIGN:
        subprocess.run(["umount", target], check=True)


main(mounts)
