# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
# For tests in bash: sessions, runs, and checks that go on after a failure. Source it first.

set -u
failures=0
checks=0

fail()
{
	failures=$((failures + 1))
	printf 'not ok: %s\n' "$*"
}

# skip REASON
skip()
{
	trap - EXIT
	printf '%s\n' "$*"
	exit 77
}

need()
{
	local tool

	for tool; do
		command -v "$tool" >/dev/null || skip "$tool is not installed"
	done
}

# is WHAT GOT WANT
is()
{
	checks=$((checks + 1))
	[ "$2" = "$3" ] || fail "$1: got '$2', want '$3'"
}

# has WHAT TEXT PATTERN: a shell pattern anywhere in the text
has()
{
	checks=$((checks + 1))
	# shellcheck disable=SC2053
	[[ $2 == *$3* ]] || fail "$1: '$3' is not in '$2'"
}

# ok WHAT COMMAND...
ok()
{
	local what=$1 out

	shift
	checks=$((checks + 1))
	out=$("$@" 2>&1) || fail "$what: exit status $? from '$*': $out"
}

# refused WHAT MESSAGE COMMAND...: the command must fail and say so
refused()
{
	local what=$1 message=$2 out

	shift 2
	checks=$((checks + 1))
	if out=$("$@" 2>&1); then
		fail "$what: '$*' succeeded"
	elif [[ $out != *"$message"* ]]; then
		fail "$what: '$message' is not in '$out'"
	fi
}

# wait_for SECONDS COMMAND...: on a quiet host; a host with much else to do has PATIENCE times as many.
wait_for()
{
	local end=$((SECONDS + $1 * ${PATIENCE:-1}))

	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.02
	done
}

# session NAME [TEMPLATE]: makes one, and puts its path into S
session()
{
	S=$MNT/${2:-raw}/$1
	mkdir "$S" || exit 1
}

# run CODE: runs it, and leaves what it printed in OUT and ERR, its exit status in RC
run()
{
	printf '%s\n' "$1" >"$S/in"
	result
}

result()
{
	OUT=$(cat "$S/stdout")
	ERR=$(cat "$S/stderr")
	RC=$(cat "$S/exit_code")
}

# How many runs there have been.
runs()
{
	find "$S/runs" -mindepth 1 -maxdepth 1 -type d | wc -l
}

finish()
{
	local status=$?

	if [ $failures -gt 0 ]; then
		echo "$failures of $checks checks failed"
		exit 1
	fi
	[ $status -ne 0 ] || echo "$checks checks"
	exit $status
}
trap finish EXIT
