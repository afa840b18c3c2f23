/* SPDX-License-Identifier: Apache-2.0 */
/* Builds missing images, with the same program as users do. */
#include "image_job.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/wait.h>

#include "vm/base/log.h"
#include "vm/order/order.h"
#include "vm/base/problem.h"

/*
 * Theory of operation
 * -------------------
 * A missing image is not an error yet: the spawner runs the program that builds images, with the
 * image's name; one at a time, because builds share downloads and the disk. It is the same program
 * that users run, and it uses a lock against running twice.
 *
 * Each line that it prints goes to `events` and to the log. Its last lines explain a failure, and
 * end with what to do about it, as the program's own messages do.
 *
 * A process sandbox that uses an image's files needs them as a directory: the program unpacks the image,
 * and builds it first if necessary. (Mounting the file system instead would save disk space, but only
 * root can do that, and few kernels without a loop device; a directory works for everybody.)
 *
 * A session that needs the image waits without a place in the admission, so it does not block others.
 * Prepared templates are handled when they are checked next.
 *
 * When the daemon ends, the program is killed. Its orphaned children are reparented to the spawner and
 * killed there; the incomplete image has no final name, and the next build removes it.
 */

#define RETRY_MS    600000u /* after a failure, if nobody asks */
#define EAGER_MS    5000u   /* likewise if somebody does */
#define NOTE_INDENT 4u	    /* of what a step says; see scripts/lib.sh */

static const char *const state_str[] = {
	[IMAGE_JOB_QUEUED] = "waiting",
	[IMAGE_JOB_BUILDING] = "building",
	[IMAGE_JOB_FAILED] = "failed",
};
static_assert(ARRAY_SIZE(state_str) == IMAGE_JOB_NSTATES, "a name for each state");

static void begin_next(struct image_jobs *ij);

const char *image_job_state_str(enum image_job_state state)
{
	return state_str[state];
}

int image_jobs_init(struct image_jobs *ij, const char *program)
{
	TAILQ_INIT(&ij->jobs);
	TAILQ_INIT(&ij->waits);
	if (!program || strcmp(program, "none") == 0 || !ij->ctx->spawner)
		return 0;
	ij->program = strdup(program);
	return ij->program ? 0 : -ENOMEM;
}

static void forget(struct image_jobs *ij, struct image_job *job)
{
	TAILQ_REMOVE(&ij->jobs, job, link);
	free(job);
}

void image_jobs_fini(struct image_jobs *ij)
{
	struct image_job *job;

	while ((job = TAILQ_FIRST(&ij->jobs)))
		forget(ij, job);
	free(ij->program);
}

static struct image_job *find(const struct image_jobs *ij, const char *image, bool unpack)
{
	struct image_job *job;

	TAILQ_FOREACH(job, &ij->jobs, link) {
		if (strcmp(job->name, image) == 0 && job->unpack == unpack)
			return job;
	}
	return NULL;
}

const struct image_job *image_jobs_look(const struct image_jobs *ij, const char *image)
{
	return find(ij, image, false);
}

/* ---- waiters ---- */

void image_jobs_wait(struct image_jobs *ij, const char *image, bool unpack, struct wait *w)
{
	wait_for(w, &ij->waits, find(ij, image, unpack));
}

void image_jobs_explain(const struct wait *w, struct problem *p)
{
	const struct image_job *job = w->on;

	problem_set(
		p, PROBLEM_IMAGE_MISSING,
		"Wait: the run begins when the image is there. `events` at the root shows how far "
		"it is.",
		"the image '%s' is not there yet and is being built: %s", job->name,
		job->step[0] ? job->step : "it begins soon");
}

void image_jobs_explain_late(const struct wait *w, struct problem *p)
{
	const struct image_job *job = w->on;

	problem_set(p, PROBLEM_IMAGE_MISSING, "Run it again when `events` says that it is there.",
		    "the image '%s' was not built within %u minutes; the last of it: %s", job->name,
		    IMAGE_JOB_MS / 60000, job->step);
}

/* ---- what the program says ---- */

static void on_line(struct lines *w, char *text)
{
	struct image_jobs *ij = w->data;
	struct image_job *job = ij->current;
	const bool more = strspn(text, " ") > NOTE_INDENT;

	text += strspn(text, " =>");
	if (!*text)
		return;
	log_info("image %s: %s", job->name, text);
	if (more)
		return; /* of a warning or an error: half a sentence, and no step */
	snprintf(job->step, sizeof(job->step), "%s", text);
	context_event(ij->ctx, "image", "%s: %s", job->name, text);
	wait_progress(&ij->waits, job, text);
}

/* ---- the program ---- */

static void failed(struct image_jobs *ij, struct image_job *job, const char *why)
{
	struct problem p;

	job->state = IMAGE_JOB_FAILED;
	job->ended_at = uv_now(ij->ctx->loop);
	snprintf(job->problem, sizeof(job->problem), "%.690s", why);
	log_warn("image %s: not built: %s", job->name, why);
	context_event(ij->ctx, "image", "%s: not built: %.400s", job->name, why);
	problem_set(&p, PROBLEM_IMAGE_FAILED, "", "the image '%s' can't be built: %s", job->name,
		    why);
	problem_add_fix(
		&p,
		"Mend what it says and try again, or run it by hand to see all of it: %.300s %.64s",
		ij->program, job->name);
	p.logged = true;
	wait_done(&ij->waits, job, &p);
}

