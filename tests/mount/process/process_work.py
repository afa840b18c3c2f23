#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A work directory that begins as one of the host: what is changed is kept apart, listed, and taken
over when somebody says so."""
# backends: process
# timeout: 180
# mount: none
# log-allow: did not start
from hosts import *

TEMPLATE = "[template shown]\nlanguage = raw\nwork = {}\n"


def tree(top):
    """What is where: of files mode and content, of links where they lead."""
    found = {}
    for folder_, folders, files in os.walk(top):
        for name in folders + files:
            path = f"{folder_}/{name}"
            key = os.path.relpath(path, top)
            if os.path.islink(path):
                found[key] = os.readlink(path)
            elif os.path.isdir(path):
                found[key] = oct(os.stat(path).st_mode)
            else:
                found[key] = (oct(os.stat(path).st_mode), read(path))
    return found


def scene(name, uid=None):
    top = folder(name, uid, mode=0o755)
    write(f"{top}/text", "hello\n")
    write(f"{top}/private", "secret\n")
    os.chmod(f"{top}/private", 0o600)
    os.makedirs(f"{top}/sub/deep")
    write(f"{top}/sub/a", "a")
    write(f"{top}/sub/deep/b", "b")
    os.symlink("text", f"{top}/link")
    if uid is not None:
        for path, _, files in os.walk(top):
            for entry in [path] + [f"{path}/{n}" for n in files]:
                os.lchown(entry, uid, uid)
    return top


CHANGE = """
echo more >> text; : >> private; touch sub/a
rm -r sub/deep; mkdir sub/deep; echo new > sub/deep/c
echo x > added; chmod 640 added; chmod 700 sub; ln -sf added link
mkdir -p one/two; ln -s ../../added one/two/up; ln -s /home/user/added one/absolute
"""
LISTED = """A added
M link
A one
A one/absolute
A one/two
A one/two/up
M sub
D sub/deep/b
A sub/deep/c
M text
"""
AFTER = {
    "text": ("0o100644", b"hello\nmore\n"), "private": ("0o100600", b"secret\n"),
    "sub": "0o40700", "sub/a": ("0o100644", b"a"), "sub/deep": "0o40755",
    "sub/deep/c": ("0o100644", b"new\n"), "added": ("0o100640", b"x\n"), "link": "added",
    "one": "0o40755", "one/two": "0o40755", "one/two/up": "../../added", "one/absolute": "../added",
}


def commit(s):
    s.ctl("commit")
    return s.text("files.changes")


def taken_over():
    top = scene("work")
    before = tree(top)
    host = Host("work.daemon", TEMPLATE.format(top))
    s = host.session("one")
    same("nothing yet", s.text("files.changes"), "")
    same("and nothing to take over", s.ctl("commit"), None)
    run = s.run("cat text private sub/deep/b; ls\n")
    same("it begins as the host's", run.out, "hello\nsecret\nblink\nprivate\nsub\ntext\n")
    same("looking changes nothing", s.text("files.changes"), "")
    same("all of it works", s.run(CHANGE).stderr, b"")
    same("the list", s.text("files.changes"), LISTED)
    same("also for who reads a byte at a time",
         subprocess.run(["dd", "bs=1", "status=none", f"if={s / 'files.changes'}"],
                        stdout=subprocess.PIPE, check=True).stdout.decode(), LISTED)
    same("the host has not changed", tree(top), before)
    write(s / "files/by-files", "from outside\n")
    has("files/ writes to the same", s.text("files.changes"), "A by-files\n")
    os.unlink(s / "files/by-files")
    same("and removes it", s.text("files.changes"), LISTED)
    same("commit", commit(s), "")
    same("no error", s.text("error"), "")
    same("what the host has", tree(top), AFTER)
    same("nothing is left over", [n for n in os.listdir(top) if n.startswith(".")], [])
    same("whose it is", {os.lstat(f"{top}/{n}").st_uid for n in AFTER}, {os.geteuid()})
    has("an event", read_events(host), b"10 of 10 changes made")
    same("the session goes on", s.run("cat added; echo again >> text\n").out, "x\n")
    same("and has further changes", s.text("files.changes"), "M text\n")
    s.remove()
    same("without a commit nothing comes of them", read(f"{top}/text"), b"hello\nmore\n")
    host.close()


def read_events(host):
    fd = os.open(f"{host.mnt}/events", os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(fd, 1 << 20)
    finally:
        os.close(fd)


def when_dead():
    """The changes outlive the sandbox; the files do not."""
    top = scene("dead")
    host = Host("dead.daemon", TEMPLATE.format(top))
    for name, end in ("closed", lambda s: s.ctl("close")), ("killed", lambda s: os.kill(s.pid(), 9)):
        s = host.session(name)
        s.run(f"echo {name} > {name}; rm -f text\n")
        end(s)
        ok("it is closed", s.wait_state("closed"))
        with raises("files/ is gone", errno.ESTALE):
            os.listdir(s / "files")
        has("the list", s.text("files.changes"), f"A {name}\n")
        commit(s)
        same("taken over", (read(f"{top}/{name}"), os.path.exists(f"{top}/text")),
             (f"{name}\n".encode(), False))
        s.ctl("reset")
        same("after a reset there is nothing", s.text("files.changes"), "")
        same("and it begins with the host's", s.run(f"cat {name}\n").out, f"{name}\n")
    host.close()


def discard():
    top = scene("discard")
    before = tree(top)
    host = Host("discard.daemon", TEMPLATE.format(top))
    s, other = host.session("one"), host.session("other")
    s.run("echo x > text; rm -r sub\n")
    other.run("echo other > mine\n")
    s.ctl("discard")
    same("state", s.word(), "new")
    same("no changes", s.text("files.changes"), "")
    same("the host's again", s.run("cat text sub/a\n").out, "hello\na")
    same("another session keeps its own", other.text("files.changes"), "A mine\n")
    same("the host's are as they were", tree(top), before)
    host.close()


def busy():
    top = scene("busy")
    host = Host("busy.daemon", TEMPLATE.format(top))
    s = host.session("one")
    s.submit("echo half > text; sleep 60\n")
    s.wait_state("running")
    for verb in "commit", "discard":
        with raises(f"{verb} during a run", errno.EBUSY):
            s.ctl(verb)
        has("in words", s.text("error"), "a run is active")
    ok("the list can be had", wait_for(lambda: s.text("files.changes") == "M text\n"))
    s.ctl("kill")
    s.wait_state("idle")
    same("commit", commit(s), "")
    same("taken over", read(f"{top}/text"), b"half\n")
    host.close()


def hostile():
    top = scene("hostile")
    elsewhere = folder("elsewhere")
    write(f"{elsewhere}/x", "theirs")
    os.symlink(elsewhere, f"{top}/out")
    os.makedirs(f"{top}/swapped")
    write(f"{top}/swapped/x", "mine")
    host = Host("hostile.daemon", TEMPLATE.format(top))
    s = host.session("one", config="timeout_s = 60\n")
    run = s.run("""
