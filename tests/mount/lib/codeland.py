# SPDX-License-Identifier: Apache-2.0
"""A land with Debian's nginx in its internet, at https://code.test, by an authority of its own; it answers who has a token: with
what it was asked below /api/, with packages below /pypi/, /npm/ and /go/, with repositories below /git/. Sandboxes have no token,
but a secret of this name."""

from netland import *

from registries import make_all
from servers import await_port, find, make_authority, start, start_nginx

CODE = "93.184.216.36"  # an address of its own, since web.test's port 443 is taken
URL = "https://code.test"
TOKEN = f"token-of-the-test-{os.urandom(9).hex()}"
CLOSED = "/api/closed* /pypi/simple/closed* /npm/closed* /go/mod.test/closed* /git/closed*".split()
RULES = [*(f"deny * code.test{path}" for path in CLOSED), "allow GET,HEAD,POST code.test/*"]
SECRETS = "code.test/git/* basic someone token code.test bearer token"
VARIABLES = "SSL_CERT_FILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE GIT_SSL_CAINFO NODE_EXTRA_CA_CERTS PIP_CERT".split()

NGINX = """
    access_log {top}/access.log; gzip on; gzip_types *; gzip_min_length 1; default_type application/octet-stream;
    map $http_authorization $known {{ default 0; "Bearer {token}" 1; }}
    server {{
        listen {address}:443 ssl http2; ssl_certificate {top}/server.pem; ssl_certificate_key {top}/server.key; root {top}/www;
        client_max_body_size 0;
        location / {{ if ($known = 0) {{ return 401 "nobody knows you\\n"; }} index index.html; }}
        location /api/ {{
            default_type text/plain;
            if ($known = 0) {{ return 401 "nobody knows you\\n"; }}
            return 200 "$request_method $uri $server_protocol $http_authorization\\n";
        }}
        location /git/ {{
            auth_basic "git"; auth_basic_user_file {top}/users;
            fastcgi_pass unix:{top}/cgi; fastcgi_param SCRIPT_FILENAME {core}/git-http-backend; include {params};
            fastcgi_param GIT_PROJECT_ROOT {top}/www/git; fastcgi_param GIT_HTTP_EXPORT_ALL 1;
            fastcgi_split_path_info ^(/git)(/.*)$; fastcgi_param PATH_INFO $fastcgi_path_info;
        }}
    }}"""


class CodeLand(Land):
    """@conf: of the daemon, beside its secret and what it trusts; @limits, @network: in these sections."""

    def __init__(self, conf="", limits="", network="", **more):
        for program in "nginx", "fcgiwrap", "git":
            find(program)
        HOSTS[CODE] = "code.test"
        self.authority = make_authority(SCRATCH, "code.test")
        write(f"{SCRATCH}/token", TOKEN + "\n")
        os.chmod(f"{SCRATCH}/token", 0o600)
        # In machines the image of JavaScript has the most of these programs.
        super().__init__(**more, conf=f"{conf}[template code]\nlanguage = raw\nimage = javascript\n"
                         f"[network]\nca_certificates = {self.authority}\n{network}[limits]\nmax_allow = *\n{limits}"
                         f"[secret token]\nfrom = file {SCRATCH}/token\nhosts = code.test\n")
        self.serve_code()

    def serve_code(self):
        with self.lab.internet.entered():
            self.ip("addr", "add", f"{CODE}/32", "dev", "lo")
        make_all(f"{SCRATCH}/www", URL)
        write(f"{SCRATCH}/users", f"someone:{{PLAIN}}{TOKEN}\n")
        start(self.lab, SCRATCH, "fcgiwrap", "-s", f"unix:{SCRATCH}/cgi")
        core = shell("git --exec-path")[1].decode().strip()
        start_nginx(self.lab, SCRATCH, NGINX.format(top=SCRATCH, token=TOKEN, address=CODE, core=core, params="/etc/nginx/fastcgi_params"))
        await_port(self.lab, CODE, 443)

    @staticmethod
    def arrived():
        """How many requests nginx has had."""
        return read(f"{SCRATCH}/access.log").count(b"\n")

    def session(self, name, rules=(), secrets="", config="", template="code"):
        made = Networked(name, template, "network = on\ntimeout_s = 100\nmemory_mb = 512\nallow = code.test\n"
                         f"rules = {' '.join(rules)}\nsecrets = {secrets}\n{config}", mnt=self.mnt)
        shutil.copy(self.authority, made / "files/authority.pem")
        write(made / "files/wgetrc", "ca_certificate = /home/user/authority.pem\nca_directory = /nonexistent\n")
        return made


def broken_off(session):
    """How often a program gave up in the middle of TLS, as those do that do not trust the session's authority."""
    return session.text("net/log").count("the program broke off TLS")


# Who has them trusts the server's own authority, but not the session's. Git of Debian, and go, look at all of a directory as well.
UNTRUSTING = {**{name: "/home/user/authority.pem" for name in VARIABLES}, "GIT_SSL_CAPATH": "/nonexistent", "SSL_CERT_DIR": "/nonexistent",
              "WGETRC": "/home/user/wgetrc"}


def present(session, table):
    """Rows of a table {name: (a command that fails where it is not, ...)} of programs that are in this sandbox. No other is left
    out in silence."""
    for name, (there, *rest) in table.items():
        if session.run(f"{there} > /dev/null").code == 0:
            yield name, *rest
        else:
            print(f"({name} is not in this sandbox)", flush=True)


def shows(session, command, **variables):
    """Runs it in a directory of its own. Return: what it printed and said, and its exit status."""
    words = "".join(f"export {name}={value}; " for name, value in variables.items())
    done = session.run(f"(cd $(mktemp -d); {words}{command}) 2>&1\n")
    return done.out + done.err, done.code


__all__ = [name for name in dir() if not name.startswith("_")]
