#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rmdir and rm -r destroy a session, whatever it is doing, and leave nothing."""
# backends: local vm
from xsbx import *


def idle():
    for command in ("rmdir {}", "rm -r {}", "rm -rf {}"):
        s = Session("idle")
        s.run("echo x > f; mkdir d; echo y > d/g\n")
        write(s / "temp", "x")
        pid = s.pid()
        status, out, err = shell(command.replace("{}", s.path))
        same(command, (status, out + err), (0, b""))
        ok(f"{command}: gone", not os.path.exists(s.path))
        ok(f"{command}: the process too", wait_for(lambda: not alive(pid)))


def untouched():
    s = Session("untouched")
    s.remove()
    ok("a session that never ran", not os.path.exists(s.path))
    with raises("a second time", errno.ENOENT):
        s.remove()


def running():
    for command in ("rmdir {}", "rm -rf {}"):
        s = Session("running", config="timeout_s = 3000\n")
        s.run("true\n")
        s.submit("echo so far; read -r x < <(sleep 600)\n")
        wait_for(lambda: s.text("runs/2/stdout"))
        s.submit("echo queued\n")
        pid = s.pid()
        reader = subprocess.Popen(["cat", s / "stdout"], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
        time.sleep(0.2)
        same(command, shell(command.replace("{}", s.path))[0], 0)
        ok("gone", not os.path.exists(s.path))
        reader.communicate(timeout=SOON)
        ok("the process too", wait_for(lambda: not alive(pid)))


def with_open_descriptors():
    s = Session("open")
    s.run("echo x > f; echo out\n")
    fds = [os.open(s / "files/f", os.O_RDWR), os.open(s / "stdout", os.O_RDONLY),
           os.open(s / "in", os.O_WRONLY), os.open(s.path, os.O_RDONLY)]
    os.rmdir(s.path)
    ok("gone", not os.path.exists(s.path))
    with raises("a file of it", errno.ESTALE, errno.EIO, errno.ENOENT):
        os.read(fds[0], 10)
    try:
        os.write(fds[2], b"echo never\n")
    except OSError as error:
        ok("in is refused", error.errno in (errno.ESTALE, errno.ENOENT, errno.EIO), error)
    for fd in fds:
        try:
            os.close(fd)
        except OSError:
            pass
    s = Session("open")
    same("a new one of the same name", (s.runs(), s.run("echo new\n").stdout), ([], b"new\n"))


def cwd_inside():
    s = Session("cwd")
    child = subprocess.Popen(["sleep", "60"], cwd=s.path)
    same("rmdir with somebody in it", shell(f"rmdir {s.path}")[0], 0)
    child.kill()
    child.wait()


def churn():
    """Many sessions come and go; nothing stays."""
    for i in range(4 if VM else 40):
        s = Session(f"churn{i % 3}")
        same("run", s.run(f"echo {i}\n").out, f"{i}\n")
        s.remove()
    ok("none is left", not [n for n in os.listdir(f"{MNT}/raw") if n.startswith("churn")])
    info = json.loads(read(f"{MNT}/status.json"))
    ok("status.json counts sessions", "sessions" in info, list(info))


main(idle, untouched, running, with_open_descriptors, cwd_inside, churn)
