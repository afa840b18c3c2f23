#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What was used of a day outlives the daemon, and with `keep` the mount: whoever mounts again gets no other day."""
# backends: local process
# timeout: 180
# log-allow: the daemon died|was killed by signal
# conf: [quota]
# conf: cpu_s_day = 1
from deaths import *
from kept import *
from quotas import *

def refused(what, s):
    with raises(f"{what}: refused", errno.EDQUOT):
        s.submit("echo x\n")
    has(f"{what}: why", s.text("error"), "code: over-quota\n")


def daemon_dies():
    mortal = Mortal(guard_of())
    s = Session("dies")
    s.run(BURN)
    before = used()
    ok("something was used", before > 0)
    mortal.die()
    ok("it is not forgotten", used() >= before, (before, used()))
    s.run(BURN)
    ok("and goes on", used() > before, (before, used()))
    use_up(s)
    mortal.die()
    refused("by the next daemon", s)
    refused("in a new session", Session("new"))
    ok("it is used up still", used() >= 1, used())


def ends_meanwhile():
    """What a sandbox has used until it ended, which it did when there was no daemon to see it."""
    if BACKEND != "process":
        return
    mnt, conf = f"{SCRATCH}/meanwhile", f"{SCRATCH}/meanwhile.conf"
    os.mkdir(mnt)
    write(conf, read(os.environ["CONF"], "r").replace("cpu_s_day = 1", "cpu_s_day = 1000"))
    guard = start_daemon(mnt, conf=conf)
    try:
        mortal = Mortal(guard.pid)
        s = Session("s", config="timeout_s = 0\n", mnt=mnt)
        s.submit("while :; do :; done\n")
        s.wait_state("running")
        sandbox = s.pid()
        before = used(mnt)
        os.kill(mortal.pid, signal.SIGSTOP)
        time.sleep(2)
        os.kill(sandbox, signal.SIGKILL)
        ok("the sandbox is gone", wait_for(lambda: not alive(sandbox)))
        mortal.die()
        ok("it is counted", wait_for(lambda: used(mnt) > before + 0.2, 10 * slack()), (before, used(mnt)))
    finally:
        shell(f"fusermount3 -u {mnt}")
        guard.wait(SOON)


def unmounted():
    k = Kept("kept")
    s = k.make("s")
    use_up(s)
    before = used(k.mnt)
    for how in None, signal.SIGTERM:
        k.again(how)
        ok("it is there at the next mount", used(k.mnt) >= before - 0.001, (before, used(k.mnt)))
        refused("by the next mount", k.there("s"))
    ok("it is written", os.path.exists(f"{k.state}/accounts"))
    k.end()
    # A file that nobody can read is no reason not to mount; it is said.
    path = f"{k.state}/accounts"
    data = bytearray(read(path))
    data[len(data) // 2] ^= 1
    write(path, bytes(data))
    k.begin()
    same("then it begins anew", used(k.mnt), 0.0)
    has("which is said", read(f"{k.mnt}/error", "r"), "what users have used today can't be read from state_dir")
    k.end()
    other = Kept("other")
    same("another state directory knows nothing of it", used(other.mnt), 0.0)
    other.end()


def power_cut():
    k = Kept("cut")
    s = k.make("s")
    s.run(BURN)
    before = used(k.mnt)
    ok("it is written soon", wait_for(lambda: os.path.exists(f"{k.state}/accounts"), 20 * slack()))
    k.written("s")
    time.sleep(6)
    k.power_cut()
    shell(f"fusermount3 -uz {k.mnt}")
    k.begin()
    ok("it outlasts a power cut", used(k.mnt) >= before, (before, used(k.mnt)))
    k.end()


main(daemon_dies, ends_meanwhile, unmounted, power_cut)
