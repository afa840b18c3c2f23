#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""key_command: what is kept is sealed with a key from elsewhere, which no next daemon could have: none follows."""
# backends: local process
# timeout: 90
# log-allow: was not taken over
from kept import *

KEY, OTHER = "0123456789abcdef" * 4, "f" * 64


def survives(k):
    return json.loads(read(f"{k.mnt}/status.json"))["survives"]


def keyed(name, key=KEY):
    k = Kept(name, wait=False)
    k.begin("survive=yes", f"key_command=echo {key}")
    return k


def nobody_follows():
    k = keyed("followed")
    same("it says so in status.json", survives(k), False)
    has("and in the log", read(k.log, "r"), "with key_command nothing survives the daemon")
    has("and doctor", read(f"{k.mnt}/doctor", "r"), "ok   death of the daemon: ends the mount (the next one could not have the key of key_command)")
    enforced = read(f"{k.mnt}/isolation", "r")
    ok("the daemon may write what is kept", "runtime, state and spool directory" in enforced or "daemon.landlock: none" in enforced, enforced)
    s = k.make("slept")
    same("a run", s.run("echo one > f\n").code, 0)
    s.ctl("sleep")
    ok("asleep", s.wait_state("asleep", 20), s.text("error"))
    k.written("slept")
    done = subprocess.run([os.environ["XSBXFS"], "--takeover", "-c", os.environ["CONF"], k.mnt], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL, timeout=2 * SOON, check=False)
    same("it is not taken over", done.returncode, 1)
    has("... in words", done.stdout, "with key_command a mount can't be taken over; unmount to upgrade")
    same("and goes on", k.there("slept").word(), "asleep")
    os.kill(kin_of(k.daemon.pid)[1], signal.SIGKILL)
    ok("the daemon's death is the mount's end", wait_for(lambda: k.daemon.poll() is not None, 10))
    ok("nothing is mounted", not mounted(k.mnt))
    k.begin("survive=yes", f"key_command=echo {KEY}")
    same("what was kept is there, as after a power cut", k.there("slept").run("cat f\n").out, "one\n")
    same("it ends", k.end(), 0)


def no_key_lies_there():
    k = keyed("lies")
    k.make("demo").run("echo one > f\n")
    same("it ends", k.end(), 0)
    ok("the key is not on the disk", not os.path.exists(f"{k.state}/key"))
    for _ in range(8):  # whether who unmounts hears of it in time is a matter of chance
        with contextlib.suppress(RuntimeError):
            k.begin(f"key_command=echo {OTHER}")
            fail("it begins with another key")
        ok("nothing is mounted", wait_for(lambda: not mounted(k.mnt), 5))
    has("... and says why not", read(k.log, "r"), "key")
    k.begin(f"key_command=echo {KEY}")
    same("with the right one all is there", read(k.there("demo") / "files/f"), b"one\n")
    same("it ends again", k.end(), 0)


def without():
    """The same mount without such a command is followed: what this test asks would show it."""
    k = Kept("without", wait=False)
    k.begin("survive=yes")
    same("it survives", survives(k), True)
    daemon = kin_of(k.daemon.pid)[1]
    os.kill(daemon, signal.SIGKILL)
    ok("another one goes on", wait_for(lambda: kin(k) not in (None, daemon), 10))
    same("and works", k.make("demo").run("echo on\n").out, "on\n")
    same("it ends", k.end(), 0)


def kin(k):
    try:
        return kin_of(k.daemon.pid)[1]
    except (ValueError, OSError):
        return None


main(nobody_follows, no_key_lies_there, without)
