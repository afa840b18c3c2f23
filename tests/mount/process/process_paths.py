#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of the host in process sandboxes: `ro` and `rw` of a template."""
# backends: process
# timeout: 120
# mount: none
# log-allow: did not start
from hosts import *

TEMPLATE = """[template shown]
language = raw
ro = {ro}
rw = {rw}
"""
ROOT = os.geteuid() == 0
GROUP = 7


def shown():
    ro, rw = folder("ro"), folder("rw", mode=0o755)
    write(f"{ro}/text", "of the host\n")
    write(f"{rw}/text", "before\n")
    host = Host("shown", TEMPLATE.format(ro=f"{ro} {ro}/text:/etc/shown", rw=f"{rw}:/srv/work"))
    s = host.session("one")
    same("a directory is seen", s.run(f"cat {ro}/text\n").out, "of the host\n")
    same("and a file, elsewhere", s.run("cat /etc/shown\n").out, "of the host\n")
    for what in f"echo x > {ro}/new", f"rm {ro}/text", f"chmod 600 {ro}/text", "echo x > /etc/shown":
        run = s.run(f"{{ {what}; }} 2>&1\n")
        ok(f"read-only: {what}", run.code != 0 and "Read-only" in run.out, run)
    same("the other is not where it was", s.run(f"test -e {rw}\n").code, 1)
    same("what is written", s.run("cat /srv/work/text; echo after > /srv/work/text; mkdir /srv/work/d; "
                                  "ln -s text /srv/work/link; stat -c %u /srv/work/text\n").out,
         "before\n1000\n")
    same("arrives", (read(f"{rw}/text"), os.readlink(f"{rw}/link")), (b"after\n", "text"))
    same("and belongs to the session's owner", {os.lstat(f"{rw}/{n}").st_uid for n in ("d", "link")},
         {os.geteuid()})
    has("config shows them", s.text("config"), f"\nrw = {rw}:/srv/work\n")
    write(s / "config", s.text("config"))
    with raises("and can't change them", errno.EINVAL):
        write(s / "config", "ro = /etc\n")
    has("as is said", s.text("error"), "only the configuration file")
    host.close()


def handed_over():
    """Through a socket in a directory that two sessions share, one gets an open file of the other's: what it writes
    there is seen."""
    rw = folder("handed", mode=0o755)
    host = Host("handed", TEMPLATE.format(ro="", rw=rw).replace("raw", "python"))
    giver, taker = host.session("giver"), host.session("taker")
    write(taker / "in", f"""import os, socket, time
s = socket.socket(socket.AF_UNIX); s.bind({rw!r} + '/s'); s.listen(1)
c, _ = s.accept(); fds = socket.recv_fds(c, 10, 1)[1]
while not os.path.exists({rw!r} + '/go'): time.sleep(0.05)
os.write(fds[0], b'newer, and longer')
print('written')
""")
    ok("it listens", wait_for(lambda: os.path.exists(f"{rw}/s"), SOON))
    run = giver.run(f"""import os, socket
s = socket.socket(socket.AF_UNIX); s.connect({rw!r} + '/s')
socket.send_fds(s, [b'x'], [os.open('victim', os.O_CREAT | os.O_WRONLY)]); s.close()
""")
    same("it is handed over", (run.code, run.err), (0, ""))
    for _ in range(30):
        os.statvfs(giver / "files")
        same("empty", (os.stat(giver / "files/victim").st_size, read(giver / "files/victim")), (0, b""))
    held = os.open(giver / "files/victim", os.O_RDONLY)
    same("empty, still", os.pread(held, 100, 0), b"")
    write(f"{rw}/go", "")
    same("the other writes", read(taker / "stdout"), b"written\n")
    same("and that is seen", (os.stat(giver / "files/victim").st_size, os.pread(held, 100, 0)),
         (17, b"newer, and longer"))
    os.close(held)
    host.close()


