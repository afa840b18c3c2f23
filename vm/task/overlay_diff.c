/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox has changed in its copy of a host directory: lists and commits it. */
#include "overlay_diff.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "overlay_internal.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * The kernel stores a sandbox's changes separately from the original directory: in the upper layer
 * of an overlay (Documentation/filesystems/overlayfs.rst). A file there is new or changed, a
 * character device 0/0 stands for a removed one, and a directory with the attribute "opaque" hides
 * everything below the original directory of that name. Both trees are traversed in parallel.
 *
 * A file in the upper layer may be unchanged, if it was only opened for writing. So it is compared.
 *
 * All of this is untrusted: names, types, and the sandbox may change them at the same time. So this
 * runs in its own process, in a jail that contains only the two trees, with the owner's
 * permissions; only single names below an open directory are looked up, links are not followed and
 * mounts not crossed. Files become visible when they are complete. Links are made only if they lead
 * to something below the directory; devices, sockets and FIFOs never.
 *
 * Changes that can't be made are reported and skipped; the rest is made. They can be retried later.
 */

#define OPAQUE		 "user.overlay.opaque"
#define FAILURES_MAX	 20u /* that are told */
#define PATH_BYTES	 (OVERLAY_DEPTH_MAX * 256u)
#define OVERLAY_LIST_MAX (24u << 20) /* bytes of lines: callers accept less */

/* A change that was listed. */
struct listed {
	char *path;
	char letter;
	char sum[OVERLAY_SUM];
};

struct walk {
	bool commit; /* make them, after they have been listed */
	struct listed *listed;
	size_t nlisted, next; /* ... that may come by */
	size_t said;	      /* bytes of the list, about */
	unsigned depth;	      /* of the directory that is looked at */
	char path[PATH_BYTES];
	size_t len;
	uint64_t changes, failures;
};

/* ---- words ---- */

/* How many bytes of @s are one character that may be shown as it is; 0 if it may not. */
static size_t showable(const unsigned char *s)
{
	size_t n = *s < 0x80 ? 1 : *s >= 0xf0 ? 4 : *s >= 0xe0 ? 3 : 2;

	if (*s < 0x20 || *s == 0x7f || *s == '\\' || (*s >= 0x80 && *s < 0xc2) || *s > 0xf4 ||
	    (*s == 0xc2 && s[1] < 0xa0))
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	}
	return n;
}

static void put_path(const struct walk *w)
{
	const unsigned char *s = (const unsigned char *)w->path;

	while (*s) {
		size_t n = showable(s);

		if (n)
			fwrite(s, 1, n, stdout);
		else
			printf("\\%03o", *s);
		s += n ? n : 1;
	}
}

/* ---- sums ---- */

/* What there is to say of a change, but for a file's bytes and a link's target. */
static struct digest *sum_begin(const struct walk *w, char letter, const struct overlay_entry *e)
{
	const uint32_t mode = letter == 'D' ? 0 : e->u.st_mode & (S_IFMT | 06000 | OVERLAY_MODE);
	struct digest *d = digest_new();

	if (!d)
		_exit(1);
	digest_add(d, &letter, 1);
	digest_add(d, &mode, sizeof(mode));
	digest_add(d, w->path, w->len + 1);
	return d;
}

static struct listed *keep(struct walk *w, char letter)
{
	struct listed *l;

	if (w->nlisted % 1024 == 0) {
		l = realloc(w->listed, (w->nlisted + 1024) * sizeof(*l));
		if (!l)
			_exit(1);
		w->listed = l;
	}
	l = &w->listed[w->nlisted++];
	l->letter = letter;
	l->path = strdup(w->path);
	if (!l->path)
		_exit(1);
	return l;
}

/* Both passes come by in the same order; the second one may leave out what is below a directory
 * that could not be made. Return: the sum that was told for this change, or "". */
