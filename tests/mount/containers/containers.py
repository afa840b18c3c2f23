#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A mount inside a container, with the flags of scripts/containers/README.md and none less; sessions in containers, and
mounts that go in and come out. With Debian's podman, as root and as a user."""
# backends: process
# night: process
# mount: none
# timeout: 400
# log-allow: killed
from podman import *

ANSWER = "out 42 of 1000, code 3\n"
# One run, and what is enforced.
TRY = f"""mkdir -p /tmp/sbx
xsbxfs -o {DAEMON} /tmp/sbx 2> /tmp/log >&2 || {{ tail -n 2 /tmp/log; exit 1; }}
cd /tmp/sbx/raw; mkdir a; echo 'echo $((6 * 7)) of $(id -u); exit 3' > a/in
echo "out $(cat a/stdout), code $(cat a/exit_code)"; cat a/error; cat /tmp/sbx/isolation
cd /; fusermount3 -u /tmp/sbx
"""
MACHINE = """mkdir -p /tmp/sbx; export XDG_CACHE_HOME=/cache
xsbxfs -o prepare=no,accel=tcg,image_builder=none,boot_timeout_s=300 /tmp/sbx 2> /tmp/log >&2 || { tail -n 2 /tmp/log; exit 1; }
cd /tmp/sbx/python; mkdir a; echo 'print(6 * 7)' > a/in; cat a/stdout; cat a/error; grep ^qemu /tmp/sbx/isolation
cd /; fusermount3 -u /tmp/sbx
"""
SLEEP = "while :; do sleep 1; done"


def flags(podman):
    """All of them: it works. One less: it says which."""
    _, text = podman.run(FLAGS, TRY)
    has("it works", text, ANSWER)
    for line in ("process.namespace.user: own", "process.namespace.net: own", "process.seccomp: on, allow list",
                 "process.no_new_privs: on"):
        has("as strict as elsewhere", text, line)
    has("ids", text, "process.ids: the daemon's own id" if podman.rootless else "process.ids: private")
    for missing, words in (("--device /dev/fuse", "a container has to be given it: --device /dev/fuse"),
                           ("--cap-add SYS_ADMIN", "It takes CAP_SYS_ADMIN"),
                           ("--security-opt unmask=ALL", "its jail could not be made: setting what it may use up")):
        if missing == "--device /dev/fuse" and not podman.rootless:
            continue  # root's engine gives it no node, and the container may make one
        _, text = podman.run(FLAGS.replace(missing, ""), TRY)
        has(f"without {missing}", text, words)
        if "unmask" in missing:
            has("what to do", text, "fix: In a container, xsbxfs needs")
        ok("nothing runs then", ANSWER not in text, text)


def machine(podman):
    images = f"{os.environ['IMAGES']}/images"
    if not os.path.exists(f"{images}/templates/python"):
        print("no machine is tried: there is no image of python here: scripts/images")
        return
    # The directories above it may be root's alone.
    os.makedirs(f"{SCRATCH}/images", exist_ok=True)
    if not mounted(f"{SCRATCH}/images"):
        subprocess.run(["mount", "--bind", images, f"{SCRATCH}/images"], check=True)
    _, text = podman.run(f"{FLAGS} -v {SCRATCH}/images:/cache/xsbxfs/images:ro", MACHINE)
    has("a machine", text, "42\n")
    has("in its cell", text, "qemu.namespace.user: own")


def limits():
    """Control groups that can be written, as a host's root may give them: then memory, processes and processors are limited."""
    _, text = as_root.run(FLAGS, TRY)
    has("without", text, "process.limit.memory: 196 MiB for each process, none for all")
    _, text = as_root.run(f"{FLAGS} -v /sys/fs/cgroup:/sys/fs/cgroup", TRY)
    has("with", text, "process.limit.memory: 196 MiB, control groups")
    has("processes", text, "process.limit.processes: 600, control groups")


