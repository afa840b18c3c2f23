#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every way a shell has of writing a file makes exactly one run, with the whole of the text.
# backends: local vm
. "$(dirname "$0")/../lib/lib.sh"

session writers
count=0

# ran WHAT STDOUT [EXIT]: one run more, and this came out of it
ran()
{
	count=$((count + 1))
	result
	is "$1: runs" "$(runs)" $count
	is "$1: stdout" "$OUT" "$2"
	is "$1: exit code" "$RC" "${3:-0}"
}

# Something that is not to run anything.
ran_nothing()
{
	is "$1: runs" "$(runs)" $count
}

is "a new session has no runs" "$(runs)" 0
refused "no exit code before the first run" "No such file" cat "$S/exit_code"

echo 'echo one' >"$S/in"
ran "echo" one

dash -c "echo 'echo two' >'$S/in'"
ran "dash echo" two

printf 'echo %s\n' three >"$S/in"
ran "printf" three

cat >"$S/in" <<-'END'
	x=heredoc
	echo "$x"
END
ran "heredoc" heredoc

# The child's exit sends FLUSH in the middle.
{
	echo 'echo a'
	/bin/echo 'echo b'
	echo 'echo c'
} >"$S/in"
ran "compound redirection" $'a\nb\nc'

# A background child that holds the descriptor delays the run, and does not cut it.
{
	sleep 0.3 &
	echo 'echo held'
} >"$S/in"
wait
ran "held by a child" held

echo 'echo first' >"$S/in"
ran "before append" first
echo 'echo second' >>"$S/in"
ran "what is appended runs by itself" second

file=$SCRATCH/code
echo 'echo from a file; exit 3' >"$file"
cat "$file" >"$S/in"
ran "cat" "from a file" 3
dd if="$file" of="$S/in" status=none
ran "dd" "from a file" 3
dd if="$file" of="$S/in" bs=4 status=none
ran "dd in small pieces" "from a file" 3
dd if="$file" of="$S/in" conv=fsync status=none
ran "dd conv=fsync" "from a file" 3
cp "$file" "$S/in"
ran "cp" "from a file" 3
tee "$S/in" <"$file" >/dev/null
ran "tee" "from a file" 3
install -m 600 "$file" "$S/in"
ran "install" "from a file" 3
cp "$file" "$S/copy"
ran_nothing "a file beside in"
mv "$S/copy" "$S/in"
ran "mv on the same file system" "from a file" 3
mv "$file" "$S/in"
ran "mv from another file system" "from a file" 3
echo 'echo through exec' | (exec >"$S/in"; cat)
ran "exec" "through exec"
echo "echo 'from a pipe'" | cat >"$S/in"
ran "pipe" "from a pipe"

: >"$S/in"
ran_nothing "truncation by the shell"
truncate -s 0 "$S/in"
ran_nothing "truncate"
exec 3>"$S/in"
exec 3>&-
ran_nothing "opened and closed"
exec 3<>"$S/in"
exec 3>&-
ran_nothing "opened for reading and writing and closed"
touch "$S/in"
ran_nothing "touch"
chmod 600 "$S/in"
ran_nothing "chmod"
cat "$S/in" >/dev/null
ran_nothing "reading"

run 'echo still works'
is "after all that" "$OUT" "still works"