def set_id():
    """What the sandbox makes belongs to a user of the host: nobody may run it in his name."""
    rw = folder("setid", mode=0o777)
    host = Host("setid", TEMPLATE.format(ro="", rw=rw))
    s = host.session("one")
    s.run(f"cp /bin/sh {rw}/sh; cp /bin/sh {rw}/control; chmod 4755 {rw}/sh; chmod 2755 {rw}/sh; "
          f"chmod 755 {rw}/control; install -m 4755 /bin/sh {rw}/installed; mkdir -m 2755 {rw}/d\n")
    same("modes", {n: oct(os.stat(f"{rw}/{n}").st_mode & 0o6000) for n in os.listdir(rw)
                   if n != "d"}, {n: "0o0" for n in os.listdir(rw) if n != "d"})
    same("other changes of mode work", os.stat(f"{rw}/control").st_mode & 0o777, 0o755)
    program = ("import os, ctypes\n"
               f"fd = os.open('{rw}', os.O_RDWR | 0o20200000, 0o6755)\n"
               "print('POSSIBLE')\n")
    s.run(f"cat > p.py <<'END'\n{program}END\n")
    same("not by O_TMPFILE either", b"POSSIBLE" in s.run("python3 p.py\n").stdout, False)
    program = program.replace("0o6755", "0o755")
    s.run(f"cat > p.py <<'END'\n{program}END\n")
    same("which works otherwise", s.run("python3 p.py\n").out, "POSSIBLE\n")
    host.close()


def owners():
    """Root mounts for everybody: each session has the rights of its owner, and no others."""
    if not ROOT:
        return
    rw = folder("owners", mode=0o777)
    for name, uid in ("alices", ALICE), ("bobs", BOB), ("roots", 0):
        os.makedirs(f"{rw}/{name}", mode=0o700)
        os.chown(f"{rw}/{name}", uid, uid)
        write(f"{rw}/{name}/secret", name)
        os.chown(f"{rw}/{name}/secret", uid, uid)
    host = Host("owners", TEMPLATE.format(ro="", rw=rw) + "pool = 2\n", "allow_other")
    path = f"{host.mnt}/shown/alice"

    def run(code):
        def there():
            write(f"{path}/in", code)
            return read(f"{path}/stdout").decode()
        return as_user(ALICE, there)

    for turn in range(3):
        as_user(ALICE, lambda: os.mkdir(path))
        same("her own", run(f"cat {rw}/alices/secret; echo new > {rw}/alices/new{turn}\n"), "alices")
        same("nobody else's", run(f"cat {rw}/bobs/secret {rw}/roots/secret; echo $?\n"), "1\n")
        same("not to write either", run(f"echo x > {rw}/roots/secret; echo $?\n"), "1\n")
        same("a file of hers", os.stat(f"{rw}/alices/new{turn}").st_uid, ALICE)
        as_user(ALICE, lambda: os.rmdir(path))
        # By now there may be some in the pool that were made for her.
        bob = f"{host.mnt}/shown/bob"
        as_user(BOB, lambda: os.mkdir(bob))
        same("bob's are not hers", as_user(BOB, lambda: (
            write(f"{bob}/in", f"cat {rw}/alices/secret {rw}/bobs/secret\n"),
            read(f"{bob}/stdout"))[1]), b"bobs")
        as_user(BOB, lambda: os.rmdir(bob))
    host.close()


def groups():
    """What is its owner's is his to write, whatever group it has: also root's, whose own is another one."""
    if not ROOT:
        return
    rw, work, hers = folder("groups"), folder("groups.work"), folder("groups.hers", ALICE, 0o755)
    for where, uid in (rw, 0), (work, 0), (hers, ALICE):
        os.chown(where, uid, GROUP)
        write(f"{where}/text", "old")
        os.chown(f"{where}/text", uid, GROUP)
        write(f"{where}/closed", "of that group")
        os.chown(f"{where}/closed", BOB, GROUP)
        os.chmod(f"{where}/closed", 0o660)
    conf = "".join(f"[template {name}]\nlanguage = raw\n{key} = {path}\n" for name, key, path in (
        ("shown", "rw", rw), ("work", "work", work), ("hers", "rw", hers)))
    host = Host("groups.daemon", conf, "allow_other")
    code = "cd {}; echo add >> text; echo made > new; cat closed; cat text new\n"
    s = host.session("one")
    same("root", s.run(code.format(rw)).out, "oldadd\nmade\n")
    same("a group that it had stays", (os.stat(f"{rw}/text").st_gid, os.stat(f"{rw}/new").st_gid), (GROUP, 0))
    run = host.session("two", "work").run("echo add >> text; cat text\n")
    same("root, on top of a directory", run.out, "oldadd\n")

    def use():
        path = f"{host.mnt}/hers/one"
        os.mkdir(path)
        write(f"{path}/in", code.format(hers))
        return read(f"{path}/stdout").decode(), read(f"{path}/stderr").decode().count("Permission denied")
    same("a user, but not with that group's rights", as_user(ALICE, use), ("oldadd\nmade\n", 1))
    same("her files", [(os.stat(f"{hers}/{n}").st_uid, os.stat(f"{hers}/{n}").st_gid) for n in ("text", "new")],
         [(ALICE, GROUP), (ALICE, ALICE)])
    host.close()


