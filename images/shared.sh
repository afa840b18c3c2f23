# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Images for all users of a host: the part of scripts/images that is about --shared, and about taking what is there. It
# uses that script's variables.
# shellcheck disable=SC2153

# shared_has NAME HASHED: is that what the shared directory has under this name, all of it root's? Then it will do,
# and a link of the user's own to something older goes.
shared_has()
{
	local dir=$SHARED/$2 file

	[ -n "$SHARED" ] && [ "$(readlink "$SHARED/templates/$1" || true)" = "../$2" ] || return 1
	is_roots "$SHARED/templates" || return 1
	for file in manifest.json rootfs.erofs vmlinux modules.cpio; do
		[ ! -e "$dir/$file" ] || is_roots "$dir/$file" || return 1
	done
	[ -e "$dir/manifest.json" ] || return 1
	[ "$(readlink "$CACHE/templates/$1" || true)" != "../$2" ] || return 1
	rm -f "$CACHE/templates/$1"
	note "$1: $dir, which is shared"
}

# base_of NAME: the directory of a base: the user's own, or the shared one if only that is there.
base_of()
{
	[ ! -d "$CACHE/bases/$1" ] && [ -n "$SHARED" ] && [ -d "$SHARED/bases/$1" ] &&
		echo "$SHARED/bases/$1" || echo "$CACHE/bases/$1"
}

# check_shared PATH DIR: PATH, on the way to DIR or in it.
check_shared()
{
	is_roots "$1" || die "$2 would not be trusted" \
		"It, what is in it, and each directory and link that leads there, must be root's, and nobody else may write to them."
}

# The directory for all: root's, and for nobody else to write to, with all that leads there.
make_shared()
{
	local dir above there name

	[ "$(id -u)" -eq 0 ] || die "--shared builds for all users of this host, which takes root" \
		"Run it as root; without --shared the images are yours alone."
	dir=$(shared_dir)
	[ -n "$dir" ] || die "XSBXFS_SHARED=none: there is to be no shared directory"
	umask 022
	# Nothing is made, nor opened to all, through what somebody else may have put there.
	there=$dir
	until [ -e "$there" ] || [ -L "$there" ]; do there=$(dirname "$there"); done
	check_shared "$there" "$dir"
	mkdir -p "$dir"/{images,layers,snapshots}
	for name in images images/templates bases layers snapshots; do
		[ ! -e "$dir/$name" ] && [ ! -L "$dir/$name" ] || check_shared "$dir/$name" "$dir"
	done
	chmod 755 "$dir" "$dir"/{images,layers,snapshots}
	# That of root's mounts with keep = yes is made for root alone; what is in it is so for itself.
	above=$(dirname "$dir")
	[ "$above" != /var/lib/xsbxfs ] || chmod a+rx "$above"
	XSBXFS_CACHE=$(readlink -f "$dir")
	export XSBXFS_CACHE XSBXFS_SHARED=none
}

# The program whose snapshots are wanted: that which users of this host have.
find_xsbxfs()
{
	local program

	for program in "${XSBXFS:-}" "$(command -v xsbxfs || true)" "$TOP/../../bin/xsbxfs" "$TOP/build/xsbxfs"; do
		if [ -n "$program" ] && [ -x "$program" ]; then
			echo "$program"
			return
		fi
	done
	die "there is no xsbxfs to make snapshots with" "Install it, or build it: make. --no-snapshots does without."
}

# Boots each template of /etc/xsbxfs.conf once, and leaves its snapshot for all. Root's own configuration would be
# nobody else's.
make_snapshots()
{
	local program stamp dir freed=0

	program=$(find_xsbxfs)
	step "snapshots, with $program"
	stamp=$(mktemp)
	# shellcheck disable=SC2064 # now
	trap "rm -f '$stamp'" EXIT
	XDG_CONFIG_HOME=/nonexistent XSBXFS_SHARED=$XSBXFS_CACHE "$program" --prefetch \
		-o "cache_dir=$XSBXFS_CACHE,image_builder=none" >&2 ||
		warn "not all snapshots are there (see above)" "Who has no shared one makes one of his own."
	[ -n "$PRUNE" ] || return 0
	# What is wanted was used or made since.
	for dir in "$XSBXFS_CACHE"/snapshots/*; do
		if [ -d "$dir" ] && [ ! "$dir" -nt "$stamp" ]; then
			freed=$((freed + $(du -sk "$dir" | cut -f 1)))
			mv "$dir" "$XSBXFS_CACHE/snapshots/.old-$$-${dir##*/}"
			rm -rf "$XSBXFS_CACHE/snapshots/.old-$$-${dir##*/}"
		fi
	done
	note "removed $((freed / 1024)) MiB of snapshots that no template has"
}
