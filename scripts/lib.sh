# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What the scripts share: messages, the cache directory, running things as root.

# What builds images: where xsbxfs is installed, and no Makefile is, there is a command for it.
IMAGES_COMMAND=scripts/images
[ -e "$(dirname "${BASH_SOURCE[0]}")/../Makefile" ] || IMAGES_COMMAND=xsbxfs-images

# Colours only for people.
if [ -t 2 ]; then
	BOLD=$'\e[1m' RED=$'\e[31m' YELLOW=$'\e[33m' GREEN=$'\e[32m' PLAIN=$'\e[0m'
else
	BOLD='' RED='' YELLOW='' GREEN='' PLAIN=''
fi

# A step begins; note: what it does or has found; good: it has gone well.
step() { printf '%s==> %s%s\n' "$BOLD" "$*" "$PLAIN" >&2; }
note() { printf '    %s\n' "$*" >&2; }
good() { printf '    %s%s%s\n' "$GREEN" "$*" "$PLAIN" >&2; }

# warn MESSAGE [MORE...]: one line each, the first one loud.
warn()
{
	printf '%swarning: %s%s\n' "$YELLOW" "$1" "$PLAIN" >&2
	shift
	[ $# -eq 0 ] || printf '         %s\n' "$@" >&2
}

# die MESSAGE [REMEDY...]: what failed, and one line each on how to mend it. What names images by its own content
# (images/lib.sh, build-base) says scripts/images there, for another text would have all of them built anew. Where xsbxfs
# is installed, nobody is where scripts/deps is: what remains of a remedy is the package to be installed.
die()
{
	set -- "${@/ scripts\/images/ $IMAGES_COMMAND}"
	if [ "$IMAGES_COMMAND" != scripts/images ]; then
		set -- "${@/Run scripts\/deps*, or: /Run: }"
		set -- "${@/, or run scripts\/deps/}"
	fi
	printf '%serror: %s%s\n' "$RED" "$1" "$PLAIN" >&2
	shift
	[ $# -eq 0 ] || printf '       %s\n' "$@" >&2
	exit 1
}

# seconds_since START: whole seconds since START, which was a value of $SECONDS.
seconds_since() { echo $((SECONDS - $1)); }

# tick LOG: prints how far a long step has come every 15 seconds, so that it can be told from a dead
# one. Ends when it is told to, or when this script is no more.
tick()
{
	local log=$1 start=$SECONDS pid=''

	trap '[ -z "$pid" ] || kill "$pid"; exit' TERM
	trap '' INT
	while kill -0 $$ 2>/dev/null; do
		sleep 15 >/dev/null 2>&1 &
		pid=$!
		wait "$pid"
		note "... $(seconds_since "$start") s:" \
			"$(tail -n 1 "$log" | tr -d '\r' | clean | sed 's/^I: //' | cut -c 1-80)"
	done
}

# Of text that others wrote: what a terminal only shows.
clean()
{
	LC_ALL=C tr -c '\n\t -~' '?'
}

# run_logged LOG COMMAND...: runs it with its output in LOG, and ticks. Returns its status. The
# command is in the foreground: that is where Ctrl-C arrives.
run_logged()
{
	local log=$1 ticker status=0

	shift
	: >"$log"
	tick "$log" &
	ticker=$!
	"$@" >"$log" 2>&1 </dev/null || status=$?
	kill "$ticker" 2>/dev/null || true
	wait "$ticker" 2>/dev/null || true
	return "$status"
}

# show_log LOG [LINES]: the end of a failed step's log.
show_log()
{
	tail -n "${2:-25}" "$1" | clean | sed 's/^/    | /' >&2
}

# cache_dir: where images and downloads are kept, as the daemon looks for them.
cache_dir()
{
	if [ -n "${XSBXFS_CACHE:-}" ]; then
		echo "$XSBXFS_CACHE"
	elif [ -n "${XDG_CACHE_HOME:-}" ]; then
		echo "$XDG_CACHE_HOME/xsbxfs"
	elif [ -n "${HOME:-}" ]; then
		echo "$HOME/.cache/xsbxfs"
	else
		die "neither XSBXFS_CACHE, XDG_CACHE_HOME nor HOME is set" \
			"Say where the images belong: XSBXFS_CACHE=/var/cache/xsbxfs $0"
	fi
}

# shared_dir: where root keeps images, layers and snapshots for all; nothing if there is to be none.
shared_dir()
{
	case ${XSBXFS_SHARED:-} in
	none) ;;
	/*) echo "$XSBXFS_SHARED" ;;
	*) echo /var/lib/xsbxfs/shared ;;
	esac
}

# is_roots PATH: is it root's, and can nobody else change it, nor put something in its place? As the daemon
# judges it (vm/base/trusted.c), so that both think the same of it: a link on the way has to be root's as well.
is_roots()
{
	local at=/ rest=$1 name uid mode kind links=0

	while :; do
		read -r uid mode kind <<<"$(LC_ALL=C stat -c '%u %a %F' "$at" 2>/dev/null)"
		[ "$uid" = 0 ] || return 1
		if [ "$kind" = "symbolic link" ]; then
			name=$(readlink "$at")
			[ $((++links)) -le 40 ] || return 1
			rest=$name/$rest at=${at%/*}/
			[[ $name != /* ]] || at=/
		else
			[ $((0$mode & 022)) -eq 0 ] || return 1
		fi
		rest=${rest#"${rest%%[!/]*}"}
		[ -n "$rest" ] || return 0
		name=${rest%%/*}
		rest=${rest#"$name"}
		at=${at%/}/$name
	done
}

# as_root COMMAND...: directly if this is root, else through sudo.
as_root()
{
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "'$1' has to be run as root, and there is no sudo here" "Run this script as root."
	fi
}

# adopt_image NAME: a copy of the shared image becomes the user's own. Prints its directory; returns 1 if
# there is none.
adopt_image()
{
	local top shared tmp

	shared=$(shared_dir)
	[ -n "$shared" ] && is_roots "$shared/images/templates/$1/rootfs.erofs" || return 1
	shared=$(readlink -e "$shared/images/templates/$1")
	note "the shared image '$1' is not unpacked, so a copy of it is; $IMAGES_COMMAND --shared --unpack $1," \
		"as root, would do it for all"
	top=$(cache_dir)/images
	tmp=$top/.adopt.$$
	mkdir -p "$top/templates" "$tmp"
	cp --reflink=auto "$shared/rootfs.erofs" "$shared/manifest.json" "$tmp/" || {
		rm -rf "$tmp"
		die "the shared image '$1' can't be copied into $top"
	}
	mv -T "$tmp" "$top/${shared##*/}" 2>/dev/null || rm -rf "$tmp"
	ln -sfn "../${shared##*/}" "$top/templates/$1"
	echo "$top/${shared##*/}"
}

