/* SPDX-License-Identifier: Apache-2.0 */
/* The secrets of a session: their values, by name, and what waits for them. */
#include "secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net.h"
#include "secret_value.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * A value comes through a pipe of which the daemon has made both ends, and which somebody else fills: the daemon never has it. In
 * this process it is in memory that is locked and in no core dump (secret_value.c), and, while a request is on its way, in what
 * is written to that server.
 *
 * The pipe is here before its value is. A request that needs it waits until it has come, or is known not to come.
 */

#define READ_S	    15			    /* until whoever fills the pipe has to be done */
#define READ_MAX    (SECRET_VALUE_MAX + 64) /* and what may be behind it */
#define ENTRIES_MAX SECRET_USES_MAX

struct secret_entry {
	TAILQ_ENTRY(secret_entry) link;
	char name[SECRET_NAME_MAX + 1];
	struct secret_value *value; /* or NULL */
	int fd;			    /* -1: nothing is read */
	int place;
	char *bytes; /* of READ_MAX + 1, while it is read */
	size_t len;
	int64_t until_ms;
};

void secrets_init(struct secrets *s)
{
	TAILQ_INIT(&s->entries);
	TAILQ_INIT(&s->waiters);
	TAILQ_INIT(&s->cleansers);
}

static void stop_reading(struct secret_entry *e)
{
	if (e->fd < 0)
		return;
	close(e->fd);
	e->fd = -1;
	explicit_bzero(e->bytes, e->len);
	free(e->bytes);
	e->bytes = NULL;
	e->len = 0;
}

static void entry_free(struct secrets *s, struct secret_entry *e)
{
	stop_reading(e);
	secret_value_unref(e->value);
	TAILQ_REMOVE(&s->entries, e, link);
	s->n--;
	free(e);
}

void secrets_fini(struct secrets *s)
{
	while (!TAILQ_EMPTY(&s->entries))
		entry_free(s, TAILQ_FIRST(&s->entries));
}

static struct secret_entry *find(const struct net *net, const char *name)
{
	struct secret_entry *e;

	TAILQ_FOREACH(e, &net->secrets.entries, link)
		if (!strcmp(e->name, name))
			return e;
	return NULL;
}

struct secret_value *secrets_find(const struct net *net, const char *name, bool *ret_coming)
{
	const struct secret_entry *e = find(net, name);

	if (ret_coming)
		*ret_coming = e && e->fd >= 0;
	return e ? e->value : NULL;
}

/* ---- read ---- */

static void tell(struct net *net, const char *name, unsigned result, uint32_t expires_s)
{
	struct net_secret_read m = {
		.header = {.type = NET_SECRET_READ}, .result = result, .expires_s = expires_s};

	snprintf(m.name, sizeof(m.name), "%s", name);
	(void)net_insist(net, &m, sizeof(m));
}

static void wake(struct net *net)
{
	struct secret_waiter *w;
	unsigned n = 0;

	TAILQ_FOREACH(w, &net->secrets.waiters, link)
		n++;
	/* They may wait again, and end each other. */
	for (; n > 0 && (w = TAILQ_FIRST(&net->secrets.waiters)); n--) {
		secrets_give_up(net, w);
		w->ready(w);
	}
}

/* A second line: `expires=SECONDS`. Return: is it that? */
static bool read_expiry(const char *line, size_t len, uint32_t *ret_s)
{
	static const char key[] = "expires=";
	const size_t n = sizeof(key) - 1;
	uint32_t s = 0;

	if (len <= n || len > n + 9 || memcmp(line, key, n) != 0)
		return false;
	for (size_t i = n; i < len; i++) {
		if (line[i] < '0' || line[i] > '9')
			return false;
		s = s * 10 + (uint32_t)(line[i] - '0');
	}
	*ret_s = s;
	return true;
}

/* Line ends at its end are none of a line. */
static size_t trim(const char *text, size_t len)
{
	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	return len;
}

/* Return: enum net_secret_result. */
static unsigned accept_value(struct secret_entry *e, uint32_t *ret_expires_s)
{
	const size_t all = trim(e->bytes, e->len);
	const char *const newline = memchr(e->bytes, '\n', all);
	const size_t len = newline ? trim(e->bytes, (size_t)(newline - e->bytes)) : all;
	struct secret_value *v;
	int r;

	if (newline &&
	    !read_expiry(newline + 1, (size_t)(e->bytes + all - newline - 1), ret_expires_s))
		return NET_SECRET_CHARACTER; /* more than a line */
	if (len == 0)
		return NET_SECRET_EMPTY;
	r = secret_value_new(e->name, e->bytes, len, &v);
	if (r < 0)
		return r == -EINVAL	? NET_SECRET_CHARACTER
		       : r == -EMSGSIZE ? NET_SECRET_SIZE
					: NET_SECRET_NO_MEMORY;
	secret_value_unref(e->value);
	e->value = v;
	return NET_SECRET_GOOD;
}