@contextlib.contextmanager
def host_mount(podman, name, *more, **options):
    """A mount of whose podman it is, which the daemon of this host serves."""
    mnt = f"{SCRATCH}/{name}/sbx"
    os.makedirs(mnt)
    env = dict(os.environ)
    if podman.rootless:
        os.chown(mnt, UID, UID)
        env.update(XDG_CACHE_HOME=f"{podman.home}/cache", XDG_RUNTIME_DIR=f"{podman.home}/run", HOME=podman.home)
        options = dict(options, user=UID, group=UID, extra_groups=[])
    # A user may not read the tree that this was built in.
    yield mnt, start_daemon(mnt, *more, env=env, log=f"{SCRATCH}/log.{name}", conf="/dev/null", **options)
    subprocess.run(["fusermount3", "-q", "-u", mnt], check=False)


def mkdir_as(podman, path):
    if podman.rootless:
        as_user(UID, lambda: os.mkdir(path))
    else:
        os.mkdir(path)


RUN = "echo 'sleep 0.5; echo hello' > /demo/in; cat /demo/stdout /demo/exit_code; echo data > /demo/files/f; " \
      "ls /demo/.. | grep -c -e other -e python; id -u"


def session_in(podman):
    """One session in a container: what waits waits, what is written is there, and nothing else of the mount is."""
    with host_mount(podman, f"in{podman.rootless:d}") as (mnt, daemon):
        mkdir_as(podman, f"{mnt}/raw/demo")
        mkdir_as(podman, f"{mnt}/raw/other")
        _, text = podman.run(f"-v {mnt}/raw/demo:/demo", RUN)
        same("a run", text, "hello\n0\n0\n0\n")
        _, text = podman.run(f"-v {mnt}/raw/demo:/demo", "cat /demo/files/f; cat /demo/state")
        same("what the one before left", text, "data\nidle\n")
        # Another id is another user, for whom it is closed without allow_other.
        _, text = podman.run(f"-v {mnt}/raw/demo:/demo --user 1000", "cat /demo/state")
        has("another user", text, "Permission denied")
        if podman.rootless:
            status, text = podman.run(f"-v {mnt}/raw/demo:/demo --userns=keep-id", RUN)
            ok("nor does the runtime of keep-id get in", status and "Permission denied" in text, text)
        subprocess.run(["fusermount3", "-u", mnt], check=True)
        ok("the daemon ends", wait_for(lambda: daemon.poll() is not None, 10))


def keep_id():
    """The same number inside, for a program that wants not to be root: with allow_other."""
    with host_mount(as_user_, "keep", "allow_other") as (mnt, _):
        mkdir_as(as_user_, f"{mnt}/raw/demo")
        _, text = as_user_.run(f"-v {mnt}/raw/demo:/demo --userns=keep-id", RUN)
        same("a run", text, f"hello\n0\n0\n{UID}\n")
        _, text = as_user_.run(f"-v {mnt}/raw/demo:/demo --user 1000", "cat /demo/state")
        has("others stay outside", text, "Permission denied")


