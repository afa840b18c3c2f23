#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# files/ under the usual tools: cp -a, rsync -a, tar, git, sed -i, vim, find, sort, diff.
# timeout: 120
# backends: local vm
. "$(dirname "$0")/../lib/lib.sh"

session tools
run true
F=$S/files

tree=$SCRATCH/tree
mkdir -p "$tree/sub/deep"
seq 1000 >"$tree/numbers"
head -c 300000 /dev/urandom >"$tree/random"
: >"$tree/empty"
printf '#!/bin/sh\necho script\n' >"$tree/script"
chmod 755 "$tree/script"
chmod 640 "$tree/numbers"
echo deep >"$tree/sub/deep/file"
ln -s numbers "$tree/link"
ln -s ../../numbers "$tree/sub/deep/up"
# Old, so that what is copied within the same second can be told from what was given its time.
find "$tree" -depth -exec touch -h -d '2020-02-02 02:02:02.123456789 UTC' {} +
echo x >"$tree/a name with spaces"

# alike WHAT DIR DIR: same names, kinds, modes, sizes, times, contents
alike()
{
	is "$1: names, modes, sizes, links" \
		"$(cd "$2" && find . -mindepth 1 -printf '%P %y %m %l %T@ ' \( -type f -printf '%s' -o -true \) -printf '\n' | sort)" \
		"$(cd "$3" && find . -mindepth 1 -printf '%P %y %m %l %T@ ' \( -type f -printf '%s' -o -true \) -printf '\n' | sort)"
	ok "$1: contents" diff -r --no-dereference "$2" "$3"
}

ok "cp -a in" cp -a --no-preserve=ownership "$tree" "$F/cp"
alike "cp -a in" "$tree" "$F/cp"
ok "cp -a out" cp -a --no-preserve=ownership "$F/cp" "$SCRATCH/out"
alike "cp -a out" "$tree" "$SCRATCH/out"
ok "cp -a inside" cp -a --no-preserve=ownership "$F/cp" "$F/cp2"
alike "cp -a inside" "$tree" "$F/cp2"
ok "plain cp -a" cp -a "$tree" "$F/cp3"
if command -v rsync >/dev/null; then
	ok "rsync -a in" rsync -a --no-owner --no-group "$tree/" "$F/rs"
	alike "rsync -a in" "$tree" "$F/rs"
	is "rsync again has nothing to do" \
		"$(rsync -ai --no-owner --no-group "$tree/" "$F/rs")" ""
	echo changed >>"$tree/numbers"
	rm "$tree/empty"
	ok "rsync --delete" rsync -a --no-owner --no-group --delete "$tree/" "$F/rs"
	alike "rsync --delete" "$tree" "$F/rs"
	ok "rsync --inplace" rsync -a --no-owner --no-group --inplace "$tree/" "$F/rs"
	alike "rsync --inplace" "$tree" "$F/rs"
fi
ok "tar in" sh -c "tar --format=posix -C '$tree' -cf - . | tar -C '$F' --one-top-level=tar --no-same-owner -xf -"
ok "tar out" sh -c "tar -C '$F/tar' -cf - . >'$SCRATCH/t.tar'"
alike "tar" "$tree" "$F/tar"
ok "mv in" sh -c "cp -a '$tree' '$SCRATCH/moved' && mv '$SCRATCH/moved' '$F/moved' 2>&1"
alike "mv in" "$tree" "$F/moved"
ok "mv inside" mv "$F/moved" "$F/moved2"
alike "mv inside" "$tree" "$F/moved2"
ok "mv out" sh -c "mv '$F/moved2' '$SCRATCH/back' 2>&1"
[ ! -e "$F/moved2" ] || fail "mv out left it behind"
ok "rm -r" rm -r "$F/cp2" "$F/cp3"

