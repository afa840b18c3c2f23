#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What nothing allows waits until somebody decides by mv: once, for good, too late, over a daemon's death; net/log has it."""
# backends: process vm
# timeout: 240
# mount: none
# log-allow: the daemon died|another one goes on
from netland import *

import signal

land = Land(conf="survive = yes\n[limits]\nmax_allow = *\nfirst_rules = deny GET web.test:8080/never*\n")
for address in (WEB, OTHER):
    land.lab.serve(land.lab.internet, address, 8080, answering(lambda head: head.split(b" HTTP")[0]))
s = land.session("leave", "network = on\nask = yes\nask_s = 60\ntimeout_s = 100\nallow = web.test:8080\n"
                 "rules = ask POST web.test:8080/pay* ask GET web.test:8080/ask* deny GET web.test:8080/secret*\n")


def listed(directory):
    return sorted(os.listdir(f"{s.path}/net/{directory}"), key=int)


def begins(url, method="GET"):
    """A run that fetches it. Return: its number, and what it waits for."""
    before = set(listed("pending"))
    s.submit(f"print(fetch('{url}', '{method}'))")
    wait_for(lambda: set(listed("pending")) - before, 15)
    new = set(listed("pending")) - before
    if not ok(f"{method} {url} waits", len(new) == 1, (new, s.text("net/log")[-500:], s.text("error"))):
        raise RuntimeError(f"{method} {url} does not wait: {s.text('stdout')}")
    return s.runs()[-1], new.pop()


def ended(run):
    return read(f"{s.path}/runs/{run}/wait") and s.text(f"runs/{run}/stdout").strip()


def once():
    same("the code is there", s.run(FETCH).code, 0)
    same("what is allowed does not wait", s.run("print(fetch('http://web.test:8080/free'))").out, "GET /free\n")
    run, number = begins("http://web.test:8080/pay?n=1", "POST")
    asked = f"net/pending/{number}"
    same("what", s.text(f"{asked}/what"), "POST http://web.test:8080/pay?n=1\n")
    same("who", s.text(f"{asked}/who"), f"run {run}\n")
    same("why", s.text(f"{asked}/why"), "rule 1 of net/rules asks: ask POST web.test:8080/pay*\n")
    same("it still waits", s.state_of(run), "running")
    same("mv", shell(f"mv {s.path}/{asked} {s.path}/net/allowed/")[::2], (0, b""))
    same("it went on", ended(run), "POST /pay?n=1")
    has("decided", s.text(f"net/allowed/{number}/decided"), f"allowed once, by uid {os.getuid()}")
    run, again = begins("http://web.test:8080/pay?n=2", "POST")
    ok("once is once", again != number, again)
    same("mv", shell(f"cd {s.path}; mv net/pending/{again} net/denied/")[::2], (0, b""))
    has("it was refused, in words", ended(run), "403 ")
    same("nothing waits", listed("pending"), [])


def connection():
    """Of a name that nothing allows."""
    s.submit("print(fetch('http://other.test:8080/x'))")
    run, asked = s.runs()[-1], {}
    while not wait_for(lambda: s.state_of(run) not in ("queued", "running"), 0.2):
        for number in listed("pending"):
            asked[number] = s.text(f"net/pending/{number}/what").strip(), s.text(f"net/pending/{number}/why").strip()
            shell(f"mv {s.path}/net/pending/{number} {s.path}/net/allowed/")
    same("it is reached", ended(run), "GET /x")
    ok("it was asked for", asked and all("other.test" in what and "nor a rule allows it" in why
                                         for what, why in asked.values()), asked)


def for_good():
    run, number = begins("http://web.test:8080/ask/a")
    write(f"{s.path}/net/pending/{number}/decision", "always\n")
    same("mv", shell(f"mv {s.path}/net/pending/{number} {s.path}/net/allowed/")[::2], (0, b""))
    same("it went on", ended(run), "GET /ask/a")
    same("it is a rule", s.text("net/rules").splitlines()[0], "allow GET web.test:8080/ask/a")
    same("which holds", s.run("print(fetch('http://web.test:8080/ask/a'))").out, "GET /ask/a\n")
    run, number = begins("http://web.test:8080/ask/b")
    shell(f"rmdir {s.path}/net/pending/{number}")
    has("another path waits again, and rmdir refuses", ended(run), "403 ")
    run, number = begins("http://web.test:8080/ask/c")
    write(s / "net/rules", "allow * web.test:8080\n")
    same("rules that allow it now let it go on", ended(run), "GET /ask/c")
    has("said so", s.text(f"net/allowed/{number}/decided"), "what net/rules or net/allow say now")
    has("what the administrator denies", s.run("print(fetch('http://web.test:8080/never/x'))").out, "403 ")


