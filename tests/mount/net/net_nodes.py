#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""net/allow, net/refused and ports before there is a sandbox: shells, editors, refusals."""
# backends: local vm
from xsbx import *

NODES = ["allow", "allowed", "denied", "learned", "log", "pending", "refused", "rules", "secrets"]
ON = "network = on\nallow = old.test\n"


def allow(s):
    return s.text("net/allow")


def off():
    s = Session("off")
    same("what is there", sorted(os.listdir(s / "net")), NODES)
    has("a way to turn it on", allow(s), "echo 'network = on' >> config")
    same("nothing was denied", s.text("net/refused"), "")
    same("no ports", s.text("ports"), "")
    with raises("a name without a network", errno.ENETDOWN):
        write(s / "net/allow", "example.test\n")
    has("error", s.text("error"), "code: network-off")
    _, _, err = shell(f"echo example.test >> {s / 'net/allow'}")
    has("a shell says so", err, b"Network is down")
    for node in ("net/refused", "ports"):
        with raises(f"writing {node}", errno.EACCES):
            os.close(os.open(s / node, os.O_WRONLY))
    # As it says:
    same("turned on", shell(f"cd {s.path}; echo 'network = on' >> config")[::2], (0, b""))
    same("an empty list", allow(s), "")
    same("state", s.word(), "new")


def shells():
    s = Session("shells", config=ON)

    def after(command):
        same(command, shell(f"cd {s.path}/net; {command}")[::2], (0, b""))
        return allow(s).split()

    same("adding", after("echo new.test:8080 >> allow"), ["old.test", "new.test:8080"])
    same("again", after("echo NEW.test:8080 >> allow"), ["old.test", "new.test:8080"])
    same("replacing", after("printf '%s\\n' a.test '# why' '*.b.test' > allow"),
         ["a.test", "*.b.test"])
    same("sed -i", after("sed -i s/^a/c/ allow"), ["c.test", "*.b.test"])
    same("sed -i d", after("sed -i /b.test/d allow"), ["c.test"])
    same("cp", after("printf 'd.test\\ne.test\\n' > ../list; cp ../list allow"),
         ["d.test", "e.test"])
    same("mv", after("echo f.test > ../list; mv ../list allow"), ["f.test"])
    same("tee", after("printf 'g.test\\nh.test' | tee allow > /dev/null"), ["g.test", "h.test"])
    same("dd", after("seq -f 'n%g.test' 900 | dd of=allow bs=4096 status=none")[::899],
         ["n1.test", "n900.test"])
    same("a shell's redirection", after("{ echo i.test; /bin/echo j.test; echo k.test; } > allow"),
         ["i.test", "j.test", "k.test"])
    same("emptied", after(": > allow"), [])
    same("truncate", after("echo l.test > allow; truncate -s 0 allow"), [])
    same("config shows it", after("echo m.test > allow; grep -x 'allow = m.test' ../config "
                                  "> /dev/null"), ["m.test"])
    same("config sets it", after("echo 'allow = n.test, o.test' >> ../config"),
         ["n.test", "o.test"])
    same("turning it off", after("echo 'network = off' >> ../config; grep -v '^#' allow || true"),
         allow(s).split())
    same("nothing is left beside", sorted(os.listdir(s / "net")), NODES)


def editors():
    s = Session("editors", config=ON)
    path = s / "net/allow"
    for name, command in (
            ("vim", f"vim -u NONE -N -es -c 's/old/vim/' -c wq {path}"),
            ("vim with a backup", f"vim -u NONE -N -es -c 'set backup backupcopy=no' "
                                  f"-c '1s/.*/vim2.test/' -c wq {path}"),
            ("ex", f"printf '1s/.*/ex.test/\\nx\\n' | ex -s {path}"),
            ("ed", f"printf '1s/.*/ed.test/\\nw\\nq\\n' | ed -s {path}"),
            ("perl", f"perl -pi -e 's/.*/perl.test/' {path}")):
        if not shutil.which(name.split()[0]):
            continue
        before = allow(s)
        status, _, err = shell(f"TERM=xterm {command} < /dev/null" if "printf" not in command
                               else command)
        same(f"{name}: {err!r}", status, 0)
        ok(f"{name} changed it", allow(s) != before and allow(s).count("\n") == 1, allow(s))
    for name in os.listdir(s / "net"):
        ok("only a backup is left", name in (*NODES, "allow~"), name)


def refused():
    s = Session("refused", config=ON)
    for text in ("a..test\n", "x:0\n", "::1\n", "a*.test\n", "good.test\nhttp://bad.test/\n",
                 "b\0c\n", "h.test " * 5000, "\n".join(f"n{i}.test" for i in range(1025)),
                 "1.2.3\n"):
        with raises(f"{text[:30]!r}", errno.EINVAL):
            write(s / "net/allow", text)
        same(f"{text[:30]!r} changes nothing", allow(s), "old.test\n")
    has("error", s.text("error"), "1.2.3: this is no IPv4 address")
    for text in ("allow = a..test\n", "ports = 0\n", "ports = 70000\n", "ports = 80 80\n",
                 "ports = 1 2 3 4 5 6 7 8 9 10 11\n", "ports = http\n", "ports = 80:81 80:82\n",
                 "network = off\nallow = x.test\n"):
        with raises(text, errno.EINVAL):
            with open(s / "config", "ab", buffering=0) as file:
                file.write(text.encode())
    write(s / "config", "ports = 8080 3000:80\n")
    has("ports without a network", s.text("config"), "ports = 8080 3000:80\n")
    with raises("allow without a network", errno.EINVAL):
        write(s / "config", "allow = x.test\n")
    has("it says what is missing", s.text("error"), "network = on")


def removed():
    s = Session("removed", config=ON)
    write(s / "net/temp", "x")
    same("rm -r", shell(f"rm -r {s.path}")[::2], (0, b""))
    ok("it is gone", not os.path.exists(s.path))


main(off, shells, editors, refused, removed)
