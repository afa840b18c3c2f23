/* SPDX-License-Identifier: Apache-2.0 */
/* Building images that are missing, by the program that users build them with. */
#include "image_job.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/wait.h>

#include "vm/base/log.h"
#include "vm/spawn/order.h"
#include "vm/base/problem.h"
#include "vm/vm_internal.h"

/*
 * Theory of operation
 * -------------------
 * A template whose image is missing is not an error yet: the program that builds images is run, by
 * the spawner, with the image's name; one at a time, because builds share downloads and the disk. It
 * is the same program that is run by hand, and the two exclude each other with a lock of its own.
 *
 * Each line that it prints is told to `events` and to the log. Its last lines explain a failure, and
 * end with what to do about it, because the program's own messages do.
 *
 * A process that sees an image's files needs them as a directory: the program unpacks it, in the same
 * way, and builds it before if need be. (Mounting the file system instead would spare the disk space, but
 * only root can, on few kernels without a loop device; a directory works for everybody.)
 *
 * A session that needs the image waits, without a place in the admission, so nobody else waits for
 * it. What was prepared ahead has its turn when the template is looked at next.
 *
 * When the daemon ends, the program is killed. Its children come to the spawner as orphans and are
 * killed there; the half-made image has no name yet, and the next build sweeps it away.
 */

#define IMAGE_MS    1800000u /* longest wait of a session: a base is half a minute on a fast line */
#define RETRY_MS    600000u  /* after a failure, if nobody asks */
#define EAGER_MS    5000u    /* likewise if somebody does */
#define NOTE_INDENT 4u	     /* of what a step says; see scripts/lib.sh */

static const char *const state_str[] = {
	[IMAGER_QUEUED] = "waiting",
	[IMAGER_BUILDING] = "building",
	[IMAGER_FAILED] = "failed",
};
static_assert(ARRAY_SIZE(state_str) == IMAGER_NSTATES, "a name for each state");

static void begin_next(struct imager *im);

const char *imager_state_str(enum imager_state state)
{
	return state_str[state];
}

int imager_init(struct imager *im, struct vm *vm, const char *program)
{
	im->vm = vm;
	TAILQ_INIT(&im->jobs);
	TAILQ_INIT(&im->waiters);
	if (!program || strcmp(program, "none") == 0 || !vm->ctx.spawner)
		return 0;
	im->program = strdup(program);
	return im->program ? 0 : -ENOMEM;
}

static void forget(struct imager *im, struct imager_job *job)
{
	TAILQ_REMOVE(&im->jobs, job, link);
	free(job);
}

void imager_fini(struct imager *im)
{
	struct imager_job *job;

	while ((job = TAILQ_FIRST(&im->jobs)))
		forget(im, job);
	free(im->program);
}

static struct imager_job *find(const struct imager *im, const char *image, bool unpack)
{
	struct imager_job *job;

	TAILQ_FOREACH(job, &im->jobs, link) {
		if (strcmp(job->name, image) == 0 && job->unpack == unpack)
			return job;
	}
	return NULL;
}

const struct imager_job *imager_look(const struct imager *im, const char *image)
{
	return find(im, image, false);
}

/* ---- who waits ---- */

void imager_explain(const struct sandbox *s, struct problem *p)
{
	const struct imager_job *job = find(&s->vm->imager, s->image, s->view.image);

	problem_set(
		p, PROBLEM_IMAGE_MISSING,
		"Wait: the run begins when the image is there. `events` at the root shows how far "
		"it is.",
		"the image '%s' is not there yet and is being built: %s", s->image,
		job && job->step[0] ? job->step : "it begins soon");
}

void imager_wait(struct imager *im, struct sandbox *s)
{
	s->phase = PHASE_IMAGE;
	s->awaits = true;
	TAILQ_INSERT_TAIL(&im->waiters, s, template_link);
	sandbox_deadline(s, IMAGE_MS);
	sandbox_set_state(s, SANDBOX_STARTING);
	context_defer(&im->vm->ctx, &s->work);
}

