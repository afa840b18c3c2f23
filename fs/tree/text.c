/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes whose text is rendered when they are opened. */
#include "text.h"

#include <assert.h>
#include <errno.h>

#include "vm/base/log.h"
#include "fs/mount.h"
#include "help.h"
#include "metrics.h"
#include "network.h"
#include "fs/request/reply.h"
#include "report.h"
#include "fs/session/session.h"
#include "status.h"
#include "stream.h"

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

static int render_exit_code(const struct run *r, struct buf *out)
{
	char text[8];

	return run_has_status(r) ? buf_append(out, text, stream_status_text(r, text)) : -EIO;
}

static int render_console(const struct session *s, struct buf *out)
{
	size_t n = MIN(s->console.len, (size_t)SESSION_CONSOLE_MAX);

	if (s->console_lost)
		return -EIO;
	return buf_append(out, s->console.data + (s->console.len - n), n);
}

static int render_session(const struct node *n, struct buf *out)
{
	struct session *s = n->s;

	switch ((int)n->kind) {
	case NODE_SUMMARY:
		return s->latest ? run_summary(s->latest, out) : buf_printf(out, "no run yet\n");
	case NODE_STATE: return buf_printf(out, "%s\n", session_state_str(s->state));
	case NODE_STATUS: return status_session(s, out);
	case NODE_ERROR: return render_error(&s->error, out);
	case NODE_CONSOLE: return render_console(s, out);
	case NODE_CONFIG: return settings_render(&s->settings, out);
	case NODE_NET_ALLOW: return netnode_render_allow(s, out);
	case NODE_NET_DENIED: return netnode_render_denied(s, out);
	case NODE_PORTS: return netnode_render_ports(s, out);
	case NODE_README: return help_session(s->t, &s->settings, out);
	case NODE_RUN_IN: return buf_append(out, n->r->code.data, n->r->code.len);
	case NODE_RUN_EXIT_CODE: return render_exit_code(n->r, out);
	case NODE_RUN_STATE: return buf_printf(out, "%s\n", run_state_str(n->r->state));
	case NODE_RUN_STATUS: return status_run(n->r, out);
	case NODE_RUN_SUMMARY: return run_summary(n->r, out);
	default: break;
	}
	assert(0);
	return -EIO;
}

int text_render(struct fs *fs, const struct node *n, struct buf *out)
{
	const struct complaint *c;

	switch ((int)n->kind) {
	case NODE_ROOT_README: return help_root(fs->conf, out);
	case NODE_ROOT_STATUS: return status_root(fs, out);
	case NODE_ISOLATION: return report_isolation(fs, out);
	case NODE_DOCTOR: return report_doctor(fs, out);
	case NODE_ROOT_ERROR:
		c = complaint_of(fs, n->sub);
		return render_error(c ? &c->problem : NULL, out);
	case NODE_METRICS: return metrics_render(fs, out);
	case NODE_TEMPLATE_README: return help_template(fs->conf, n->t, out);
	case NODE_TEMPLATE_JSON: return status_template(fs, n->t, out);
	default: return render_session(n, out);
	}
}

int text_size(struct fs *fs, const struct node *n, uint64_t *ret_size)
{
	struct buf b = {0};
	const struct handle *h = handle_find(fs, n->ino, &text_ops);
	int e;

	if (h) {
		*ret_size = h->text.len;
		return 0;
	}
	e = text_render(fs, n, &b);
	if (e == 0)
		*ret_size = b.len;
	buf_clear(&b);
	return e;
}

static int text_open(struct fs *fs, struct handle *h, const struct node *n)
{
	return text_render(fs, n, &h->text);
}

void text_reply(struct req *req, const struct buf *text, size_t size, uint64_t offset)
{
	if (offset >= text->len)
		reply_buf(req, "", 0);
	else
		reply_buf(req, text->data + offset, MIN(size, text->len - (size_t)offset));
}

void text_read(struct fs *fs, struct handle *h, struct req *req, size_t size, uint64_t offset,
	       bool nonblock)
{
	(void)fs;
	(void)nonblock;
	text_reply(req, &h->text, size, offset);
}

const struct handle_ops text_ops = {
	.open = text_open,
	.read = text_read,
};