static const char *told(struct walk *w, char letter)
{
	for (size_t i = w->next; i < w->nlisted; i++) {
		if (w->listed[i].letter == letter && strcmp(w->listed[i].path, w->path) == 0) {
			w->next = i + 1;
			return w->listed[i].sum;
		}
	}
	return "";
}

/* ---- what is said of a change ---- */

/* A line of the list. Ends @d, the change's sum. */
static void list(struct walk *w, char letter, const struct overlay_entry *e, struct digest *d,
		 int r)
{
	const bool unknown = r < 0 && r != -ENOTSUP;
	struct listed *l = keep(w, letter);

	w->changes++;
	w->failures += unknown;
	if (overlay_sum_end(d, l->sum) < 0)
		_exit(1);
	w->said += OVERLAY_SUM + 4 + w->len;
	if (w->said > OVERLAY_LIST_MAX)
		_exit(1);
	printf("%s %c%s ", l->sum, unknown ? '?' : letter,
	       overlay_mark(w->path, letter == 'D' ? 0 : e->u.st_mode) ? "!" : "");
	put_path(w);
	putchar('\n');
}

/* A change that was made unless @r says why it could not be. */
static void tell(struct walk *w, int r)
{
	w->changes++;
	if (r >= 0 || ++w->failures > FAILURES_MAX)
		return;
	put_path(w);
	printf(": %s\n", r == -ENOTSUP
				 ? "links that lead elsewhere, devices, sockets and FIFOs are "
				   "not taken over"
			 : r == -ESTALE ? "it changed while the changes were made"
					: strerror(-r));
}

/* Ends a sum. Return: 0 if it is that which was told. */
static int as_told(struct walk *w, char letter, struct digest *d)
{
	char sum[OVERLAY_SUM];
	const int r = overlay_sum_end(d, sum);

	return r < 0 ? r : strcmp(sum, told(w, letter)) == 0 ? 0 : -ESTALE;
}

/* ---- looking ---- */

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static bool is_opaque(int dir)
{
	char value[2];

	return fgetxattr(dir, OPAQUE, value, sizeof(value)) == 1 && value[0] == 'y';
}

/* Where the next bytes are that are no hole. */
static off_t next_data(int fd, off_t at, off_t size)
{
	const off_t data = lseek(fd, at, SEEK_DATA);

	if (data < 0)
		return errno == ENXIO ? size : at;
	return MIN(data, size);
}

/* Holes of both are skipped: a file may be larger than anybody could read. */
static bool same_bytes(int a, int b, off_t size)
{
	static char left[65536], right[65536];

	for (off_t at = 0; at < size;) {
		const off_t in_a = next_data(a, at, size), in_b = next_data(b, at, size);
		ssize_t n;

		at = MIN(in_a, in_b);
		if (at == size)
			break;
		n = pread(a, left, sizeof(left), at);

		if (n <= 0 || pread(b, right, (size_t)n, at) != n ||
		    memcmp(left, right, (size_t)n) != 0)
			return false;
		at += n;
	}
	return true;
}

static bool same_file(const struct overlay_entry *e)
{
	_cleanup_close_ int a = -1, b = -1;

	if (e->u.st_size != e->b.st_size || ((e->u.st_mode ^ e->b.st_mode) & OVERLAY_MODE))
		return false;
	a = overlay_open(e->upper, e->name, S_IFREG, O_RDONLY);
	b = overlay_open(e->base, e->name, S_IFREG, O_RDONLY);
	return a >= 0 && b >= 0 && same_bytes(a, b, e->u.st_size);
}

/* Also if it was made to lead to the same place from here. */
static bool same_link(const struct overlay_entry *e, unsigned depth)
{
	char a[PATH_MAX], b[PATH_MAX], made[PATH_MAX];

	if (overlay_read_link(e->upper, e->name, a) < 0 ||
	    overlay_read_link(e->base, e->name, b) < 0)
		return false;
	return strcmp(a, b) == 0 ||
	       (overlay_link_target(a, depth, made) == 0 && strcmp(made, b) == 0);
}

