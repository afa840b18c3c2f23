#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a template shows of the host is on a server that does not answer any more: its sessions fail and say so, and all
others go on. Our own files/ are what it serves; its daemon is stopped."""
# backends: process
# timeout: 180
# mount: none
# log-allow: did not start
import itertools

from hosts import *

NAMES = ("one", "two")


def conf(shown, local):
    text = "[template side]\nlanguage = raw\npool = 1\n[template cold]\nlanguage = raw\npool = 0\n"
    for name in NAMES:
        also = f"{local}:/srv/local" if name == "two" else ""
        text += f"[template {name}]\nlanguage = raw\npool = 1\nro = {also} {shown}/{name}/d:/srv/shown\n"
    return text


def main_test():
    below = folder("below")
    server = start_daemon(below, "allow_other")
    disk = Session("disk", mnt=below, config="idle_timeout_s = 0\n")
    code = "".join(f"mkdir -p {n}/d; echo {n} > {n}/d/text; " for n in NAMES)
    same("what is shown is there", disk.run(f"{code}chmod -R a+rX .\n").code, 0)
    host = Host("hung", conf(disk / "files", folder("local")))
    same("while it answers", {n: host.session("before", n).run("cat /srv/shown/text\n").out for n in NAMES},
         {n: f"{n}\n" for n in NAMES})
    other = host.session("before", "side")
    same("others as well", other.run("echo on\n").out, "on\n")
    _, stopped = kin_of(server.pid)
    os.kill(stopped, signal.SIGSTOP)
    try:
        time.sleep(2)  # nobody has it in a cache any more
        hung = {name: host.session("during", name) for name in NAMES}
        for name, s in hung.items():
            s.submit("cat /srv/shown/text\n")
            others(host, other, name)
        for name, s in hung.items():
            ok(f"{name}: it is given up", s.wait_run(1, "refused", 30), s.state_of(1))
            has(f"{name}: and says what does not answer", s.text("error"), f"opening {disk.path}/files/{name}/d")
            has("... in words", s.text("error"), "does not answer")
        others(host, other, "done")
    finally:
        os.kill(stopped, signal.SIGCONT)
    tries = itertools.count()
    for name in NAMES:  # for a while nobody is asked again
        ok(f"{name}: when it answers again", wait_for(
            lambda name=name: host.session(f"after{next(tries)}", name).run("cat /srv/shown/text\n").out
            == f"{name}\n", 30))
    host.close()
    server.terminate()
    same("the server ends well", server.wait(2 * SOON), 0)


def others(host, other, name):
    """All of this is answered while it is stopped."""
    same(f"{name}: another's state", other.word(), "idle")
    same("its next run", other.run("echo on\n").out, "on\n")
    for template in "side", "cold":
        same(f"a new one of {template}", host.session(f"{name}.{template}", template).run("echo new\n").out, "new\n")
    has("the mount's nodes", read(f"{host.mnt}/doctor", "r"), "limits")


main(main_test)
