/* SPDX-License-Identifier: Apache-2.0 */
/* All files of a guest, read and put back. */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "vm/base/log.h"
#include "vm/base/problem.h"

/*
 * Theory of operation
 * -------------------
 * Reading: the agent sends records (PACKED) as fast as the connection takes them, and they are written into the pack's
 * memfd as they come; the channel sees to it that one guest does not keep the loop busy. What may come is bounded by what the
 * guest may store.
 *
 * Putting back: the agent grants bytes, as much is sent, so no more than PROTO_UNPACK_WINDOW of it waits anywhere.
 *
 * An agent that answers everything else, but this not, has a deadline like any other: QUIET_BEATS without a frame of it.
 */

#define QUIET_BEATS  24u  /* heartbeats, of five seconds */
#define SHORT_TARGET 128u /* bytes of a link's target that a tmpfs does not count */

void guest_pack_cancel(struct guest *g)
{
	pack_maker_free(g->pack.maker);
	pack_unref(g->pack.from);
	g->pack = (struct guest_pack){.id = g->pack.id};
}

static void read_over(struct guest *g, int err, struct pack *pack, const char *words)
{
	guest_pack_cancel(g);
	if (g->events->packed)
		g->events->packed(g->data, err, pack, words);
	else
		pack_unref(pack);
}

static void fill_over(struct guest *g, int err, const char *words)
{
	guest_pack_cancel(g);
	tell_owner(g, unpacked, err, words);
}

/* Of a path in the sandbox, which may be anything. */
static void copy_path(char *ret, size_t size, struct proto_str path)
{
	const size_t len = MIN((size_t)path.len, size - 1);

	memcpy(ret, path.data, len);
	ret[len] = '\0';
	log_printable(ret, len, false);
}

static bool is_free(const struct guest *g)
{
	return g->phase == GUEST_UP && !g->exec.id && !guest_has_jobs(g) && !g->freezing &&
	       !g->pack.maker && !g->pack.from;
}

/* ---- reading ---- */

int guest_pack(struct guest *g)
{
	struct pack_limits limits;
	struct channel_frame *f;
	int r;

	if (!is_free(g))
		return -EBUSY;
	guest_files_limits(g, &limits.bytes, &limits.entries);
	limits.bytes += (uint64_t)limits.entries * SHORT_TARGET;
	limits.entries++; /* the working directory itself */
	r = pack_maker_new(&limits, &g->pack.maker);
	if (r < 0)
		return r;
	f = channel_frame_new(PROTO_PACK, ++g->pack.id, 12);
	if (!f) {
		guest_pack_cancel(g);
		return -ENOMEM;
	}
	f->header.flags = PROTO_F_NUMBERS;
	if (g->version >= PROTO_VERSION_ORIGIN)
		f->header.flags |= PROTO_F_ORIGINS;
	put_u64(&f->out, limits.bytes);
	put_u32(&f->out, limits.entries);
	log_trace(&g->label, "guest", "asks for all files");
	channel_push(&g->channel, f, CHANNEL_CONTROL);
	return 0;
}

static int on_pack_end(struct guest *g, struct proto_in *in)
{
	const uint32_t error = get_u32(in);
	struct pack_flaws flaws = {.changed = get_u32(in)};
	struct pack *pack = NULL;
	struct proto_str path;
	char words[256];
	int r;

	flaws.left_out = get_u32(in);
	path = get_str(in, PROTO_PATH_MAX);
	if (!get_end(in) || error > 4095)
		return -EPROTO;
	copy_path(words, sizeof(words), path);
	r = error ? -(int)error : pack_maker_end(steal_ptr(g->pack.maker), &flaws, &pack);
	if (r == -EPROTO && !error)
		return r;
	if (r == 0)
		log_trace(&g->label, "guest", "has all files: %u, %llu bytes",
			  pack_entries(pack) - 1, (unsigned long long)pack_records_size(pack));
	read_over(g, r, pack, words);
	return 0;
}

