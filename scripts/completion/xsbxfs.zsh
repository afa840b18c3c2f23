#compdef xsbxfs xsbx-tty xsbx-top xsbx-remote xsbxfs-images
# SPDX-License-Identifier: Apache-2.0
# Completion for zsh: of xsbxfs and the commands beside it; and, for who wants it, of what is written to `config` and `ctl` in the directory of
# a session. In ~/.zshrc, behind compinit:
#
#	autoload -Uz _xsbxfs; compdef '_xsbxfs config' echo
#
# What there is is asked of the program, which knows: xsbxfs --keys, xsbxfs --help.

# _xsbxfs_keys SECTION...: sets lines to those of --keys in these sections.
_xsbxfs_keys()
{
	lines=(${(f)"$(_call_program keys xsbxfs --keys 2>/dev/null)"})
	lines=(${(M)lines:#(${(j:|:)~@})$'\t'*})
}

# _xsbxfs_values KEY: of lines, what the key may be; sets values, and paths if it may be one.
_xsbxfs_values()
{
	local -a found line

	found=(${(M)lines:#*	$1	*})
	line=("${(@s:	:)found[1]}")
	values=(${(s:|:)line[3]})
	paths=${(M)values:#path}
	values=(${values:#(number|size|path|text)})
}

_xsbxfs_options()
{
	local -a lines values flags others
	local key paths line

	_xsbxfs_keys xsbxfs limits network packages option
	compset -P '*,'
	if compset -P '*='; then
		key=${${IPREFIX##*,}%=}
		_xsbxfs_values $key
		[[ -z $paths ]] || _files
		compadd -q -S , -a values
		return
	fi
	for line in $lines; do
		if [[ ${${(@s:	:)line}[3]} == 'no|yes' ]]; then
			flags+=(${${(@s:	:)line}[2]})
		else
			others+=(${${(@s:	:)line}[2]})
		fi
	done
	compadd -q -S , -a flags
	compadd -S = -a others
}

# echo KEY = VALUE >> config, echo VERB > ctl: in the directory of a session.
_xsbxfs_config()
{
	local -a lines values names
	local paths

	if [[ ! -e config || ! -e ctl || ! -e in ]]; then
		_default
		return
	fi
	case $CURRENT in
		2)
			_xsbxfs_keys config ctl
			names=(${${lines#*	}%%	*})
			compadd -a names
			;;
		3) compadd -- = ;;
		4)
			_xsbxfs_keys config
			_xsbxfs_values $words[2]
			compadd -a values
			;;
		*) _default ;;
	esac
}

_xsbxfs()
{
	local -a long

	if [[ $1 == config ]]; then
		_xsbxfs_config
		return
	fi
	if [[ $service == xsbx-tty ]]; then
		_arguments '1:session:_directories' '*::program:_normal'
		return
	fi
	if [[ $service == xsbxfs-images ]]; then
		if [[ $words[CURRENT] == -* ]]; then
			long=(${(f)"$(_call_program options xsbxfs-images --help 2>/dev/null | grep -oE -- '--[a-z-]+')"})
			compadd -- ${(u)long}
		elif [[ $words[CURRENT-1] == --(remove|unpack) ]]; then
			long=(${${(f)"$(_call_program images xsbxfs-images --list 2>/dev/null)"}%% *})
			compadd -a long
		elif [[ $words[CURRENT-1] == --kernel ]]; then
			compadd own stock
		elif [[ $words[CURRENT-1] == --arch ]]; then
			compadd amd64 arm64
		elif [[ $words[CURRENT-1] == --(oci|recipe) ]]; then
			_files
		else
			long=(${commands[xsbxfs-images]:A:h:h}/images/*.conf(N:t:r))
			compadd -- ${long:#common}
		fi
		return
	elif [[ $service == (xsbx-top|xsbx-remote) ]]; then
		if [[ $service == xsbx-top && $words[CURRENT-1] == (-s|--sort) ]]; then
			long=(${(s:,:)"$(_call_program orders xsbx-top --help 2>/dev/null |
				sed -n 's/.*-s {\([a-z,]*\)}.*/\1/p' | sed 1q)"})
			compadd -- $long
			return
		elif [[ $words[CURRENT] == -* ]]; then
			long=(${(f)"$(_call_program options $service --help 2>/dev/null | grep -oE -- '--[a-z-]+')"})
			compadd -- ${(u)long}
			return
		fi
		_directories
		return
	fi
	case $words[CURRENT-1] in
		-o) _xsbxfs_options; return ;;
		-c | --config | --try-config | --export | --import) _files; return ;;
		--log-format) compadd text json; return ;;
	esac
	if [[ $words[CURRENT] == -* ]]; then
		long=(${(f)"$(_call_program options xsbxfs --help 2>/dev/null | grep -oE -- '--[a-z-]+')"})
		compadd -- -f -d -c -o -h --config ${(u)long}
	elif (( ${words[(I)--prefetch]} || ${words[(I)--export]} )); then
		compadd shell python javascript raw dev
	else
		_directories
	fi
}

_xsbxfs "$@"
