# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Images from elsewhere: the part of scripts/images that is about --oci and --registry. It uses that script's variables.
# shellcheck disable=SC2034,SC2153

# An image from elsewhere, by the name it has there, or the one it shall have.
import_image()
{
	local source=$1 name digest base start=$SECONDS

	name=$(name_of "$source")
	begin
	step "$name: reading ${source#docker://}"
	mkdir "$BUILD/base"
	"$TOP/images/build-oci" fetch "$source" "$TAG" "$BUILD/base"
	digest=$(cat "$BUILD/base/facts/digest")
	base=$CACHE/bases/$name-oci-$(import_key "$digest")
	if [ -d "$base" ] && [ -z "$UPGRADE" ]; then
		rm -rf "$BUILD/base"
	else
		step "$name: unpacking $digest"
		"$TOP/images/build-oci" unpack "$BUILD/base"
		rm -rf "$base"
		mv "$BUILD/base" "$base"
		good "unpacked, $(seconds_since "$start") s"
	fi
	make_import "$name" "$base"
	IMPORTED=$name
}

# import_key DIGEST: by what a base is named.
import_key()
{
	cat <(echo "$1") <(hash_of "$TOP/images/"{build-oci,oci-read,oci-unpack,oci-finish,oci_source.py,oci_tar.py}) | sha256sum | cut -c 1-16
}

# make_import NAME BASE: processes too see its programs, and not this host's.
make_import()
{
	ADDED=() TEMPLATE=("language = raw" "view = image")
	mapfile -t -O 2 TEMPLATE <"$2/template"
	make_image "$1" raw "$2" "$2/template" "$BASH" "$(readlink -f "$(command -v busybox)")" "$TOP/images/import.sh"
}

# check_source SOURCE: what can be said of it before anything is fetched for it.
check_source()
{
	local name

	[[ $1 != docker://* || $1 =~ ^docker://(localhost|[^/]*[.:][^/]*)/. ]] ||
		die "${1#docker://}: which registry?" "Expected HOST/NAME[:TAG]: registry.example/me/app:1.2"
	[[ $1 == docker://* || -e $1 ]] || die "there is no file or directory $1"
	[[ $1 == docker://* || -r $1 ]] || die "$1 can't be read"
	name=$(name_of "$1")
	name_ok "$name" || die "'$name' can't be the name of an image" "Choose another one: --name NAME"
	case $name in
	shell | README.md | status.* | isolation | doctor | metrics | events | error | ctl | quota) ;;
	*) [ -e "$TOP/images/$name.conf" ] ;;
	esac && die "the name '$name' is taken" "Choose another one: --name NAME"
	check_import
}

# name_of SOURCE: what was wished; else registry.example/x/busybox:latest and busybox.tar are busybox.
name_of()
{
	local name=${1%/}

	[ -z "$NAME" ] || { echo "$NAME"; return; }
	name=${name##*/}
	name=${name%%@*}
	case $1 in
	docker://*) name=${name%%:*} ;;
	*)
		name=${name%.gz}
		name=${name%.tar}
		;;
	esac
	echo "$name"
}

check_import()
{
	# The interpreter in such an image is a copy of this host's.
	[ -z "$FOREIGN" ] || die "images from elsewhere can't be made for $ARCH on this host" \
		"Their bash is the host's: build them on a host of $ARCH, without --arch."
	need skopeo skopeo
	need busybox busybox-static
	need patchelf patchelf
	need python3 python3
	need readelf binutils
}

# is_import NAME: does the template lead to an image from elsewhere, whose base is there?
is_import()
{
	local base

	base=$(jq -r 'select(.suite == "oci") | .base' "$CACHE/templates/$1/manifest.json" 2>/dev/null) &&
		[ -n "$base" ] && [ -f "$CACHE/bases/$base/template" ] && echo "$CACHE/bases/$base"
}

# refresh_imports [NAME]...: those made with other drivers than these are made anew.
refresh_imports()
{
	local name base

	for name in "$@"; do
		base=$(is_import "$name") || continue
		check_import
		make_import "$name" "$base"
	done
}
