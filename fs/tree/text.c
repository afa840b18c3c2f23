/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes whose text is rendered when they are opened; renders the short ones. */
#include "nodes.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "vm/base/log.h"
#include "fs/config/network.h"
#include "fs/config/ruleset.h"
#include "fs/session/fs.h"
#include "fs/session/job.h"
#include "fs/session/session.h"

/* @p: or NULL */
static int render_error(const struct problem *p, struct buf *out)
{
	int r;

	if (!p || !p->code)
		return 0;
	r = buf_printf(out, "code: %s\ncause: %s\n%s%s%s", problem_code_str(p->code), p->cause,
		       p->fix[0] ? "fix: " : "", p->fix, p->fix[0] ? "\n" : "");
	if (r == 0) /* it may quote a guest, and is read on a terminal */
		log_printable(out->data, out->len, true);
	return r;
}

int text_error(const struct node *n, struct buf *out)
{
	return render_error(problem_kept(&n->front->error), out);
}

int text_checkpoint_error(const struct node *n, struct buf *out)
{
	struct problem p;

	return render_error(checkpoint_problem(n->s, n->checkpoint, &p) ? &p : NULL, out);
}

int text_complaint(const struct node *n, struct buf *out)
{
	const struct complaint *c = complaint_of(n->fs, n->sub);

	return render_error(c ? &c->problem : NULL, out);
}

int text_state(const struct node *n, struct buf *out)
{
	return buf_printf(out, "%s\n",
			  n->job ? job_state_str(n->job) : session_state_str(n->s->state));
}

int text_summary(const struct node *n, struct buf *out)
{
	const struct run *r = n->front->latest;

	if (!r)
		return buf_printf(out, "%s %s: not started\n", n->job->of_session ? "run" : "job",
				  n->job->name);
	return run_summary(r, out);
}

int text_session_summary(const struct node *n, struct buf *out)
{
	const struct run *r = n->s->front.latest;
	const struct checkpoint *cp, *last = NULL;
	unsigned failed = 0;
	int e = r ? run_summary(r, out) : buf_printf(out, "no run yet\n");

	TAILQ_FOREACH(cp, &n->s->checkpoints.list, link) {
		failed += checkpoint_is_lost(cp);
		last = checkpoint_is_lost(cp) ? cp : last;
	}
	if (e < 0 || !last)
		return e;
	e = buf_truncate(out, out->len - 1); /* it is one line */
	if (e < 0)
		return e;
	if (failed == 1)
		return buf_printf(out, "; checkpoints/%s failed\n", last->name);
	return buf_printf(out, "; %u checkpoints failed, the last: checkpoints/%s\n", failed,
			  last->name);
}

int text_code(const struct node *n, struct buf *out)
{
	const int e = front_check_last_code(n->front);

	return e < 0 ? e : buf_append(out, n->front->last_code.data, n->front->last_code.len);
}

int text_console(const struct node *n, struct buf *out)
{
	const struct session *s = n->s;
	const size_t len = MIN(s->console.len, (size_t)SESSION_CONSOLE_MAX);

	if (s->console_lost)
		return -EIO;
	return buf_append(out, s->console.data + (s->console.len - len), len);
}

int text_run_code(const struct node *n, struct buf *out)
{
	const int e = front_check_code(&n->s->front, n->r);

	return e < 0 ? e : buf_append(out, n->r->code.data, n->r->code.len);
}

int text_run_state(const struct node *n, struct buf *out)
{
	return buf_printf(out, "%s\n", run_state_str(n->r->state));
}

int text_run_summary(const struct node *n, struct buf *out)
{
	return run_summary(n->r, out);
}

int text_exit_code(const struct node *n, struct buf *out)
{
	char text[8];

	return run_has_status(n->r) ? buf_append(out, text, stream_status_text(n->r, text)) : -EIO;
}

int text_net_learned(const struct node *n, struct buf *out)
{
	return lessons_render(&n->s->lessons, out);
}

int text_refused(const struct node *n, struct buf *out)
{
	const struct netlog *log = &n->s->netlog;
	uint64_t first = log->next > NETLOG_KEPT ? log->next - NETLOG_KEPT : 0;
	int r = first ? buf_printf(out, "# %" PRIu64 " older ones were dropped\n", first) : 0;

	for (uint64_t i = first; i < log->next && r >= 0; i++)
		r = buf_append(out, log->line[i % NETLOG_KEPT], strlen(log->line[i % NETLOG_KEPT]));
	return r;
}

int text_learned(const struct node *n, struct buf *out)
{
	return learned_write(n->s, out);
}

int text_allow(const struct node *n, struct buf *out)
{
	const struct session *s = n->s;
	int r = 0;

	if (!s->settings.spec.network)
		return buf_printf(out, "# This sandbox has no network. Before its first run, or "
				       "after `close`:\n# echo 'network = on' >> config\n");
	if (s->fs->netenv.allow && *s->fs->netenv.allow)
		r = buf_printf(out, "# Always allowed, for proxy = pass in xsbxfs.conf: %s\n",
			       s->fs->netenv.allow);
	return r < 0 ? r : netset_render_allow(&s->settings, out);
}

/* What is shown is what a number of a rule counts, so nothing is above the first. */
int text_rules(const struct node *n, struct buf *out)
{
	return ruleset_render(&n->s->settings, RULESET_RULES, out);
}

int text_secrets(const struct node *n, struct buf *out)
{
	return ruleset_render(&n->s->settings, RULESET_SECRETS, out);
}

/* ---- open handles ---- */

void text_reply(struct req *req, const struct buf *text, size_t size, uint64_t offset)
{
	if (offset >= text->len)
		reply_buf(req, "", 0);
	else
		reply_buf(req, text->data + offset, MIN(size, text->len - (size_t)offset));
}

void text_read(struct handle *h, struct req *req, size_t size, uint64_t offset, bool nonblock)
{
	(void)nonblock;
	text_reply(req, &h->text, size, offset);
}

const struct handle_ops text_ops = {
	.read = text_read,
	.notes = true,
};
