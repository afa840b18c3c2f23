#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A network that changes while it is used: the list, ports, certificates, proxies, the pool."""
# backends: process vm
# night: vm
# timeout: 180
# mount: none
# log-allow: snapshot of
from netland import *

CONF = f"""
audit_file = {SCRATCH}/audit.jsonl
[network]
ca_certificates = {SCRATCH}/cert
proxy = pass
[limits]
max_allow = *.test web.test:9000 {PRIVATE}
[template web]
image = python
language = python
network = on
allow = web.test
pool = 1
timeout_s = 60
"""
land = Land(conf=CONF, env={"http_proxy": "http://proxy.test:3128/", "no_proxy": "a.test"})
CLIENT = """
import socket
sock = socket.create_connection(("web.test", 9000), 8)
sock.sendall(b"x")
print(sock.recv(1))
"""
SERVER = """
import http.server, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"from inside " + self.path.encode())
    def log_message(self, *words):
        pass
for port in (8080, 8081):
    server = http.server.ThreadingHTTPServer(("0.0.0.0", port), Handler)
    server.request_queue_size = 128
    threading.Thread(target=server.serve_forever, daemon=True).start()
"""


def fetch(port, path="/"):
    """By curl, as anybody on this machine would."""
    status, out, _ = shell(f"curl -sS -m 20 --noproxy '*' http://127.0.0.1:{port}{path}")
    return out.decode() if status == 0 else f"curl {status}"


def edited_list():
    s = land.session("edited", "network = on\nallow = web.test web.test:9000\ntimeout_s = 60\n")
    same("a connection", s.run(CLIENT).out, "b'x'\n")
    lines = [json.loads(x) for x in read(f"{SCRATCH}/audit.jsonl").splitlines()]
    same("the audit log has it", [(x["name"], x["port"], x["by"]) for x in lines
                                  if x["action"] == "connected" and x["session"] == "python/edited"],
         [("web.test", 9000, "xsbxfs")])
    same("sed -i takes it away",
         shell(f"sed -i /9000/d {s / 'net/allow'}; cat {s / 'net/allow'} | grep -v '^#'")[:2],
         (0, b"web.test\n"))
    same("the open connection ends", s.run("""
try:
    print(sock.recv(1))
except OSError as error:
    print(type(error).__name__)
""").out.strip() in ("b''", "ConnectionResetError"), True)
    s.denied("web.test", 9000, "no longer allowed")
    ok("a new one is not made", "refused" in s.run(CLIENT).err or "timed out" in s.run(CLIENT).err,
       s.run(CLIENT).err[-300:])
    same("the other port works", s.probe("http('web.test')"), WEB)
    same("not yet", s.probe("http('other.test')"), "told")
    same("a name comes", shell(f"echo other.test >> {s / 'net/allow'}")[0], 0)
    same("at once", s.probe("http('other.test')"), OTHER)
    same("all are taken away", shell(f": > {s / 'net/allow'}")[0], 0)
    same("at once too", s.probe("http('web.test')"), "told")
    with raises("what the administrator does not allow", errno.EINVAL):
        write(s / "net/allow", "example.com\n")
    has("it says so", s.text("error"), "code: not-allowed")
    with raises("the network itself stays", errno.EBUSY):
        with open(s / "config", "ab", buffering=0) as file:
            file.write(b"network = off\n")
    s.remove()


