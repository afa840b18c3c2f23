/* SPDX-License-Identifier: Apache-2.0 */
/* Open handles of nodes: their references to a session, and the user charged for them. */
#include "opened.h"

#include "fs.h"
#include "quota.h"
#include "session.h"

static void disown(struct handle *h)
{
	if (h->r)
		run_unref(h->r);
	if (h->s)
		session_unref(h->s);
}

struct handle *opened_new(const struct node *n, const struct handle_ops *ops, int flags)
{
	const struct handle_spec spec = {
		.ops = ops,
		.ino = n->ino,
		.flags = flags,
		.payer = quota_whose(n->fs, n->s),
		.fs = n->fs,
		.s = n->s,
		.r = n->r,
		.disown = disown,
	};
	struct handle *h = handle_new(&n->fs->handles, &spec);

	if (!h)
		return NULL;
	if (n->s)
		session_ref(n->s);
	if (n->r)
		run_ref(n->r);
	return h;
}

void opened_bind(struct handle *h, struct run *r)
{
	struct run *old = h->r;

	h->r = r ? run_ref(r) : NULL;
	if (old)
		run_unref(old);
}
