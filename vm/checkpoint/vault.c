/* SPDX-License-Identifier: Apache-2.0 */
/* The vault. See vault.h. */
#include "vault.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base_table.h"
#include "orphans.h"
#include "point.h"
#include "vault_job.h"
#include "vm/base/context.h"
#include "vm/base/io.h"
#include "vm/base/log.h"
#include "vm/base/problem.h"
#include "vm/base/rlimit.h"
#include "vm/base/wait.h"

/*
 * Theory of operation
 * -------------------
 * All that is known of what was saved is known to the loop's thread; worker threads get jobs (vault_job.h), whose results the
 * loop attaches.
 *
 * What is loaded and on the disk is in a list, the one that was used last at its end; whatever is over LOADED_BYTES or
 * LOADED_MOST is unloaded at its head. That takes a pack from nobody who uses it, for he has a reference.
 *
 * A struct saved is found by its name, so that it is the same for all who name it. It holds the vault, which thereby outlives
 * vault_free() until the last one is gone; but after vault_close() nothing is done for them any more.
 */

#define LOADED_BYTES (256u << 20)
#define LOADED_MOST  128u /* each takes up to four descriptors */
#define LOADED_FILES 32u  /* ... of these: saved machines may be twice as many */

TAILQ_HEAD(saved_list, saved);
RB_HEAD(saved_tree, saved);

struct vault {
	unsigned refs; /* its owner's, and of each struct saved that has it */
	struct context *ctx;
	struct seal_key *key;
	struct vault_disk disk;
	struct vault_ops ops;
	bool closing;
	struct vault_jobs jobs;
	struct saved_tree tree; /* by id */
	struct saved_list loaded;
	uint64_t loaded_bytes;
	unsigned nloaded;
	struct base_table bases;
	struct wait_list waits; /* for a struct saved: all of it; for its `pack`: that alone */
	struct wait_list unlucky;
	struct vault_told_list told; /* what is stored already */
	struct deferred later;
	struct orphans orphans;
};

static int compare(const struct saved *a, const struct saved *b)
{
	return strcmp(a->id, b->id);
}

RB_GENERATE_STATIC(saved_tree, saved, by_id, compare)

static const struct problem no_memory = {.code = PROBLEM_NO_MEMORY,
					 .cause = "there is no memory to read what was saved"};
static const struct problem unreadable = {.code = PROBLEM_NOT_RESTORED,
					  .cause = "what was saved is damaged on the disk"};

static void vault_unref(struct vault *v)
{
	assert(v->refs > 0);
	if (--v->refs == 0)
		free(v);
}

/* ---- what is loaded ---- */

static uint64_t loaded_bytes(const struct saved *s)
{
	return (s->pack ? pack_bytes(s->pack) : 0) + (s->point ? s->point->bytes : 0);
}

static void unlist(struct vault *v, struct saved *s)
{
	if (!s->listed)
		return;
	s->listed = false;
	TAILQ_REMOVE(&v->loaded, s, used);
	v->loaded_bytes -= loaded_bytes(s);
	v->nloaded--;
	if (s->point)
		base_table_leave(&v->bases, s->point->base);
}

/* It is used now. */
static void list(struct vault *v, struct saved *s)
{
	assert(!s->listed && s->pack);
	s->listed = true;
	TAILQ_INSERT_TAIL(&v->loaded, s, used);
	v->loaded_bytes += loaded_bytes(s);
	v->nloaded++;
	if (s->point)
		base_table_use(&v->bases, s->point->base);
}

static void unload(struct saved *s)
{
	if (!s->listed)
		return;
	unlist(s->vault, s);
	saved_detach(s);
}

static void trim(struct vault *v)
{
	const unsigned files = rlimit_files(), most = MIN(LOADED_MOST, files / LOADED_FILES);
	struct saved *s;

	while ((s = TAILQ_FIRST(&v->loaded)) && v->nloaded > 1 &&
	       (v->nloaded > most || v->loaded_bytes > LOADED_BYTES))
		unload(s);
	base_table_trim(&v->bases);
}

uint64_t vault_memory(const struct vault *v)
{
	return v ? v->bases.bytes : 0;
}

/* ---- loading ---- */