static bool is_there(struct image_jobs *ij, const struct image_job *job, const char **ret_why)
{
	char path[PATH_MAX];

	if (job->unpack)
		return images_tree(ij->images, job->name, path, ret_why) == 0;
	return images_manifest(ij->images, job->name, ret_why);
}

/* The program is gone, and has said all it had to say. */
static void on_over(struct program *t)
{
	struct image_jobs *ij = t->data;
	struct image_job *job = ij->current;
	char quote[600], why[700];
	const char *missing;

	lines_end(&ij->lines);
	ij->current = NULL;
	context_release(ij->ctx);
	if (ij->ctx->closing)
		return;
	if (t->failed)
		snprintf(why, sizeof(why), "%.300s was not started: %s", ij->program,
			 strerror(-t->failed));
	else if (WIFSIGNALED(t->status))
		snprintf(why, sizeof(why), "%.300s was killed by signal %d (%s)", ij->program,
			 WTERMSIG(t->status), strsignal(WTERMSIG(t->status)));
	else if (!WIFEXITED(t->status) || WEXITSTATUS(t->status))
		snprintf(why, sizeof(why), "%s",
			 ij->lines.said.total
				 ? tail_quote(&ij->lines.said, "error: ", quote, sizeof(quote))
				 : "the program said nothing");
	else if (!is_there(ij, job, &missing))
		snprintf(why, sizeof(why), "it was built, but: %.600s", missing);
	else
		why[0] = '\0';
	if (why[0]) {
		failed(ij, job, why);
	} else {
		context_event(
			ij->ctx, "image", "%s: there after %llu s", job->name,
			(unsigned long long)((uv_now(ij->ctx->loop) - job->started_at) / 1000));
		/* Nobody may find it, and wait for it, any more. */
		TAILQ_REMOVE(&ij->jobs, job, link);
		wait_done(&ij->waits, job, NULL);
		free(job);
	}
	context_work(ij->ctx);
	begin_next(ij);
}

static int start(struct image_jobs *ij, const struct image_job *job)
{
	struct order order = {.program = ORDER_IMAGE, .image = {.unpack = job->unpack}};
	int r;

	if (!plain_name_ok(job->name))
		return -EINVAL;
	order_set(order.image.image, job->name);
	ij->lines = (struct lines){.line = on_line, .data = ij};
	ij->builder = (struct program){.lines = &ij->lines, .over = on_over, .data = ij};
	r = program_start(&ij->builder, ij->ctx->loop, ij->ctx->spawner, &order, sizeof(order));
	if (r == 0)
		context_hold(ij->ctx);
	return r;
}

static struct image_job *next_queued(struct image_jobs *ij)
{
	struct image_job *job;

	TAILQ_FOREACH(job, &ij->jobs, link) {
		if (job->state == IMAGE_JOB_QUEUED)
			break;
	}
	return job;
}

/* One at a time; those that can't be started don't hold up others. */
static void begin_next(struct image_jobs *ij)
{
	struct image_job *job;

	while (!ij->current && !ij->ctx->closing && (job = next_queued(ij))) {
		int r;

		job->state = IMAGE_JOB_BUILDING;
		job->started_at = uv_now(ij->ctx->loop);
		ij->current = job;
		r = start(ij, job);
		if (r == 0)
			return;
		ij->current = NULL;
		failed(ij, job, strerror(-r));
	}
}

/* Has it made, if that was not tried lately. Return: whether it is being made. */
static bool want(struct image_jobs *ij, const char *image, bool unpack, bool eager)
{
	const uint64_t now = uv_now(ij->ctx->loop);
	struct image_job *job = find(ij, image, unpack);

	if (job && job->state != IMAGE_JOB_FAILED)
		return true;
	if (job && now - job->ended_at < (eager ? EAGER_MS : RETRY_MS))
		return false;
	if (!job) {
		job = calloc(1, sizeof(*job) + strlen(image) + 1);
		if (!job)
			return false;
		memcpy(job->name, image, strlen(image) + 1);
		job->unpack = unpack;
		TAILQ_INSERT_TAIL(&ij->jobs, job, link);
	}
	job->state = IMAGE_JOB_QUEUED;
	job->step[0] = job->problem[0] = '\0';
	begin_next(ij);
	return job->state != IMAGE_JOB_FAILED;
}

static bool can_build(const struct image_jobs *ij)
{
	return ij->program && ij->machines && !ij->ctx->spawner_lost;
}

bool image_jobs_lacks(struct image_jobs *ij, const struct backend_ops *ops, bool image_view,
		      const char *image, bool eager)
{
	char path[PATH_MAX];
	struct image there;
	const char *why;
	int r;

	image_view = image_view && ops->views; /* machines see nothing but their image */
	if ((!image_view && !ops->needs_image) || !can_build(ij))
		return false;
	r = image_view ? images_tree(ij->images, image, path, &why)
		       : images_open(ij->images, image, &there, &why);
	return r == -ENOENT && want(ij, image, image_view, eager);
}

void image_jobs_cut(struct image_jobs *ij)
{
	if (ij->current)
		child_kill(&ij->builder.child);
}
