#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""status.json of what waits for leave, and of what was decided, is as man/status.schema.json says, and so is that of its session."""
# backends: process vm
# timeout: 120
# mount: none
from netland import *
from schemas import *

land = Land(conf="[limits]\nmax_allow = *\nfirst_rules = ask GET web.test:80/first*\n")
land.lab.serve(land.lab.internet, WEB, 8080, answering(lambda head: head.split(b" HTTP")[0]))
s = land.session("asks", "network = on\nask = yes\nask_s = 60\ntimeout_s = 60\nallow = web.test\n"
                 "rules = ask GET web.test:8080/asked*\n")


def asked(probe):
    """A run that waits. Return: the number of its question."""
    s.submit(f"print({probe})")
    ok("it waits", wait_for(lambda: os.listdir(s / "net/pending"), 15), s.text("net/log"))
    return os.listdir(s / "net/pending")[0]


def is_right(where, n, **members):
    value = s.json(f"net/{where}/{n}/status.json")
    same(f"{where}: as the schema says", wrong("question", value), [])
    same(f"{where}: it is about that", {key: value[key] for key in members}, members)
    finds_mistakes("question", value)
    ok("a state that there is not is found", wrong("question", value | {"state": "perhaps"}))
    same("its session", wrong("session", s.json()), [])


def decide(number, where):
    os.rename(s / f"net/pending/{number}", s / f"net/{where}/{number}")
    return read(s / "stdout")


def requests():
    s.run(PROBES + FETCH)
    n = asked("fetch('http://web.test:8080/asked/1?x')")
    is_right("pending", n, number=int(n), state="pending", method="GET", scheme="http", host="web.test", port=8080, path="/asked/1?x",
             rule=1, first_rule=None, decision="once", decided=None, decided_at=None)
    write(s / f"net/pending/{n}/decision", "always\n")
    is_right("pending", n, decision="always", decided=None)
    has("allowed", decide(n, "allowed").decode(), "/asked/1")
    is_right("allowed", n, state="allowed", decision="always", who=["run 2"])
    n = asked("fetch('http://web.test/first')")
    is_right("pending", n, path="/first", rule=None, first_rule=1)
    has("denied", decide(n, "denied").decode(), "403")
    is_right("denied", n, state="denied", decision="once")


def connections():
    n = asked("tcp('web.test', 9000)")
    is_right("pending", n, method=None, path=None, scheme="tcp", port=9000, rule=None, first_rule=None)
    decide(n, "allowed")
    is_right("allowed", n, state="allowed")
    with open(s / "config", "a", encoding="ascii") as file:
        file.write("ask_s = 1\n")
    n = asked("tcp('web.test', 9001)")
    ok("nobody decides", wait_for(lambda: os.path.exists(s / f"net/denied/{n}"), 20))
    is_right("denied", n, state="denied", decided="denied, for nobody decided in time")


main(requests, connections, land.end)