/* What may go well another time has a code of its own: nothing is given up for it. */
static void explain(struct problem *why, const char *what, int err)
{
	switch (-err) {
	case EBADMSG:
		problem_set(why, PROBLEM_NOT_RESTORED, "", "%s is damaged on the disk", what);
		break;
	case EKEYREJECTED:
		problem_set(why, PROBLEM_NOT_RESTORED,
			    "Mount with the key that it was sealed with.",
			    "%s was sealed with another key", what);
		break;
	case EPROTONOSUPPORT:
		problem_set(why, PROBLEM_NO_RESOURCES,
			    "Mount with the version of xsbxfs that wrote it.",
			    "%s is damaged on the disk, or of another version", what);
		break;
	case ENOENT:
		problem_set(why, PROBLEM_NOT_RESTORED, "", "%s is not on the disk any more", what);
		break;
	case ECANCELED:
		problem_set(why, PROBLEM_NO_RESOURCES, "", "%s is not read: xsbxfs is ending",
			    what);
		break;
	default:
		problem_set(why, PROBLEM_NO_RESOURCES, "Look at the disk of the state directory.",
			    "%s could not be read: %s", what, strerror(-err));
	}
}

/* A base is in memory. Others who have it count it. */
static void note_base(struct vault *v, const struct saved *s)
{
	const int theirs = v->ops.base ? v->ops.base(v->ops.data, s->base) : -1;
	struct stat a, b;

	base_table_add(&v->bases, s->point->base, s->base,
		       theirs >= 0 && fstat(theirs, &a) == 0 && fstat(s->point->base, &b) == 0 &&
			       a.st_ino == b.st_ino);
}

/* Return: whether that has begun. */
static bool begin_load(struct vault *v, struct saved *s, bool memory)
{
	struct vault_job *job = vault_job_new(&v->jobs, VAULT_LOAD, s);

	if (!job)
		return false;
	snprintf(job->id, sizeof(job->id), "%s", s->of ? s->of->id : s->id);
	job->memory = memory && s->memory;
	s->loading = true;
	vault_job_queue(job);
	return true;
}

/* What its files were found to be; whatever else kept them from being read says nothing of that. */
static void note_damage(struct saved *s, int err)
{
	if (err == 0 || err == -EBADMSG)
		saved_set_damaged(s, err < 0);
}

static void loaded(struct vault *v, struct vault_job *job)
{
	struct saved *s = job->s;
	struct problem files, memory;
	const struct problem *why = NULL;

	s->loading = false;
	note_damage(s, job->err);
	if (job->err < 0) {
		explain(&files, "what was saved", job->err);
		why = &files;
	} else {
		unlist(v, s);
		saved_attach(s, steal_ptr(job->pack), steal_ptr(job->point));
		if (s->point)
			note_base(v, s);
		list(v, s);
	}
	wait_done(&v->waits, &s->pack, why);
	if (!why && job->memory_err < 0) {
		explain(&memory, "the memory that was saved", job->memory_err);
		why = &memory;
	}
	if (why && job->err != -ECANCELED)
		log_warn("%s: %s", job->id, why->cause);
	if (why || saved_is_loaded(s))
		wait_done(&v->waits, s, why);
	else if (wait_any(&v->waits, s) && !begin_load(v, s, true))
		wait_done(&v->waits, s, &no_memory);
	trim(v);
}

/* What nobody can read, or has memory for, is told so when the loop comes to it. */
static void on_load(struct saved *s, bool memory, struct wait *w)
{
	struct vault *v = s->vault;

	if ((s->of ? s->of : s)->headless) {
		wait_for(w, &v->unlucky, (void *)&unreadable);
		context_defer(v->ctx, &v->later);
		return;
	}
	if (!s->loading && !begin_load(v, s, memory)) {
		wait_for(w, &v->unlucky, (void *)&no_memory);
		context_defer(v->ctx, &v->later);
		return;
	}
	wait_for(w, &v->waits, memory ? (void *)s : (void *)&s->pack);
}

/* ---- storing ---- */

static void tell_stored(struct vault_told_list *list, int err, const struct problem *why)
{
	struct vault_told *t;

	while ((t = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, t, link);
		t->done(t->data, err, why);
		free(t);
	}
}