int pack_on_packed(struct guest *g, const struct proto_header *h, struct proto_in *in)
{
	struct proto_str data;
	size_t used;
	int r;

	if (h->id > g->pack.id)
		return -EPROTO;
	/* The rest of one that was given up. */
	if (h->id != g->pack.id || !g->pack.maker)
		return 0;
	g->pack.quiet = 0;
	if (h->flags & PROTO_F_EOF)
		return on_pack_end(g, in);
	data = get_rest(in);
	r = pack_maker_add(g->pack.maker, data.data, data.len, &used);
	/* It was told the limits. */
	if (r == -EPROTO || r == -EFBIG || (r == 0 && used != data.len))
		return -EPROTO;
	if (r < 0)
		read_over(g, r, NULL, "");
	return 0;
}

/* ---- putting back ---- */

int guest_unpack(struct guest *g, struct pack *p)
{
	struct channel_frame *f;

	if (!is_free(g))
		return -EBUSY;
	if (pack_has_origins(p) && g->version < PROTO_VERSION_ORIGIN)
		return -EPROTONOSUPPORT;
	f = channel_frame_new(PROTO_UNPACK, ++g->pack.id, 0);
	if (!f)
		return -ENOMEM;
	f->header.flags = PROTO_F_FIRST;
	g->pack.from = pack_ref(p);
	log_trace(&g->label, "guest", "gets files: %u, %llu bytes", pack_entries(p) - 1,
		  (unsigned long long)pack_records_size(p));
	channel_push(&g->channel, f, CHANNEL_BULK);
	return 0;
}

/* Sends @n bytes. Return: 0 or -errno. */
static int send_piece(struct guest *g, size_t n)
{
	struct channel_frame *f = channel_frame_new(PROTO_UNPACK, g->pack.id, n);
	ssize_t got;

	if (!f)
		return -ENOMEM;
	got = pack_read_records(g->pack.from, f->out.data, n, g->pack.sent);
	if (got != (ssize_t)n) {
		free(f);
		return got < 0 ? (int)got : -EIO;
	}
	f->out.len = n;
	g->pack.sent += n;
	f->header.flags = g->pack.sent == pack_records_size(g->pack.from) ? PROTO_F_EOF : 0;
	channel_push(&g->channel, f, CHANNEL_BULK);
	return 0;
}

static int send_granted(struct guest *g)
{
	while (g->pack.credit && g->pack.sent < pack_records_size(g->pack.from)) {
		const uint64_t left = pack_records_size(g->pack.from) - g->pack.sent;
		const size_t n =
			(size_t)MIN(MIN(left, (uint64_t)g->pack.credit), (uint64_t)PROTO_DATA_MAX);
		int r = send_piece(g, n);

		if (r < 0)
			return r;
		g->pack.credit -= (uint32_t)n;
	}
	return 0;
}

static int on_fill_end(struct guest *g, struct proto_in *in)
{
	const uint32_t error = get_u32(in);
	const struct proto_str path = get_str(in, PROTO_PATH_MAX);
	char words[256];

	if (!get_end(in) || error > 4095 ||
	    (!error && g->pack.sent < pack_records_size(g->pack.from)))
		return -EPROTO;
	copy_path(words, sizeof(words), path);
	fill_over(g, -(int)error, words);
	return 0;
}

int pack_on_unpacked(struct guest *g, const struct proto_header *h, struct proto_in *in)
{
	uint32_t more;
	int r;

	if (h->id > g->pack.id)
		return -EPROTO;
	if (h->id != g->pack.id || !g->pack.from)
		return 0;
	g->pack.quiet = 0;
	if (h->flags & PROTO_F_EOF)
		return on_fill_end(g, in);
	more = get_u32(in);
	if (!get_end(in) || more > PROTO_UNPACK_WINDOW - g->pack.credit)
		return -EPROTO;
	g->pack.credit += more;
	r = send_granted(g);
	if (r < 0)
		fill_over(g, r, "");
	return 0;
}

/* ---- deadline ---- */

bool pack_check(struct guest *g)
{
	if (!g->pack.maker && !g->pack.from)
		return true;
	if (g->pack.quiet++ < QUIET_BEATS)
		return true;
	guest_failf(g, PROBLEM_AGENT_SILENT, "Reset the session.",
		    "the agent in the sandbox has not gone on with its files for %u s",
		    QUIET_BEATS * GUEST_BEAT_MS / 1000);
	return false;
}
