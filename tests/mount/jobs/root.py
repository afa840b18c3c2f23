#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs as root: in machines whose template allows it, over their own system, and nowhere else."""
# backends: process vm
# timeout: 120
# conf: [template admin]
# conf: image = raw
# conf: language = raw
# conf: backend = microvm
# conf: root = yes
from xsbx import *

# What takes rights that root has on his own machine, and not in a sandbox. Each in namespaces of its own, for the control.
BEYOND = {
    "file systems": "mkdir -p /tmp/m && mount -t tmpfs none /tmp/m",
    "devices": "rm -f /tmp/device; mknod /tmp/device c 1 3",
    "the network": "ip link set lo mtu 1400",
    "what others hold": "cat /proc/{pid}/environ",
    "host name": "hostname other || echo other > /proc/sys/kernel/hostname",
}


# CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID NET_BIND_SERVICE SYS_CHROOT SETFCAP, in linux/capability.h
HELD = 0, 1, 3, 4, 5, 6, 7, 10, 18, 31


class Root:
    """Jobs of a session."""

    def __init__(self, session):
        self.session, self.count = session, 0

    def make(self, code, user="root", config=""):
        self.count += 1
        job = f"{self.session.path}/jobs/{self.count}"
        os.mkdir(job)
        write(f"{job}/config", f"user = {user}\n{config}")
        write(f"{job}/in", code)
        return job

    def run(self, code, **options):
        job = self.make(code, **options)
        result = Result(read(f"{job}/stdout"), read(f"{job}/stderr"), int(read(f"{job}/exit_code")))
        os.rmdir(job)
        return result

    def out(self, code, **options):
        return self.run(code, **options).out


def where_nobody_may():
    for template, backend in ("raw", BACKEND.replace("vm", "microvm")), ("admin", "microvm"):
        s = Session("plain", template)
        has("backend", s.text("config"), f"backend = {backend}")
        with raises(f"{template}: a session can't say so", errno.EINVAL, errno.EPERM, errno.EACCES):
            write(s / "config", f"root = {'no' if template == 'admin' else 'yes'}\n")
        s.remove()
    s = Session("plain")
    os.mkdir(s / "jobs/a")
    with raises("not where the template does not", errno.EPERM, errno.EINVAL):
        write(s / "jobs/a/config", "user = root\nargv = id\n")
    has("as is said", s.text("jobs/a/error"), "user: the template allows no root" if VM else "user: root is there in machines only")
    write(s / "jobs/a/config", "user = user\nargv = id -u\n")
    write(s / "jobs/a/ctl", "start\n")
    ok("so it is the user's", read(s / "jobs/a/stdout") != b"0\n")
    same("who has no more rights", s.run("echo x >/etc/passwd\n").code, 1)
    done = subprocess.run([os.environ["XSBXFS"], "-f", "-c", "/dev/stdin", "-o", "allow_process=yes", SCRATCH], text=True,
                          capture_output=True, input="[template p]\nbackend = process\nlanguage = raw\nroot = yes\n")
    ok("processes have none", done.returncode and "root" in done.stderr and "microvm" in done.stderr, done)


def is_root():
    s = Session("who", "admin")
    root = Root(s)
    same("who it is", root.out('echo $(whoami) $(id -G) $HOME $USER $LOGNAME; umask\n'), "root 0 /root root root\n0022\n")
    has("where its programs are", root.out("echo $PATH\n"), "/usr/sbin:")
    same("others are not", (s.run("id -u\n").out, root.out("id -u\n", user="user")), ("1000\n", "1000\n"))
    same("its variables are its own", root.out("echo $HOME $A\n", config="env.HOME = /tmp\nenv.A = b\n"), "/tmp b\n")
    os.mkdir(s / "runs/mine")
    with raises("a run of the interpreter is the user's", errno.EINVAL):
        write(s / "runs/mine/config", "user = root\n")


def changes():
    s = Session("changes", "admin")
    root = Root(s)
    same("before", s.run("cat /etc/note; cat /usr/bin/greet\n").code, 1)
    same("root writes", root.run("echo note >/etc/note; printf '#!/bin/sh\\necho hello\\n' >/usr/local/bin/greet\n"
                                 "chmod 755 /usr/local/bin/greet; rm /usr/bin/file; mkdir -p /opt/a/b\n").code, 0)
    same("it is there for all", s.run("cat /etc/note; greet; ls -d /usr/bin/file /opt/a/b 2>/dev/null\n").out,
         "note\nhello\n/opt/a/b\n")
    for what in "echo x >/etc/note", "rm -rf /opt/a/b", "chmod 777 /usr/local/bin/greet", "chown user /etc/note":
        ok(f"the user can't: {what}", s.run(f"{what}\n").code != 0)
    same("files are everybody's", (root.run("echo r >from_root; chown user:user from_root\n").code, read(s / "files/from_root")),
         (0, b"r\n"))
    other = Session("other", "admin")
    same("another sandbox has its own system", other.run("cat /etc/note\n").code, 1)
    s.ctl("reset")
    same("a fresh interpreter is in the same system", s.run("cat /etc/note\n").out, "note\n")
    s.ctl("close")
    ok("the sandbox ends", s.wait_state("closed", SOON))
    s.ctl("reset")
    same("and the changes with it", s.run("cat /etc/note; ls /usr/bin/file\n").out, "/usr/bin/file\n")