def ports():
    s = land.session("ports", "ports = 8080\ntimeout_s = 60\n")
    same("nothing before", s.text("ports"), "")
    same("a server", s.run(SERVER).code, 0)
    there = s.ports()
    same("one port", list(there), [8080])
    same("the line", s.text("ports"), f"8080 {there[8080]} http://127.0.0.1:{there[8080]}/\n")
    same("curl", fetch(there[8080], "/x"), "from inside /x")
    same("without a way out", s.probe("http('web.test')"), "told")
    same("another port of the sandbox is not there",
         "curl 7" if 8081 not in there else fetch(there[8081]), "curl 7")
    with open(s / "config", "ab", buffering=0) as file:
        file.write(b"ports = 8080 8081\n")
    ok("a port comes", wait_for(lambda: 8081 in s.ports()), s.text("ports"))
    same("and works", fetch(s.ports()[8081], "/y"), "from inside /y")
    same("the first stays where it was", s.ports().get(8080), there[8080])

    def load(n):
        for i in range(20):
            got = fetch(there[8080], f"/{n}/{i}")
            if got != f"from inside /{n}/{i}":
                bad.append(got)

    with together(load, 8) as bad:
        pass
    ok("160 requests of 8 clients", not bad, bad[:3])
    with open(s / "config", "ab", buffering=0) as file:
        file.write(b"ports = 8081\n")
    same("a port goes", list(s.ports()), [8081])
    same("nobody is there", wait_for(lambda: fetch(there[8080]) == "curl 7"), True)

    # Collisions: in a sandbox that runs, and in one that is to start.
    taken = land.lab.host.socket(socket.AF_INET, socket.SOCK_STREAM)
    taken.bind(("127.0.0.1", 0))
    taken.listen(1)
    number = taken.getsockname()[1]
    with open(s / "config", "ab", buffering=0) as file:
        file.write(f"ports = 8081 {number}:8080\n".encode())
    ok("a port that is taken", wait_for(lambda: "code: port-taken" in s.text("error")),
       s.text("error"))
    has("is not kept", s.text("config"), "\nports = 8081\n")
    same("the other one works", fetch(s.ports()[8081], "/z"), "from inside /z")
    late = land.session("late", f"ports = {number}:8080\n")
    late.submit("print(1)")
    same("a sandbox whose port is taken", wait_for(lambda: late.word() == "failed", 20), True)
    has("says so", late.text("error"), "code: port-taken")
    has("and which", late.text("error"), str(number))
    taken.close()
    same("when it is free again", late.run("print(1)").out, "1\n")
    same("it has it", late.ports(), {8080: number})
    late.remove()
    s.remove()
    ok("ports are free when the session is gone",
       wait_for(lambda: fetch(number) == "curl 7", 10))


def early():
    """Changes before the sandbox is there are not lost."""
    s = land.session("early", "network = on\nallow = web.test\nports = 8080\ntimeout_s = 60\n")
    s.submit(PROBES + "print(http('web.test'), http('other.test'))")
    write(s / "net/allow", "other.test\n")
    with open(s / "config", "ab", buffering=0) as file:
        file.write(b"ports = 8081\n")
    same("the list of the last moment", s.result().out, f"told {OTHER}\n")
    same("the ports too", list(s.ports()), [8081])
    s.remove()


