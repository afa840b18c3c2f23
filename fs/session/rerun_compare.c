/* SPDX-License-Identifier: Apache-2.0 */
/* Two runs compared. See rerun_compare.h. */
#include "rerun_compare.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "depot.h"
#include "fs.h"
#include "rerun.h"
#include "run.h"
#include "vm/base/util.h"
#include "vm/vm.h"

#define EXCERPT	   24u /* bytes of each that are shown, from the first that differs on */
#define FILES_TOLD 20u /* files that differ */
#define PATH_TOLD  512u
#define TEXT_MAX   (RERUN_TEXT_MAX - 4096u) /* who asked adds notes */

_Static_assert((4 * PATH_TOLD + 400) * FILES_TOLD < TEXT_MAX - 4096u,
	       "names of whatever bytes fit");

static const char *const stream_name[VM_NSTREAMS] = {
	[VM_STDOUT] = "stdout", [VM_STDERR] = "stderr"};

/* A block of output: on the disk, or a copy. */
struct piece {
	struct block *stored; /* reference */
	char *copy;
	uint32_t len;
};

/* One output of one of both. */
struct output {
	struct piece *piece;
	uint32_t n;
	uint64_t len;
	bool away; /* it can't be looked at */
};

struct compare {
	uv_work_t work;
	struct fs *fs;
	struct depot *depot;
	int fd;
	const unsigned char *key;
	void (*done)(void *data, enum compare_verdict verdict, const struct buf *text);
	void *data;
	struct output out[2][VM_NSTREAMS];
	char state[2][16];
	unsigned status[2];
	struct pack *files[2];
	const char *no_files;
	/* The result. */
	struct buf text;
	enum compare_verdict verdict;
	unsigned nfiles; /* that differ */
	char bytes[2][DEPOT_BLOCK];
};

static void differs(struct compare *c)
{
	c->verdict = MAX(c->verdict, COMPARE_DIFFERS);
}

/* ---- bytes ---- */

static void put_excerpt(struct compare *c, const char *whose, const char *bytes, size_t len)
{
	(void)buf_printf(&c->text, "  %-8s", whose);
	for (size_t i = 0; i < len; i++)
		(void)buf_printf(&c->text, "%02x ", (unsigned char)bytes[i]);
	(void)buf_printf(&c->text, "%s", len ? " \"" : "(its end)");
	for (size_t i = 0; i < len; i++)
		(void)buf_printf(&c->text, "%c", isprint((unsigned char)bytes[i]) ? bytes[i] : '.');
	(void)buf_printf(&c->text, "%s", len ? "\"\n" : "\n");
}

/* The bytes from the first one that differs on, of which there are so many of each. */
static void put_difference(struct compare *c, const char *a, size_t na, const char *b, size_t nb)
{
	put_excerpt(c, "run:", a, MIN(na, EXCERPT));
	put_excerpt(c, "replay:", b, MIN(nb, EXCERPT));
}

static size_t same_bytes(const char *a, const char *b, size_t len)
{
	size_t n = 0;

	while (n < len && a[n] == b[n])
		n++;
	return n;
}

/* ---- outputs ---- */

/* Return: bytes of piece @n, or -errno. */
static ssize_t read_piece(const struct compare *c, const struct output *o, uint32_t n, char *to)
{
	const struct piece *p = n < o->n ? &o->piece[n] : NULL;
	int e;

	if (!p)
		return 0;
	if (p->copy) {
		memcpy(to, p->copy, p->len);
		return p->len;
	}
	e = depot_fetch(c->fd, c->key, p->stored, 0, to, p->len);
	return e < 0 ? e : (ssize_t)p->len;
}

static void compare_stream(struct compare *c, enum vm_stream stream)
{
	const struct output *a = &c->out[0][stream], *b = &c->out[1][stream];
	const char *name = stream_name[stream];

	for (uint32_t n = 0; n < MAX(a->n, b->n) && !a->away && !b->away; n++) {
		const ssize_t na = read_piece(c, a, n, c->bytes[0]),
			      nb = read_piece(c, b, n, c->bytes[1]);
		size_t same;

		if (na < 0 || nb < 0) {
			(void)buf_printf(&c->text, "%s: can't be read: %s\n", name,
					 strerror((int)-(na < 0 ? na : nb)));
			c->verdict = COMPARE_FAILED;
			return;
		}
		same = same_bytes(c->bytes[0], c->bytes[1], (size_t)MIN(na, nb));
		if (same == (size_t)na && same == (size_t)nb)
			continue;
		(void)buf_printf(&c->text,
				 "%s: differs from byte %" PRIu64 " on (%" PRIu64
				 " bytes, in the replay %" PRIu64 ")\n",
				 name, (uint64_t)n * DEPOT_BLOCK + same, a->len, b->len);
		put_difference(c, c->bytes[0] + same, (size_t)na - same, c->bytes[1] + same,
			       (size_t)nb - same);
		differs(c);
		return;
	}
	if (a->away || b->away) {
		(void)buf_printf(&c->text,
				 "%s: not compared: it is of an earlier mount. Read runs/N/%s, "
				 "then ask again\n",
				 name, name);
		c->verdict = COMPARE_FAILED;
		return;
	}
	(void)buf_printf(&c->text, "%s: same, %" PRIu64 " bytes\n", name, a->len);
}

