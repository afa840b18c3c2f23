#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""net/rules, net/secrets, net/pending, net/log before there is a sandbox: shells, editors, refusals."""
# backends: local vm
# conf: [secret token]
# conf: from = file /nonexistent/token
# conf: hosts = api.test *.test:8443
from xsbx import *

ON = "network = on\nrules = deny * old.test\n"


def off():
    s = Session("off")
    same("no rules", s.text("net/rules"), "")
    for node in ("net/rules", "net/secrets"):
        with raises(f"{node} without a network", errno.ENETDOWN):
            write(s / node, "deny * example.test\n" if "rules" in node else "a.test bearer x\n")
        has("error", s.text("error"), "code: network-off")
    for node in ("net/log", "net/refused"):
        same(f"{node} is empty", (s.text(node), os.stat(s / node).st_size), ("", 0))
        with raises(f"writing {node}", errno.EACCES):
            os.close(os.open(s / node, os.O_WRONLY))
    for directory in ("pending", "allowed", "denied"):
        same(f"nothing is {directory}", os.listdir(s / f"net/{directory}"), [])
        same("mode", os.stat(s / f"net/{directory}").st_mode & 0o7777, 0o700)
    with raises("questions are not made", errno.EPERM):
        os.mkdir(s / "net/pending/1")
    with raises("nor moved", errno.ENOENT):
        os.rename(s / "net/pending/1", s / "net/allowed/1")


def shells():
    s = Session("shells", config=ON)

    def after(command):
        same(command, shell(f"cd {s.path}/net; {command}")[::2], (0, b""))
        return s.text("net/rules").splitlines()

    same("adding", after("echo 'allow get,head  New.test:8080/v1*  # why' >> rules"),
         ["deny * old.test", "allow GET,HEAD New.test:8080/v1*"])
    same("replacing", after("printf '%s\\n' 'deny * a.test' '# why' 'ask POST *.b.test/x' > rules"),
         ["deny * a.test", "ask POST *.b.test/x"])
    same("its second", shell(f"sed -n 2p {s.path}/net/rules")[1], b"ask POST *.b.test/x\n")
    same("sed -i", after("sed -i 's/^deny/allow/' rules"), ["allow * a.test", "ask POST *.b.test/x"])
    same("sed -i d", after("sed -i 1d rules"), ["ask POST *.b.test/x"])
    same("cp", after("printf 'deny * c.test\\ndeny * d.test\\n' > ../list; cp ../list rules"),
         ["deny * c.test", "deny * d.test"])
    same("mv", after("echo 'deny * e.test' > ../list; mv ../list rules"), ["deny * e.test"])
    same("tee", after("printf 'deny * f.test\\nask * g.test' | tee rules > /dev/null"),
         ["deny * f.test", "ask * g.test"])
    same("a shell's redirection", after("{ echo 'deny * h.test'; /bin/echo 'deny * i.test'; } > rules"),
         ["deny * h.test", "deny * i.test"])
    same("many", after("seq -f 'deny * n%g.test' 500 | dd of=rules bs=4096 status=none")[::499],
         ["deny * n1.test", "deny * n500.test"])
    same("emptied", after(": > rules"), [])
    same("truncate", after("echo 'deny * l.test' > rules; truncate -s 0 rules"), [])
    same("config shows it", after("echo 'deny * m.test' > rules; grep -x 'rules = deny \\* m.test' "
                                  "../config > /dev/null"), ["deny * m.test"])
    same("config sets it", after("echo 'rules = deny * n.test allow GET o.test/x' >> ../config"),
         ["deny * n.test", "allow GET o.test/x"])
    code, _, err = shell(f"echo 'permit * x.test' >> {s.path}/net/rules")
    same("a shell says what is wrong", (code != 0, b"nvalid argument" in err), (True, True))
    has("and error", s.text("error"), "rule 3: permit: a rule begins with allow, deny or ask")
    same("nothing has changed", len(s.text("net/rules").splitlines()), 2)


def vim():
    if not shutil.which("vim"):
        return
    s = Session("vim", config=ON)
    shell(f"TERM=xterm vim -u NONE -N -es -c 'normal Goallow GET a.test/v1' -c wq {s / 'net/rules'} < /dev/null")
    same("vim", s.text("net/rules"), "deny * old.test\nallow GET a.test/v1\n")


def permitted():
    s = Session("permitted", config="network = on\n")
    write(s / "net/rules", "deny * 10.0.0.1\n")
    for rule in ("allow * 10.0.0.1", "ask GET localhost/x", "allow * host.internal:1"):
        with raises(rule, errno.EINVAL):
            write(s / "net/rules", rule + "\n")
    same("a rule that denies may name anything", s.text("net/rules"), "deny * 10.0.0.1\n")
    for rule in ("deny * a/../b", "deny * a/b;c", "deny GET,* a", "deny * a/b?c", "deny * http://a"):
        with raises(rule, errno.EINVAL):
            write(s / "net/rules", rule + "\n")


def secrets():
    s = Session("secrets", config="network = on\n")
    with raises("one that is not there", errno.EINVAL):
        write(s / "net/secrets", "api.test bearer nobody\n")
    has("error", s.text("error"), "there is no secret \"nobody\" for you")
    write(s / "net/secrets", "api.test/v1/* bearer token\n*.test:8443 header X-Key token\n")
    same("as it is read", s.text("net/secrets").splitlines(),
         ["api.test/v1/* bearer token", "*.test:8443 header X-Key token"])
    with raises("where it may not go", errno.EINVAL):
        write(s / "net/secrets", "api.example.com bearer token\n")
    has("error", s.text("error"), "token may not be sent to api.example.com:443")
    with raises("to all", errno.EINVAL):
        write(s / "net/secrets", "* bearer token\n")


def budgets():
    s = Session("budgets", config="net_bytes = 64M\nnet_rate = 1M\nnet_requests = 10\nask = yes\nask_s = 5\n")
    state = s.json()["settings"]
    same("in status.json", [state[key] for key in ("net_bytes", "net_rate", "net_requests", "ask", "ask_s")],
         [64 << 20, 1 << 20, 10, True, 5])
    with raises("ask_s = 0", errno.EINVAL):
        with open(s / "config", "ab", buffering=0) as file:
            file.write(b"ask_s = 0\n")
    has("config", s.text("config"), "\nnet_bytes = 64M\n")


main(off, shells, vim, permitted, secrets, budgets)
