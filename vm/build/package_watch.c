/* SPDX-License-Identifier: Apache-2.0 */
/* Watches the disk usage of a running installation. */
#include <errno.h>
#include <string.h>

#include "package_internal.h"
#include "vm/base/problem.h"

/*
 * Theory of operation
 * -------------------
 * An installer unpacks untrusted archives to the host's disk, and their size would otherwise only be
 * known at the end. So while it or the packer runs, a worker thread periodically measures their
 * directory and the free space of the file system, and they are ended if the directory is too large or
 * the free space too small. The reserve of layer_room() has to cover what is written between two
 * measurements.
 *
 * The timer exists from the first installation to the end of struct vm. A measurement may outlast the
 * installation it was for: then its result is ignored.
 */

#define LOOK_MS 1000u /* from the end of one look to the next */

static void on_due(uv_timer_t *timer);

static void again(struct package_watch *w, unsigned ms)
{
	if (w->on && !w->looking)
		uv_timer_start(&w->timer, on_due, ms, 0);
}

void package_jobs_explain_room(struct package_jobs *in, int result, uint64_t bytes)
{
	if (result == -EFBIG)
		problem_set(&in->why, PROBLEM_PACKAGES_FAILED,
			    "Name fewer packages, or raise layer_limit.",
			    "the packages, and what they are made of, take %llu MiB: more than "
			    "twice what all layers may have",
			    (unsigned long long)(bytes >> 20));
	else if (result == -E2BIG)
		problem_set(&in->why, PROBLEM_PACKAGES_FAILED, "Name fewer packages.",
			    "the packages have more than %u files, or directories that are nested "
			    "too deep",
			    LAYER_FILES_MAX);
	else if (result == -EACCES)
		problem_set(&in->why, PROBLEM_PACKAGES_FAILED, "Name other packages.",
			    "the packages have a directory that may not be read");
	else
		problem_set(&in->why, PROBLEM_PACKAGES_FAILED,
			    "Make room: 512 MiB of the disk, or a 50th of a small one, have to "
			    "stay free.",
			    "there is no room for packages in %.400s: %s", in->layers.dir,
			    strerror(-result));
}

/* There is no room for it: ends it, and says why. */
static void end(struct package_jobs *in)
{
	package_jobs_explain_room(in, in->watch.result, in->watch.bytes);
	package_jobs_watch_stop(in);
	in->ops->stop(in->data);
}

static void look(uv_work_t *req)
{
	struct package_watch *w = container_of(req, struct package_watch, work);

	w->result = layer_room(w->dir, w->key, w->limit, &w->bytes);
}

static void on_looked(uv_work_t *req, int status)
{
	struct package_watch *w = container_of(req, struct package_watch, work);
	struct package_jobs *in = container_of(w, struct package_jobs, watch);
	const bool full =
		status == 0 && (w->result == -EFBIG || w->result == -E2BIG || w->result == -ENOSPC);

	w->looking = false;
	context_release(in->ctx);
	if (full && w->on && strcmp(w->key, in->current->key) == 0)
		end(in);
	again(w, LOOK_MS);
}

static void on_due(uv_timer_t *timer)
{
	struct package_watch *w = container_of(timer, struct package_watch, timer);
	struct package_jobs *in = container_of(w, struct package_jobs, watch);

	memcpy(w->key, in->current->key, sizeof(w->key));
	w->dir = in->layers.dir;
	w->limit = in->layers.limit;
	if (uv_queue_work(in->ctx->loop, &w->work, look, on_looked) < 0) {
		again(w, LOOK_MS);
		return;
	}
	w->looking = true;
	context_hold(in->ctx);
}

void package_jobs_watch_start(struct package_jobs *in)
{
	struct package_watch *w = &in->watch;

	if (in->ctx->closing)
		return;
	if (!w->there) {
		uv_timer_init(in->ctx->loop, &w->timer);
		w->there = true;
		context_hold(in->ctx);
	}
	w->on = true;
	again(w, 0);
}

void package_jobs_watch_stop(struct package_jobs *in)
{
	struct package_watch *w = &in->watch;

	w->on = false;
	if (w->there && !uv_is_closing((uv_handle_t *)&w->timer))
		uv_timer_stop(&w->timer);
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct package_jobs *in =
		container_of((uv_timer_t *)handle, struct package_jobs, watch.timer);

	context_release(in->ctx);
}

void package_jobs_watch_close(struct package_jobs *in)
{
	package_jobs_watch_stop(in);
	if (in->watch.there)
		uv_close((uv_handle_t *)&in->watch.timer, on_timer_closed);
}
