# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What the steps of an image build share: reading recipes, and a private apt to fetch from.

# All that would otherwise be the time of the build is this (2025-01-01 00:00 UTC).
export SOURCE_DATE_EPOCH=1735689600
export LC_ALL=C.UTF-8 TZ=UTC

# shellcheck disable=SC2034 # FOREIGN is for who includes this
# set_arch [ARCH]: the architecture of the images, as Debian names it, becomes ARCH: this host's, or another one that its
# kernel runs programs of (qemu-user-static). FOREIGN is what the names of a compiler's programs begin with then.
set_arch()
{
	local host=amd64

	[ "$(uname -m)" != aarch64 ] || host=arm64
	ARCH=${1:-$host} FOREIGN=''
	case $ARCH in
	"$host") ;;
	amd64) FOREIGN=x86_64-linux-gnu- ;;
	arm64) FOREIGN=aarch64-linux-gnu- ;;
	*) die "there are images for amd64 and arm64, and none for $ARCH" ;;
	esac
	export XSBXFS_ARCH=$ARCH
}
set_arch "${XSBXFS_ARCH:-}"

# recipe_check FILE KEY...: dies at a line that is not a comment, not empty, and not `KEY = value`
# with one of the keys. `KEY-ARCH = value` is for one architecture alone.
recipe_check()
{
	local file=$1 line key n=0

	shift
	while IFS= read -r line || [ -n "$line" ]; do
		n=$((n + 1))
		case $line in
		'' | '#'*) continue ;;
		esac
		key=${line%%=*}
		key=${key%"${key##*[![:space:]]}"}
		key=${key%-amd64} key=${key%-arm64}
		case " $* " in
		*" $key "*) [[ $line == *=* ]] && continue ;;
		esac
		die "$file:$n: '$line' is not understood" "Expected KEY = VALUE, with KEY one of: $*"
	done <"$file"
}

# recipe_get KEY FILE...: the values of a key, one a line, in order.
recipe_get()
{
	local key=$1

	shift
	sed -nE "s/^${key}(-$ARCH)?[[:space:]]*=[[:space:]]*//p" "$@" | sed 's/[[:space:]]*$//'
}

# recipe_words KEY FILE...: the same, split into words, one a line.
recipe_words()
{
	recipe_get "$@" | tr -s '[:space:]' '\n'
}

# hash_of FILE...: 16 hex digits that change when the content or the name of a file does, or the architecture.
hash_of()
{
	local file

	{
		[ "$ARCH" = amd64 ] || echo "$ARCH"
		for file in "$@"; do
			printf '%s ' "${file##*/}"
			sha256sum <"$file"
		done
	} | sha256sum | cut -c 1-16
}

# sha512_of_integrity TEXT: npm's "sha512-BASE64" as the hexadecimal that sha512sum wants.
sha512_of_integrity()
{
	printf '%s' "${1#sha512-}" | base64 -d | od -An -v -tx1 | tr -d ' \n'
}

# host_repository [SUFFIX]: the address from which this host's apt takes Debian, or, with the suffix
# "-security", its security updates; nothing if it has none. What apt would fetch is asked rather
# than what it has, because its lists may have been removed.
host_repository()
{
	local names='bookworm|trixie|forky|duke|sid|oldstable|stable|testing|unstable'

	apt-get update --print-uris 2>/dev/null |
		sed -En "s!^'([^']*)/dists/($names)${1:-}/InRelease' .*!\\1!p" | sed -n 1p
}

# apt_mirror: the address of Debian, by the user's wish or as this host has it.
apt_mirror()
{
	local mirror=${XSBXFS_MIRROR:-}

	[ -n "$mirror" ] || mirror=$(host_repository)
	[ -n "$mirror" ] || die "this host's apt knows no Debian archive to take packages from" \
		"Name one: XSBXFS_MIRROR=http://ADDRESS/debian, or scripts/images --mirror ADDRESS"
	echo "${mirror%/}"
}

# apt_security_mirror: the address of Debian's security updates; nothing if unknown.
apt_security_mirror()
{
	local mirror=${XSBXFS_SECURITY_MIRROR:-}

	[ -n "$mirror" ] || mirror=$(host_repository -security)
	if [ -z "$mirror" ]; then
		mirror=$(apt_mirror)
		case $mirror in
		*/debian) mirror=$mirror-security ;;
		*) mirror='' ;;
		esac
	fi
	echo "${mirror%/}"
}

