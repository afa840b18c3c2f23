#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Reading `in` gives the last code; `stdin` is for the next run.
# backends: local vm
. "$(dirname "$0")/../lib/lib.sh"

session reading
is "new: empty" "$(cat "$S/in")" ""
is "new: size" "$(stat -c %s "$S/in")" 0

echo 'echo one' >"$S/in"
is "the code can be read" "$(cat "$S/in")" "echo one"
is "its size is right" "$(stat -c %s "$S/in")" 9
result
before=$(stat -c %Y.%y "$S/in")
sleep 0.05
is "mtime stays after a save" "$(stat -c %Y.%y "$S/in")" "$before"
echo 'echo two' >>"$S/in"
result
is "appended code runs by itself" "$OUT" "two"
is "and is read" "$(cat "$S/in")" "echo two"
[ "$(stat -c %Y.%y "$S/in")" != "$before" ] || fail "mtime did not change with the code"
is "runs/1/in is what run 1 was" "$(cat "$S/runs/1/in")" "echo one"
is "runs/2/in is what run 2 was" "$(cat "$S/runs/2/in")" "echo two"
is "diff works on them" "$(diff "$S/runs/1/in" "$S/runs/2/in")" $'1c1\n< echo one\n---\n> echo two'

# An editor that opens for writing sees the code, and nothing runs until it is closed.
exec 3<>"$S/in"
is "read through a writer" "$(head -n 1 <&3)" "echo two"
exec 3>&-
is "no run from that" "$(runs)" 2

echo 'some input' >"$S/stdin"
# shellcheck disable=SC2016
run 'read -r x; echo "got $x"; read -r x || echo end of file'
is "stdin reaches the next run" "$OUT" $'got some input\nend of file'
run 'read -r x || echo end of file'
is "and only that one" "$OUT" "end of file"
printf 'a' >"$S/stdin"
printf 'b' >>"$S/stdin"
run 'cat'
is "stdin adds up" "$OUT" "ab"
seq 100000 >"$S/stdin"
run 'cksum'
is "a lot of it, to the byte" "$OUT" "$(seq 100000 | cksum)"
seq 100000 >"$S/stdin"
run 'head -n 1'
is "a run need not read it" "$OUT" 1
