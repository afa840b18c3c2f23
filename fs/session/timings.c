/* SPDX-License-Identifier: Apache-2.0 */
/* How long things took since the mount. See timings.h. */
#include "timings.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const starts[] = {"cold", "snapshot", "warm", "saved"};
static_assert(ARRAY_SIZE(starts) == TIMING_STARTS, "a name for each way to start");

static const char *const backends[] = {[VM_MICROVM] = "microvm", [VM_PROCESS] = "process", "other"};
static_assert(ARRAY_SIZE(backends) == TIMING_BACKENDS, "a name for each backend");

static const char *const languages[] = {"python", "javascript", "raw", "other"};
static_assert(ARRAY_SIZE(languages) == TIMING_LANGUAGES, "a name for each language");

static const char *const kinds[] = {"run", "job"};

static const char *const bys[] = {
	[TIMING_DAEMON] = "daemon", [TIMING_AGENT] = "agent", [TIMING_SAVED] = "saved"};
static_assert(ARRAY_SIZE(bys) == TIMING_NBYS, "a name for each");

/* Those that have an answer. */
static const char *const file_ops[VM_NFILEOPS] = {
	[VM_LOOKUP] = "lookup",
	[VM_GETATTR] = "getattr",
	[VM_SETATTR] = "setattr",
	[VM_READLINK] = "readlink",
	[VM_MKDIR] = "mkdir",
	[VM_SYMLINK] = "symlink",
	[VM_LINK] = "link",
	[VM_UNLINK] = "unlink",
	[VM_RMDIR] = "rmdir",
	[VM_RENAME] = "rename",
	[VM_OPEN] = "open",
	[VM_CREATE] = "create",
	[VM_READ] = "read",
	[VM_WRITE] = "write",
	[VM_FSYNC] = "fsync",
	[VM_FALLOCATE] = "fallocate",
	[VM_SEEK] = "seek",
	[VM_OPENDIR] = "opendir",
	[VM_READDIR] = "readdir",
	[VM_STATFS] = "statfs",
	[VM_LOCK] = "lock",
	[VM_TEST_LOCK] = "test_lock",
	[VM_DROP_LOCKS] = "drop_locks",
	[VM_ORIGIN] = "origin",
};

static const char *state_name(unsigned i)
{
	return run_state_str((enum run_state)(RUN_DONE + i));
}

/* What there is of a family: one histogram, or rows of them. */
static const struct {
	const char *name, *help;
	const struct histogram_scale *scale;
	size_t offset; /* in struct timings */
	unsigned rows, columns;
	const char *row, *column;			    /* labels, or NULL */
	const char *const *row_names, *const *column_names; /* NULL: states of runs */
} families[] = {
	[TIMING_START] = {"sandbox_start_duration_seconds",
			  "From when a sandbox was wanted until it was ready.", &histogram_slow,
			  offsetof(struct timings, start), TIMING_STARTS, TIMING_BACKENDS, "start",
			  "backend", starts, backends},
	[TIMING_PLACE] = {"sandbox_wait_duration_seconds",
			  "How long a sandbox waited for its place.", &histogram_slow,
			  offsetof(struct timings, place), 1, 1, NULL, NULL, NULL, NULL},
	[TIMING_WAIT] = {"run_wait_duration_seconds",
			 "From when a run or job was written until it was sent to its sandbox.",
			 &histogram_slow, offsetof(struct timings, wait), ARRAY_SIZE(kinds), 1,
			 "kind", NULL, kinds, NULL},
	[TIMING_RUN] = {"run_duration_seconds", "From when a run was sent until it had ended.",
			&histogram_slow, offsetof(struct timings, run), TIMING_LANGUAGES,
			TIMING_STATES, "language", "state", languages, NULL},
	[TIMING_JOB] = {"job_duration_seconds", "From when a job was sent until it had ended.",
			&histogram_slow, offsetof(struct timings, job), TIMING_STATES, 1, "state",
			NULL, NULL, NULL},
	[TIMING_FILE] = {"file_request_duration_seconds",
			 "Requests below files/, until they were answered.", &histogram_fast,
			 offsetof(struct timings, file), VM_NFILEOPS, TIMING_NBYS, "op", "by",
			 file_ops, bys},
};
static_assert(ARRAY_SIZE(families) == TIMING_NFAMILIES, "what each family is");

const char *timings_name(enum timing_family family)
{
	return families[family].name;
}

const char *timings_help(enum timing_family family)
{
	return families[family].help;
}

/* ---- observations ---- */

/* Return: the place of @word among @n, or @n. */
static unsigned find(const char *const *words, unsigned n, const char *word)
{
	unsigned i = 0;

	while (i < n && strcmp(words[i], word) != 0)
		i++;
	return i;
}

