# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For tests where systemd is the first process: checks that go on after a failure. Each test ends with `over NAME`.
checks=0 failures=0

# ok WHAT COMMAND...: it succeeds.
ok()
{
	local shown

	checks=$((checks + 1))
	shown=$("${@:2}" 2>&1) && return
	failures=$((failures + 1))
	printf '     | not ok: %s (%s)\n' "$1" "${*:2}"
	[ -z "$shown" ] || printf '     |     %s\n' "$shown" | head -n 20
}

# same WHAT GOT WANTED
same()
{
	checks=$((checks + 1))
	[ "$2" != "$3" ] || return 0
	failures=$((failures + 1))
	printf '     | not ok: %s: got %q, want %q\n' "$1" "$2" "$3"
}

# within SECONDS COMMAND...: succeeds in that time.
within()
{
	local end=$((SECONDS + $1))

	until "${@:2}" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.2
	done
}

as() # USER COMMAND...
{
	runuser -u "$1" -- "${@:2}"
}

# run SESSION CODE: its output, as the user who calls.
run()
{
	printf '%s\n' "$2" >"$1/in" && cat "$1/stdout"
}
export -f run

no()
{
	! "$@"
}

shows() # UNIT PROPERTY
{
	systemctl show -P "$2" "$1"
}

# The daemon of the mount whose guard this is.
daemon_of()
{
	local spawner

	spawner=$(pgrep -P "$1" -x xsbxfs-spawner) && pgrep -P "$spawner" -x xsbxfs-daemon
}

over()
{
	if [ "$failures" = 0 ]; then
		echo "ok   systemd $1 ($checks checks)"
	else
		echo "FAIL systemd $1 ($failures of $checks checks)"
		journalctl -q --no-pager -b -n 80 -u "xsbxfs*" -u '*.mount' | sed 's/^/     | /'
	fi
	[ "$failures" = 0 ]
	exit
}