void imager_leave(struct imager *im, struct sandbox *s)
{
	if (s->phase != PHASE_IMAGE)
		return;
	TAILQ_REMOVE(&im->waiters, s, template_link);
	s->phase = PHASE_WAIT;
	s->awaits = false;
	sandbox_deadline(s, 0);
}

void imager_overdue(struct sandbox *s)
{
	const struct imager_job *job = find(&s->vm->imager, s->image, s->view.image);
	struct problem p;

	problem_set(&p, PROBLEM_IMAGE_MISSING,
		    "Reset the session when `events` says that it is there.",
		    "the image '%s' was not built within %u minutes; the last of it: %s", s->image,
		    IMAGE_MS / 60000, job ? job->step : "nothing");
	sandbox_fail(s, &p);
}

/* Those who wait for @image go on, or end with @problem. */
static void release(struct imager *im, const char *image, bool unpack,
		    const struct problem *problem)
{
	struct sandbox *s, *next;

	for (s = TAILQ_FIRST(&im->waiters); s; s = next) {
		next = TAILQ_NEXT(s, template_link);
		if (strcmp(s->image, image) != 0 || s->view.image != unpack ||
		    s->state == SANDBOX_CLOSING)
			continue;
		imager_leave(im, s);
		if (problem)
			sandbox_fail(s, problem);
		else
			sandbox_begin(s);
	}
}

/* ---- what the program says ---- */

static void on_line(struct words *w, char *text)
{
	struct imager *im = w->data;
	struct imager_job *job = im->current;
	const bool more = strspn(text, " ") > NOTE_INDENT;
	struct sandbox *s;

	text += strspn(text, " =>");
	if (!*text)
		return;
	log_info("image %s: %s", job->name, text);
	if (more)
		return; /* of a warning or an error: half a sentence, and no step */
	snprintf(job->step, sizeof(job->step), "%s", text);
	context_event(&im->vm->ctx, "image", "%s: %s", job->name, text);
	TAILQ_FOREACH(s, &im->waiters, template_link) {
		s->awaits = true;
		context_defer(&im->vm->ctx, &s->work);
	}
}

/* ---- the program ---- */

static void failed(struct imager *im, struct imager_job *job, const char *why)
{
	struct problem p;

	job->state = IMAGER_FAILED;
	job->ended_at = uv_now(im->vm->ctx.loop);
	snprintf(job->problem, sizeof(job->problem), "%.690s", why);
	log_warn("image %s: not built: %s", job->name, why);
	context_event(&im->vm->ctx, "image", "%s: not built: %.400s", job->name, why);
	problem_set(&p, "image-failed", "", "the image '%s' can't be built: %s", job->name, why);
	snprintf(
		p.fix, sizeof(p.fix),
		"Mend what it says and try again, or run it by hand to see all of it: %.300s %.64s",
		im->program, job->name);
	release(im, job->name, job->unpack, &p);
}

static bool is_there(struct imager *im, const struct imager_job *job, const char **ret_why)
{
	char path[PATH_MAX];

	if (job->unpack)
		return images_tree(im->vm->backends.images, job->name, path, ret_why) == 0;
	return vm_image(im->vm, job->name, ret_why);
}

