/* SPDX-License-Identifier: Apache-2.0 */
/* Receives an agent's trace of a run, for the daemon's log. */
#include "agent_trace.h"

#include <errno.h>

#include "vm/base/util.h"

static bool has_room(struct agent_trace *t, uint64_t now)
{
	const uint64_t more = (now - t->filled) / AGENT_TRACE_EVERY_NS;

	if (more) {
		t->room = (unsigned)MIN(AGENT_TRACE_BURST, t->room + more);
		t->filled = now;
	}
	if (t->room == 0) {
		t->lost += t->lost < UINT32_MAX;
		return false;
	}
	t->room--;
	return true;
}

/* No more than ASCII: there are characters that make a terminal show others in another order. */
static void copy_printable(char *out, struct proto_str words)
{
	for (uint32_t i = 0; i < words.len; i++)
		out[i] = words.data[i] >= ' ' && words.data[i] < 0x7f ? words.data[i] : '?';
	out[words.len] = '\0';
}

int agent_trace_take(struct agent_trace *t, uint32_t id, struct proto_in *in, uint64_t now,
		     struct agent_trace_line *ret_line)
{
	const uint64_t from = id && id == t->run ? t->asked : t->greeted;
	const uint64_t us = get_u64(in);
	const struct proto_str words = get_str(in, PROTO_TRACED_MAX);

	if (!get_end(in))
		return -EPROTO;
	if (!has_room(t, now))
		return 0;
	copy_printable(ret_line->text, words);
	ret_line->at = us > (now - from) / 1000 ? now : from + us * 1000;
	ret_line->lost = t->lost;
	t->lost = 0;
	return 1;
}