static void on_derived(struct saved *s)
{
	s->vault->refs++;
}

static void on_unload(struct saved *s)
{
	unload(s);
}

static void on_freed(struct saved *s)
{
	struct vault *v = s->vault;

	unlist(v, s);
	if (*s->id) {
		RB_REMOVE(saved_tree, &v->tree, s);
		if (!v->closing)
			orphans_add(&v->orphans, s->id);
	}
	vault_unref(v);
}

static const struct saved_ops ops = {
	.load = on_load, .unload = on_unload, .derived = on_derived, .freed = on_freed};

static void enter_name(struct vault *v, struct saved *s, const char *id)
{
	if (!s->vault)
		v->refs++;
	s->vault = v;
	s->ops = &ops;
	snprintf(s->id, sizeof(s->id), "%s", id);
	RB_INSERT(saved_tree, &v->tree, s);
}

/* @s is on the disk by that name. */
static void enter(struct vault *v, struct saved *s, const char *id, const struct vault_head *h)
{
	s->disk_bytes = h->disk_bytes;
	s->base_bytes = h->base_bytes;
	if (s->memory)
		snprintf(s->base, sizeof(s->base), "%s", h->facts.base_sum);
	enter_name(v, s, id);
	saved_has_changed(s);
}

static void explain_store(struct problem *why, int err)
{
	const bool full = err == -ENOSPC || err == -EDQUOT;

	problem_set(why, PROBLEM_NOT_SAVED,
		    full		? "Free space on the disk of the state directory."
		    : err == -EROFS	? "Make the state directory's disk writable."
		    : err == -ECANCELED ? ""
					: "Look at the disk of the state directory.",
		    "what was saved is not on the disk, but in memory alone: %s",
		    err == -ECANCELED ? "xsbxfs is ending" : strerror(-err));
}

static void stored(struct vault *v, struct vault_job *job)
{
	struct saved *s = job->s;
	struct problem why;

	if (job->err == 0) {
		enter(v, s, job->id, &job->head);
		s->of = saved_unref(s->of);
		if (s->point)
			note_base(v, s);
		if (s->pack && !s->listed)
			list(v, s);
	} else {
		if (s->of && job->err == -EBADMSG) /* it was to be read */
			saved_set_damaged(s, true);
		explain_store(&why, job->err); /* logged by who tries it again */
	}
	tell_stored(&job->told, job->err, job->err < 0 ? &why : NULL);
	trim(v);
}

