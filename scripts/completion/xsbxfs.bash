# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Completion for bash: of xsbxfs and the commands beside it; and, for who wants it, of what is written to `config` and `ctl` in the directory of
# a session. In ~/.bashrc, behind this file:
#
#	complete -o default -F _xsbx_config echo
#
# What there is is asked of the program, which knows: xsbxfs --keys, xsbxfs --help.

_XSBXFS_TEMPLATES="shell python javascript raw dev"

# _xsbxfs_keys SECTION...: lines of --keys in these sections.
_xsbxfs_keys()
{
	local IFS='|'

	"${_XSBXFS:-xsbxfs}" --keys 2>/dev/null | awk -F '\t' -v wanted="$*" '
		BEGIN { n = split(wanted, a, "|"); for (i = 1; i <= n; i++) sections[a[i]] }
		$1 in sections'
}

# _xsbxfs_values KEY SECTION...: what the key may be, if that is words.
_xsbxfs_values()
{
	_xsbxfs_keys "${@:2}" | awk -F '\t' -v key="$1" '$2 == key { gsub(/\|/, " ", $3); print $3 }' |
		sed -E 's/\<(number|size|path|text)\>//g'
}

# The word in which the cursor is, as a whole: bash breaks it at = and : too.
_xsbxfs_word()
{
	local line=${COMP_LINE:0:COMP_POINT}

	printf '%s' "${line##*[[:space:]]}"
}

# What is replied are names of files: bash quotes what it takes of them, for they may be a sandbox's.
_xsbxfs_are_files()
{
	type compopt >/dev/null 2>&1 && compopt -o filenames 2>/dev/null
}

# _xsbxfs_reply WORD NEW...: what the whole word may become; bash is told what of it is behind its last break.
_xsbxfs_reply()
{
	local word=$1 head cur=${COMP_WORDS[COMP_CWORD]} new

	[[ $cur != [=:] ]] || cur=
	head=${word%"$cur"}
	shift
	for new; do
		[[ $new != "$word"* ]] || COMPREPLY+=("${new#"$head"}")
	done
}

_xsbxfs_options()
{
	local word item before key name values new=() value files

	word=$(_xsbxfs_word)
	item=${word##*,} before=${word%"${word##*,}"}
	type compopt >/dev/null 2>&1 && compopt -o nospace 2>/dev/null
	if [[ $item == *=* ]]; then
		key=${item%%=*}
		for value in $(_xsbxfs_values "$key" xsbxfs limits network packages option); do
			new+=("$before$key=$value")
		done
		# A path, whose word bash has broken at the =.
		if [ ${#new[@]} -eq 0 ]; then
			_xsbxfs_are_files
			mapfile -t files < <(compgen -f -- "${item#*=}")
			new=("${files[@]/#/"$before$key="}")
		fi
	else
		while IFS=$'\t' read -r _ name values _; do
			case $values in
				'no|yes') new+=("$before$name") ;;
				*) new+=("$before$name=") ;;
			esac
		done < <(_xsbxfs_keys xsbxfs limits network packages option)
	fi
	_xsbxfs_reply "$word" "${new[@]}"
}

_xsbxfs_templates()
{
	local files=(/etc/xsbxfs.conf "${XDG_CONFIG_HOME:-$HOME/.config}/xsbxfs.conf")

	# compgen -W executes what looks like a command: names have none of its characters.
	echo "$_XSBXFS_TEMPLATES"
	sed -n 's/^\[template \([A-Za-z0-9._-]*\)\].*/\1/p' "${files[@]}" 2>/dev/null
}

_xsbxfs()
{
	local cur=${COMP_WORDS[COMP_CWORD]} word before

	_XSBXFS=$1
	COMPREPLY=()
	word=$(_xsbxfs_word)
	before=${COMP_LINE:0:COMP_POINT-${#word}}
	before=${before%"${before##*[![:space:]]}"}
	case ${before##*[[:space:]]} in
		-o) _xsbxfs_options; return ;;
		-c | --config | --try-config | --export | --import)
			_xsbxfs_are_files
			mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
		--log-format) mapfile -t COMPREPLY < <(compgen -W "text json" -- "$cur"); return ;;
	esac
	if [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "-f -d -c -o -h --config
			$("$_XSBXFS" --help 2>/dev/null | grep -oE -- '--[a-z-]+' | sort -u)" -- "$word")
	elif [[ " $COMP_LINE" == *' --prefetch '* || " $COMP_LINE" == *' --export '* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_xsbxfs_templates)" -- "$word")
	else
		_xsbxfs_are_files
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
	fi
}

# The first word is a session or a job, then comes a program of the sandbox's.
_xsbx_tty()
{
	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ]; then
		_xsbxfs_are_files
		mapfile -t COMPREPLY < <(compgen -d -- "${COMP_WORDS[1]}")
	fi
}

# Options as --help has them, and their words; the recipes of images, files that one is made of, and directories: what a mount is.
_xsbx_help()
{
	local cur=${COMP_WORDS[COMP_CWORD]} recipes name

	COMPREPLY=()
	if [[ $1,${COMP_WORDS[COMP_CWORD-1]} == *xsbx-top,@(-s|--sort) ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$("$1" --help 2>/dev/null |
			sed -n 's/.*-s {\([a-z,]*\)}.*/\1/p' | sed 1q | tr , ' ')" -- "$cur")
	elif [[ $1,${COMP_WORDS[COMP_CWORD-1]} == *xsbxfs-images,--@(remove|unpack) ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$("$1" --list 2>/dev/null |
			sed -n 's/^\([A-Za-z0-9._-]*\) .*/\1/p')" -- "$cur")
	elif [[ $1,${COMP_WORDS[COMP_CWORD-1]} == *xsbxfs-images,--kernel ]]; then
		mapfile -t COMPREPLY < <(compgen -W "own stock" -- "$cur")
	elif [[ $1,${COMP_WORDS[COMP_CWORD-1]} == *xsbxfs-images,--arch ]]; then
		mapfile -t COMPREPLY < <(compgen -W "amd64 arm64" -- "$cur")
	elif [[ $1,${COMP_WORDS[COMP_CWORD-1]} == *xsbxfs-images,--@(oci|recipe) ]]; then
		_xsbxfs_are_files
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
	elif [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$("$1" --help 2>/dev/null | grep -oE -- '--[a-z-]+' | sort -u)" -- "$cur")
	elif [[ $1 == *xsbxfs-images ]]; then
		recipes=$(readlink -f "$(command -v "$1")")
		for name in "${recipes%/*/*}"/images/*.conf; do
			name=${name##*/}
			[[ $name == common.conf || $name != "$cur"* ]] || COMPREPLY+=("${name%.conf}")
		done
	else
		_xsbxfs_are_files
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
	fi
}

# echo KEY = VALUE >> config, echo VERB > ctl: in the directory of a session.
_xsbx_config()
{
	local word=${COMP_WORDS[COMP_CWORD]} words

	COMPREPLY=()
	[ -e config ] && [ -e ctl ] && [ -e in ] || return
	_XSBXFS=
	case $COMP_CWORD,${COMP_WORDS[2]} in
		1,*) words=$(_xsbxfs_keys config ctl | cut -f 2) ;;
		2,*) words='=' ;;
		3,=) words=$(_xsbxfs_values "${COMP_WORDS[1]}" config) ;;
		*) return ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "${word/#=/}")
}

complete -F _xsbxfs xsbxfs
complete -o default -F _xsbx_tty xsbx-tty
complete -o default -F _xsbx_help xsbx-top xsbx-remote xsbxfs-images
