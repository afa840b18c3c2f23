#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# After a run every tool reads its output whole and exact.
# backends: local vm
. "$(dirname "$0")/../lib/lib.sh"

session readers
want=$SCRATCH/want
seq -f 'line %06.0f' 10000 >"$want"
size=$(stat -c %s "$want")
# shellcheck disable=SC2016
run 'seq -f "line %06.0f" 10000; seq 1 5 >&2'
is "exit code" "$RC" 0

for file in "$S/stdout" "$S/runs/1/stdout" "$S/runs/latest/stdout"; do
	name=${file#"$S/"}
	is "$name: size" "$(stat -c %s "$file")" "$size"
	ok "$name: cmp" cmp "$want" "$file"
	is "$name: cat" "$(cksum <"$file")" "$(cksum <"$want")"
	is "$name: wc -c" "$(wc -c <"$file")" "$size"
	is "$name: wc" "$(wc <"$file")" "$(wc <"$want")"
	is "$name: grep -c" "$(grep -c 'line' "$file")" 10000
	is "$name: grep -m1" "$(grep -m1 '5$' "$file")" "line 000005"
	is "$name: awk" "$(awk 'END { print NR }' "$file")" 10000
	is "$name: sort" "$(sort -r "$file" | head -n 1)" "line 010000"
	is "$name: head" "$(head -n 3 "$file")" "$(head -n 3 "$want")"
	is "$name: tail -n" "$(tail -n 2 "$file")" "$(tail -n 2 "$want")"
	is "$name: tail -c" "$(tail -c 6 "$file")" "10000"
	is "$name: sed -n" "$(sed -n 77p "$file")" "line 000077"
	is "$name: dd" "$(dd if="$file" bs=100 status=none | cksum)" "$(cksum <"$want")"
	is "$name: dd skip" "$(dd if="$file" bs=12 skip=9999 status=none)" "line 010000"
	rm -f "$SCRATCH/copy"
	ok "$name: cp" cp "$file" "$SCRATCH/copy"
	ok "$name: the copy" cmp "$want" "$SCRATCH/copy"
	is "$name: tar" "$(tar -C "${file%/*}" -cf - stdout | tar -xOf - | cksum)" "$(cksum <"$want")"
	is "$name: base64" "$(base64 "$file" | base64 -d | cksum)" "$(cksum <"$want")"
	is "$name: diff" "$(diff "$file" "$want")" ""
	is "$name: mapfile" "$(mapfile -t x <"$file" && echo ${#x[@]})" 10000
	is "$name: \$(<)" "$(cksum <<<"$(<"$file")")" "$(cksum <"$want")"
	is "$name: python" "$(python3 -c "
import os, mmap
f = open('$file', 'rb')
d = f.read()
assert d == open('$want', 'rb').read()
f.seek(-12, 2)
assert f.read() == b'line 010000\n'
m = mmap.mmap(f.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
assert m[:] == d
print(len(d))")" "$size"
	if command -v node >/dev/null; then
		is "$name: node readFileSync" \
			"$(node -p "require('fs').readFileSync('$file').length")" "$size"
	fi
	if command -v git >/dev/null; then
		is "$name: git hash-object" "$(git hash-object "$file")" "$(git hash-object "$want")"
	fi
	if command -v rsync >/dev/null; then
		rm -f "$SCRATCH/copy"
		ok "$name: rsync" rsync -L "$file" "$SCRATCH/copy"
		ok "$name: what rsync copied" cmp "$want" "$SCRATCH/copy"
	fi
	if command -v less >/dev/null; then
		is "$name: less" "$(less -FX "$file" | cksum)" "$(cksum <"$want")"
	fi
	if command -v perl >/dev/null; then
		is "$name: perl" "$(perl -ne 'END { print $. }' "$file")" 10000
	fi
	is "$name: tail -f" "$(timeout 60 tail -f "$file" | grep -m 1 -x "line 010000")" "line 010000"
done

is "stderr" "$(cat "$S/stderr")" $'1\n2\n3\n4\n5'
is "stderr size" "$(stat -c %s "$S/stderr")" 10
is "exit_code size" "$(stat -c %s "$S/exit_code")" 2
is "output has both" "$(wc -l <"$S/output")" 10005
ok "comparing a file with itself" cmp "$S/stdout" "$S/runs/1/stdout"
has "summary" "$(cat "$S/summary")" "run 1: exit 0 in"
has "summary of the sizes" "$(cat "$S/summary")" "$size bytes on stdout, 10 bytes on stderr"
run 'exit 3'
has "another summary" "$(cat "$S/summary")" "run 2: exit 3 in"
has "and nothing" "$(cat "$S/summary")" "nothing on stdout, nothing on stderr"