rm out; mkdir out; echo evil > out/x
echo evil > swapped/x
ln -s /etc/passwd absolute; ln -s ../../etc/passwd relative; ln -s sub/../../x through
ln -s . here; ln -s here/here/../../../x through2
mkfifo fifo; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
echo n > $'new\\nline'; echo n > $'\\e[31mred'; echo n > $'back\\\\slash'; echo n > $'latin\\xe9'; echo n > "ümlaut"
cp /bin/true setid; chmod 6755 setid
truncate -s 3T sparse; echo end >> sparse
d=.; for i in $(seq 150); do d=$d/d; done; mkdir -p $d; echo deep > $d/x
""")
    same("made", run.stderr, b"")
    os.rename(f"{top}/swapped", f"{top}/was")
    os.symlink(elsewhere, f"{top}/swapped")
    listed = s.text("files.changes")
    for line in "A new\\012line", "A \\033[31mred", "A back\\134slash", "A latin\\351", "A ümlaut", \
            "A fifo", "M out":
        has("escaped", f"\n{listed}", f"\n{line}\n")
    left = commit(s)
    same("not taken over", [n for n in left.split("\n") if "d/d" not in n],
         ["A absolute", "A fifo", "A relative", "A socket", "A through", "A through2", ""])
    has("in words", s.text("error"), "fifo: links that lead elsewhere, devices")
    same("nothing elsewhere", tree(elsewhere), {"x": ("0o100644", b"theirs")})
    same("links were replaced", (os.path.islink(f"{top}/out"), os.path.islink(f"{top}/swapped")),
         (False, False))
    same("by what is meant", (read(f"{top}/out/x"), read(f"{top}/swapped/x")), (b"evil\n", b"evil\n"))
    same("no set-id bits", oct(os.stat(f"{top}/setid").st_mode), "0o100755")
    info = os.stat(f"{top}/sparse")
    same("holes stay", (info.st_size, info.st_blocks * 512 < 1 << 20), (3 << 40 | 4, True))
    same("no links out", [n for n in os.listdir(top) if os.path.islink(f"{top}/{n}")], ["here", "link"]
         if os.listdir(top).index("here") < os.listdir(top).index("link") else ["link", "here"])
    host.close()


def quota():
    top = scene("quota")
    host = Host("quota.daemon", TEMPLATE.format(top))
    s = host.session("one", config="memory_mb = 128\n")
    run = s.run("head -c 200000000 /dev/zero > big; stat -c %s big; rm big\n")
    has("bytes", run.err, "No space left")
    ok("about what statfs says", int(run.out) < 1 << 26, run)
    s.run("mkdir many\n")
    run = s.run("cd many; for i in $(seq 70000); do : > $i || break; done\n")
    has("inodes", run.err, "No space left")
    same("and the host had none of it", sorted(os.listdir(top)), ["link", "private", "sub", "text"])
    host.close()


def listed_after_changes():
    """Each name once, wherever what is below puts "." and "..", which depends on the names' hashes."""
    names = [f"f{i}" for i in range(24)]
    top = folder("listed", mode=0o755)
    for name in names:
        os.mkdir(f"{top}/d_{name}")
        write(f"{top}/d_{name}/{name}", "1\n")
    host = Host("listed.daemon", TEMPLATE.format(top))
    s = host.session("one")
    same("changed inside", s.run("for f in */*; do echo x >>$f; done\n").code, 0)
    for name in names:
        status, out, _ = shell(f"timeout {SOON:.0f} ls -f {s / 'files'}/d_{name} | head -n 100")
        same(f"names of d_{name}", sorted(out.split()), sorted([b".", b"..", name.encode()]))
    host.close()


