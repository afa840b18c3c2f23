/* SPDX-License-Identifier: Apache-2.0 */
/* What changes in the working directory, as the agent tells it. */
#include <errno.h>
#include <string.h>

#include "internal.h"

int guest_watch(struct guest *g, bool on)
{
	const int r = channel_send_u32(&g->channel, PROTO_WATCH, 0, on);

	if (r == 0)
		g->watched = on;
	return r;
}

/* Is it one below the working directory? */
static bool is_path(struct proto_str s)
{
	struct proto_str name = s;
	const char *slash;

	for (;;) {
		slash = memchr(name.data, '/', name.len);
		if (slash)
			name.len = (uint32_t)(slash - name.data);
		if (!proto_name_ok(name))
			return false;
		if (!slash)
			return true;
		name.data = slash + 1;
		name.len = s.len - (uint32_t)(name.data - s.data);
	}
}

static bool makes_sense(const struct sandbox_change *c)
{
	switch (c->kind) {
	case PROTO_CHANGE_CREATED:
	case PROTO_CHANGE_MODIFIED:
	case PROTO_CHANGE_WRITTEN:
	case PROTO_CHANGE_ATTRIBUTES:
	case PROTO_CHANGE_DELETED: return is_path(c->path) && !c->from.len;
	case PROTO_CHANGE_RENAMED: return is_path(c->path) && is_path(c->from);
	case PROTO_CHANGE_OVERFLOW: return !c->path.len || is_path(c->path);
	case PROTO_CHANGE_WATCHING: return !c->path.len && !c->from.len;
	case PROTO_CHANGE_FAILED: return !c->from.len;
	case PROTO_NCHANGES: break;
	}
	return false;
}

int watch_on_changed(struct guest *g, struct proto_in *in)
{
	while (in->p < in->end) {
		struct sandbox_change c = {.kind = (enum proto_change)get_u8(in)};
		const uint8_t dir = get_u8(in);

		c.is_dir = dir;
		c.path = get_str(in, PROTO_PATH_MAX);
		c.from = get_str(in, PROTO_PATH_MAX);
		if (in->bad || dir > 1 || !makes_sense(&c))
			return -EPROTO;
		if (g->watched) /* else it was on its way */
			tell_owner(g, changed, &c);
	}
	return 0;
}

static bool is_learned(const struct sandbox_learned *l)
{
	bool ok = l->kind >= PROTO_LEARNED_READ && l->kind <= PROTO_LEARNED_SEEN &&
		  l->path.len > 1 && l->path.data[0] == '/';

	for (uint32_t i = 0; ok && i < l->path.len; i++)
		ok = l->path.data[i] != '\0';
	return ok;
}

int watch_on_learned(struct guest *g, struct proto_in *in)
{
	struct sandbox_learned l = {.processes = get_u32(in), .memory_kib = get_u64(in)};

	if (in->bad || !g->spec.learn)
		return -EPROTO;
	tell_owner(g, learned, &l);
	while (in->p < in->end) {
		l.kind = (enum proto_learned)get_u8(in);
		l.path = get_str(in, PROTO_PATH_MAX);
		if (in->bad || !is_learned(&l))
			return -EPROTO;
		tell_owner(g, learned, &l);
	}
	return 0;
}
