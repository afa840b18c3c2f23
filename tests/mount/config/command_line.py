#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command: options, files of settings, and what it says when something is wrong."""
# backends: local
# mount: none
# timeout: 90
from xsbx import *

XSBXFS = os.environ["XSBXFS"]
HOW = ["-o", ",".join(OPTIONS)] if BACKEND == "process" else []


def call(*args, **env):
    how = HOW if mounts(args) else []
    done = subprocess.run([XSBXFS, *how, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False, timeout=SOON, env={**os.environ, **env},
                          stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def mounts(args):
    return args and os.path.isdir(args[-1])


def information():
    status, out, err = call("--version")
    same("--version", (status, err, out.count("\n")), (0, "", 1))
    has("--version", out, "xsbxfs")
    status, out, err = call("--help")
    same("--help", (status, err), (0, ""))
    for word in ("MOUNTPOINT", "-f", "-o", "-c", "--check", "--version"):
        has("--help", out, word)
    status, out, _ = call("--check")
    ok("--check", status in (0, 1) and out.count("\n") >= 3, (status, out))
    ok("--check: ok, warn or fail", all(line.split()[0].strip(":") in ("ok", "warn", "fail")
                                         or line.startswith(" ") for line in out.splitlines()), out)


def mistakes():
    mnt, file = f"{SCRATCH}/mnt", f"{SCRATCH}/file"
    os.mkdir(mnt)
    write(file, "x")
    for what, args in {
            "no arguments": [], "two mount points": [mnt, mnt], "unknown option": ["--frobnicate", mnt],
            "unknown -o": ["-o", "frobnicate", mnt], "bad value": ["-o", "max_vms=many", mnt],
            "missing -c": ["-c", f"{SCRATCH}/nothing", mnt], "not a directory": [file],
            "missing directory": [f"{SCRATCH}/nowhere"], "-o without": ["-o"],
            "an unknown key in a file": ["-c", f"{SCRATCH}/bad", mnt]}.items():
        write(f"{SCRATCH}/bad", "[xsbxfs]\ncolour = red\n")
        status, out, err = call(*args)
        ok(f"{what}: exit status", status > 0 and status != 124, status)
        ok(f"{what}: says so", err.strip() and len(err) < 3000, err)
        ok(f"{what}: nothing is mounted", not mounted(mnt))
    has("the file and line are named", call("-c", f"{SCRATCH}/bad", mnt)[2], "bad:2")


def no_fuse():
    """A start that fails late, when everything else is there already."""
    mnt = f"{SCRATCH}/nofuse"
    os.mkdir(mnt)
    if os.getuid():
        return
    status, _, err = shell(f"unshare -m sh -c 'mount --bind /dev/null /dev/fuse && "
                           f"exec {XSBXFS} -o prepare=no {mnt}'")
    same("without /dev/fuse: status", status, 1)
    has("without /dev/fuse: in words", err, b"cannot mount")
    status, _, err = shell(f"unshare -m sh -c 'mount -t tmpfs none /dev && mknod /dev/null c 1 3 && "
                           f"exec {XSBXFS} -o prepare=no {mnt}'")
    same("with no such file: status", status, 1)
    has("with no such file: what to do", err, b"modprobe fuse")
    ok("without /dev/fuse: nothing else went wrong", b"ssertion" not in err, err)


def not_his():
    """A user may mount where he may write."""
    if os.getuid():
        print("(left out: a mount by another user takes root)")
        return
    status, _, err = shell("unshare -m sh -c 'mount -t tmpfs -o mode=755 none /mnt && mount -t tmpfs -o uid=65534,mode=700 none /media && "
                           "mknod -m 666 /media/fuse c 10 229 && mount --bind /media/fuse /dev/fuse && "
                           "exec setpriv --reuid 65534 --regid 65534 --clear-groups env -u XDG_CACHE_HOME -u XDG_RUNTIME_DIR HOME=/media "
                           f"{XSBXFS} -o prepare=no,runtime_dir=/media/run /mnt'")
    if status in (126, 127):
        print(f"(left out: nobody may not execute {XSBXFS})")
        return
    same("somebody else's directory: status", status, 1)
    has("somebody else's directory: why", err, b"may not write to the mount point")


def background():
    """Without -f it returns when the mount is ready, and the daemon goes on."""
    mnt = f"{SCRATCH}/back"
    os.mkdir(mnt)
    status, out, err = call("-c", os.environ["CONF"], mnt)
    same("returns", (status, out, err), (0, "", ""))
    ok("and is ready", mounted(mnt))
    s = Session("background", mnt=mnt)
    same("it works", s.run("echo fine\n").stdout, b"fine\n")
    same("unmount", shell(f"fusermount3 -u {mnt}")[0], 0)
    ok("gone", wait_for(lambda: not os.listdir(mnt)))


def relative():
    mnt = f"{SCRATCH}/relative"
    os.mkdir(mnt)
    done = subprocess.run([XSBXFS, *HOW, "-c", os.environ["CONF"], "relative"], cwd=SCRATCH, check=False,
                          timeout=SOON)
    same("a relative mount point", done.returncode, 0)
    ok("is mounted", mounted(mnt))
    shell(f"fusermount3 -u {mnt}")


def not_empty():
    """Mounting over a directory with something in it, as mount(8) does."""
    mnt = f"{SCRATCH}/full"
    os.mkdir(mnt)
    write(f"{mnt}/precious", "x")
    status, _, err = call("-c", os.environ["CONF"], mnt)
    if status == 0:
        shell(f"fusermount3 -u {mnt}")
        wait_for(lambda: not mounted(mnt))
    same("what was there is untouched", read(f"{mnt}/precious"), b"x")


def settings():
    """Files in order: the user's, then -c, then -o; templates of one's own."""
    mnt, home = f"{SCRATCH}/settings", f"{SCRATCH}/home"
    os.chmod(SCRATCH, 0o1777)  # as /tmp is; else nothing below it is trusted
    os.mkdir(mnt)
    os.makedirs(f"{home}/.config")
    write(f"{home}/.config/xsbxfs.conf", "[xsbxfs]\nhistory_runs = 2\n")
    env = {"HOME": home}
    status, _, err = call(mnt, **env)
    same("starts", (status, err), (0, ""))
    s = Session("s", mnt=mnt)
    for i in range(4):
        s.run(f"echo {i}\n")
    same("~/.config/xsbxfs.conf counts", s.runs(), [3, 4])
    shell(f"fusermount3 -u {mnt}")
    wait_for(lambda: not mounted(mnt))
    write(f"{SCRATCH}/c", "[xsbxfs]\nhistory_runs = 3\n"
                          "[template shell]\nimage = raw\nlanguage = raw\ntimeout_s = 5\n")
    status, _, err = call("-c", f"{SCRATCH}/c", mnt, **env)
    same("starts with -c", (status, err), (0, ""))
    s = Session("s", "shell", mnt=mnt)
    for i in range(5):
        s.run(f"echo {i}\n")
    same("-c wins", s.runs(), [3, 4, 5])
    has("a template of one's own", s.text("config"), "timeout_s = 5")
    shell(f"fusermount3 -u {mnt}")
    wait_for(lambda: not mounted(mnt))
    status, _, err = call("-c", f"{SCRATCH}/c", "-o", "history_runs=1", mnt, **env)
    same("starts with -o", (status, err), (0, ""))
    s = Session("s", mnt=mnt)
    for i in range(3):
        s.run(f"echo {i}\n")
    same("-o wins", s.runs(), [3])
    shell(f"fusermount3 -u {mnt}")
    wait_for(lambda: not mounted(mnt))


def trusted():
    """A file that others may write to is not read, and none that they may put another in the place of."""
    home = f"{SCRATCH}/trust"
    folder, found, named = f"{home}/.config", f"{home}/.config/xsbxfs.conf", f"{SCRATCH}/named"
    os.chmod(SCRATCH, 0o1777)
    os.makedirs(folder)
    for path in (found, named):
        write(path, "[xsbxfs]\nhistory_runs = 2\n")
    env = {"HOME": home, "XDG_CONFIG_HOME": ""}

    def check(*args):
        status, _, err = call("--check", *args, **env)
        return err == "", err

    same("control: it is read", check("-c", named), (True, ""))
    for path, word in ((found, "it"), (named, "it"), (folder, f"its directory {folder}"),
                       (home, f"its directory {home}")):
        before = os.stat(path).st_mode
        for mode, who, mend in ((0o020, "its group", "g-w"), (0o002, "everybody", "go-w")):
            os.chmod(path, before & 0o7777 | mode)
            read_it, err = check("-c", named)
            ok(f"{path} {mode:o}: refused", not read_it)
            has(f"{path} {mode:o}: says so", err, f"{who} may write to {word}; chmod {mend} mends that")
            os.chmod(path, before & 0o7777)
    os.chmod(home, 0o1777)
    same("a directory like /tmp is no harm", check("-c", named), (True, ""))
    os.chmod(home, 0o755)
    os.rename(found, f"{SCRATCH}/elsewhere")
    os.symlink(f"{SCRATCH}/elsewhere", found)
    same("a link may lead to it", check(), (True, ""))
    os.mkdir(f"{SCRATCH}/open")
    os.chmod(f"{SCRATCH}/open", 0o777)
    os.rename(f"{SCRATCH}/elsewhere", f"{SCRATCH}/open/elsewhere")
    os.remove(found)
    os.symlink(f"{SCRATCH}/open/elsewhere", found)
    has("not to one that others can replace", check()[1], f"its directory {SCRATCH}/open")
    if os.geteuid() == 0:
        os.remove(found)
        write(found, "[xsbxfs]\nhistory_runs = 2\n")
        for path, word in ((found, "belongs to user 12001"),
                           (folder, f"its directory {folder} belongs to user 12001")):
            os.chown(path, ALICE, -1)
            has(f"{path} of somebody else's", check()[1], word)
            os.chown(path, 0, -1)


main(information, mistakes, no_fuse, not_his, background, relative, not_empty, settings, trusted)
