/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes that the kernel may keep for a moment, during a lease, and has to drop when that ends. */
#include "internal.h"
#include "fs/request/reply.h"
#include "fs/session/fs.h"
#include "fs/session/owner.h"
#include "fs/session/session.h"

#define KEPT_MS \
	500u /* longer than the kernel keeps them (BRIEF in reply.c), counted from a late clock */
#define KEPT_MAX 1024u

void files_unkeep(struct files *f, struct filenode *fn)
{
	if (!fn->kept_until)
		return;
	TAILQ_REMOVE(&f->kept, fn, kept);
	fn->kept_until = 0;
	f->nkept--;
}

/* Would the kernel show the same to all who ask, and see what it changes itself? */
static bool may_keep(const struct files *f, const struct filenode *fn)
{
	return f->s->fs->kernel && owner_is_checked(f->s->fs->shown) &&
	       !filenode_is_doubled(&f->nodes, fn);
}

enum reply_keep files_keep(struct files *f, struct filenode *fn, bool leased)
{
	const uint64_t now = uv_now(f->s->fs->loop);
	struct filenode *oldest;

	while ((oldest = TAILQ_FIRST(&f->kept)) && oldest->kept_until <= now)
		files_unkeep(f, oldest);
	if (!leased || !fn || !may_keep(f, fn))
		return REPLY_KEEP_NOTHING;
	files_unkeep(f, fn);
	if (f->nkept >= KEPT_MAX)
		return REPLY_KEEP_NOTHING;
	fn->kept_until = now + KEPT_MS;
	TAILQ_INSERT_TAIL(&f->kept, fn, kept);
	f->nkept++;
	return REPLY_KEEP_ATTR;
}

enum reply_keep files_keep_root(struct files *f, bool leased)
{
	if (!leased || !f->s->fs->kernel)
		return REPLY_KEEP_NOTHING;
	f->root_kept_until = uv_now(f->s->fs->loop) + KEPT_MS;
	return REPLY_KEEP_ATTR;
}

static void drop_kept_root(struct files *f)
{
	if (f->root_kept_until > uv_now(f->s->fs->loop))
		kernel_drop_attr(f->s->fs->kernel, ino_of_session(f->s, NODE_FILES, 0));
	f->root_kept_until = 0;
}

void files_drop_kept(struct files *f)
{
	struct filenode *fn;

	drop_kept_root(f);
	while ((fn = TAILQ_FIRST(&f->kept))) {
		kernel_drop_attr(f->s->fs->kernel, ino_of_session(f->s, NODE_FILE, fn->index));
		files_unkeep(f, fn);
	}
}
