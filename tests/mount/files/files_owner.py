#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whose files/ are. A repository can name programs for git to run, so git must take those of a sandbox
for somebody else's, unless it is told; and yet whoever owns the session can do everything with
them. The same repository in an ordinary directory has its program run."""
# backends: local process vm
# timeout: 120
from hosts import *

ran = f"{SCRATCH}/ran/here"
GIT = f"env -i PATH={os.environ['PATH']} HOME={SCRATCH}/home GIT_CONFIG_NOSYSTEM=1 git "
IDENTITY = "-c user.name=x -c user.email=x@example.com "


def has_run():
    there = os.path.exists(ran)
    if there:
        os.unlink(ran)
    return there


def as_owner(uid, command):
    """Return: (status, all that was said)."""
    def run():
        status, out, err = shell(command, cwd="/")
        return status, (out + err).decode(errors="replace")
    return as_user(uid, run) if uid is not None else run()


def plain():
    """The control, and what the others are copies of."""
    os.makedirs(f"{SCRATCH}/home")
    os.makedirs(f"{SCRATCH}/ran")
    os.chmod(SCRATCH, 0o755)
    os.chmod(f"{SCRATCH}/ran", 0o777)
    top = f"{SCRATCH}/plain"
    status, said = as_owner(None, f"{GIT} init -q {top} && echo x > {top}/x && {GIT} -C {top} add x && "
                            f"{GIT} -C {top} {IDENTITY} commit -qm x && "
                            f"{GIT} -C {top} config core.fsmonitor 'touch {ran} #'")
    same("control: a repository", (status, said), (0, ""))
    same("control: git looks", as_owner(None, f"{GIT} -C {top} status")[0], 0)
    ok("control: and runs what it says", has_run())


def look(files, uid=None):
    """By the owner of the session that has these files."""
    for what, repo in (("copied in", "copied"), ("made inside", "inside"), ("begun by the host", "begun")):
        for command in "status", "log", "add x":
            status, said = as_owner(uid, f"{GIT} -C {files}/{repo} {command}")
            ok(f"{what}: git {command} refuses", status != 0 and "dubious ownership" in said, said)
        ok(f"{what}: nothing is run", not has_run())
    status, said = as_owner(uid, f"{GIT} -C {files}/inside/.git log")
    ok("within a bare one", status != 0 and "dubious ownership" in said, said)
    # The exception that git asks for.
    safe = f"{GIT} -c safe.directory={files}/inside -C {files}/inside"
    same("told so, git looks", as_owner(uid, f"{safe} status")[0], 0)
    ok("and runs what it says", has_run())
    same("told so, git works", as_owner(
        uid, f"{safe} config --unset core.fsmonitor; echo y > {files}/inside/y; {safe} add y; "
        f"{safe} {IDENTITY} commit -qm y; {safe} status --porcelain; {safe} gc -q"), (0, ""))


def fill(s, uid=None):
    """The repositories, two of them altered inside."""
    files = s / "files"
    same("cp -a", as_owner(uid, f"cp -a {SCRATCH}/plain {files}/copied"
                           if uid is None else f"cp -r {SCRATCH}/plain {files}/copied"), (0, ""))
    same("git init", as_owner(uid, f"{GIT} init -q {files}/begun")[0], 0)
    as_owner(uid, f"printf %s 'cp -r copied inside; cat inside/.git/config > begun/.git/config; "
             f"ls -d inside/.git' > {s / 'in'}")
    same("altered inside", as_owner(uid, f"cat {s / 'stdout'}"), (0, "inside/.git\n"))
    return files


def everything(top, uid):
    """What an owner does with his files, and no one else may."""
    def check(what, command, want=(0, "")):
        same(f"{uid}: {what}", as_owner(uid, f"cd {top} && {command}"), want)
    check("makes", "mkdir d && echo text > d/f && ln -s f d/l && chmod 700 d && stat -c %a d d/f",
          (0, "700\n644\n") if uid is None else (0, "700\n644\n"))
    check("times", "touch -d 2020-02-02T00:00Z d/f d && stat -c %Y d d/f", (0, "1580601600\n" * 2))
    check("modes", "chmod 400 d/f && stat -c %a d/f && test -r d/f && ! test -x d/f && chmod 600 d/f",
          (0, "400\n"))
    check("cp -p", "cp -p d/f d/g && cmp d/f d/g && test ! d/f -nt d/g")
    check("removes where it is sticky", "mkdir t && chmod 1777 t && echo x > t/x && rm t/x && rmdir t")
    check("copies a tree in and out", f"cp -a d e && cp -a e $TMP/out && diff -r d $TMP/out && rm -r e"
          .replace("$TMP", f"{SCRATCH}/ran"))
    as_owner(uid, f"rm -r {SCRATCH}/ran/out")
    check("tar", "tar -cf t.tar d && mkdir u && tar -C u -xf t.tar && diff -r d u/d")
    if shutil.which("rsync"):
        check("rsync -a", "rsync -a d/ r && diff -r d r && rsync -ai d/ r")
    check("edits in place", "sed -i s/text/TEXT/ d/f && cat d/f", (0, "TEXT\n"))
    check("renames", "mv d/f d/h && mv d v && cat v/h && rm -r v", (0, "TEXT\n"))
    if uid is not None:
        check("is told what may be read", "test -r ../stdout && ! test -w ../stdout && test -w ../in && "
              "test -x . && ! test -r ../ctl")
        status, _ = as_owner(uid, f"echo x > {top}/../stdout")
        ok("and can't do more", status != 0)


def owners(files):
    return {os.lstat(f"{files}/{name}").st_uid for name in ("copied", "copied/.git", "copied/x")}


def root():
    if os.getuid():
        skip("needs root, to be two users")
    s = Session("root")
    s.run("true\n")
    files = fill(s)
    same("nobody's", owners(files), {65534})
    same("the directory itself", os.stat(files).st_uid, 0)
    look(files)
    everything(files, None)
    has("isolation says so", read(f"{MNT}/isolation", "r"), "owner: files of root's sessions are shown as nobody's")
    os.chown(f"{files}/copied/x", 0, 0)
    os.chown(f"{files}/copied/x", 65534, 65534)
    with raises("no other owner", errno.EPERM):
        os.chown(f"{files}/copied/x", ALICE, -1)
    s.remove()


def alone():
    """A user's own mount."""
    if VM:
        return
    if not as_user(MEMBER, lambda: os.access(os.environ["XSBXFS"], os.X_OK)):
        print("(no mount of another user's: the program lies where he can't get)")
        return
    host = Host("hers", "", uid=MEMBER)
    path = f"{host.mnt}/raw/s"
    same("she makes one", as_user(MEMBER, lambda: os.mkdir(path)), None)
    session = Session.__new__(Session)
    session.path = path
    files = fill(session, MEMBER)
    same("nobody's to her, too, where git looks", as_user(MEMBER, lambda: owners(files)),
         {65534, MEMBER})
    same("which is at directories", as_user(MEMBER, lambda: [
        os.lstat(f"{files}/{name}").st_uid for name in ("copied", "copied/.git", "inside/.git")]),
         [65534] * 3)
    look(files, MEMBER)
    everything(files, MEMBER)
    with raises("and others stay out", errno.EACCES):
        os.listdir(host.mnt)
    as_user(MEMBER, lambda: os.rmdir(path))
    as_user(MEMBER, lambda: os.kill(host.daemon.pid, 15))
    same("the daemon ends", host.daemon.wait(SOON), 0)


def shared():
    """For everybody: the kernel checks permissions, so only root's can be nobody's."""
    if VM:
        return
    host = Host("shared", "", "allow_other")
    s = host.session("root", "raw")
    s.run("true\n")
    files = fill(s)
    same("root's are nobody's", owners(files), {65534})
    look(files)
    path = f"{host.mnt}/raw/alice"
    same("alice makes one", as_user(ALICE, lambda: os.mkdir(path)), None)
    same("and files", as_user(ALICE, lambda: write(f"{path}/files/x", "x")), None)
    same("which are shown as hers", os.stat(f"{path}/files/x").st_uid, ALICE)
    has("isolation says so", read(f"{host.mnt}/isolation", "r"), "and their git DOES")
    everything(f"{path}/files", ALICE)
    ok("bob is kept out", as_user(BOB, lambda: read(f"{path}/files/x")) == "EACCES")
    as_user(ALICE, lambda: os.rmdir(path))
    s.remove()
    host.close()


need("git")
main(plain, root, alone, shared)