def other_users():
    s = Session("users", "admin")
    root = Root(s)
    made = root.run("adduser --comment '' --disabled-password ann && runuser -u ann -- whoami\n")
    same("a user is made", (made.code, made.out.splitlines()[-1:]), (0, ["ann"]))
    has("he has a home", root.out("runuser -l ann -c 'echo $HOME; id -u'\n"), "/home/ann\n1001\n")
    same("his files are his", (root.run("runuser -u ann -- sh -c 'echo x >~ann/f; chmod 600 ~ann/f'\n").code,
                               s.run("cat /home/ann/f\n").code), (0, 1))
    same("he is removed", root.run("userdel -r ann && ! id ann\n").code, 0)
    # The control is the user's own attempt.
    listen = "(timeout 20 nc -l 127.0.0.1 80 </dev/null & for i in $(seq 100); do echo hi | nc -N 127.0.0.1 80 && exit; sleep 0.1; done)\n"
    has("ports below 1024", root.out(listen), "hi")
    has("the user has none", s.run("nc -l 127.0.0.1 80 2>&1 </dev/null\n").out, "Permission denied")


def bounds():
    s = Session("bounds", "admin")
    root = Root(s)
    pid = s.run("echo $$\n").out.strip()
    held = sum(1 << n for n in HELD)
    same("rights over the kernel", root.out("grep -E 'NoNewPrivs|CapEff|CapBnd|Seccomp:' /proc/self/status | cut -f2\n"),
         f"{held:016x}\n{held:016x}\n1\n2\n")
    for what, code in BEYOND.items():
        if os.getuid() == 0:
            control = subprocess.run(["unshare", "-mnu", "sh", "-c", code.format(pid=1)], capture_output=True)
            same(f"control: {what}", control.returncode, 0)
        got = root.run(f"{{ {code.format(pid=pid)}; }} 2>&1\n")
        ok(f"root has none over {what}", got.code != 0, got)
    same("nor by a set-id program", root.out("cp /usr/bin/id /usr/local/bin/rid; chmod 4755 /usr/local/bin/rid\n"
                                             "runuser -u user -- /usr/local/bin/rid -u\n"), "1000\n")
    job = root.make("kill -9 1; kill -9 -1; sleep 1000\n")
    read(f"{job}/output")
    ok("what root has ended is not made up", read(f"{job}/state") in (b"lost\n", b"done\n"), read(f"{job}/state"))
    os.rmdir(job)
    same("the agent is not root's to end", root.out("echo still\n"), "still\n")
    got = root.run("head -c 1G /dev/zero 2>&1 >/var/big; echo $?; rm /var/big; echo room >/etc/room; cat /etc/room\n")
    ok("the system has a limit", "No space left" in got.out and got.out.endswith("1\nroom\n"), got)


def removal():
    s = Session("removal", "admin", config="timeout_s = 600\n")  # on a busy host all of this takes longer than a job may by itself
    root = Root(s)
    beat = "while :; do date +%s%N >beat.{0}; sleep 0.1; done"
    jobs = [root.make(f"setsid sh -c '{beat.format(n)}' >/dev/null 2>&1 & sleep 1000\n") for n in ("a", "b")]
    user = root.make(f"setsid sh -c '{beat.format('c')}' >/dev/null 2>&1 & sleep 1000\n", user="user")

    def beats(name):
        try:
            first = read(s / f"files/beat.{name}")
            return wait_for(lambda: read(s / f"files/beat.{name}") != first, 0.3)
        except FileNotFoundError:
            return False

    for name in "abc":
        ok(f"{name} goes on", wait_for(lambda: beats(name), 10))
    os.rmdir(jobs[0])
    ok("it goes with its job", wait_for(lambda: not beats("a"), 10))
    for name in "bc":
        ok(f"{name} stays", wait_for(lambda: beats(name), 10))
    write(f"{jobs[1]}/ctl", "kill\n")
    same("a signal to root's", int(read(f"{jobs[1]}/exit_code")), 137)
    os.rmdir(jobs[1])
    ok("that goes too", wait_for(lambda: not beats("b"), 10))
    ok("the user's stays", wait_for(lambda: beats("c"), 10))
    os.rmdir(user)
    same("a time limit", root.run("sleep 1000\n", config="timeout_s = 1\n").code, 124)


if VM:
    main(where_nobody_may, is_root, changes, other_users, bounds, removal)
else:
    main(where_nobody_may)
