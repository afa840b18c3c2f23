#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the mount goes: places that can't work, mount(8), copies in other namespaces, what stays behind."""
# backends: local -process
# mount: none
import glob

from xsbx import *

XSBXFS = os.environ["XSBXFS"]
CONF = os.environ["CONF"]


def call(*args, **options):
    done = subprocess.run([XSBXFS, "-c", CONF, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False, timeout=2 * SOON, stdin=subprocess.DEVNULL, **options)
    return done.returncode, done.stderr


def fresh(name):
    path = f"{SCRATCH}/{name}"
    os.mkdir(path)
    return path


def daemons(runtime):
    """Processes that were started with this runtime directory."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if runtime.encode() in read(path) and alive(int(path.split("/")[2])):
                found.append(path)
    return found


def over_what_is_needed():
    """It would wait for itself for ever."""
    top = fresh("tree")
    bin_dir = f"{top}/bin"
    shutil.copytree(os.path.dirname(XSBXFS), bin_dir, ignore=shutil.ignore_patterns("obj", "tests", "unit"))
    program = f"{bin_dir}/{os.path.basename(XSBXFS)}"
    for place in (bin_dir, top):
        done = subprocess.run([program, "-c", CONF, place], stderr=subprocess.PIPE, check=False, timeout=2 * SOON)
        same(f"mounting over the program in {place}", done.returncode, 1)
        has("says what is there", done.stderr, b"would be hidden")
        ok("nothing is mounted", not mounted(place))
    cache = fresh("cache")
    os.mkdir(f"{cache}/sub")
    for place in (cache, f"{cache}/sub"):
        status, err = call("-o", f"cache_dir={cache}", place)
        same(f"at {place} of the cache", status, 1)
        has("says that it is the cache", err, b"the cache")
    status, err = call("/etc")
    same("over the system", status, 1)
    has("says so", err, b"the system")


def by_mount():
    """mount -t fuse.xsbxfs none DIR, and a line of fstab: the helper calls us with SOURCE MOUNTPOINT."""
    mnt = fresh("fstab")
    for source in ("none", "xsbxfs"):
        status, err = call(source, mnt, "-o", "rw,nosuid,nodev,dev,suid,user,lazytime,dirsync,X-mount.mkdir,comment=x,x-systemd.automount")
        same(f"{source} MOUNTPOINT", (status, err), (0, b""))
        ok("is mounted", mounted(mnt))
        same("unmount", shell(f"umount {mnt} || fusermount3 -u {mnt}")[0], 0)
        wait_for(lambda: not mounted(mnt))
    same("two mount points are still refused", call(mnt, mnt)[0], 2)
    if os.getuid() or not shutil.which("mount.fuse3"):
        print("mount(8) itself was not tried: that takes root and mount.fuse3")
        return
    # mount(8) has a PATH of its own, so the program is named with its directory.
    write(f"{SCRATCH}/table", f"{XSBXFS}#none {mnt} fuse noauto,prepare=no 0 0\n")
    status, _, err = shell(f"mount -T {SCRATCH}/table {mnt}")
    same("a line of fstab", (status, err), (0, b""))
    ok("is mounted by it", mounted(mnt))
    same("umount", shell(f"umount {mnt}")[0], 0)


def copy_elsewhere():
    """A container that was started meanwhile has a copy of the mount, which no command here can remove."""
    if os.getuid():
        print("copies of a mount were not tried: that takes root")
        return
    mnt, runtime = fresh("copied"), f"{SCRATCH}/copied-run"
    same("mount", call("-o", f"runtime_dir={runtime}", mnt)[0], 0)
    status, err = call("-o", f"runtime_dir={runtime}", mnt)
    same("a second one is refused", status, 1)
    number = err.rstrip().rsplit(b" ", 1)[-1].decode()
    ok("and is told whom to end", number.isdigit() and alive(int(number)), err)
    other = subprocess.Popen(["unshare", "-m", "sh", "-c", "echo; exec sleep 600"], stdout=subprocess.PIPE)
    other.stdout.readline()
    there = f"/proc/{other.pid}/root{mnt}"
    ok("the copy works", os.listdir(there))
    held = open(f"{mnt}/events", "rb")
    same("a lazy unmount", shell(f"umount -l {mnt}")[0], 0)
    time.sleep(2)
    ok("waits for who has files open", daemons(runtime))
    held.close()
    ok("then the daemon ends", wait_for(lambda: not daemons(runtime), 10), daemons(runtime))
    with raises("the copy is dead", errno.ENOTCONN):
        os.listdir(there)
    same("and it can be mounted again", call("-o", f"runtime_dir={runtime}", mnt)[0], 0)
    same("unmount", shell(f"umount {mnt}")[0], 0)
    ok("gone", wait_for(lambda: not daemons(runtime), 10))
    other.kill()
    other.wait()


def nothing_stays():
    """Not even an empty directory."""
    mnt, runtime = fresh("tidy"), f"{SCRATCH}/tidy-run"
    same("mount", call("-o", f"runtime_dir={runtime}", mnt)[0], 0)
    ok("it has a directory meanwhile", os.listdir(runtime))
    same("unmount", shell(f"umount {mnt} || fusermount3 -u {mnt}")[0], 0)
    ok("it has none afterwards", wait_for(lambda: not os.path.exists(runtime), 10), runtime)
    # What is another mount's stays.
    a, b = fresh("tidy-a"), fresh("tidy-b")
    for where in (a, b):
        same("mount", call("-o", f"runtime_dir={runtime}", where)[0], 0)
    same("unmount one", shell(f"umount {a} || fusermount3 -u {a}")[0], 0)
    ok("one of two is left", wait_for(lambda: len(os.listdir(runtime)) == 1, 10), os.listdir(runtime))
    os.mkdir(f"{b}/raw/x")
    same("unmount the other", shell(f"umount {b} || fusermount3 -u {b}")[0], 0)
    ok("none is left", wait_for(lambda: not os.path.exists(runtime), 10))
    # So does one that was there before, however it ends.
    os.mkdir(runtime, 0o700)
    same("mount", call("-o", f"runtime_dir={runtime}", mnt)[0], 0)
    ok("it is used", os.listdir(runtime))
    same("unmount", shell(f"umount {mnt} || fusermount3 -u {mnt}")[0], 0)
    ok("the daemon ends", wait_for(lambda: not daemons(runtime), 10))
    same("it stays, empty", os.listdir(runtime), [])
    same("mount", call("-o", f"runtime_dir={runtime}", mnt)[0], 0)
    os.kill(int(call("-o", f"runtime_dir={runtime}", mnt)[1].rstrip().rsplit(b" ", 1)[-1]), signal.SIGKILL)
    ok("the killed one is cleared away", wait_for(lambda: not os.listdir(runtime), 10))
    os.rmdir(runtime)


def control_characters():
    """What a terminal would obey is not sent to it."""
    evil = f"{SCRATCH}/\x1b]0;pwned\x07\u009b2J"
    for args in ([evil], ["-c", evil, SCRATCH], ["--frob\x1b[2J", SCRATCH], ["-o", "\x1b[2J", SCRATCH]):
        done = subprocess.run([XSBXFS, *args], stderr=subprocess.PIPE, check=False, timeout=2 * SOON)
        ok("it is refused", done.returncode > 0)
        ok("in words that a terminal can take", not any(c < 32 and c != 10 for c in done.stderr)
           and b"\xc2\x9b" not in done.stderr, done.stderr)
    os.mkdir(evil)
    status, err = call("-f", "-o", f"notify={SCRATCH}/none", f"{evil}/no")
    ok("below a name of that kind", status > 0 and b"\x1b" not in err, err)


def first_words():
    """What goes wrong before there is a session is in the root's `error`."""
    mnt = fresh("words")
    same("mount", call(mnt)[0], 0)
    same("nothing yet", read(f"{mnt}/error"), b"")
    for name, errors, words in (("pyhton", (errno.EPERM,), b"no-such-template"),
                                ("raw/.hidden", (errno.EINVAL,), b"bad-name"),
                                ("raw/" + "n" * 65, (errno.ENAMETOOLONG,), b"bad-name"),
                                ("raw/\x1b[2J", (errno.EINVAL,), b"bad-name")):
        with raises(f"mkdir {name!r}", *errors):
            os.mkdir(f"{mnt}/{name}")
        text = read(f"{mnt}/error")
        has(f"words for {name!r}", text, b"code: " + words)
        has("and what to do", text, b"fix: ")
        same("the size is exact", os.stat(f"{mnt}/error").st_size, len(text))
        ok("fit for a terminal", b"\x1b" not in text, text)
    os.mkdir(f"{mnt}/raw/good")
    same("cleared by what succeeds", read(f"{mnt}/error"), b"")
    same("unmount", shell(f"umount {mnt} || fusermount3 -u {mnt}")[0], 0)


main(over_what_is_needed, by_mount, copy_elsewhere, nothing_stays, control_characters, first_words)