def too_late():
    write(s / "net/rules", "ask * web.test:8080/late*\n")
    with open(s / "config", "ab", buffering=0) as file:
        file.write(b"ask_s = 2\n")
    run, number = begins("http://web.test:8080/late")
    has("refused by itself", ended(run), "403 ")
    ok("it is among the denied", wait_for(lambda: number in listed("denied")), listed("denied"))
    has("for nobody decided", s.text(f"net/denied/{number}/decided"), "nobody decided in time")
    with raises("too late", errno.EPERM):
        os.rename(f"{s.path}/net/denied/{number}", f"{s.path}/net/allowed/{number}")


def out_of_time():
    """The time limit of a run counts while it waits: its error says what it has waited for."""
    with open(s / "config", "ab", buffering=0) as file:
        file.write(b"ask_s = 60\ntimeout_s = 3\n")
    run, number = begins("http://web.test:8080/late/run")
    read(f"{s.path}/runs/{run}/wait")
    has("it says so", s.text("error"), "it had asked for leave, of which nobody has decided: net/")
    has("and of which", s.text("error"), f"/{number}\n")
    ok("nobody is asked any more", wait_for(lambda: number in listed("denied")), listed("denied"))
    with open(s / "config", "ab", buffering=0) as file:
        file.write(b"timeout_s = 100\n")
    same("the code is there again", s.run(FETCH).code, 0)


def over_death():
    with open(s / "config", "ab", buffering=0) as file:
        file.write(b"ask_s = 60\n")
    run, number = begins("http://web.test:8080/late/again")
    os.kill(daemon_of(land.mnt), signal.SIGKILL)
    same("it waits at the next daemon", listed("pending"), [number])
    same("what", s.text(f"net/pending/{number}/what"), "GET http://web.test:8080/late/again\n")
    same("mv", shell(f"mv {s.path}/net/pending/{number} {s.path}/net/allowed/")[::2], (0, b""))
    same("it went on", ended(run), "GET /late/again")


def at_once():
    """What is refused may end its run before that is told: the log still has whose it was."""
    runs = []
    for n in range(20):
        s.run(f"print(fetch('http://web.test:8080/never/quick{n}'))")
        runs.append(f"run {s.runs()[-1]}")

    def logged():
        lines = [json.loads(line) for line in s.text("net/log").splitlines()]
        return [line["who"] for line in lines if (line["path"] or "").startswith("/never/quick")]
    wait_for(lambda: len(logged()) >= 20)
    same("who, of runs that are over", logged(), runs)


def log():
    lines = [json.loads(line) for line in s.text("net/log").splitlines()]
    same("its size is exact", os.stat(s / "net/log").st_size, len(read(s / "net/log")))
    paid = [line for line in lines if line["path"] == "/pay?n=1"]
    same("what was allowed", [(x["method"], x["status"], x["refused"], x["rule"], x["name"], x["port"]) for x in paid],
         [("POST", 200, False, 1, "web.test", 8080)])
    has("who", paid[0]["who"], "run ")
    refused = [line for line in lines if line["path"] == "/pay?n=2"]
    same("what was refused", [(x["method"], x["refused"]) for x in refused], [("POST", True)])
    first = [line for line in lines if line["path"] == "/never/x"]
    same("by the administrator's rule", [(x["refused"], x.get("first_rule")) for x in first], [(True, 1)])
    events = open(os.open(s / "events", os.O_RDONLY | os.O_NONBLOCK)).read()
    ok("events", events.count('"event":"asked"') >= 6 and events.count('"event":"decided"') >= 6, events[-1500:])
    follower = subprocess.Popen(["tail", "-n", "0", "-s", "0.1", "-f", s / "net/log"], stdout=subprocess.PIPE)
    time.sleep(0.5)
    s.run("print(fetch('http://web.test:8080/followed'))")
    line = follower.stdout.readline()
    follower.terminate()
    follower.wait()
    has("tail -f follows it", line.decode(), '"path":"/followed"')


def at_the_end():
    run, number = begins("http://web.test:8080/late/end")
    s.ctl("close")
    has("a sandbox that goes", s.text(f"net/denied/{number}/decided"), "the sandbox is gone")
    same("nothing waits", listed("pending"), [])
    same("rm -r", shell(f"rm -r {s.path}")[::2], (0, b""))
    land.end()


main(once, connection, for_good, too_late, out_of_time, over_death, at_once, log, at_the_end)
