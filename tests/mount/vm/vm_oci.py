#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An image out of a registry, in machines: its entry point, its user, its files, root where that is allowed; and one that has
nothing but a program."""
# mount: none
# backends: vm
# night: vm
# timeout: 300
import glob
import socket

import oci
from hosts import *
from oci import Layout, entry, folder as directory, layer

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
CACHE = f"{SCRATCH}/cache"
IMAGES = f"{CACHE}/images"
START = b"#!/bin/sh\nset -- \"$@\" $(id -un) $(id -u)\necho \"$PWD|$GREETING|$*\"\ncat /srv/mine\n"
HELLO = """#include <unistd.h>
int main(void) { return write(1, "hello\\n", 6) != 6; }
"""


def borrow():
    for place in "images", "images/bases", "images/templates":
        os.makedirs(f"{CACHE}/{place}")
    shared = f"{os.environ['IMAGES']}/images"
    for path in glob.glob(f"{shared}/kernel-*") + glob.glob(f"{shared}/bases/kernel-*"):
        os.symlink(path, path.replace(shared, IMAGES))
    for path in glob.glob(f"{shared}/templates/kernel*"):
        os.symlink(os.readlink(path), path.replace(shared, IMAGES))


def images(*arguments, code=0):
    done = subprocess.run([f"{TOP}/scripts/images", *arguments], env={**os.environ, "XSBXFS_CACHE": CACHE},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=2 * SOON, text=True)
    same(f"scripts/images {' '.join(arguments)}", done.returncode, code) or print(done.stdout)
    return done.stdout


class Registry:
    """Debian's docker-registry, on loopback."""

    def __init__(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.name = f"127.0.0.1:{probe.getsockname()[1]}"
        write(f"{SCRATCH}/registry.yml", "version: 0.1\nlog: {level: error}\n"
              f"storage: {{filesystem: {{rootdirectory: {SCRATCH}/registry}}}}\nhttp: {{addr: '{self.name}'}}\n")
        self.process = subprocess.Popen(["docker-registry", "serve", f"{SCRATCH}/registry.yml"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        host, port = self.name.split(":")
        ok("the registry serves", wait_for(lambda: socket.socket().connect_ex((host, int(port))) == 0, SOON))

    def push(self, layout, name):
        subprocess.run(["skopeo", "--insecure-policy", "copy", "-q", "--dest-tls-verify=false", f"oci:{layout}",
                        f"docker://{self.name}/{name}"], check=True, stdout=subprocess.DEVNULL)

    def close(self):
        self.process.terminate()
        self.process.wait(SOON)


def registry():
    app = Layout(f"{SCRATCH}/app")
    app.image([oci.busybox(directory("srv", uid=10001, gid=10002),
                           entry("srv/mine", b"mine\n", uid=10001, gid=10002, mode=0o600)),
               layer(directory("app"), entry("app/start", START))],
              {"Env": ["PATH=/app:/bin", "GREETING=good day"], "User": "app", "WorkingDir": "/app", "Entrypoint": ["start"],
               "Cmd": ["a b", "c;"]})
    server = Registry()
    server.push(app.path, "team/app:1.0")
    images("--registry", f"{server.name}/team/app:1.0")
    has("one that is not there", images("--registry", f"{server.name}/team/none:1.0", "--name", "none", code=1), "can't be read")
    server.close()
    has("none at all", images("--registry", f"{server.name}/team/app:1.0", "--name", "gone", code=1), "can't be read")


def used():
    host = Host("used", "[template admin]\nimage = app\nlanguage = raw\nroot = yes\n", f"cache_dir={CACHE}", "prepare=no",
                "image_builder=none")
    s = host.session("one", template="app")
    same("the interpreter", s.run("echo $GREETING $(id -un); x=5; pwd\n").out, "good day app\n/home/user\n")
    same("keeps its state", s.run("echo $((x + 1))\n").out, "6\n")
    os.mkdir(s / "jobs/it")
    write(s / "jobs/it/ctl", "start\n")
    same("the entry point", s.text("jobs/it/stdout"), "/app|good day|a b c; app 1000\nmine\n")
    same("a file", (write(s / "files/a", "1\n"), s.run("cat a; echo 2 > b\n").out, read(s / "files/b")), (None, "1\n", b"2\n"))
    same("nothing of it can be changed", s.run("echo > /app/x\n").code, 1)
    admin = host.session("one", template="admin")
    os.mkdir(admin / "jobs/root")
    write(admin / "jobs/root/config", "user = root\nargv = sh -c 'id -u; echo x > /app/x && cat /app/x'\n")
    write(admin / "jobs/root/ctl", "start\n")
    same("root, where it is allowed", admin.text("jobs/root/stdout"), "0\nx\n") or print(admin.text("jobs/root/error"))
    # Its checkpoint, and what goes on from there.
    os.mkdir(s / "checkpoints/here")
    same("a checkpoint", s.text("checkpoints/here/wait"), "whole\n")
    t = host.session("two", template="app", config="from = one@here\n")
    same("a copy", t.run("echo $((x + 2)) $(cat b)\n").out, "7 2\n")
    host.close()


def bare():
    """Nothing but a program, which needs nothing."""
    write(f"{SCRATCH}/hello.c", HELLO)
    subprocess.run(["gcc", "-static", "-o", f"{SCRATCH}/hello", f"{SCRATCH}/hello.c"], check=True)
    bare = Layout(f"{SCRATCH}/bare")
    bare.image([layer(entry("hello", read(f"{SCRATCH}/hello")))], {"Entrypoint": ["/hello"]})
    bare.tar(f"{SCRATCH}/bare.tar")
    images("--oci", f"{SCRATCH}/bare.tar")
    host = Host("bare", "", f"cache_dir={CACHE}", "prepare=no", "image_builder=none")
    s = host.session("one", template="bare")
    os.mkdir(s / "jobs/it")
    write(s / "jobs/it/ctl", "start\n")
    same("the program", s.text("jobs/it/stdout"), "hello\n")
    same("a shell, and its tools", s.run("/hello | tr a-z A-Z; ls / | grep -c hello; echo $BASH_VERSION | cut -c 1\n").out,
         "HELLO\n1\n5\n")
    same("scripts", s.run("printf '#!/bin/sh\\necho $1\\n' > s; chmod +x s; ./s ran\n").out, "ran\n")
    host.close()


vm_only()
need("skopeo", "busybox", "patchelf", "mkfs.erofs", "docker-registry", "gcc")
if os.getuid() != 0:
    skip("this unpacks images as root")
borrow()
main(registry, used, bare)
