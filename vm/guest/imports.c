/* SPDX-License-Identifier: Apache-2.0 */
/* Packages that a machine imports before it is copied. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

/*
 * Theory of operation
 * -------------------
 * The run comes before all others, even before WARM: the interpreter that imports is then the one of which the agent
 * makes copies, for the first run and after each reset. The driver says on standard error which package it is at, see
 * agent/interp/driver.h. Code of packages is hostile, and may say anything there: what is believed of it is one name
 * of those that were asked for.
 *
 * An import that fails ends the guest: who knows what it has left. Its owner starts another one that does without,
 * see vm/pool/record.c.
 */

#define IMPORT_RUN   (UINT32_MAX - 2)
#define IMPORT_BYTES 8192u /* of the names and a reason */
#define LATE_MS	     5000u

/* Return: how long they may take, in seconds. */
static unsigned imports_s(const struct guest *g)
{
	return g->all->boot_s * RECORD_TIMES;
}

bool imports_begin(struct guest *g)
{
	const uint32_t ms = imports_s(g) * 1000u;
	struct proto_run run = {
		.flags = PROTO_RUN_TRIAL | PROTO_RUN_IMPORT,
		.timeout_ms = ms,
		.limit = {0, IMPORT_BYTES},
		.credit = 2 * IMPORT_BYTES,
	};

	if (g->mode != MACHINE_RECORD || !g->imports || g->imports_unproven)
		return false;
	g->imports_unproven = g->importing = true;
	g->phase = GUEST_WARM;
	run.code = proto_cstr(g->imports);
	guest_deadline(g, ms + LATE_MS);
	handshake_run(g, IMPORT_RUN, &run);
	return true;
}

bool imports_is_run(uint32_t id)
{
	return id == IMPORT_RUN;
}

void imports_on_output(struct guest *g, const struct proto_header *h, struct proto_in *in)
{
	struct proto_str text;
	const char *at;

	get_u32(in);
	text = get_rest(in);
	if (h->flags != PROTO_STDERR || !text.len)
		return;
	at = memrchr(text.data, PROTO_IMPORT_AT, text.len);
	if (at) {
		g->said.total = 0;
		text.len -= (uint32_t)(at + 1 - text.data);
		text.data = at + 1;
	}
	tail_add(&g->said, text.data, text.len);
}

size_t imports_blame(struct guest *g)
{
	const size_t said = MIN(g->said.total, (size_t)TAIL_SIZE);
	const char *end = memchr(g->said.bytes, '\n', said);
	const size_t len = end ? (size_t)(end - g->said.bytes) : 0;

	for (const char *p = g->imports; len && p && *p; p = strchr(p, '\n'), p += p ? 1 : 0) {
		if (strcspn(p, "\n") == len && memcmp(p, g->said.bytes, len) == 0)
			snprintf(g->culprit, sizeof(g->culprit), "%.*s", (int)len, p);
	}
	return g->culprit[0] ? len + 1 : 0;
}

static void tell_how(const struct guest *g, const struct proto_exit *e, size_t skip, char out[400])
{
	struct tail why = {.total = 0};
	char quote[300] = "";

	if (g->said.total > skip && g->said.total <= TAIL_SIZE)
		tail_add(&why, g->said.bytes + skip, g->said.total - skip);
	if (e->how == PROTO_HOW_TIMEOUT)
		snprintf(out, 400, "took more than %u s", imports_s(g));
	else if (e->how == PROTO_HOW_OOM)
		snprintf(out, 400, "took more memory than there is");
	else if (e->how == PROTO_HOW_NOT_TAKEN)
		snprintf(out, 400, "is more than the driver of this image can do");
	else if (e->how != PROTO_HOW_DONE || e->fresh)
		snprintf(out, 400, "ended the interpreter");
	else
		snprintf(out, 400, "failed: %s", tail_quote(&why, NULL, quote, sizeof(quote)));
}

void imports_on_exit(struct guest *g, const struct proto_exit *e)
{
	char how[400];

	if (e->how == PROTO_HOW_DONE && e->status == 0 && !e->fresh) {
		g->importing = false;
		g->said.total = 0;
		guest_advance(g);
		return;
	}
	g->import_failed = true;
	tell_how(g, e, imports_blame(g), how);
	guest_failf(g, PROBLEM_WARMUP_FAILED, "", "importing %s ahead %s",
		    g->culprit[0] ? g->culprit : "its packages", how);
}