/* The program is gone, and has said all it had to say. */
static void on_over(struct program *t)
{
	struct imager *im = t->data;
	struct imager_job *job = im->current;
	char quote[600], why[700];
	const char *missing;

	words_end(&im->words);
	im->current = NULL;
	context_release(&im->vm->ctx);
	if (im->vm->ctx.closing)
		return;
	if (t->failed)
		snprintf(why, sizeof(why), "%.300s was not started: %s", im->program,
			 strerror(-t->failed));
	else if (WIFSIGNALED(t->status))
		snprintf(why, sizeof(why), "%.300s was killed by signal %d (%s)", im->program,
			 WTERMSIG(t->status), strsignal(WTERMSIG(t->status)));
	else if (!WIFEXITED(t->status) || WEXITSTATUS(t->status))
		snprintf(why, sizeof(why), "%s",
			 im->words.said.total
				 ? tail_quote(&im->words.said, "error: ", quote, sizeof(quote))
				 : "the program said nothing");
	else if (!is_there(im, job, &missing))
		snprintf(why, sizeof(why), "it was built, but: %.600s", missing);
	else
		why[0] = '\0';
	if (why[0]) {
		failed(im, job, why);
	} else {
		const bool unpack = job->unpack;
		char name[PATH_MAX];

		snprintf(name, sizeof(name), "%s", job->name);
		context_event(
			&im->vm->ctx, "image", "%s: there after %llu s", name,
			(unsigned long long)((uv_now(im->vm->ctx.loop) - job->started_at) / 1000));
		forget(im, job);
		release(im, name, unpack, NULL);
	}
	context_work(&im->vm->ctx);
	begin_next(im);
}

static int start(struct imager *im, const struct imager_job *job)
{
	struct order order = {.program = ORDER_IMAGE, .image = {.unpack = job->unpack}};
	int r;

	if (!plain_name_ok(job->name))
		return -EINVAL;
	order_set(order.image.image, job->name);
	im->words = (struct words){.line = on_line, .data = im};
	im->builder = (struct program){.words = &im->words, .over = on_over, .data = im};
	r = program_start(&im->builder, im->vm->ctx.loop, im->vm->ctx.spawner, &order, sizeof(order));
	if (r == 0)
		context_hold(&im->vm->ctx);
	return r;
}

static struct imager_job *next_queued(struct imager *im)
{
	struct imager_job *job;

	TAILQ_FOREACH(job, &im->jobs, link) {
		if (job->state == IMAGER_QUEUED)
			break;
	}
	return job;
}

/* One at a time; those that can't be started don't hold up others. */
static void begin_next(struct imager *im)
{
	struct imager_job *job;

	while (!im->current && !im->vm->ctx.closing && (job = next_queued(im))) {
		int r;

		job->state = IMAGER_BUILDING;
		job->started_at = uv_now(im->vm->ctx.loop);
		im->current = job;
		r = start(im, job);
		if (r == 0)
			return;
		im->current = NULL;
		failed(im, job, strerror(-r));
	}
}

/* Has it made, if that was not tried lately. Return: whether it is being made. */
static bool want(struct imager *im, const char *image, bool unpack, bool eager)
{
	const uint64_t now = uv_now(im->vm->ctx.loop);
	struct imager_job *job = find(im, image, unpack);

	if (job && job->state != IMAGER_FAILED)
		return true;
	if (job && now - job->ended_at < (eager ? EAGER_MS : RETRY_MS))
		return false;
	if (!job) {
		job = calloc(1, sizeof(*job) + strlen(image) + 1);
		if (!job)
			return false;
		memcpy(job->name, image, strlen(image) + 1);
		job->unpack = unpack;
		TAILQ_INSERT_TAIL(&im->jobs, job, link);
	}
	job->state = IMAGER_QUEUED;
	job->step[0] = job->problem[0] = '\0';
	begin_next(im);
	return job->state != IMAGER_FAILED;
}

static bool can_build(const struct imager *im)
{
	return im->program && im->vm->backend->needs_image && !im->vm->ctx.spawner_lost;
}

bool imager_missing(struct imager *im, const char *image, bool eager)
{
	struct image there;
	const char *why;

	return can_build(im) &&
	       images_open(im->vm->backends.images, image, &there, &why) == -ENOENT &&
	       want(im, image, false, eager);
}

bool imager_lacks(struct imager *im, const struct backend_ops *ops, const struct view *view,
		  const char *image, bool eager)
{
	char path[PATH_MAX];
	const char *why;

	if (!view->image)
		return ops->needs_image && imager_missing(im, image, eager);
	return can_build(im) &&
	       images_tree(im->vm->backends.images, image, path, &why) == -ENOENT &&
	       want(im, image, true, eager);
}

void imager_cut(struct imager *im)
{
	if (im->current)
		child_kill(&im->builder.child);
}