void timings_start(struct timings *t, const char *start, const char *backend, uint64_t us,
		   uint64_t waited_us)
{
	const unsigned how = find(starts, TIMING_STARTS, start),
		       in = find(backends, VM_NBACKENDS, backend);

	if (how == TIMING_STARTS)
		return;
	histogram_add(&t->start[how][in], families[TIMING_START].scale, us);
	histogram_add(&t->place, families[TIMING_PLACE].scale, waited_us);
}

static uint64_t us_between(const struct timespec *a, const struct timespec *b)
{
	const int64_t us = (b->tv_sec - a->tv_sec) * 1000000 + (b->tv_nsec - a->tv_nsec) / 1000;

	return us > 0 ? (uint64_t)us : 0;
}

void timings_sent(struct timings *t, const struct run *r)
{
	histogram_add(&t->wait[*r->job != '\0'], families[TIMING_WAIT].scale,
		      us_between(&r->submitted, &r->started));
}

/* What the sandbox says of its time is not used: it is not trusted. */
void timings_ended(struct timings *t, const struct run *r, const char *language)
{
	const unsigned state = r->state - RUN_DONE;
	const uint64_t us = us_between(&r->started, &r->ended);

	if (r->state == RUN_REFUSED || !r->started.tv_sec)
		return;
	if (*r->job)
		histogram_add(&t->job[state], families[TIMING_JOB].scale, us);
	else
		histogram_add(&t->run[find(languages, TIMING_LANGUAGES - 1, language)][state],
			      families[TIMING_RUN].scale, us);
}

void timings_file(struct timings *t, enum vm_file_op op, enum timing_by by, uint64_t us)
{
	if (file_ops[op])
		histogram_add(&t->file[op][by], families[TIMING_FILE].scale, us);
}

/* ---- all of them ---- */

static struct histogram *at(const struct timings *t, enum timing_family f, unsigned n)
{
	return (struct histogram *)((char *)t + families[f].offset) + n;
}

static void label(char *text, size_t size, enum timing_family f, unsigned n)
{
	const unsigned row = n / families[f].columns, column = n % families[f].columns;
	int len = 0;

	*text = '\0';
	if (families[f].row)
		len = snprintf(text, size, "%s=\"%s\"", families[f].row,
			       families[f].row_names ? families[f].row_names[row]
						     : state_name(row));
	if (families[f].column && len >= 0 && (size_t)len < size)
		snprintf(text + len, size - (size_t)len, ",%s=\"%s\"", families[f].column,
			 families[f].column_names ? families[f].column_names[column]
						  : state_name(column));
}

int timings_each(const struct timings *t, int (*fn)(void *data, const struct timing *of),
		 void *data)
{
	int r = 0;

	for (unsigned f = 0; f < TIMING_NFAMILIES; f++) {
		for (unsigned n = 0; n < families[f].rows * families[f].columns; n++) {
			struct timing of = {.family = (enum timing_family)f,
					    .n = n,
					    .h = at(t, (enum timing_family)f, n),
					    .scale = families[f].scale};

			if (!histogram_count(of.h))
				continue;
			label(of.labels, sizeof(of.labels), of.family, n);
			r = fn(data, &of);
			if (r != 0)
				return r;
		}
	}
	return 0;
}

/* ---- for the next daemon ---- */

/* Never reuse. */
enum timing_tag {
	TAG_NAME = 1,
	TAG_LABELS,
	TAG_HISTOGRAM,
};

void timings_put(const struct timing *of, struct buf *out)
{
	size_t inside;

	record_str(out, TAG_NAME, families[of->family].name);
	record_str(out, TAG_LABELS, of->labels);
	inside = record_open(out, TAG_HISTOGRAM);
	histogram_put(of->h, of->scale, out);
	record_close(out, inside);
}

/* Return: the one that is called so, or NULL. */
static struct histogram *named(struct timings *t, const char *name, const char *labels,
			       const struct histogram_scale **ret_scale)
{
	char text[96];

	for (unsigned f = 0; f < TIMING_NFAMILIES; f++) {
		if (strcmp(families[f].name, name) != 0)
			continue;
		*ret_scale = families[f].scale;
		for (unsigned n = 0; n < families[f].rows * families[f].columns; n++) {
			if (f == TIMING_FILE && !file_ops[n / families[f].columns])
				continue;
			label(text, sizeof(text), (enum timing_family)f, n);
			if (strcmp(text, labels) == 0)
				return at(t, (enum timing_family)f, n);
		}
	}
	return NULL;
}

int timings_get(struct timings *t, struct record_reader fields)
{
	const struct histogram_scale *scale;
	char name[64] = "", labels[96] = "";
	struct histogram *h;
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		switch ((enum timing_tag)f.tag) {
		case TAG_NAME: r = record_get_str(&f, name, sizeof(name)); break;
		case TAG_LABELS: r = record_get_str(&f, labels, sizeof(labels)); break;
		case TAG_HISTOGRAM:
			h = named(t, name, labels, &scale);
			r = h ? histogram_get(h, scale, record_inside(&f)) : 0;
			break;
		default: break;
		}
		if (r < 0)
			return r;
	}
	return r;
}