static void compare_ends(struct compare *c)
{
	const bool same = c->status[0] == c->status[1] && strcmp(c->state[0], c->state[1]) == 0;

	if (same)
		(void)buf_printf(&c->text, "exit status: same, %u (%s)\n", c->status[0],
				 c->state[0]);
	else
		(void)buf_printf(&c->text, "exit status: differs: %u (%s), in the replay %u (%s)\n",
				 c->status[0], c->state[0], c->status[1], c->state[1]);
	if (!same)
		differs(c);
}

/* ---- files ---- */

/* A directory that is being compared: where it is in both, and its path. */
struct place {
	struct compare *c;
	uint32_t dir[2];
	unsigned from; /* the one that is gone through */
	size_t len;
	char *path; /* PATH_TOLD bytes, shared */
};

/* Names are the sandbox's. */
static void put_path(struct compare *c, const char *path)
{
	for (; *path; path++)
		(void)buf_printf(&c->text,
				 iscntrl((unsigned char)*path) || *path == '\\' ? "\\%03o" : "%c",
				 (unsigned char)*path);
}

/* Return: whether there is a line to be said about it. */
static bool note_file(struct compare *c, const char *path)
{
	differs(c);
	if (c->nfiles++ >= FILES_TOLD)
		return false;
	(void)buf_append(&c->text, "  ", 2);
	put_path(c, path);
	return true;
}

static void compare_bytes(struct compare *c, const char *path, const uint32_t entry[2],
			  const struct pack_attr at[2])
{
	ssize_t n[2] = {1, 1};

	for (uint64_t at_byte = 0; n[0] > 0 || n[1] > 0; at_byte += DEPOT_BLOCK) {
		size_t same;

		for (unsigned i = 0; i < 2; i++)
			n[i] = pack_pread(c->files[i], entry[i], c->bytes[i], DEPOT_BLOCK, at_byte);
		if (n[0] < 0 || n[1] < 0) {
			if (note_file(c, path))
				(void)buf_printf(&c->text, ": can't be read\n");
			c->verdict = COMPARE_FAILED;
			return;
		}
		same = same_bytes(c->bytes[0], c->bytes[1], (size_t)MIN(n[0], n[1]));
		if (same == (size_t)n[0] && same == (size_t)n[1])
			continue;
		if (!note_file(c, path))
			return;
		(void)buf_printf(&c->text,
				 ": differs from byte %" PRIu64 " on (%" PRIu64
				 " bytes, in the replay %" PRIu64 ")\n",
				 at_byte + same, at[0].size, at[1].size);
		put_difference(c, c->bytes[0] + same, (size_t)n[0] - same, c->bytes[1] + same,
			       (size_t)n[1] - same);
		return;
	}
}

static bool go_through(void *data, const char *name, uint32_t entry, uint64_t offset);

static void compare_dirs(struct compare *c, const uint32_t dir[2], char *path, size_t len)
{
	for (unsigned from = 0; from < 2; from++) {
		struct place p = {c, {dir[0], dir[1]}, from, len, path};

		pack_list(c->files[from], dir[from], 0, go_through, &p);
	}
}

static void compare_entries(struct compare *c, const uint32_t entry[2], char *path, size_t len)
{
	struct pack_attr at[2];
	const char *target[2];

	for (unsigned i = 0; i < 2; i++) {
		pack_attr(c->files[i], entry[i], &at[i]);
		target[i] = pack_target(c->files[i], entry[i]);
	}
	if (at[0].mode != at[1].mode) {
		if (note_file(c, path))
			(void)buf_printf(&c->text, ": mode %06o, in the replay %06o\n", at[0].mode,
					 at[1].mode);
	} else if (S_ISREG(at[0].mode)) {
		compare_bytes(c, path, entry, at);
	} else if (target[0] && target[1] && strcmp(target[0], target[1]) != 0) {
		if (note_file(c, path))
			(void)buf_printf(&c->text, ": the link has another target\n");
	} else if (S_ISDIR(at[0].mode)) {
		compare_dirs(c, entry, path, len);
	}
}

/* For pack_list(): what both have is compared when the first one is gone through. */
static bool go_through(void *data, const char *name, uint32_t entry, uint64_t offset)
{
	struct place *p = data;
	const unsigned other = 1 - p->from;
	uint32_t entries[2] = {entry, entry};
	const int n =
		snprintf(p->path + p->len, PATH_TOLD - p->len, "%s%s", p->len ? "/" : "", name);
	const size_t len = MIN(p->len + (size_t)MAX(n, 0), (size_t)PATH_TOLD - 1);

	(void)offset;
	if (pack_lookup(p->c->files[other], p->dir[other], name, &entries[other]) < 0) {
		if (note_file(p->c, p->path))
			(void)buf_printf(&p->c->text, ": only %s\n",
					 p->from == 0 ? "behind the run" : "in the replay");
	} else if (p->from == 0) {
		compare_entries(p->c, entries, p->path, len);
	}
	p->path[p->len] = '\0';
	return true;
}

