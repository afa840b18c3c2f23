#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Another daemon takes the mount over, or the daemon is killed, while changes are taken over into a directory of the host: they
are made once, and all."""
# backends: process
# timeout: 240
# log-allow: the daemon died|died of the same
# mount: none
import re
import time

from deaths import *
from hosts import *

N = 1500
CONF = "survive = yes\nmax_deaths = 1000000\n[limits]\nallow_process = yes\n[template shown]\nbackend = process\nlanguage = raw\nwork = {}\n"
DELAYS = (0, 0.003, 0.01, 0.03, 0.08, 0.15, 0.3)


def take_over(host):
    done = subprocess.run([os.environ["XSBXFS"], "--takeover", "-c", host.conf, host.mnt], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=120 * SLOW, check=False)
    ok("taken over", done.returncode == 0 and re.search(r"process \d+ serves it now", done.stdout.decode()),
       done.stderr.decode())


def die(host):
    Mortal(guard_of(host.mnt)).die()


def commits(host):
    """What the log says of each."""
    return re.findall(r'"event":"commit","words":"([^"]*)"', read_ready(f"{host.mnt}/events").decode())


def once(follow):
    top = folder(f"once_{follow.__name__}")
    host = Host(f"once_{follow.__name__}.daemon", CONF.format(top))
    s = host.session("one")
    s.run("(while :; do echo >>/tmp/beat; sleep 0.01; done) &")
    for n, delay in enumerate(DELAYS):
        what = f"after {delay * 1000:.0f} ms"
        s.run(f"mkdir d{n}; for i in $(seq {N}); do echo {n} $i >d{n}/$i; done")
        has("a list", s.text("files.changes"), f"A d{n}/1\n")
        s.ctl("commit")
        time.sleep(delay)
        follow(host)
        same(f"{what}: nothing is left", s.text("files.changes"), "")  # waits for the commit
        same(f"{what}: all is there", len(os.listdir(f"{top}/d{n}")), N)
        same(f"{what}: the last one", read(f"{top}/d{n}/{N}"), f"{n} {N}\n".encode())
        # That the process before has heard how it went, and told nobody, is rare, and said.
        ok(f"{what}: what is said of it", not s.text("error") or "another daemon" in s.text("error"), s.text("error"))
        size = s.run("wc -c </tmp/beat").out
        ok(f"{what}: what was stopped goes on", wait_for(lambda was=size: s.run("wc -c </tmp/beat").out != was))
    made = commits(host)
    ok("each was made once", len(made) <= len(DELAYS) and all(m.startswith(f"{N + 1} of {N + 1}") for m in made), made)
    ok("and most are known to be", len(made) >= len(DELAYS) - 2, made)
    host.close()


def refused(follow):
    """What is not what was read is not made, whichever daemon looks."""
    top = folder(f"refused_{follow.__name__}")
    host = Host(f"refused_{follow.__name__}.daemon", CONF.format(top))
    s = host.session("one")
    s.run("echo >a")
    s.text("files.changes")
    for delay in DELAYS[:4]:
        s.run("echo >>a")
        s.ctl("commit")
        time.sleep(delay)
        follow(host)
        os.close(os.open(s / "files.changes", os.O_RDONLY))
        ok("it is told", wait_for(lambda: "code: changed" in s.text("error"), 20), s.text("error"))
        same("nothing was made", os.listdir(top), [])
        same("it goes on", s.run("echo on").out, "on\n")
    host.close()


def without_sandbox():
    """The changes of a sandbox that is gone."""
    top = folder("without")
    host = Host("without.daemon", CONF.format(top))
    s = host.session("one")
    s.run(f"for i in $(seq {N}); do echo $i >$i; done")
    s.ctl("close")
    s.text("files.changes")
    s.ctl("commit")
    take_over(host)
    same("nothing is left", s.text("files.changes"), "")
    same("all is there", len(os.listdir(top)), N)
    host.close()


def followed():
    once(take_over)
    refused(take_over)


def killed():
    once(die)
    refused(die)


main(followed, killed, without_sandbox)