# apt_private DIR COMMAND...: an apt command on the private apt of DIR.
apt_private()
{
	local dir=$1 command=$2

	shift 2
	APT_CONFIG=$dir/apt.conf "$command" "$@"
}

# apt_sources DIR SUITE [SECURITY]: writes the list of sources.
apt_sources()
{
	local keyring=/usr/share/keyrings/debian-archive-keyring.gpg mirror

	mirror=$(apt_mirror) || exit 1
	[ -r "$keyring" ] || die "the keys of the Debian archive are missing ($keyring)" \
		"Install the package debian-archive-keyring, or run scripts/deps."
	{
		echo "deb [signed-by=$keyring] $mirror $2 main"
		[ -z "${3:-}" ] || echo "deb [signed-by=$keyring] $3 $2-security main"
	} >"$1/sources.list"
}

# apt_update DIR: fetches the package lists. A Release file that is signed correctly but has
# expired is accepted, loudly: mirrors are frozen or late, and the packages in them are genuine.
# Writes DIR/expired if that was so. Returns 1 if the lists can't be had, with apt's log in DIR/log.
apt_update()
{
	rm -f "$1/expired"
	if apt_private "$1" apt-get -q update --error-on=any \
		-o "Acquire::Check-Valid-Until=true" >"$1/log" 2>&1; then
		return 0
	fi
	grep -Eq 'is expired|is not valid anymore|E:.*[Rr]elease file.*expired' "$1/log" || return 1
	cp "$1/log" "$1/log.expired"
	apt_private "$1" apt-get -q update --error-on=any \
		-o "Acquire::Check-Valid-Until=false" >"$1/log" 2>&1 || return 1
	grep -E 'is expired|is not valid anymore' "$1/log.expired" >"$1/expired"
}

# apt_open DIR SUITE: makes a private apt in the directory DIR, with the host's proxy settings and
# nothing else of the host's, and fetches the suite's package lists, unless that has been done.
# Returns 1 if they can't be had, with apt's log in DIR/log.
apt_open()
{
	local dir=$1 suite=$2 security

	[ ! -e "$dir/ready" ] || return 0
	note "package lists of $suite"
	mkdir -p "$dir"/{etc,state/lists/partial,cache/archives/partial}
	: >"$dir/status"
	{
		apt-config dump 2>/dev/null | grep -E '^Acquire::(http|https|ForceIPv[46]|Retries)' || true
		cat <<-EOF
			Dir::State "$dir/state";
			Dir::State::status "$dir/status";
			Dir::Cache "$dir/cache";
			Dir::Etc "$dir/etc";
			Dir::Etc::sourcelist "$dir/sources.list";
			APT::Architecture "$ARCH";
			APT::Architectures { "$ARCH"; };
			APT::Sandbox::User "root";
			APT::Get::List-Cleanup "false";
			Acquire::Languages "none";
		EOF
	} >"$dir/apt.conf"
	mkdir -p "$dir/etc/"{apt.conf.d,preferences.d,sources.list.d,trusted.gpg.d}
	security=$(apt_security_mirror)
	apt_sources "$dir" "$suite" "$security"
	if ! apt_update "$dir"; then
		# Not every suite has security updates: sid never has.
		[ -n "$security" ] || return 1
		apt_sources "$dir" "$suite"
		apt_update "$dir" || return 1
	fi
	[ ! -e "$dir/expired" ] || warn "the package lists of '$suite' have EXPIRED; going on with them" \
		"$(head -n 1 "$dir/expired")" \
		"They are signed by Debian, but they may lack recent security updates. Set this host's" \
		"clock if it is wrong; else use another mirror (--mirror ADDRESS) or wait for this one."
	: >"$dir/ready"
}

# apt_has DIR PACKAGE: does the suite have it?
apt_has()
{
	[ -n "$(apt_private "$1" apt-cache show --no-all-versions "$2" 2>/dev/null)" ]
}

# apt_pick DIR CHOICE: the first of "a|b|c" that the suite has. Returns 1 if it has none.
apt_pick()
{
	local name

	for name in ${2//|/ }; do
		if apt_has "$1" "$name"; then
			echo "$name"
			return 0
		fi
	done
	return 1
}
