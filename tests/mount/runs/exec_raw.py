#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bash programs, in a table: what is run, and what must come out of it."""
# timeout: 120
# In the laboratory, for who may not use KVM, a machine is emulated in an emulated one: bash takes over a minute to start.
# backends: local vm
# log-allow: no snapshot of raw yet: .*ended before it was ready, for it took too long
from tables import *

# name, code, stdout (text, or a pattern), exit status, pattern of stderr ("" means none at all)
CASES = [
    ("echo", "echo hi", "hi\n", 0, ""),
    ("empty", "", "", 0, ""),
    ("comment", "# x", "", 0, ""),
    ("byte order mark", "\ufeffecho bom", "bom\n", 0, ""),
    ("unknown command", "nosuchcommand", "", 127, r"not found"),
    ("syntax error", "if true; then", "", None, r"syntax error|unexpected end"),
    ("... and the shell lives", "echo alive", "alive\n", 0, ""),
    ("pipe", "printf 'b\\na\\n' | sort", "a\nb\n", 0, ""),
    ("redirect", "echo x > f; cat < f; rm f", "x\n", 0, ""),
    ("variable", "v='a b'; echo \"$v\"", "a b\n", 0, ""),
    ("$dollar and backticks", "cat <<'E'\n$HOME `date` $(x)\nE", "$HOME `date` $(x)\n", 0, ""),
    ("here-document", "x=1; cat <<E\nx is $x\nE", "x is 1\n", 0, ""),
    ("here-string", "cat <<< 'hs'", "hs\n", 0, ""),
    ("arrays", "a=(1 2 3); echo ${a[1]} ${#a[@]}", "2 3\n", 0, ""),
    ("associative arrays", "declare -A m; m[k]=v; echo ${m[k]}", "v\n", 0, ""),
    ("... last", "echo ${m[k]} ${a[2]}", "v 3\n", 0, ""),
    ("process substitution", "diff <(echo a) <(echo a) && echo same", "same\n", 0, ""),
    ("regular expression", "[[ abc =~ ^a(.)c$ ]] && echo ${BASH_REMATCH[1]}", "b\n", 0, ""),
    ("arithmetic", "echo $((6 * 7))", "42\n", 0, ""),
    ("function", "f() { echo \"f $1\"; }; f x", "f x\n", 0, ""),
    ("... last", "f y", "f y\n", 0, ""),
    ("exported", "export E=1; bash -c 'echo $E'", "1\n", 0, ""),
    ("... last", "bash -c 'echo $E'", "1\n", 0, ""),
    ("cd", "mkdir -p d && cd d && basename \"$PWD\"", "d\n", 0, ""),
    ("... lasts", "basename \"$PWD\"; cd ..", "d\n", 0, ""),
    ("alias and shopt", "shopt -s expand_aliases; alias hi='echo hello'", "", 0, ""),
    ("... last", "hi", "hello\n", 0, ""),
    ("the last status", "false; true; false", "", 1, ""),
    ("$? across runs", "(exit 3)", "", 3, ""),
    ("... is kept", "echo $?", "3\n", 0, ""),
    ("return at top level", "return 5", "", None, None),
    ("subshell exit", "(exit 9); echo $?", "9\n", 0, ""),
    ("signal in a child", "bash -c 'kill -9 $$'; echo $?", "137\n", 0, None),
    ("status of a killed child", "bash -c 'kill -9 $$'", "", 137, None),
    ("exit trap in a subshell", "(trap 'echo bye' EXIT; echo hi)", "hi\nbye\n", 0, ""),
    ("read at end of file", "read x; echo $?", "1\n", 0, ""),
    ("wc of stdin", "wc -l", "0\n", 0, ""),
    ("cat of stdin", "cat", "", 0, ""),
    ("/dev/stdin", "cat /dev/stdin", "", 0, ""),
    ("stderr", "echo e >&2", "", 0, r"^e\n$"),
    ("/dev/stdout", "echo so > /dev/stdout; echo se > /dev/stderr", "so\n", 0, r"^se\n$"),
    ("multi-line", "for i in 1 2\ndo\n  echo $i\ndone", "1\n2\n", 0, ""),
    ("backslash newline", "echo a \\\n  b", "a b\n", 0, ""),
    ("no newline at the end", "printf x", "x", 0, ""),
    ("background job", "sleep 60 & echo started", "started\n", 0, None),
    ("... lives on", "jobs -p | wc -l; kill %1; wait; echo done", re.compile("1\ndone\n"), 0, None),
    ("child after the run", "(sleep 0.2; echo late > late.txt) & true", "", 0, None),
    ("... did its work", "until [ -s late.txt ]; do sleep 0.05; done; cat late.txt", "late\n", 0, None),
    # things that break a naive driver
    ("IFS", "IFS=,; echo a", "a\n", 0, ""),
    ("... is kept", "printf '%s.' $(echo 1,2); echo", "1.2.\n", 0, ""),
    ("... put back", "unset IFS", "", 0, ""),
    ("set -e and a failure", "set -e\necho a\nfalse\necho b", "a\n", 1, ""),
    ("set +e", "set +e; echo on", "on\n", 0, ""),
    ("set -u", "set -u; echo ${nosuch}", "", None, r"unbound"),
    ("set +u", "set +u; echo \"<$nosuch>\"", "<>\n", 0, ""),
    ("set -x", "set -x; echo traced", "traced\n", 0, r"\+ echo traced"),
    ("set +x", "{ set +x; } 2>/dev/null", "", 0, None),
    ("quiet again", "echo quiet", "quiet\n", 0, ""),
    ("set -f", "set -f; echo *", "*\n", 0, ""),
    ("set +f", "set +f", "", 0, ""),
    ("set -n is harmless", "set -o noexec; true", "", None, None),
    ("... later", "echo fine", "fine\n", 0, ""),
    ("stderr redirected for good", "exec 2>/dev/null; echo x >&2", "", 0, ""),
    ("... is back in the next run", "echo y >&2", "", 0, r"y\n"),
    ("stdout closed for good", "exec >&-; true", "", 0, None),
    ("... is back in the next run", "echo z", "z\n", 0, ""),
    ("other descriptors", "exec 7>seven; echo s >&7", "", 0, ""),
    ("... are kept", "echo t >&7; exec 7>&-; cat seven", "s\nt\n", 0, ""),
    ("variables a driver might use", "code=1 status=2 rc=3 _ec=4 line=5 nonce=6 fd=7 REPLY=8 run=9", "",
     0, ""),
    ("... are kept", "echo $code $status $rc $_ec $line $nonce $fd $REPLY $run", "1 2 3 4 5 6 7 8 9\n",
     0, ""),
    ("functions a driver might use", "echo_() { :; }; eval() { builtin echo mine; }; "
     "source() { builtin echo mine; }; printf() { builtin echo mine; }", "", 0, ""),
    ("... do not change it", "unset -f eval source printf; echo still", "still\n", 0, ""),
    ("trap DEBUG and ERR", "trap 'true' DEBUG; trap 'echo err' ERR; false", "err\n", 1, ""),
    ("traps removed", "trap - DEBUG ERR; false", "", 1, ""),
    ("PATH", "old=$PATH; PATH=; type ls", re.compile(""), None, None),
    ("... put back", "PATH=$old; ls /dev/null", "/dev/null\n", 0, ""),
    ("LC_ALL", "LC_ALL=C; printf '%d' \"'é\"; unset LC_ALL", re.compile(""), None, None),
    ("exec replaces the shell", "exec echo replaced", "replaced\n", 0, None),
    ("... a fresh one", "echo \"fresh $E\"", "fresh \n", 0, ""),
    ("exit", "x=1; exit 42", "", 42, None),
    ("... a fresh one", "echo \"<$x>\"", "<>\n", 0, ""),
    ("exit trap", "trap 'echo bye' EXIT; exit 3", "bye\n", 3, None),
    ("kill itself", "kill -TERM $$; sleep 1; echo survived", re.compile(""), None, None),
    ("a long line", "echo " + "x" * 100000, "x" * 100000 + "\n", 0, ""),
    ("10,000 lines", "seq 10000", re.compile("^1\n.*\n10000\n$", re.S), 0, ""),
    ("fake machinery output", "echo '__DONE__ 0'; echo '{\"exit\":3}' >&2; (exit 4)",
     "__DONE__ 0\n", 4, r"exit"),
    # other interpreters
    ("#!/bin/sh", "#!/bin/sh\necho sh $0 | cut -c1-2", "sh\n", 0, ""),
    ("#!/usr/bin/env bash", "#!/usr/bin/env bash\necho $((1+1))", "2\n", 0, ""),
    ("#!/usr/bin/awk -f", "#!/usr/bin/awk -f\nBEGIN {\n  print 1 + 2\n}", "3\n", 0, ""),
    ("#!/bin/sed", "#!/bin/sed -n\np", re.compile(""), None, None),
    ("#! exit status", "#!/bin/sh\nexit 42", "", 42, None),
    ("#! stderr", "#!/bin/sh\necho e >&2", "", 0, r"e\n"),
    ("#! with an exported variable", "export V=1", "", 0, ""),
    ("... inherits it", "#!/bin/sh\necho $V", "1\n", 0, ""),
    ("#! with an empty body", "#!/bin/sh\n", "", 0, ""),
    ("#! without newline", "#!/bin/sh", "", 0, ""),
    ("#! that does not exist", "#!/no/such/interpreter\nx", "", None, None),
    ("a comment is no #!", "# comment\necho plain", "plain\n", 0, ""),
    ("a leading space is no #!", " #!/bin/false\necho plain", "plain\n", 0, ""),
    ("HOME", "cd; test \"$PWD\" = \"$HOME\" && test ~ = \"$HOME\" && echo home", "home\n", 0, ""),
    ("HOME is writable", "echo x > ~/w && cat ~/w && rm ~/w", "x\n", 0, ""),
]