def goes_in(podman):
    """What is mounted later shows where the container has the directory above it, as rslave; and goes from there as well."""
    name = f"late{podman.rootless:d}"
    os.makedirs(f"{SCRATCH}/{name}/sbx")
    shutil.rmtree(f"{SCRATCH}/{name}")
    os.makedirs(f"{SCRATCH}/{name}")
    podman.run(f"-v {SCRATCH}/{name}:/h:rslave", SLEEP, name="slave")
    podman.run(f"-v {SCRATCH}/{name}:/h:rprivate", SLEEP, name="private")
    with host_mount(podman, f"{name}") as (mnt, daemon):
        mkdir_as(podman, f"{mnt}/raw/demo")
        podman.run(f"-v {mnt}/raw/demo:/demo", SLEEP, name="session")
        _, text = podman.inside("slave", "echo 'echo late' > /h/sbx/raw/demo/in; cat /h/sbx/raw/demo/stdout")
        same("it shows", text, "late\n")
        same("control: rprivate", podman.inside("private", "ls /h/sbx | wc -l")[1], "0\n")
        # The daemon dies: another one goes on, and nobody in the container notices.
        os.kill(kin_of(daemon.pid)[1], signal.SIGKILL)
        _, text = podman.inside("session", "echo 'echo after' > /demo/in; cat /demo/stdout")
        same("it outlasts the daemon", text, "after\n")
        subprocess.run(["fusermount3", "-u", mnt], check=True)
        ok("the daemon ends, though a container has a session", wait_for(lambda: daemon.poll() is not None, 20))
        same("it is gone", podman.inside("slave", "ls /h/sbx | wc -l")[1], "0\n")
        has("who has a session of it is told", podman.inside("session", "cat /demo/state")[1], "not connected")
    podman("rm", "-f", "-t", "0", "slave", "private", "session")


def comes_out(podman):
    """A daemon in a container, whose mount shows on the host: rshared, and root's podman alone."""
    out = f"{SCRATCH}/out{podman.rootless:d}"
    os.makedirs(out)
    if podman.rootless:
        os.chown(out, UID, UID)
    serve = f"fusermount3 -q -u -z /o/sbx; mkdir -p /o/sbx; exec xsbxfs -f -o {DAEMON},allow_other /o/sbx"
    for end, left in (("stop", False), ("kill", True)):
        podman.run(f"{FLAGS} -v {out}:/o:rshared", serve, name="daemon")
        if podman.rootless:
            ok("it serves", wait_for(lambda: podman.inside("daemon", "ls /o/sbx/raw")[0] == 0, 10))
            same("a user's mounts stay in his namespace", os.listdir(f"{out}/sbx"), [])
            podman("rm", "-f", "-t", "20", "daemon")
            return
        ok("it shows", wait_for(lambda: os.path.exists(f"{out}/sbx/status.json"), 10), podman("logs", "daemon"))
        os.mkdir(f"{out}/sbx/raw/a")
        write(f"{out}/sbx/raw/a/in", "echo from the host\n")
        same("it serves", read(f"{out}/sbx/raw/a/stdout"), b"from the host\n")
        _, text = podman.run(f"-v {out}:/o:rslave", "echo 'echo third' > /o/sbx/raw/a/in; cat /o/sbx/raw/a/stdout")
        same("and a third", text, "third\n")
        podman.do(end, "daemon")
        wait_for(lambda: podman("inspect", "-f", "{{.State.Running}}", "daemon")[1].strip() == "false", 10)
        same(f"after {end} it is there still", mounted(f"{out}/sbx"), left)
        podman("rm", "-f", "-t", "0", "daemon")
    with raises("a mount that is dead", errno.ENOTCONN):
        os.listdir(f"{out}/sbx")
    podman.run(f"{FLAGS} -v {out}:/o:rshared", serve, name="daemon")
    ok("the next one takes its place", wait_for(lambda: os.path.exists(f"{out}/sbx/status.json"), 10), podman("logs", "daemon"))
    podman("stop", "-t", "20", "daemon")
    podman("rm", "-f", "-t", "0", "daemon")
    subprocess.run(["fusermount3", "-q", "-u", f"{out}/sbx"], check=False)


def both(test):
    def run():
        for podman in (as_root, as_user_):
            test(podman)
    run.__name__ = test.__name__
    return run


prepare_host()
base()
as_root, as_user_ = Podman(False), Podman(True)
try:
    as_root.build()
    as_user_.load()

    def last():
        for each in (as_root, as_user_):
            each.close()
        subprocess.run(["umount", "-q", f"{SCRATCH}/images"], check=False)

    main(*map(both, (flags, machine)), limits, keep_id, *map(both, (session_in, goes_in, comes_out)), last)
finally:
    last()
