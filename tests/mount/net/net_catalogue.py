#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cases of HTTP and credentials that sandlock tests, each with a test of ours; here are those that no other file has."""
# backends: process vm
# night: vm
# timeout: 120
# mount: none
from netland import *

# What sandlock tests: where we do. Files are below tests/; "here" is this one.
CATALOGUE = """
allow GET, not POST; deny what does not match    unit/vm/net/test_net_rules.py::test_methods_and_paths
several rules; deny before allow                 unit/vm/base/test_rules.c::first_match
HTTPS: allowed, denied                           mount/net/net_clients.py::pages
any host, with a path that is denied             here::any_host
no rules, no limits                              here::any_host
methods and hosts in any case                    mount/net/net_policy.py::shells unit/vm/net/test_net_web.py::test_tls
a port that is not looked into                   unit/vm/net/test_net_web.py::test_other_ports here::loopback
IPv6: its loopback address; no way round         here::loopback here::ipv6
rules and the list of names together             unit/vm/net/test_net_rules.py::test_rules_answer
//, /../, /./, %-encodings, as bypasses          unit/vm/base/test_rules.c::both_readings unit/vm/net/test_net_rules.py::test_methods_and_paths
... and in rules themselves                      unit/vm/base/test_rules.c::refused
the authority in the bundle, behind the others   here::bundle
an upstream that is not trusted                  unit/vm/net/test_net_rules.py::test_untrusted_server
other protocols, CONNECT, an Upgrade             unit/vm/net/test_net_rules.py::test_no_proxy unit/vm/net/test_net_rules.py::test_websocket
bearer, basic, header, query                     unit/vm/net/test_net_secrets.py::test_ways
instead of what the program has set, in any form unit/vm/net/test_net_dress.c::fields unit/vm/net/test_net_dress.c::queries
to its place alone, also behind a redirect       unit/vm/net/test_net_secrets.py::test_nowhere_else unit/vm/net/test_net_secrets.py::test_redirect
not with what is denied                          mount/net/net_clients.py::pages
bytes that no header can have; a last newline    unit/vm/net/test_net_secrets.py::test_values
a user with a colon; no header's name            unit/vm/base/test_secret_use.c::refused
a secret that there is not, or not for you       mount/net/net_policy.py::secrets mount/net/net_secrets.py::sources
where it may come from                           unit/vm/task/test_secret_source.c::files unit/vm/task/test_secret_source.c::variables
the variable is not in the sandbox               mount/net/net_secrets.py::nowhere
taken out of answers                             unit/vm/net/test_net_secrets.py::test_repeated unit/vm/net/test_net_redact.c::in_all_forms
in no log, no dump, no checkpoint                mount/net/net_secrets.py::nowhere
"""

# Runs in the sandbox, and on this machine: what a server at a loopback address says to who asks it there.
LOOPBACK = r'''
import http.server, threading, urllib.error

class Says(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"inside")
    def log_message(self, *_): pass

@word
def beside(address):
    class Server(http.server.HTTPServer):
        address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with Server((address, 0), Says) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        host = f"[{address}]" if ":" in address else address
        return urllib.request.urlopen(f"http://{host}:{server.server_address[1]}/x").read().decode()

@word
def status(url):
    try:
        return str(urllib.request.urlopen(url).status)
    except urllib.error.HTTPError as error:
        return str(error.code)
'''

land = Land(conf="[limits]\nmax_allow = *\n")
ruled = land.session("ruled", "network = on\nallow = web.test other.test\nrules = deny * */status/418 deny * other.test\ntimeout_s = 60\n")
free = land.session("free", "network = on\nallow = web.test other.test\ntimeout_s = 60\n")
for session in ruled, free:
    session.probe("1")
    session.run(LOOPBACK)


def catalogue():
    """Whatever it names is there."""
    for line in CATALOGUE.strip().splitlines():
        found = re.findall(r"(\S+)::(\w+)", line)
        ok(f"{line[:49].strip()}: has a test", found)
        for path, function in found:
            path = __file__ if path == "here" else f"{ROOT}/tests/{path}"
            ok(f"{path}: {function}", re.search(rf"^\s*(def|static void) {function}\(", read(path, "r"), re.M))


def any_host():
    for path, other in (("/status/418", "403"), ("/status//418", "403"), ("/%73tatus/418", "403"), ("/x", "200")):
        same(f"{path} with a rule", ruled.probe(f"status('http://web.test{path}')"), other)
        same(f"{path} without", free.probe(f"status('http://web.test{path}')"), "200")
    same("another host", ruled.probe("status('http://other.test/x')"), "403")
    same("without", free.probe("status('http://other.test/x')"), "200")


def loopback():
    """What stays in the sandbox is no business of the network's."""
    write(ruled / "net/rules", "deny * *\n")
    for address in "127.0.0.1", "::1":
        same(f"{address}, whatever is denied", ruled.probe(f"beside('{address}')"), "inside")
    same("control: all is", ruled.probe("status('http://web.test/x')"), "403")


def ipv6():
    write(ruled / "net/rules", "deny * web.test/closed* allow GET *\n")
    same("control: a name has an address", ruled.probe("str(bool(socket.getaddrinfo('web.test', 80, socket.AF_INET)))"), "True")
    same("and none of IPv6", ruled.probe("word(lambda: socket.getaddrinfo('web.test', 80, socket.AF_INET6))()"), "gaierror")
    probe = f"tcp('{WEB6}', 80, socket.AF_INET6)"
    same("control: this machine gets there", land.control(probe), "answered")
    ok("a sandbox does not", ruled.probe(probe) in ("OSError", "TimeoutError", "ConnectionRefusedError"), ruled.probe(probe))
    same("nor in another spelling", ruled.probe(f"tcp('::ffff:{WEB}', 80, socket.AF_INET6)") == "answered", False)


def bundle():
    """What the session trusts without rules, and behind that its own."""
    write(ruled / "net/rules", "allow GET web.test/x*\n")
    texts = [s.run("print(open('/run/xsbx/ca.pem').read(), end='')").stdout for s in (free, ruled)]
    ok("it begins with the others", texts[1].startswith(texts[0]) and texts[0].count(b"BEGIN CERT") > 1, [len(text) for text in texts])
    same("and has one more", texts[1].count(b"BEGIN CERT") - texts[0].count(b"BEGIN CERT"), 1)
    others = land.session("others", "network = on\nallow = web.test\nrules = allow GET web.test/x*\n")
    ok("which is the session's alone", others.run("print(open('/run/xsbx/ca.pem').read(), end='')").stdout[len(texts[0]):] not in (
        b"", texts[1][len(texts[0]):]))


main(catalogue, any_host, loopback, ipv6, bundle, land.end)
