/* SPDX-License-Identifier: Apache-2.0 */
/* The root's `error`: problems outside of sessions, for each user. */
#include "complaint.h"

#include <errno.h>
#include <string.h>

#include "fs.h"
#include "node.h"
#include "quota.h"
#include "session.h"

/* Without the standing one. */
static const struct complaint *own_of(const struct fs *fs, uid_t uid)
{
	for (unsigned i = 0; i < fs->complaints.used; i++) {
		if (fs->complaints.of[i].uid == uid)
			return &fs->complaints.of[i];
	}
	return NULL;
}

const struct complaint *complaint_of(const struct fs *fs, uid_t uid)
{
	const struct complaint *own = own_of(fs, uid);

	if ((!own || !own->problem.code) && complaint_stands(fs) &&
	    fs->complaints.standing.uid == uid)
		return &fs->complaints.standing;
	return own;
}

bool complaint_stands(const struct fs *fs)
{
	return fs->complaints.standing.problem.code;
}

static struct complaint *place_for(struct complaints *c, const struct complaint *old, uid_t uid)
{
	struct complaint *p;

	if (old)
		return &c->of[old - c->of];
	if (c->used < COMPLAINTS_MAX)
		p = &c->of[c->used++];
	else
		p = &c->of[c->next++ % COMPLAINTS_MAX];
	p->uid = uid;
	return p;
}

/* "python javascript raw", as far as there is room. */
static void list_templates(const struct conf *conf, char *out, size_t size)
{
	size_t n = 0;

	*out = '\0';
	for (size_t i = 0; i < conf->ntemplates; i++) {
		const char *name = conf->template[i].name;

		if (n + strlen(name) + sizeof(" ...") > size) {
			snprintf(out + n, size - n, " ...");
			return;
		}
		n += (size_t)snprintf(out + n, size - n, "%s%s", i ? " " : "", name);
	}
}

static void explain_place(const struct fs *fs, const struct node *dir, const char *name,
			  struct problem *p)
{
	char names[128];

	if (dir->kind != NODE_ROOT) {
		problem_set(
			p, PROBLEM_NOT_HERE,
			"Make sessions below a template, and directories of your own below files/.",
			"\"%s\": no directory can be made here", problem_quote(name).text);
		return;
	}
	list_templates(fs->conf, names, sizeof(names));
	problem_set(p, PROBLEM_NO_SUCH_TEMPLATE,
		    "Make sessions below a template. More templates come from the "
		    "configuration file: man 5 xsbxfs.conf.",
		    "\"%s\" is no template; there are: %s", problem_quote(name).text, names);
}

/* What its session says of a job, a named run or a checkpoint, with the session in front. Return: whether that was it. */
static bool explain_job(const struct node *dir, int err, struct problem *p)
{
	const struct problem *e;

	if ((dir->kind != NODE_JOBS && dir->kind != NODE_RUNS && dir->kind != NODE_CHECKPOINTS) ||
	    err == -ENOMEM)
		return false;
	e = problem_kept(&dir->s->front.error);
	problem_set(p, e->code, e->fix, "%s: %s", dir->s->path, e->cause);
	return true;
}

static void explain(const struct fs *fs, const struct node *dir, const char *name, uid_t uid,
		    int err, struct problem *p)
{
	if (explain_job(dir, err, p))
		return;
	switch (err) {
	case -EPERM: explain_place(fs, dir, name, p); break;
	case -EINVAL:
	case -ENAMETOOLONG:
		problem_set(p, PROBLEM_BAD_NAME, PLAIN_NAME_FIX,
			    "\"%s\" can't be the name of a session", problem_quote(name).text);
		break;
	case -ENOENT:
		problem_set(
			p, PROBLEM_NO_SUCH_TEMPLATE,
			"Build the image again, and have the mount taken over: xsbxfs --takeover.",
			"\"%s\": the image that had brought this template along was removed; "
			"sessions that there are go on",
			problem_quote(name).text);
		break;
	case -EDQUOT:
		(void)quota_session(fs, uid, p);
		problem_wrap(p, p->code, p->fix, "\"%s\": %s", problem_quote(name).text, p->cause);
		break;
	case -ENOSPC:
		problem_set(p, PROBLEM_TOO_MANY_SESSIONS,
			    "Remove some: rmdir of their directories.",
			    "\"%s\": this mount has as many sessions as it can have",
			    problem_quote(name).text);
		break;
	default:
		problem_set(p, PROBLEM_FAILED, "", "\"%s\": %s", problem_quote(name).text,
			    strerror(-err));
		break;
	}
}

void complaint_tell(struct fs *fs, uid_t uid, const struct problem *problem)
{
	struct complaint *c = place_for(&fs->complaints, own_of(fs, uid), uid);

	c->time = clock_now();
	c->problem = *problem;
	audit_complaint(fs, problem);
	if (!problem->code && fs->complaints.standing.uid == uid)
		fs->complaints.standing.time = c->time; /* what is seen again is news */
	fs->record.complaints = true;
}

void complaint_stand(struct fs *fs, const struct problem *problem)
{
	const struct complaint *own = own_of(fs, fs->uid);

	fs->complaints.standing = (struct complaint){.uid = fs->uid, .time = clock_now()};
	if (problem)
		fs->complaints.standing.problem = *problem;
	if (!own || !own->problem.code)
		complaint_tell(fs, fs->uid, &(struct problem){0}); /* the time, now and later */
	fs->record.complaints = true;
}

void complaint_mkdir(struct fs *fs, const struct node *dir, const char *name, uid_t uid, int err)
{
	const struct complaint *old = own_of(fs, uid);
	struct problem p = {0};

	/* That it is there already is nothing that needs an explanation: mkdir -p asks that way. */
	if (err == -EEXIST || (err == 0 && (!old || !old->problem.code)))
		return;
	if (err < 0 && (err != -ENOSPC || audit_may(fs, 0, &p) == 0))
		explain(fs, dir, name, uid, err, &p);
	complaint_tell(fs, uid, &p);
}
