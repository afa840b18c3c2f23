# SPDX-License-Identifier: Apache-2.0
# Bash driver, started as `bash --norc --noprofile repl.sh CTL`; all of it is in turn_bash.c.
enable -f "${BASH_SOURCE[0]%/*}/turn.so" xsbx_turn
xsbx_turn "$1"