def unprivileged():
    """A user's own daemon: the sandbox has the user's id, and sees what it is shown."""
    if not ROOT:
        return
    rw, ro = folder("hers", MEMBER, 0o700), folder("hers.ro", MEMBER, 0o700)
    write(f"{ro}/text", "hers\n")
    other = folder("roots.ro", mode=0o755)
    host = Host("hers.daemon", TEMPLATE.format(ro=f"{ro} {other}", rw=rw), uid=MEMBER)
    path = f"{host.mnt}/shown/s"

    def use():
        os.mkdir(path)
        write(f"{path}/in", f"cat {ro}/text; echo new > {rw}/new; echo x > {ro}/new; echo $?\n")
        out = read(f"{path}/stdout").decode()
        os.rmdir(path)
        return out
    same("she uses it", as_user(MEMBER, use), "hers\n1\n")
    same("a file of hers", os.stat(f"{rw}/new").st_uid, MEMBER)
    as_user(MEMBER, lambda: os.kill(host.daemon.pid, 15))
    same("the daemon ends", host.daemon.wait(SOON), 0)


def swapped():
    """A path that becomes a link after the start is not followed."""
    ro = folder("swapped/a")
    secret = folder("secret")
    write(f"{secret}/text", "secret")
    host = Host("swapped.daemon", TEMPLATE.format(ro=ro, rw="") + "pool = 0\n")
    os.rmdir(ro)
    os.symlink(secret, ro)
    s = host.session("one")
    s.run("true\n")
    same("it does not start", s.word(), "failed")
    has("and says so", s.text("error"), "symbolic links")
    os.unlink(ro)
    s.ctl("reset")
    s.run("true\n")
    has("nor without it", s.text("error"), "No such file")
    os.mkdir(ro)
    s.ctl("reset")
    same("with it, it does", s.run(f"ls {ro}; echo on\n").out, "on\n")
    host.close()


def ready(host):
    kinds = json.loads(read(f"{host.mnt}/status.json"))["snapshots"]
    return max([kind["pool"]["ready"] for kind in kinds if kind["pool"]["target"]], default=0)


def replaced():
    """A session shows what has the path's name when it begins, whatever was made ahead for it."""
    rw = folder("replaced/a")
    for pool in 0, 1:
        host = Host(f"replaced{pool}", TEMPLATE.format(ro="", rw=rw) + f"pool = {pool}\n")
        for n in range(3):
            # From the second on, what was made ahead shows the directory of before.
            ok("a pool", n == 0 or wait_for(lambda: ready(host) >= pool, 20))
            time.sleep(0.3)
            shutil.rmtree(rw)
            os.mkdir(rw)
            host.session(f"s{n}").run(f"echo {n} > {rw}/{n}\n")
            same(f"pool of {pool}: it is the one that is there", os.listdir(rw), [str(n)])
        host.close()


def mistakes():
    base = "[template shown]\nlanguage = raw\nbackend = process\n"
    for key, value, words in (
            ("ro", "relative", "does not begin with /"),
            ("ro", "/nowhere/at/all", "No such file"),
            ("ro", "/", "more than files"),
            ("rw", "/proc/sys", "more than files"),
            ("ro", "/run", "more than files"),
            ("ro", "/etc:/tmp", "has /tmp of its own"),
            ("ro", "/etc:/proc/x", "has /proc of its own"),
            ("ro", "/etc:/home", "has /home/user of its own"),
            ("ro", "/etc:/home/user/x", "has /home/user of its own"),
            ("ro", "/etc:relative", "nothing can be shown at"),
            ("ro", "/etc:/a/../tmp", "nothing can be shown at"),
            ("ro", "/etc:/a/", "nothing can be shown at"),
            ("ro", " ".join(f"/etc:/a{n}" for n in range(17)), "more than 16")):
        has(f"{key} = {value[:30]}", refused(f"{base}{key} = {value}\n"), words)
    has("machines have none", refused("[template raw]\nbackend = microvm\nro = /etc\n"),
        "not for a microvm")
    same("what is right is taken", " ro: " in refused(f"{base}ro = /etc:/srv/etc\n"), False)
    ro = folder("mistakes")
    host = Host("mistakes.daemon", TEMPLATE.format(ro=ro, rw=""))
    s = host.session("one")
    with raises("nor has a session", errno.EINVAL):
        write(s / "config", "backend = microvm\n")
    has("in words", s.text("error"), "not for a microvm")
    host.close()


main(shown, handed_over, set_id, owners, groups, unprivileged, swapped, replaced, mistakes)