static int new_id(char ret_id[SAVED_ID_MAX])
{
	unsigned char bytes[(SAVED_ID_MAX - 1) / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -EIO;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(ret_id + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

/* Return: the job, with all that it needs; or NULL. */
static struct vault_job *new_store(struct vault *v, struct saved *s)
{
	struct vault_job *job = vault_job_new(&v->jobs, VAULT_STORE, s);
	const char *sum;

	if (!job)
		return NULL;
	if (new_id(job->id) < 0) {
		vault_job_free(job);
		return NULL;
	}
	assert(s->pack || s->of);
	job->pack = s->pack ? pack_ref(s->pack) : NULL;
	if (!s->pack)
		snprintf(job->from, sizeof(job->from), "%s", s->of->id);
	if (s->point) {
		job->point = point_ref(s->point);
		sum = base_table_sum(&v->bases, s->point->base);
		snprintf(job->base_sum, sizeof(job->base_sum), "%s", sum ? sum : "");
	}
	return job;
}

void vault_store(struct vault *v, struct saved *s, vault_stored_fn done, void *data)
{
	struct vault_job *job = *s->id ? NULL : vault_jobs_find(&v->jobs, s);
	struct vault_told *t = malloc(sizeof(*t));
	struct problem why;
	const bool begins = !*s->id && !job;

	if (begins && t)
		job = new_store(v, s);
	if (!t || (begins && !job)) {
		free(t);
		explain_store(&why, -ENOMEM);
		done(data, -ENOMEM, &why);
		return;
	}
	*t = (struct vault_told){.done = done, .data = data};
	if (job) {
		TAILQ_INSERT_TAIL(&job->told, t, link);
	} else {
		TAILQ_INSERT_TAIL(&v->told, t, link);
		context_defer(v->ctx, &v->later);
	}
	if (begins)
		vault_job_queue(job);
}

/* ---- jobs ---- */

static void on_over(struct vault_job *job)
{
	struct vault *v = container_of(job->all, struct vault, jobs);

	if (job->kind == VAULT_LOAD)
		loaded(v, job);
	else if (job->kind == VAULT_STORE)
		stored(v, job);
}

/* What is known now, and may not have been when it was queued. */
static void on_prepare(struct vault_job *job)
{
	const struct vault *v = container_of(job->all, struct vault, jobs);
	int base;

	if (job->kind != VAULT_LOAD || !job->memory)
		return;
	base = base_table_find(&v->bases, job->s->base);
	if (base < 0 && v->ops.base)
		base = v->ops.base(v->ops.data, job->s->base);
	job->base = base < 0 ? -1 : fcntl(base, F_DUPFD_CLOEXEC, 3);
}

/* What could not be told at once. */
static void on_later(struct deferred *d)
{
	struct vault *v = container_of(d, struct vault, later);

	wait_done(&v->unlucky, &no_memory, &no_memory);
	wait_done(&v->unlucky, &unreadable, &unreadable);
	tell_stored(&v->told, 0, NULL);
}

/* ---- what is on the disk ---- */

/* Return: the one of that name, or NULL. */
static struct saved *find(struct vault *v, const char *id)
{
	struct saved key;

	if (!vault_disk_id_ok(id))
		return NULL;
	memcpy(key.id, id, sizeof(key.id));
	return RB_FIND(saved_tree, &v->tree, &key);
}

int vault_stand_in(struct vault *v, const char *id, struct saved **ret_s)
{
	struct saved *s = find(v, id);

	if (s) {
		*ret_s = saved_ref(s);
		return 0;
	}
	s = vault_disk_id_ok(id) ? calloc(1, sizeof(*s)) : NULL;
	if (!s)
		return -ENOMEM;
	*s = (struct saved){.refs = 1, .damaged = true, .headless = true};
	enter_name(v, s, id);
	orphans_adopt(&v->orphans, id);
	*ret_s = s;
	return 0;
}

int vault_find(struct vault *v, const char *id, struct saved **ret_s, struct problem *why)
{
	struct saved *s = find(v, id);
	struct vault_head h;
	struct buf text = {0};
	int r;

	if (s && s->headless) {
		if (why)
			explain(why, "what was saved", -EBADMSG);
		return -EBADMSG;
	}
	if (s) {
		*ret_s = saved_ref(s);
		return 0;
	}
	r = vault_disk_head(&v->disk, id, &text, &h);
	s = r == 0 ? calloc(1, sizeof(*s)) : NULL;
	if (!s) {
		buf_clear(&text);
		r = r < 0 ? r : -ENOMEM;
		if (why)
			explain(why, "what was saved", r);
		return r;
	}
	*s = (struct saved){.refs = 1,
			    .memory = h.memory,
			    .files_bytes = h.files_bytes,
			    .memory_bytes = h.memory_bytes,
			    .mtime = h.mtime,
			    .flaws = h.flaws};
	if (h.memory)
		saved_describe(s, h.facts.machine, h.facts.machine_len);
	buf_clear(&text);
	enter(v, s, id, &h);
	orphans_adopt(&v->orphans, id);
	*ret_s = s;
	return 0;
}

static void remove_all(struct vault *v, char (*ids)[VAULT_NAME_MAX], size_t n)
{
	struct vault_job *job = n && ids ? vault_job_new(&v->jobs, VAULT_REMOVE, NULL) : NULL;

	if (!job) {
		free(ids);
		return;
	}
	job->removed = ids;
	job->nremoved = n;
	vault_job_queue(job);
}

static int compare_ids(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_wanted(struct vault *v, const char *id, const char *const *ids, size_t n)
{
	return vault_jobs_make(&v->jobs, id) || find(v, id) ||
	       (n && bsearch(&id, ids, n, sizeof(*ids), compare_ids));
}

/* What was begun and never finished is nobody's. */
static bool is_left(struct vault *v, const char *name, const char *const *ids, size_t n)
{
	const char *begun = vault_disk_unfinished(name);

	return begun ? !vault_jobs_make(&v->jobs, begun)
		     : vault_disk_id_ok(name) && !is_wanted(v, name, ids, n);
}

void vault_keep(struct vault *v, const char *const *ids, size_t n)
{
	_cleanup_dir_ DIR *dir = fileio_list(v->disk.dir, ".");
	_cleanup_free_ const char **sorted = calloc(n + 1, sizeof(*sorted));
	char(*gone)[VAULT_NAME_MAX] = NULL, (*more)[VAULT_NAME_MAX];
	struct dirent *e;
	size_t ngone = 0;

	if (!sorted)
		return;
	if (n)
		memcpy(sorted, ids, n * sizeof(*ids));
	qsort(sorted, n, sizeof(*sorted), compare_ids);
	while (dir && (e = readdir(dir))) {
		if (!is_left(v, e->d_name, sorted, n))
			continue;
		more = realloc(gone, (ngone + 1) * sizeof(*gone));
		if (!more)
			break;
		gone = more;
		snprintf(gone[ngone++], VAULT_NAME_MAX, "%.*s", (int)VAULT_NAME_MAX - 1, e->d_name);
	}
	remove_all(v, gone, ngone);
}

void vault_find_orphans(struct vault *v)
{
	_cleanup_dir_ DIR *dir = fileio_list(v->disk.dir, ".");
	struct orphans found;
	struct dirent *e;

	orphans_init(&found);
	while (dir && (e = readdir(dir)))
		if (is_left(v, e->d_name, NULL, 0) && !orphans_has(&v->orphans, e->d_name))
			orphans_add(&found, e->d_name);
	orphans_join(&v->orphans, &found);
}

uint64_t vault_mark(struct vault *v)
{
	return ++v->orphans.mark;
}

void vault_forget(struct vault *v, uint64_t mark)
{
	char(*gone)[VAULT_NAME_MAX] = NULL;
	const size_t n = orphans_take(&v->orphans, mark, &gone);

	remove_all(v, gone, n);
}

int vault_seal(const struct vault *v, const void *data, size_t len, const char *what,
	       struct buf *out)
{
	return seal_bytes(v->key, what, data, len, out);
}

int vault_unseal(const struct vault *v, const void *data, size_t len, const char *what,
		 struct buf *out)
{
	return unseal_bytes(v->key, what, data, len, out);
}

/* ---- its life ---- */

int vault_open(struct context *ctx, int state_dir, struct seal_key *key,
	       const struct vault_ops *base_ops, struct vault **ret_vault, struct problem *why)
{
	struct vault *v = calloc(1, sizeof(*v));
	int r;

	if (!v) {
		problem_set(why, PROBLEM_NO_MEMORY, "", "there is no memory");
		return -ENOMEM;
	}
	r = vault_disk_open(state_dir, key, &v->disk);
	if (r < 0) {
		problem_set(why, PROBLEM_NOT_RESTORED,
			    r == -EKEYREJECTED ? "Mount with that key, or with another state "
						 "directory; nothing was removed."
					       : "",
			    "what was saved: %s",
			    r == -EKEYREJECTED	    ? "it was sealed with another key"
			    : r == -EPROTONOSUPPORT ? "it is of another version"
						    : strerror(-r));
		vault_disk_close(&v->disk);
		free(v);
		return r;
	}
	v->refs = 1;
	v->ctx = ctx;
	v->key = key;
	v->ops = *base_ops;
	v->later.run = on_later;
	vault_jobs_init(&v->jobs, ctx, &v->disk, on_prepare, on_over);
	TAILQ_INIT(&v->loaded);
	TAILQ_INIT(&v->waits);
	TAILQ_INIT(&v->unlucky);
	TAILQ_INIT(&v->told);
	orphans_init(&v->orphans);
	base_table_init(&v->bases);
	*ret_vault = v;
	return 0;
}

void vault_close(struct vault *v)
{
	if (!v)
		return;
	v->closing = true;
	vault_jobs_close(&v->jobs);
}

void vault_free(struct vault *v)
{
	if (!v)
		return;
	assert(!v->jobs.nworking);
	orphans_clear(&v->orphans);
	base_table_fini(&v->bases);
	vault_disk_close(&v->disk);
	v->key = seal_key_free(v->key);
	vault_unref(v);
}