static void settle(struct net *net, struct secret_entry *e, unsigned result, uint32_t expires_s)
{
	stop_reading(e);
	tell(net, e->name, result, expires_s);
	wake(net);
}

static void read_more(struct net *net, struct secret_entry *e)
{
	uint32_t expires_s = 0;
	unsigned result;
	ssize_t n;

	while ((n = read(e->fd, e->bytes + e->len, READ_MAX + 1 - e->len)) > 0) {
		e->len += (size_t)n;
		if (e->len > READ_MAX) {
			settle(net, e, NET_SECRET_SIZE, 0);
			return;
		}
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	result = n < 0 ? NET_SECRET_EMPTY : accept_value(e, &expires_s);
	settle(net, e, result, expires_s);
}

static struct secret_entry *entry_new(struct net *net, const char *name)
{
	struct secret_entry *e = net->secrets.n < ENTRIES_MAX ? calloc(1, sizeof(*e)) : NULL;

	if (!e)
		return NULL;
	e->fd = e->place = -1;
	snprintf(e->name, sizeof(e->name), "%s", name);
	TAILQ_INSERT_TAIL(&net->secrets.entries, e, link);
	net->secrets.n++;
	return e;
}

static bool is_used(const struct net *net, const char *name)
{
	for (size_t i = 0; i < net->egress.uses.n; i++)
		if (!strcmp(net->egress.uses.use[i].name, name))
			return true;
	return false;
}

void secrets_read(struct net *net, const char *name, int fd)
{
	struct secret_entry *e = is_used(net, name) ? find(net, name) : NULL;
	const int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);

	if (!e && is_used(net, name))
		e = entry_new(net, name);
	if (e)
		stop_reading(e);
	if (!e || flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    !(e->bytes = malloc(READ_MAX + 1))) {
		if (fd >= 0)
			close(fd);
		tell(net, name, NET_SECRET_EMPTY, 0);
		return;
	}
	e->fd = fd;
	e->len = 0;
	e->until_ms = ms_now(CLOCK_MONOTONIC) + READ_S * 1000;
	read_more(net, e);
}

static bool goes_to(const struct secret_uses *uses, const struct secret_use *use)
{
	for (size_t i = 0; i < uses->n; i++)
		if (!strcmp(uses->use[i].name, use->name) &&
		    place_is_at(&uses->use[i].place, &use->place))
			return true;
	return false;
}

/* Whoever hands a value over has agreed to the hosts that it was to go to then. */
static bool goes_further(const struct net *net, const struct secret_uses *before, const char *name)
{
	const struct secret_uses *uses = &net->egress.uses;

	for (size_t i = 0; i < uses->n; i++)
		if (!strcmp(uses->use[i].name, name) && !goes_to(before, &uses->use[i]))
			return true;
	return false;
}

void secrets_recheck(struct net *net, const struct secret_uses *before)
{
	struct secret_entry *e, *next;

	for (e = TAILQ_FIRST(&net->secrets.entries); e; e = next) {
		next = TAILQ_NEXT(e, link);
		if (!is_used(net, e->name) || goes_further(net, before, e->name))
			entry_free(&net->secrets, e);
	}
	wake(net);
}

/* ---- waited for ---- */

void secrets_wait(struct net *net, struct secret_waiter *w)
{
	w->waits = true;
	TAILQ_INSERT_TAIL(&net->secrets.waiters, w, link);
}

void secrets_give_up(struct net *net, struct secret_waiter *w)
{
	if (!w->waits)
		return;
	w->waits = false;
	TAILQ_REMOVE(&net->secrets.waiters, w, link);
}

void secrets_prepare(struct net *net, int *timeout_ms)
{
	const int64_t now = ms_now(CLOCK_MONOTONIC);
	struct secret_entry *e;

	TAILQ_FOREACH(e, &net->secrets.entries, link) {
		e->place = -1;
		if (e->fd < 0)
			continue;
		e->place = pollset_add(&net->set, e->fd, POLLIN);
		net_wake_at(timeout_ms, now, e->until_ms);
	}
}

void secrets_run(struct net *net)
{
	const int64_t now = ms_now(CLOCK_MONOTONIC);
	struct secret_entry *e, *next;

	for (e = TAILQ_FIRST(&net->secrets.entries); e; e = next) {
		next = TAILQ_NEXT(e, link);
		if (e->fd < 0)
			continue;
		if (pollset_events(&net->set, e->place))
			read_more(net, e);
		else if (now >= e->until_ms)
			settle(net, e, NET_SECRET_LATE, 0);
	}
}