def owners():
    """Root's daemon: the owner's rights, and no others."""
    if os.geteuid():
        return
    top = scene("owners", ALICE)
    write(f"{top}/roots", "root's\n")
    host = Host("owners.daemon", TEMPLATE.format(top) + "pool = 1\n", "allow_other")
    for turn in range(2):
        path = f"{host.mnt}/shown/alice"

        def use():
            os.mkdir(path)
            write(f"{path}/in", f"cat private roots; echo {turn} > new; echo x > roots\n")
            out = read(f"{path}/stdout")
            write(f"{path}/ctl", "commit\n")
            out += read(f"{path}/files.changes") + read(f"{path}/error")
            os.rmdir(path)
            return out
        same("hers", as_user(ALICE, use), b"secret\nroot's\n")
        info = os.stat(f"{top}/new")
        same("the new file", (info.st_uid, info.st_gid, read(f"{top}/new")),
             (ALICE, ALICE, f"{turn}\n".encode()))
    same("root's is root's", (os.stat(f"{top}/roots").st_uid, read(f"{top}/roots")), (0, b"root's\n"))
    # What the owner may not write to, a commit does not either.
    os.chown(f"{top}/sub", 0, 0)
    path = f"{host.mnt}/shown/again"

    def again():
        os.mkdir(path)
        write(f"{path}/in", "echo changed > sub/a; echo $?\n")
        return read(f"{path}/stdout")
    same("a directory of root's", as_user(ALICE, again), b"1\n")
    host.close()


def unprivileged():
    if os.geteuid():
        return
    top = scene("hers", MEMBER)
    host = Host("hers.daemon", TEMPLATE.format(top), uid=MEMBER)
    path = f"{host.mnt}/shown/s"

    def use():
        os.mkdir(path)
        write(f"{path}/in", CHANGE)
        read(f"{path}/exit_code")
        listed = read(f"{path}/files.changes").decode()
        write(f"{path}/ctl", "commit\n")
        rest = read(f"{path}/files.changes").decode()
        os.rmdir(path)
        return listed, rest
    same("the list, and what is left of it", as_user(MEMBER, use), (LISTED, ""))
    same("what she has", tree(top), AFTER)
    same("it is hers", {os.lstat(f"{top}/{n}").st_uid for n in AFTER}, {MEMBER})
    as_user(MEMBER, lambda: os.kill(host.daemon.pid, 15))
    same("the daemon ends", host.daemon.wait(SOON), 0)


def mistakes():
    base = "[template shown]\nlanguage = raw\nbackend = process\n"
    write(f"{SCRATCH}/file", "")
    for value, words in (("relative", "does not begin with /"), ("/nowhere/at/all", "No such file"),
                         (f"{SCRATCH}/file", "not a directory"), ("/", "more than files")):
        has(f"work = {value}", refused(f"{base}work = {value}\n"), words)
    has("no machines", refused("[template raw]\nbackend = microvm\nwork = /srv\n"), "not for a microvm")
    host = Host("mistakes.daemon", "")
    s = host.session("plain", template="raw")
    same("no such node elsewhere", os.path.exists(s / "files.changes"), False)
    for verb in "commit", "discard":
        with raises(f"nor {verb}", errno.EINVAL):
            s.ctl(verb)
    has("in words", s.text("error"), "no copy of a directory")
    with raises("nor by config", errno.EINVAL):
        write(s / "config", "work = /etc\n")
    host.close()


main(taken_over, when_dead, discard, busy, hostile, quota, listed_after_changes,
     owners, unprivileged, mistakes)