VM_CASES = [
    ("cwd, HOME, id", "cd; echo $PWD $HOME $(id -u) $(id -g)", "/home/user /home/user 1000 1000\n", 0,
     ""),
    ("tools", "for t in git curl jq awk sed find diff patch less make tree tar gzip unzip zip file grep; "
     "do command -v $t >/dev/null || echo no $t; done", "", 0, ""),
    ("TCP to nowhere", "(exec 3<>/dev/tcp/1.1.1.1/80) 2>/dev/null || echo refused", "refused\n", 0, ""),
    ("names do not resolve", "getent hosts example.com || echo unknown", "unknown\n", 0, ""),
    ("ping", "ping -c 1 -W 5 127.0.0.1 | grep -c 'bytes from'", "1\n", 0, ""),
    ("loopback works", "(exec 3<>/dev/tcp/127.0.0.1/9) 2>&1 | grep -o -m1 'refused'", "refused\n", 0, ""),
]


def table():
    s = Session("table")
    run_table(s, CASES + (VM_CASES if VM else []), end="")


def given_input():
    """What was written to `stdin` can be had by the names of the descriptor, too: by whoever runs."""
    s = Session("input")
    for name in "/dev/stdin", "/proc/self/fd/0", "/dev/fd/0":
        write(s / "stdin", b"1\n2\n3\n")
        result = s.run(f"cat {name}; cat {name}\n")
        same(f"{name}", (result.code, result.err, result.out), (0, "", "1\n2\n3\n"))


main(table, given_input)