static void merge(struct walk *w, int upper, int base);

/* ---- one name ---- */

static void merge_dir(struct walk *w, const struct overlay_entry *e)
{
	const bool old = e->there && S_ISDIR(e->b.st_mode);
	const bool moded = old && ((e->u.st_mode ^ e->b.st_mode) & OVERLAY_MODE);
	const char letter = e->there ? 'M' : 'A';
	_cleanup_close_ int upper =
		overlay_open(e->upper, e->name, S_IFDIR, O_RDONLY | O_DIRECTORY);
	_cleanup_close_ int base = -1;
	int r = upper < 0 ? upper : w->depth >= OVERLAY_DEPTH_MAX ? -ENAMETOOLONG : 0;

	if (r == 0 && w->commit && (!old || moded))
		r = as_told(w, letter, sum_begin(w, letter, e));
	if (r == 0 && w->commit)
		r = base = overlay_commit_dir(e);
	else if (r == 0 && old)
		r = base = overlay_open(e->base, e->name, S_IFDIR, O_RDONLY | O_DIRECTORY);
	if (w->commit && (!old || moded || r < 0))
		tell(w, r);
	else if (!old || moded || r < 0)
		list(w, letter, e, sum_begin(w, letter, e), r);
	if (r < 0)
		return;
	w->depth++;
	merge(w, upper, base);
	w->depth--;
	if (w->commit && (!old || moded))
		(void)fchmod(base,
			     (old ? e->b.st_mode & 07000 : 0) | (e->u.st_mode & OVERLAY_MODE));
}

static void merge_file(struct walk *w, const struct overlay_entry *e)
{
	const char letter = e->there ? 'M' : 'A';
	_cleanup_close_ int in = -1;
	struct digest *d;
	int r;

	if (e->there && S_ISREG(e->b.st_mode) && same_file(e))
		return;
	d = sum_begin(w, letter, e);
	if (w->commit) {
		tell(w, overlay_commit_file(e, d, told(w, letter)));
		return;
	}
	in = overlay_open(e->upper, e->name, S_IFREG, O_RDONLY);
	r = in < 0 ? in : overlay_sum_file(in, e->u.st_size, d);
	list(w, letter, e, d, r);
}

static void merge_link(struct walk *w, const struct overlay_entry *e)
{
	const char letter = e->there ? 'M' : 'A';
	struct digest *d;
	char raw[PATH_MAX];
	int r, same;

	if (e->there && S_ISLNK(e->b.st_mode) && same_link(e, w->depth))
		return;
	d = sum_begin(w, letter, e);
	r = overlay_read_link(e->upper, e->name, raw);
	if (r == 0)
		digest_add(d, raw, strlen(raw));
	if (!w->commit) {
		list(w, letter, e, d, r);
		return;
	}
	same = as_told(w, letter, d);
	if (r == 0)
		r = same < 0 ? same : overlay_commit_link(e, raw, w->depth);
	tell(w, r);
}

static void merge_removed(struct walk *w, const struct overlay_entry *e)
{
	struct digest *d;
	int r;

	if (!e->there)
		return;
	d = sum_begin(w, 'D', e);
	if (!w->commit) {
		list(w, 'D', e, d, 0);
		return;
	}
	r = as_told(w, 'D', d);
	tell(w, r < 0 ? r : overlay_remove(e->base, e->name, w->depth));
}

/* What is neither file nor link nor directory is listed and never made. */
static void merge_other(struct walk *w, const struct overlay_entry *e)
{
	const char letter = e->there ? 'M' : 'A';

	if (w->commit)
		tell(w, -ENOTSUP);
	else
		list(w, letter, e, sum_begin(w, letter, e), -ENOTSUP);
}

/* What lies here can't be told: there is no list that lacks it. */
static void unseen(struct walk *w, int err)
{
	if (!w->commit)
		_exit(1);
	tell(w, err);
}