def same_port_again():
    """A port of this machine can be had again as soon as its sandbox is given up."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        number = sock.getsockname()[1]
    s = land.session("again", f"ports = {number}:8080\ntimeout_s = 60\n")
    for how in ("close", "reset"):
        same(f"before {how}", s.run("print(1)").out, "1\n")
        same("the port", s.ports(), {8080: number})
        s.ctl("close")
        s.ctl("reset")
    same("after a reset", s.run(SERVER + "print(2)").out, "2\n")
    same("it answers", fetch(number, "/a"), "from inside /a")
    s.remove()
    s = land.session("again", f"ports = {number}:8080\nfresh = yes\ntimeout_s = 60\n")
    for n in range(3):
        same(f"run {n} in a sandbox of its own", s.run(f"print({n})").out, f"{n}\n")
    s.remove()


def surroundings():
    s = land.session("around", "network = on\nallow = web.test\ntimeout_s = 60\n"
                               "env.CURL_CA_BUNDLE = /my/own\n")
    same("the certificates", s.run("import os; print(open(os.environ['SSL_CERT_FILE']).read(), "
                                   "end='')").out, read(f"{SCRATCH}/cert", "r"))
    same("are trusted", s.probe("trusted('web.test')"), "hi")
    same("but not without", s.probe("os.environ.update(SSL_CERT_FILE='/dev/null') or trusted('web.test')"),
         "SSLCertVerificationError")
    for code in ("open('/run/xsbx/ca.pem', 'a')", "os.unlink('/run/xsbx/ca.pem')",
                 "os.rename('/run/xsbx/ca.pem', '/tmp/x')"):
        result = s.run(f"import os\ntry:\n    {code}\nexcept OSError as e:\n    print('refused')")
        same(code, result.out, "refused\n")
    same("the session's own variable stays",
         s.run("print(os.environ['CURL_CA_BUNDLE'], os.environ['REQUESTS_CA_BUNDLE'])").out,
         "/my/own /run/xsbx/ca.pem\n")
    same("the proxy", s.run("print(os.environ['http_proxy'], os.environ['no_proxy'])").out,
         "http://proxy.test:3128/ a.test\n")
    has("net/allow names it", s.text("net/allow"), "proxy.test:3128")
    same("its name is known", s.probe("name('proxy.test')"), "found")
    write(s / "net/allow", "other.test\n")
    same("also after a change", s.probe("name('proxy.test')"), "found")
    same("which took effect", s.probe("http('other.test')"), OTHER)
    s.remove()
    plain = land.session("plain", "timeout_s = 60\n")
    same("nothing of it without a network",
         plain.run("import os; print(os.environ.get('SSL_CERT_FILE'), os.environ.get("
                   "'http_proxy'))").out, "None None\n")
    plain.remove()


def bundle():
    """What programs read that know of no variable has the host's certificates, and the authority's as soon as there is one."""
    s = land.session("bundle", "network = on\nallow = web.test\ntimeout_s = 60\n")
    program = ("import os\nlist, own = (open(f).read() for f in ('/etc/ssl/certs/ca-certificates.crt', os.environ['SSL_CERT_FILE']))\n"
               "print(list == own, own.count('BEGIN CERTIFICATE'))")
    before = s.run(program).out
    write(s / "net/rules", "allow GET web.test/x\n")
    same("with rules it is in both", s.run(program).out, "True 2\n")
    same("before, only the host's is", before, "True 1\n")
    same("user code can't change it", s.run("try:\n    open('/etc/ssl/certs/ca-certificates.crt', 'a')\nexcept OSError: print('refused')").out,
         "refused\n")
    s.remove()


def languages():
    """Others resolve names and connect in their own ways."""
    config = "network = on\nallow = web.test\ntimeout_s = 60\nenv.http_proxy =\n"
    s = land.session("curl", config, "raw")
    same("curl", s.run("curl -sS -m 20 http://web.test/").out, WEB)
    result = s.run("curl -sS -m 20 http://other.test/")
    same("curl, refused", result.code, 0)
    has("it says why", result.out, "GET http://other.test/: neither net/allow nor a rule allows it")
    same("curl, refused, with TLS", s.run("curl -sS -m 20 https://other.test/").code, 7)
    # The server says nothing that curl takes for HTTP, but only after the handshake.
    same("curl trusts the certificate", s.run("curl -sS -m 20 https://web.test/").code, 1)
    same("so it does without variables", s.run("env -u CURL_CA_BUNDLE -u SSL_CERT_FILE curl -sS -m 20 https://web.test/").code, 1)
    ok("and no other", s.run("CURL_CA_BUNDLE=/dev/null curl -sS -m 20 https://web.test/").code in (60, 77))
    s.remove()
    if not has_language("javascript"):
        return
    s = land.session("fetch", config, "javascript")
    same("fetch", s.run("console.log(await (await fetch('http://web.test/')).text())").out,
         WEB + "\n")
    same("fetch, refused", s.run("console.log((await fetch('http://other.test/')).status)").out, "403\n")
    ok("fetch, refused, with TLS", s.run("await fetch('https://other.test/')").code == 1)
    s.denied("other.test", 0, "name not allowed")
    s.remove()


def warm():
    """A networked session is served from the pool like any other."""
    if not VM:
        return
    first = land.session("first", "timeout_s = 60\n", "web")
    has("a template's network", first.text("config"), "network = on\n")
    same("the template's list", first.probe("http('web.test')"), WEB)

    def ready():
        found = json.loads(read(f"{land.mnt}/status.json"))["snapshots"]
        return [x for x in found if x["pool"]["ready"] > 0 and x.get("network", True)]

    ok("a clone is ready", wait_for(ready, 60), read(f"{land.mnt}/status.json")[-1500:])
    second = land.session("second", "network = on\nallow = other.test\n", "web")
    same("another session", second.run("print(6 * 7)").out, "42\n")
    same("began with it", second.json()["sandbox"]["start"], "warm")
    same("its own list counts", second.probe("http('other.test')"), OTHER)
    same("not the template's", second.probe("http('web.test')"), "told")
    first.remove()
    second.remove()


# The pool first: as long as nothing else has been used, what is ready there is what is looked for.
main(warm, edited_list, ports, early, same_port_again, surroundings, bundle, languages, land.end)
