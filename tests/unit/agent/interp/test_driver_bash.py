#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The driver of bash, images/drivers/repl.sh and turn.c, without a sandbox. Usage: see driver_fixture.py."""

import os
import random
import signal
import socket
import sys
import time

from driver_fixture import DEADLINE, SEED, WARM, DriverCase, main, shells


class BashCases(DriverCase):
    """Everything about repl.sh and the part of turn.c that runs in bash."""

    def test_basics(self):
        s = self.session()
        self.assertRegex(s.version, r'^bash [5-9]')
        self.expect(s, '', '', 0, '')
        self.expect(s, '# comment only', '', 0, '')
        self.expect(s, 'echo hi', 'hi\n', 0, '')
        self.expect(s, '\ufeffecho bom', 'bom\n', 0, '')
        self.expect(s, 'echo hi\n\n', 'hi\n')
        self.expect(s, 'printf "caf\u00e9 %s\\t\\0" 你好', 'café 你好\t\0')
        self.expect(s, 'false', status=1)
        self.expect(s, 'echo $?', '1\n')
        self.expect(s, '(exit 77)', status=77)
        self.expect(s, 'no_such_command', '', 127, b'bash: line 1: no_such_command: command not found\n')
        self.expect(s, 'echo b a | tr " " "\\n" | sort; echo x > f; cat < f', 'a\nb\nx\n')
        self.expect(s, 'cat <<X\n$HOME `echo y`\nX\n', f'{s.home} y\n')
        self.expect(s, "cat <<'X'\n$HOME `echo y`\nX", '$HOME `echo y`\n')
        self.expect(s, 'cat <<X\nHEREDOC EOF __SENTINEL_1_2__\nX', 'HEREDOC EOF __SENTINEL_1_2__\n')

    def test_looks_like_a_script(self):
        s = self.session()
        self.expect(s, 'echo "$0 $# [$*] ${#BASH_SOURCE[@]} ${#FUNCNAME[@]} $BASH_SUBSHELL $SHLVL"',
                    'bash 0 [] 0 0 0 1\n')
        self.expect(s, 'enable -a | grep -c xsbx', '0\n', 1)
        self.expect(s, 'xsbx_turn 3', status=127, err='command not found')
        self.expect(s, 'set | grep -i -e xsbx_ -e nonce -e "^code="', '', 1)
        self.expect(s, '\n\nif then', '', 2, "bash: line 3: syntax error near unexpected token `then'")
        self.expect(s, 'echo "open', '', 2, 'unexpected EOF')
        self.expect(s, 'set -- a b; f() { echo $1 $FUNCNAME $LINENO; }')
        self.expect(s, 'f x; echo $2; return 3', 'x f 1\nb\n', None, 'can only `return')

    def test_state_is_kept(self):
        s = self.session()
        self.expect(s, 'x=1; export E=e; f() { echo "f $1"; }; arr=(a "b c"); declare -A m=([k]=v)\n'
                    'cd /usr; alias ll="echo alias"; shopt -s expand_aliases; exec 9</dev/null')
        self.expect(s, 'echo $x; sh -c "echo \\$E"; f y; echo "${arr[1]} ${m[k]}"; pwd\nll z\n'
                    '[ -e /proc/self/fd/9 ] && echo open', '1\ne\nf y\nb c v\n/usr\nalias z\nopen\n')
        self.expect(s, 'fi', status=2)
        self.expect(s, 'readonly x; x=2; echo unreached', '', 1, 'readonly variable')
        self.expect(s, 'set -u; echo $nope; echo unreached', '', None, 'unbound variable')
        self.expect(s, 'set +u; g() { local l=1; echo ${nope:?gone}; }; g; echo unreached', '', None, 'gone')
        self.expect(s, 'echo $x$l', '1\n')
        self.expect(s, '[[ abc =~ a(.)c ]] && echo ${BASH_REMATCH[1]}; cat <<< here; cat <(echo sub)',
                    'b\nhere\nsub\n')
        self.expect(s, 'read v < <(echo proc); echo $v > >(cat); wait; echo end', None, 0)
        self.expect(s, 'ls /proc/self/fd | wc -l', '5\n')

    def test_hostile_state(self):
        s = self.session()
        for code in (
                'IFS=,', 'set -u', 'exec 2>/dev/null', 'exec >&- 2>&- <&-', 'exec 1>/dev/null',
                'eval() { :; }; read() { :; }; builtin() { :; }; printf() { :; }; enable() { :; }; '
                'command() { :; }; unset() { :; }', 'shopt -s expand_aliases; alias echo_=x',
                'set -n', 'set -f -v', 'set +v -x; : ', 'set +x; set -o posix', 'set +o posix',
                'trap "echo dbg >/dev/null" DEBUG; trap ": " ERR RETURN USR1', 'trap - DEBUG ERR',
                'ulimit -c 0', 'umask 777', 'umask 22', 'shopt -s extdebug nullglob dotglob failglob',
                'shopt -u extdebug failglob', 'readonly PATH HOME IFS BASH_SOURCE',
                'code=1 _ec=2 sentinel_id=3 status=4 nonce=5', 'PS4=$(exit 3)', 'unset RANDOM BASHPID',
                'enable -n echo; enable echo', 'hash -r; set -- 1 2 3; shift 3', 'exec 3>&1 1>&2',
                'd=$(mktemp -d); cd $d; rmdir $d', 'trap "" TERM', 'set -m; set +m; set -k; set +k',
                'set -e; set +e', 'coproc cat; kill $COPROC_PID', 'set -T -E', 'disown -a', 'bind 2>&1',
                'for i in 1 2; do break 5; done; continue 3', 'set -o noclobber', 'set -o nounset'):
            self.expect(s, code, status=None)
            self.expect(s, 'echo ok; echo err >&2; { false || true; }', 'ok\n', 0)

    def test_end_of_shell(self):
        self.expect_gone(self.session(), 'echo a; exit 3; echo b', 3, 'a\n')
        self.expect_gone(self.session(), 'f() { exit 300; }; f', 44)
        self.expect_gone(self.session(), 'set -e; echo a; false; echo b', 1, 'a\n')
        self.expect_gone(self.session(), 'exec sh -c "exit 6"', 6)
        self.expect_gone(self.session(), 'kill -9 $$', 137)
        self.expect_gone(self.session(), 'kill $$', 143)
        self.expect_gone(self.session(), 'trap "echo bye; exit 9" EXIT; exit 4', 9, 'bye\n')
        s = self.session()
        self.expect(s, 'trap "echo over > trapped" EXIT; set -e', '')
        self.expect_gone(s, 'f() { echo in; (exit 8); }; f', 8, 'in\n')
        with open(s.home + '/trapped') as f:
            self.assertEqual(f.read(), 'over\n')
        s = self.session()
        self.expect(s, 'trap "echo over > trapped" EXIT')
        s.ctl.shutdown(socket.SHUT_RDWR)
        self.assertEqual(s.process.wait(DEADLINE), 0)
        self.assertTrue(os.path.exists(s.home + '/trapped'))

    def test_stdin(self):
        s = self.session()
        self.expect(s, 'read x', '', 1)
        self.expect(s, 'wc -l', '0\n')
        self.expect(s, 'read a; read b; echo "$b $a"; cat', 'two one\nthree\n', stdin=b'one\ntwo\nthree\n')
        self.expect(s, 'cat /dev/stdin; echo out > /dev/stdout; echo err > /dev/stderr', 'inout\n', 0,
                    b'err\n', stdin=b'in')
        self.expect(s, 'mapfile -t l; echo ${#l[@]}; [ -t 0 ] || echo no tty', '2\nno tty\n',
                    stdin=b'1\n2\n')
        self.expect(s, 'read x; echo $x', 'fresh\n', stdin=b'fresh\n')

    def test_streams(self):
        s = self.session()
        r = self.expect(s, 'for i in 1 2 3; do echo o$i; echo e$i >&2; sh -c "echo s$i"; done', joined=True)
        self.assertEqual(r.out, b'o1\ne1\ns1\no2\ne2\ns2\no3\ne3\ns3\n')
        self.expect_live(s, 'printf a; read -r line; printf b', 'a', 'b')
        r = self.expect(s, 'head -c 50000000 /dev/zero')
        self.assertEqual(r.out, bytes(50000000))
        self.expect(s, 'printf partial >&2', '', 0, b'partial')
        self.expect(s, 'for i in {1..20000}; do echo $i; done', ''.join(f'{i}\n' for i in range(1, 20001)))

    def test_shebang(self):
        s = self.session()
        for code, out, status in (
                ('#!/usr/bin/awk -f\nBEGIN { print "awk"\n print 6 * 7 }\n', 'awk\n42\n', 0),
                ('#!/bin/sh\necho sh $0 | grep -c "sh /tmp/run"\n', '1\n', 0),
                ('#!/bin/bash\necho ${BASH_VERSION:+bash}\nexit 42\n', 'bash\n', 42),
                ('#!/bin/sed -f\ns/a/b/\n', 'b\n', 0), ('#!/bin/bash\n', '', 0), ('#!/bin/bash', '', 0),
                ('# !/bin/sh\necho $BASHPID | grep -c .', '1\n', 0), (' #!/bin/false\necho x', 'x\n', 0),
                ('\ufeff#!/bin/sh\necho bom', 'bom\n', 0),
                ('#!/bin/cat\n$dollar `tick` "quote\nEOF\n', '#!/bin/cat\n$dollar `tick` "quote\nEOF\n', 0)):
            self.expect(s, code.encode(), out, status, stdin=b'a\n')
        self.expect(s, '#!/no/such\n', '', None, ': /tmp/run-')
        self.assertNotEqual(s.run('#!/no/such\n').status, 0)
        self.expect(s, '#!/bin/sh\necho err >&2', '', 0, b'err\n')
        self.expect(s, 'export FROM=shell; cd /usr; set -e')
        self.expect(s, '#!/bin/sh\necho $FROM; pwd; exit 5', 'shell\n/usr\n', 5)
        # Those of other tests, which run at the same time, are gone in a moment as well.
        self.expect(s, 'set +e; left=$(ls -d /tmp/run-* 2>/dev/null); for i in {1..300}; do [ -n "$left" ] || break; '
                       'sleep 0.1; left=$(ls -d $left 2>/dev/null); done; echo "left: $left"', 'left: \n')

    def test_background(self):
        s = self.session()
        self.expect(s, 'sleep 100 & echo $! > pid; (sleep 100; echo late) & disown', '', 0, '')
        self.expect(s, 'kill -0 $(cat pid) && echo alive; jobs | grep -c sleep', 'alive\n1\n')
        self.expect(s, 'kill %1; wait %1; echo $?', '143\n')
        self.expect(s, 'setsid sh -c "(sleep 3 &) ; echo $$ >/dev/null"; echo ok', 'ok\n')
        self.expect(s, '(echo sub; exit 3); echo $?; x=$(exit 4); echo $?; (f() { exit 5; }; f) & wait $!; echo $?',
                    'sub\n3\n4\n5\n')
        self.expect(s, 'echo ${nope:?in child} & wait; echo next', 'next\n', 0, 'in child')
        self.expect(s, '{ set -e; false; echo no; } | cat; echo after', 'after\n')
        self.expect(s, 'no_such & wait $!; echo $?', '127\n')
        self.expect(s, 'exec no_such & wait $!; echo $?', '127\n')
        self.expect(s, 'echo once', 'once\n')

    def prepared(self):
        s = self.session()
        self.expect(s, 'f() { local v=2; echo go; while :; do :; done; }; v=1')
        return s

    def interrupted_at_last(self, s, code):
        """Bash has a race of its own: a SIGINT in the very moment in which it begins to wait for a
        child makes it signal itself for ever. That is rare, and not every time."""
        for attempt in range(3):
            try:
                return s, self.interrupted(s, code, timeout=DEADLINE / 3)
            except AssertionError:
                s = self.prepared()
        return s, self.interrupted(s, code)

    def test_interrupt(self):
        s = self.prepared()
        for code in ('echo go; sleep 100; echo unreached', 'f', 'echo go; while :; do :; done',
                     'echo go; (sleep 100); echo unreached', 'echo go; x=$(sleep 100); echo unreached',
                     'echo go; sleep 100 | cat | cat; echo unreached', 'sleep 100 & echo go; wait; echo unreached',
                     'echo go; while true; do sleep .01; done', '(echo go; sleep 100 & wait); echo unreached', 'sleep 100 & echo go; builtin wait $!; echo unreached',
                     'w() { wait; }; sleep 100 & echo go; w; echo unreached', 'f > /dev/tty 2>/dev/null || f; echo unreached',
                     '{ echo go >&3; while :; do :; done; } 3>&1 > file', 'eval "eval f"; echo unreached',
                     'for i in 1 2; do f; done; echo unreached', 'set -e; f', 'echo go; cat <(sleep 100); echo unreached'):
            s, r = self.interrupted_at_last(s, code)
            self.compare(r, code, 'go\n', 130, None)
            self.expect(s, 'echo $? $v $FUNCNAME "${#BASH_SOURCE[@]}"; set +e', '130 1 0\n')
        r = self.interrupted(s, 'echo go; read x; echo unreached', stdin=None)
        self.compare(r, '', 'go\n', 130, None)
        r = self.interrupted(s, 'trap "echo trapped" INT; echo go; sleep 100; echo next')
        self.compare(r, '', 'go\ntrapped\nnext\n', 0, None)
        for _ in range(10):
            s.interrupt()
        r = self.interrupted(s, 'trap - INT; echo go; while :; do :; done')
        self.compare(r, '', 'go\n', 130, None)
        self.expect(s, 'trap : INT; echo still', 'still\n')
        self.expect(s, 'trap - INT; echo still', 'still\n')
        r = self.interrupted(s, 'echo go; sleep 100')
        self.compare(r, '', 'go\n', 130, None)
        r = self.interrupted(s, '#!/bin/sh\necho go; sleep 100; echo unreached')
        self.compare(r, '', 'go\n', 130, None)

    def test_interrupts_at_any_time(self):
        s = self.session()
        self.expect(s, 'n=0')
        chance = random.Random(1)
        for _ in range(150):
            # No children here: a SIGINT that arrives in the very moment in which bash starts to
            # wait for one (between its sigaction() and the note of the old handler) makes bash
            # 5.2 signal itself for ever, about once in some hundred such moments.
            pending = s.start('((n++))\nfor ((i=0; i<600; i++)); do :; done\necho x')
            time.sleep(chance.random() * .006)
            s.interrupt()
            r = s.finish(pending)
            self.assertIn(r.status, (0, 130), r)
        self.expect(s, 'echo alive $((n > 10))', 'alive 1\n')

    def test_channel_is_out_of_the_way(self):
        s = self.session()
        self.expect(s, 'ls /proc/self/fd | tr "\\n" " "', '0 1 2 3 ')
        self.expect(s, 'echo forged >&1000; printf "%064d" 0 >&1000; (echo forged >&1000) 2>/dev/null; echo on',
                    'on\n', 0, '')
        self.expect(s, 'for i in {3..300}; do eval "exec $i<&0"; done 2>/dev/null; echo full', 'full\n')
        self.expect(s, 'for i in {3..300}; do eval "exec $i<&-"; done; ulimit -n 64; echo small', 'small\n')
        self.expect(s, 'echo next', 'next\n')

    def test_warm_and_seed(self):
        s = self.session()
        self.expect(s, 'false', status=1)
        self.assertEqual(s.simple(WARM), 0)
        self.expect(s, 'v=5', status=0)
        self.seeds_decide(s, 'echo $RANDOM $RANDOM')

    def test_rapid_and_big(self):
        s = self.session()
        for i in range(300):
            self.expect(s, 'echo $((++n))', f'{i + 1}\n')
        self.expect(s, ':' + ' x' * ((1 << 19) - 30) + '\necho big', 'big\n')

    def test_copy(self):
        s = self.session(env={'MARK': 'yes'})
        s.simple(WARM)
        copies = [self.copy_of(s) for _ in range(3)]
        for c in copies:
            c.simple(SEED, os.urandom(32))
            self.expect(c, 'x=$RANDOM$RANDOM; echo $$ $BASHPID $PPID $MARK $? $((SECONDS < 60))',
                        f'{c.pid} {c.pid} {os.getpid()} yes 0 1\n')
        self.assertEqual(len({self.expect(c, 'echo $x').out for c in copies}), 3)
        self.expect(copies[0], 'y=1; (exit 4); echo $?; sleep 0 & wait $!; echo $?; echo a | cat',
                    '4\n0\na\n')
        self.interrupted(copies[1], 'echo go; while :; do :; done')
        self.expect(copies[1], 'echo ${y:-none}', 'none\n')
        self.expect_gone(copies[2], 'trap "echo bye" EXIT; exit 7', 7, 'bye\n')
        self.expect(self.copy_of(s), 'echo ${x:-none}', 'none\n')

    def test_signals_between_runs(self):
        s = self.session()
        self.expect(s, 'trap "echo chld >/dev/null" CHLD; trap "echo usr > usr" USR1; sleep .1 & sleep .2 &')
        os.kill(s.process.pid, signal.SIGUSR1)
        time.sleep(.4)
        self.expect(s, 'echo on; cat usr', 'on\nusr\n')
        os.kill(s.process.pid, signal.SIGTERM)
        self.assertEqual(s.process.wait(DEADLINE), -signal.SIGTERM)


if __name__ == '__main__':
    sys.exit(main(shells, BashCases))
