#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Package managers and git, in a sandbox whose HTTPS is looked into, with a registry that knows who has a token: the sandbox has a
secret instead."""
# backends: process vm
# night: process vm
# timeout: 400
# mount: none
from codeland import *

READ_ONLY = "deny POST code.test/git/demo.git/git-receive-pack"
GO = shutil.which("go")
# What installs $NAME and shows a word of it.
INSTALLERS = {
    "pip": ("python3 -m pip --version", "of pip", "python3 -m pip install -vv --no-input --retries 0 --no-cache-dir --disable-pip-version-check "
            f"--no-deps --target got --index-url {URL}/pypi/simple/ $NAME && PYTHONPATH=got python3 -c \"import $NAME; print($NAME.word)\""),
    "npm": ("npm --version", "of npm", "npm install --globalconfig /dev/null --loglevel=error --no-audit --no-fund --fetch-retries 0 "
            f"--cache $PWD/cache --registry {URL}/npm/ $NAME && "
            "node -p \"require('$NAME')\""),
    "bun": ("bun --version", "of npm", f"echo '{{}}' > package.json; BUN_CONFIG_REGISTRY={URL}/npm/ bun add --no-cache $NAME && "
            "bun -p \"require('$NAME')\""),
    "go": (f"{GO} version", "of go", f"export GOPROXY={URL}/go GOSUMDB=off GOTOOLCHAIN=local GOFLAGS=-modcacherw GOPATH=$PWD/go; {GO} mod init x && "
           f"{GO} get mod.test/$NAME@v1.0.0 && cat go/pkg/mod/mod.test/$NAME@v1.0.0/$NAME.go"),
    "git": ("git --version", "of git", f"GIT_TERMINAL_PROMPT=0 git clone -q {URL}/git/$NAME.git && cat $NAME/text"),
}

land = CodeLand()
knows, bare = land.session("knows", [READ_ONLY, *RULES], SECRETS), land.session("bare", RULES)


def installers():
    for name, word, command in present(knows, INSTALLERS):
        got, code = shows(knows, command, NAME="demo")
        ok(f"{name}: it is installed", code == 0 and word in got and TOKEN not in got, (code, got))
        got, code = shows(knows, command, NAME="closed")
        ok(f"{name}: what is refused is not", code and "403" in got, (code, got))
        got, code = shows(bare, command, NAME="demo")
        ok(f"{name}: control: without the secret the server does not give it", code and re.search("401|Username", got), (code, got))
        before, broken = land.arrived(), broken_off(knows)
        got, code = shows(knows, command, NAME="demo", **UNTRUSTING)
        ok(f"{name}: one that does not trust the session's authority breaks off", code and wait_for(lambda: broken_off(knows) > broken), (code, got))
        same(f"{name}: and nothing arrived", land.arrived(), before)


def pushed():
    """More than git sends in one piece; first it may only read."""
    got, code = shows(knows, f"git clone -q {URL}/git/demo.git $HOME/work && cd $HOME/work && git config user.name x && git config user.email x@x.test && "
                      "head -c 3000000 /dev/urandom > big && git add big && git commit -q -m second && git push -q")
    ok("a push that rules refuse", code and "403" in got, (code, got))
    head = f"git -C {SCRATCH}/www/git/demo.git log --format=%s main"
    same("it has not arrived", shell(head)[1], b"first\n")
    write(knows / "net/rules", "\n".join(RULES) + "\n")
    got, code = shows(knows, "cd $HOME/work && GIT_TERMINAL_PROMPT=0 git push -q")
    same("and one that they allow", (code, TOKEN in got), (0, False))
    same("arrived", shell(head)[1], b"second\nfirst\n")
    got, code = shows(knows, f"git clone -q {URL}/git/demo.git && cmp demo/big $HOME/work/big")
    same("whole", code, 0)


main(installers, pushed, land.end)