# unpack_image NAME: the files of an image as a directory beside it, which goes with it. Sets TREE.
unpack_image()
{
	local image shared tmp lock

	image=$(readlink -f "$(cache_dir)/images/templates/$1" || true)
	shared=$(shared_dir)
	if [ ! -f "$image/rootfs.erofs" ] && [ -n "$shared" ] && is_roots "$shared/images/templates/$1/tree"; then
		TREE=$(readlink -e "$shared/images/templates/$1/tree")
		return 0
	fi
	[ -f "$image/rootfs.erofs" ] || image=$(adopt_image "$1") ||
		die "there is no image '$1'" "Build it: $IMAGES_COMMAND $1"
	# Whoever can open it can hold it.
	(umask 077 && : >>"$image/.lock")
	exec {lock}>"$image/.lock"
	flock "$lock"
	if [ ! -d "$image/tree" ]; then
		command -v fsck.erofs >/dev/null || die "the program 'fsck.erofs' is not installed" \
			"Run scripts/deps, or: apt-get install erofs-utils"
		step "unpacking the image '$1'"
		tmp=$image/.tree
		rm -rf "$tmp"
		# Devices can't be made by everybody, and are of no use. Neither are programs that have rights of
		# their own, and old ones at that, where all users of this host can start them.
		# From there, for it has room for paths of 4096 bytes, and does not look: what leads there would count.
		(cd "$image" && fsck.erofs --no-preserve-owner --extract=.tree rootfs.erofs) >"$image/.log" 2>&1 || {
			show_log "$image/.log"
			rm -rf "$tmp"
			die "the image '$1' can't be unpacked (see above)"
		}
		chmod -R u+w,u-s,go-ws "$tmp"
		mv -T "$tmp" "$image/tree"
	fi
	rm -f "$image/.log"
	exec {lock}>&-
	TREE=$image/tree
}
