/* SPDX-License-Identifier: Apache-2.0 */
/* What a filter asks leave for, and where it was given. */
#include "leave.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vm/base/ms.h"
#include "vm/base/record.h"

void leaves_init(struct leaves *l)
{
	*l = (struct leaves){.nasked = 0};
	TAILQ_INIT(&l->asked);
	TAILQ_INIT(&l->given);
}

static void clear(struct leave_list *list)
{
	struct leave *e;

	while ((e = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, e, link);
		free(e);
	}
}

void leaves_fini(struct leaves *l)
{
	clear(&l->asked);
	clear(&l->given);
	l->nasked = l->ngiven = 0;
}

static struct leave *find(const struct leave_list *list, uint32_t id)
{
	struct leave *e;

	TAILQ_FOREACH(e, list, link)
		if (e->id == id)
			return e;
	return NULL;
}

int leaves_ask(struct leaves *l, const struct net_asked *what)
{
	struct leave *e = find(&l->asked, what->header.id);

	if (e)
		return 0;
	if (l->nasked >= LEAVES_ASKED_MAX)
		return -EPROTO;
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->id = what->header.id;
	e->port = what->port;
	snprintf(e->host, sizeof(e->host), "%.*s", ALLOW_NAME_MAX, what->host);
	TAILQ_INSERT_TAIL(&l->asked, e, link);
	l->nasked++;
	return 0;
}

static void give(struct leaves *l, struct leave *e)
{
	if (l->ngiven >= LEAVES_GIVEN_MAX) {
		struct leave *oldest = TAILQ_FIRST(&l->given);

		TAILQ_REMOVE(&l->given, oldest, link);
		free(oldest);
		l->ngiven--;
	}
	TAILQ_INSERT_TAIL(&l->given, e, link);
	l->ngiven++;
}

void leaves_decide(struct leaves *l, uint32_t id, bool given)
{
	struct leave *e = find(&l->asked, id);

	if (!e)
		return;
	TAILQ_REMOVE(&l->asked, e, link);
	l->nasked--;
	if (given)
		give(l, e);
	else
		free(e);
}

/* At least 1, for 0 is: it was not used. */
static int64_t now_ms(void)
{
	return ms_now(CLOCK_MONOTONIC) + 1;
}

static bool is_over(const struct leave *e, int64_t now)
{
	return e->used_ms && now - e->used_ms > LEAVE_AGAIN_MS;
}

static bool is_for(const struct leave *e, const char *host, uint16_t port)
{
	return e->port == port && !strcmp(e->host, host);
}

bool leaves_have(const struct leaves *l, const char *host, uint16_t port)
{
	const int64_t now = now_ms();
	const struct leave *e;

	TAILQ_FOREACH(e, &l->given, link)
		if (is_for(e, host, port) && !is_over(e, now))
			return true;
	return false;
}

void leaves_use(struct leaves *l, const char *host, uint16_t port)
{
	const int64_t now = now_ms();
	struct leave *e, *next;
	bool used = false;

	for (e = TAILQ_FIRST(&l->given); e; e = next) {
		next = TAILQ_NEXT(e, link);
		if (is_over(e, now)) {
			TAILQ_REMOVE(&l->given, e, link);
			l->ngiven--;
			free(e);
		} else if (!used && !e->used_ms && is_for(e, host, port)) {
			e->used_ms = now;
			used = true;
		}
	}
}

/* Never reuse one. */
enum { TAG_PORT = 1, TAG_HOST, TAG_ID };

static void put(const struct leave_list *list, unsigned tag, struct buf *out)
{
	const struct leave *e;

	TAILQ_FOREACH(e, list, link) {
		size_t at;

		if (e->used_ms)
			continue;
		at = record_open(out, tag);
		record_u64(out, TAG_PORT, e->port);
		record_str(out, TAG_HOST, e->host);
		record_u64(out, TAG_ID, e->id);
		record_close(out, at);
	}
}

void leaves_put(const struct leaves *l, unsigned asked, unsigned given, struct buf *out)
{
	put(&l->asked, asked, out);
	put(&l->given, given, out);
}

/* Return: the caller's, or NULL with @ret_err. */
static struct leave *take(const struct record_field *of, int *ret_err)
{
	struct record_reader r = record_inside(of);
	struct leave *e = calloc(1, sizeof(*e));
	struct record_field f;
	uint64_t port = 0;
	int n = e ? 0 : -ENOMEM;

	while (n == 0 && (n = record_field(&r, &f)) > 0) {
		n = 0;
		if (f.tag == TAG_PORT)
			n = record_get(&f, 1, UINT16_MAX, &port);
		else if (f.tag == TAG_HOST)
			n = record_get_str(&f, e->host, sizeof(e->host));
		else if (f.tag == TAG_ID)
			n = record_get_u32(&f, UINT32_MAX, &e->id);
	}
	if (n == 0 && (!of->is_bytes || !port || !*e->host))
		n = -EBADMSG;
	*ret_err = n;
	if (n < 0) {
		free(e);
		return NULL;
	}
	e->port = (uint16_t)port;
	return e;
}

int leaves_take(struct leaves *l, const struct record_field *f)
{
	int err;
	struct leave *e = take(f, &err);

	if (e)
		give(l, e);
	return err;
}

int leaves_take_asked(struct leaves *l, const struct record_field *f)
{
	int err;
	struct leave *e = take(f, &err);

	if (!e)
		return err;
	if (l->nasked >= LEAVES_ASKED_MAX || find(&l->asked, e->id)) {
		free(e);
		return -EBADMSG;
	}
	TAILQ_INSERT_TAIL(&l->asked, e, link);
	l->nasked++;
	return 0;
}