static void merge_kind(struct walk *w, const struct overlay_entry *e)
{
	if (is_whiteout(&e->u))
		merge_removed(w, e);
	else if (S_ISDIR(e->u.st_mode))
		merge_dir(w, e);
	else if (S_ISREG(e->u.st_mode))
		merge_file(w, e);
	else if (S_ISLNK(e->u.st_mode))
		merge_link(w, e);
	else
		merge_other(w, e);
}

/* Calls @fn with the name's path. */
static void with_path(struct walk *w, const struct overlay_entry *e,
		      void (*fn)(struct walk *w, const struct overlay_entry *e))
{
	const size_t len = w->len;

	w->len += (size_t)snprintf(w->path + len, sizeof(w->path) - len, "%s%s", len ? "/" : "",
				   e->name);
	if (w->len < sizeof(w->path))
		fn(w, e);
	else
		unseen(w, -ENAMETOOLONG);
	w->len = len;
	w->path[len] = '\0';
}

static void merge_name(struct walk *w, int upper, int base, const char *name)
{
	struct overlay_entry e = {.upper = upper, .base = base, .name = name};

	if (fstatat(upper, name, &e.u, AT_SYMLINK_NOFOLLOW) < 0)
		return; /* gone */
	e.there = base >= 0 && fstatat(base, name, &e.b, AT_SYMLINK_NOFOLLOW) == 0;
	with_path(w, &e, merge_kind);
}

/* ---- directories ---- */

static int is_name(const struct dirent *d)
{
	return strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* Calls @fn for each name, in their order. */
static void each(struct walk *w, int dir, int upper, int base,
		 void (*fn)(struct walk *w, int upper, int base, const char *name))
{
	struct dirent **names;
	int n = scandirat(dir, ".", &names, is_name, by_bytes);

	if (n < 0)
		unseen(w, -errno);
	for (int i = 0; i < n; i++) {
		fn(w, upper, base, names[i]->d_name);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
}

/* A name of the base, below a directory that hides it: if there is nothing of this name above, it
 * was removed. */
static void merge_hidden(struct walk *w, int upper, int base, const char *name)
{
	struct overlay_entry e = {.upper = upper, .base = base, .name = name, .there = true};
	struct stat st;

	if (fstatat(upper, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		with_path(w, &e, merge_removed);
}

static void merge(struct walk *w, int upper, int base)
{
	if (base >= 0 && is_opaque(upper))
		each(w, base, upper, base, merge_hidden);
	each(w, upper, upper, base, merge_name);
}

static void await_byte(void)
{
	char byte;

	if (fflush(stdout) != 0 || read(OVERLAY_BEGIN_FD, &byte, 1) != 1)
		_exit(1);
}

static void say_end(struct walk *w, const char *word)
{
	printf("%s %llu %llu\n", word, (unsigned long long)w->changes,
	       (unsigned long long)w->failures);
}

/* Makes what was listed. It is on the disk when that is said. */
static void commit(struct walk *w, int upper, int base)
{
	await_byte();
	w->changes = w->failures = 0;
	w->commit = true;
	merge(w, upper, base);
	if (syncfs(base) < 0) {
		w->failures++;
		printf("it may not be on the disk yet: %s\n", strerror(errno));
	}
}

void overlay_diff_serve(const char *what)
{
	const bool commits = strcmp(what, OVERLAY_COMMIT) == 0;
	static struct walk w;
	int base = open(OVERLAY_BASE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int upper = openat(OVERLAY_UPPER_FD, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	await_byte();
	if (base < 0 || upper < 0)
		_exit(1);
	merge(&w, upper, base);
	if (commits) {
		say_end(&w, OVERLAY_LISTED);
		commit(&w, upper, base);
	}
	say_end(&w, OVERLAY_DONE);
	_exit(fflush(stdout) == 0 ? 0 : 1);
}