static void compare_files(struct compare *c)
{
	static const uint32_t root[2] = {PACK_ROOT, PACK_ROOT};
	char path[PATH_TOLD] = "";
	const size_t before = c->text.len;
	struct buf lines = {0};

	if (!c->files[0] || !c->files[1]) {
		(void)buf_printf(&c->text, "files: not compared: %s\n", c->no_files);
		c->verdict = MAX(c->verdict, COMPARE_NO_FILES);
		return;
	}
	compare_dirs(c, root, path, 0);
	/* The line that counts them comes first. */
	if (buf_append(&lines, c->text.data + before, c->text.len - before) < 0)
		c->text.failed = -ENOMEM;
	c->text.len = before;
	if (c->nfiles)
		(void)buf_printf(&c->text, "files: %u differ\n", c->nfiles);
	else
		(void)buf_printf(&c->text, "files: same, %u of them\n",
				 pack_entries(c->files[0]) - 1);
	(void)buf_append(&c->text, lines.data, lines.len);
	if (c->nfiles > FILES_TOLD)
		(void)buf_printf(&c->text, "  and %u more\n", c->nfiles - FILES_TOLD);
	for (unsigned i = 0; i < 2; i++) {
		const struct pack_flaws f = pack_flaws(c->files[i]);

		if (f.changed || f.left_out)
			(void)buf_printf(&c->text,
					 "note: of the files %s, %u were changed while they were "
					 "saved, and %u are not to be saved\n",
					 i ? "of the replay" : "behind the run", f.changed,
					 f.left_out);
	}
	buf_clear(&lines);
}

/* ---- the work ---- */

static void on_work(uv_work_t *work)
{
	struct compare *c = container_of(work, struct compare, work);

	compare_stream(c, VM_STDOUT);
	compare_stream(c, VM_STDERR);
	compare_ends(c);
	compare_files(c);
	if (c->text.failed)
		c->verdict = COMPARE_FAILED;
}

static void output_fini(struct depot *d, struct output *o)
{
	for (uint32_t i = 0; i < o->n; i++) {
		if (o->piece[i].stored)
			block_unref(d, o->piece[i].stored);
		free(o->piece[i].copy);
	}
	free(o->piece);
}

static void compare_free(struct compare *c)
{
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned s = 0; s < VM_NSTREAMS; s++)
			output_fini(c->depot, &c->out[i][s]);
		pack_unref(c->files[i]);
	}
	buf_clear(&c->text);
	free(c);
}

static void on_done(uv_work_t *work, int status)
{
	struct compare *c = container_of(work, struct compare, work);

	(void)status;
	c->fs->comparing--;
	c->done(c->data, c->verdict, &c->text);
	compare_free(c);
}

/* Blocks in memory go to the disk when they like: those are copied. Return: 0 or -ENOMEM. */
static int take_output(const struct spool *sp, struct output *o)
{
	o->len = sp->len;
	o->away = sp->away;
	if (sp->away)
		return 0;
	o->piece = calloc(sp->nblocks + 1, sizeof(*o->piece));
	if (!o->piece)
		return -ENOMEM;
	for (; o->n < sp->nblocks; o->n++) {
		struct block *b = sp->block[o->n];
		struct piece *p = &o->piece[o->n];

		p->len = b->len;
		if (b->state == BLOCK_STORED) {
			p->stored = block_ref(b);
			continue;
		}
		p->copy = malloc(b->len + 1);
		if (!p->copy)
			return -ENOMEM;
		memcpy(p->copy, b->data, b->len);
	}
	return 0;
}

int compare_new(struct fs *fs, const struct run *one, const struct run *other,
		struct pack *files[2], const char *no_files,
		void (*done)(void *data, enum compare_verdict verdict, const struct buf *text),
		void *data)
{
	const struct run *const runs[2] = {one, other};
	struct compare *c = calloc(1, sizeof(*c));
	int e = 0;

	if (!c) {
		pack_unref(files[0]);
		pack_unref(files[1]);
		return -ENOMEM;
	}
	c->fs = fs;
	c->depot = &fs->depot;
	c->fd = fs->depot.fd;
	c->key = fs->depot.key;
	c->done = done;
	c->data = data;
	c->no_files = no_files;
	c->text.limit = TEXT_MAX;
	for (unsigned i = 0; i < 2; i++) {
		c->files[i] = files[i];
		c->status[i] = runs[i]->result.status;
		snprintf(c->state[i], sizeof(c->state[i]), "%s", run_state_str(runs[i]->state));
		for (unsigned s = 0; s < VM_NSTREAMS && e == 0; s++)
			e = take_output(run_spool(runs[i], (enum run_output)s), &c->out[i][s]);
	}
	if (e == 0)
		e = uv_queue_work(fs->loop, &c->work, on_work, on_done);
	if (e < 0)
		compare_free(c);
	else
		fs->comparing++;
	return e;
}