if command -v git >/dev/null; then
	export GIT_CONFIG_GLOBAL=$SCRATCH/gitconfig
	git config --global user.email you@example.com
	git config --global user.name You
	git config --global --add safe.directory '*'
	git config --global init.defaultBranch main
	ok "git init" git init -q "$F/repo"
	cp -r "$tree/." "$F/repo/"
	ok "git add" git -C "$F/repo" add -A
	ok "git commit" git -C "$F/repo" commit -qm first
	is "git status" "$(git -C "$F/repo" status --porcelain)" ""
	echo more >>"$F/repo/numbers"
	is "git status sees a change" "$(git -C "$F/repo" status --porcelain)" " M numbers"
	ok "git commit -a" git -C "$F/repo" commit -qam second
	is "git log" "$(git -C "$F/repo" log --format=%s)" $'second\nfirst'
	ok "git checkout" git -C "$F/repo" checkout -q HEAD~1
	ok "git switch" git -C "$F/repo" switch -qc branch
	ok "git clone out" git clone -q "$F/repo" "$SCRATCH/clone"
	ok "git clone in" git clone -q "$SCRATCH/clone" "$F/clone2"
	ok "git gc" git -C "$F/repo" gc -q
	ok "git fsck" git -C "$F/repo" fsck --strict
fi

printf 'one\ntwo\nthree\n' >"$F/text"
ok "sed -i" sed -i s/two/2/ "$F/text"
is "what sed did" "$(cat "$F/text")" $'one\n2\nthree'
if command -v vim >/dev/null; then
	ok "vim" vim -u NONE -N -es -c '%s/one/1/' -c wq "$F/text"
	is "what vim did" "$(head -n 1 "$F/text")" 1
fi
if command -v patch >/dev/null; then
	cp "$F/text" "$SCRATCH/old"
	sed s/three/3/ "$SCRATCH/old" >"$SCRATCH/new"
	diff -u "$SCRATCH/old" "$SCRATCH/new" >"$SCRATCH/p"
	ok "patch" patch -s "$F/text" "$SCRATCH/p"
	is "what patch did" "$(tail -n 1 "$F/text")" 3
fi
echo last >>"$F/text"
is "append" "$(tail -n 1 "$F/text")" last
ok "install" install -m 600 "$tree/script" "$F/installed"
is "install: mode" "$(stat -c %a "$F/installed")" 600
ok "tee -a" sh -c "echo t | tee -a '$F/text'"
ok "dd seek" dd if=/dev/zero of="$F/seek" bs=1 count=1 seek=99999 conv=notrunc status=none
is "dd seek: size" "$(stat -c %s "$F/seek")" 100000
ok "truncate" truncate -s 10 "$F/seek"
is "truncate: size" "$(stat -c %s "$F/seek")" 10
ok "touch -d" touch -d @1000000000 "$F/seek"
is "touch -d: mtime" "$(stat -c %Y "$F/seek")" 1000000000
ok "mktemp" mktemp "$F/tmp.XXXXXX"
ok "find -delete" find "$F/cp" -delete
ok "du" du -s "$F"
ok "df" df "$F"
ok "ls -la" ls -la "$F"
ok "sort -o" sort -r -o "$F/text" "$F/text"
ok "gzip" gzip -f "$F/text"
ok "gunzip" gunzip "$F/text.gz"
ok "flock" flock "$F/text" true
is "sha256sum" "$(sha256sum <"$F/rs/random")" "$(sha256sum <"$tree/random")"
if command -v sqlite3 >/dev/null; then
	ok "sqlite3" sqlite3 "$F/db" 'create table t (a); insert into t values (1);'
fi
ok "python sqlite3" python3 -c "
import sqlite3
c = sqlite3.connect('$F/db3')
c.execute('create table t (a)')
c.executemany('insert into t values (?)', [(i,) for i in range(100)])
c.commit()
assert c.execute('select sum(a) from t').fetchone()[0] == 4950"
# shellcheck disable=SC2016
run 'cd ~ 2>/dev/null; cd - >/dev/null; cat rs/sub/deep/up | head -n 1; ./rs/script'
is "the sandbox sees all that" "$OUT" $'1\nscript'
