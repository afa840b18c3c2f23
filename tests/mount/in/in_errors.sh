#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Errors reach the writer, whatever the program: they come from open or write, never from close.
. "$(dirname "$0")/../lib/lib.sh"

head -c 1048577 /dev/zero | tr '\0' '#' >"$SCRATCH/big"
printf 'echo a\0b\n' >"$SCRATCH/nul"

session errors
run 'echo before'

# every_writer WHAT MESSAGE FILE TARGET
every_writer()
{
	refused "$1: bash echo" "$2" bash -c "cat '$3' | { IFS= read -r -d '' x; true; }; cat '$3' >'$4'"
	refused "$1: /bin/cat" "$2" sh -c "cat '$3' >'$4'"
	refused "$1: cp" "$2" cp "$3" "$4"
	refused "$1: tee" "$2" sh -c "tee '$4' <'$3' >/dev/null"
	refused "$1: dd" "$2" dd if="$3" of="$4" bs=64k status=none
	refused "$1: dd with one write" "$2" dd if="$3" of="$4" bs=2M status=none
	refused "$1: python" "$2" python3 -c \
		"import shutil; shutil.copyfile('$3', '$4')"
	if command -v node >/dev/null; then
		refused "$1: node" "${5:-$2}" node -e \
			"fs=require('fs'); fs.writeFileSync('$4', fs.readFileSync('$3'))"
	fi
	if command -v perl >/dev/null; then
		# shellcheck disable=SC2016
		refused "$1: perl" "$2" perl -e '
			open(I, "<", $ARGV[0]) or die; open(O, ">", $ARGV[1]) or die "$!";
			local $/; $x = <I>;
			while (length $x) {
				$n = syswrite(O, $x) // die "$!";
				substr($x, 0, $n) = "";
			}
			close O or die "$!"' "$3" "$4"
	fi
}

every_writer "1 MiB and a byte" "File too large" "$SCRATCH/big" "$S/in" EFBIG
is "too large: nothing ran" "$(runs)" 1
every_writer "NUL bytes" "Invalid argument" "$SCRATCH/nul" "$S/in" EINVAL
is "NUL: nothing ran" "$(runs)" 1
has "the error node says it in words" "$(cat "$S/error")" "cause:"
has "and how to mend it" "$(cat "$S/error")" "fix:"

refused "bash shows what printf was told" "Invalid argument" bash -c "printf 'a\0b' >'$S/in'"
refused "dash too" "nvalid argument" dash -c "printf 'a\000b' >'$S/in' || { echo Invalid argument >&2; exit 1; }"
refused "ctl: an unknown verb" "Invalid argument" bash -c "echo dance >'$S/ctl'"
refused "config: an unknown key" "Invalid argument" bash -c "echo 'colour = red' >'$S/config'"
refused "config: sed -i is told too" "" sed -i 's/^timeout_s.*/timeout_s = soon/' "$S/config"

for node in stdout stderr output exit_code state status.json error summary console README.md; do
	[ "$(id -u)" = 0 ] || refused "$node is not for writing" "denied" sh -c ": >>'$S/$node'"
	is "$node has no write permission" "$(($(stat -c '0%a' "$S/$node") & 0222))" 0
done
for node in stdin ctl; do
	is "$node: who reads it is not let in, or gets nothing" "$(cat "$S/$node" 2>/dev/null)" ""
done
for command in "mv '$S/stdout' '$S/x'" "mkdir '$S/sub'" "ln '$S/in' '$S/x'" "ln -s in '$S/x'" \
	"mknod '$S/x' p" "touch '$S/runs/x'" "mkdir '$S/runs/9'" "touch '$MNT/x'" "mkdir '$MNT/x'" \
	"rmdir '$MNT/raw'" "rm '$MNT/status.json'" "touch '$MNT/raw/x'" \
	"mv '$MNT/raw/errors' '$MNT/raw/other'" "rm '$MNT/raw/template.json'"; do
	refused "$command" "" bash -c "$command"
done
# rm -r on a session must not stumble over its nodes, so they can be "removed", and are there again.
echo x >"$S/files/kept"
for node in stdout config runs/latest runs ctl; do
	rm -rf "${S:?}/$node"
	[ -e "$S/$node" ] || fail "rm -rf $node took it away for good"
done
rm -rf "${S:?}/files"
[ -e "$S/files/kept" ] && fail "rm -rf files left a file in it"
ok "files/ can still be used" cp "$SCRATCH/nul" "$S/files/new"

echo 'echo closed >&2' >"$S/in"
result
is "and after all these errors it still runs" "$ERR" closed
echo close >"$S/ctl"
wait_for 5 grep -q closed "$S/state" || fail "it does not close"
refused "a closed session: bash" "Stale file handle" bash -c "echo 'echo x' >'$S/in'"
refused "a closed session: cp" "Stale file handle" cp "$SCRATCH/nul" "$S/in"
refused "a closed session: tee" "Stale file handle" sh -c "echo x | tee '$S/in'"
