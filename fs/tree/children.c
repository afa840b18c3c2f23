/* SPDX-License-Identifier: Apache-2.0 */
/* Variable names in the fixed tree: templates, sessions, runs, jobs, checkpoints, scratch files. */
#include "nodes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/session/fs.h"
#include "fs/session/job.h"
#include "fs/session/scratch.h"
#include "fs/session/session.h"

int templates_find(const struct node *dir, const char *name, uint64_t *ret_ino)
{
	const int i = conf_template_index(dir->fs->conf, name);

	if (i < 0)
		return -ENOENT;
	*ret_ino = ino_make(NODE_TEMPLATE, (unsigned)i, 0, 0);
	return 0;
}

void templates_list(const struct node *dir, node_put_fn put, void *data)
{
	const struct conf *c = dir->fs->conf;

	for (unsigned i = 0; i < c->ntemplates; i++)
		put(data, ino_make(NODE_TEMPLATE, i, 0, 0), S_IFDIR, c->template[i].name);
}

int sessions_find(const struct node *dir, const char *name, uint64_t *ret_ino)
{
	const struct session *s = session_find(dir->fs, dir->template_index, name);

	if (!s)
		return -ENOENT;
	*ret_ino = ino_of_session(s, NODE_SESSION, 0);
	return 0;
}

void sessions_list(const struct node *dir, node_put_fn put, void *data)
{
	struct session *s;

	for (s = roster_first(&dir->fs->roster, dir->t); s; s = roster_next(s))
		put(data, ino_of_session(s, NODE_SESSION, 0), S_IFDIR, s->name);
}

/* "7", not "07" nor "+7". Return: 0 if it is no number of a run. */
static uint32_t run_number(const char *name)
{
	char *end;
	unsigned long v;

	if (name[0] < '1' || name[0] > '9')
		return 0;
	errno = 0;
	v = strtoul(name, &end, 10);
	return *end || errno || v > UINT32_MAX ? 0 : (uint32_t)v;
}

static void put_jobs(const struct session *s, bool of_session, node_put_fn put, void *data)
{
	const struct job *j;

	TAILQ_FOREACH(j, &s->jobs, link)
		if (j->of_session == of_session)
			put(data, ino_of_session(s, NODE_JOB, j->number), S_IFDIR, j->name);
}

int runs_find(const struct node *dir, const char *name, uint64_t *ret_ino)
{
	const struct job *j = job_find(dir->s, name, true);

	if (j) {
		*ret_ino = ino_of_session(dir->s, NODE_JOB, j->number);
		return 0;
	}
	*ret_ino = ino_of_session(dir->s, NODE_RUN, run_number(name));
	return 0;
}

void runs_list(const struct node *dir, node_put_fn put, void *data)
{
	const struct run *r;
	char number[16];

	TAILQ_FOREACH(r, &dir->s->runs, link) {
		snprintf(number, sizeof(number), "%u", r->number);
		put(data, ino_of_session(dir->s, NODE_RUN, r->number), S_IFDIR, number);
	}
	put_jobs(dir->s, true, put, data);
}

int jobs_find(const struct node *dir, const char *name, uint64_t *ret_ino)
{
	const struct job *j = job_find(dir->s, name, false);

	if (!j)
		return -ENOENT;
	*ret_ino = ino_of_session(dir->s, NODE_JOB, j->number);
	return 0;
}

void jobs_list(const struct node *dir, node_put_fn put, void *data)
{
	put_jobs(dir->s, false, put, data);
}

int checkpoints_find(const struct node *dir, const char *name, uint64_t *ret_ino)
{
	const struct checkpoint *cp = checkpoint_find(dir->s, name);

	if (!cp)
		return -ENOENT;
	*ret_ino = ino_of_session(dir->s, NODE_CHECKPOINT, cp->number);
	return 0;
}

void checkpoints_list(const struct node *dir, node_put_fn put, void *data)
{
	const struct checkpoint *cp;

	TAILQ_FOREACH(cp, &dir->s->checkpoints.list, link)
		put(data, ino_of_session(dir->s, NODE_CHECKPOINT, cp->number), S_IFDIR, cp->name);
}

int beside_find(const struct node *dir, const char *name, uint64_t *ret_ino)
{
	const struct scratch_file *f = scratch_find(dir, name);

	if (!f)
		return -ENOENT;
	*ret_ino = ino_of_session(dir->s, NODE_SCRATCH, f->id);
	return 0;
}

void beside_list(const struct node *dir, node_put_fn put, void *data)
{
	const struct scratch_file *f;

	TAILQ_FOREACH(f, &dir->s->scratch.files, link)
		if (!f->unlinked && f->dir == dir->ino)
			put(data, ino_of_session(dir->s, NODE_SCRATCH, f->id), S_IFREG, f->name);
}

/* Of those that were not removed. */
static const struct run *newest_kept(const struct session *s)
{
	return TAILQ_LAST(&s->runs, run_list);
}

bool latest_is_there(const struct node *n)
{
	return newest_kept(n->s);
}

void latest_target(const struct node *n, char target[16])
{
	const struct run *r = newest_kept(n->s);

	snprintf(target, 16, "%u", r ? r->number : 0);
}

uint64_t latest_size(const struct node *n)
{
	char target[16];

	latest_target(n, target);
	return strlen(target);
}
