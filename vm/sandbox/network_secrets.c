/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's secrets: their values are fetched for its filter, and fetched again before they expire. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>

#include "network_internal.h"
#include "vm/base/io.h"
#include "vm/base/log.h"
#include "vm/base/memory.h"
#include "vm/base/problem.h"
#include "vm/base/secret_use.h"
#include "vm/base/util.h"
#include "vm/order/order.h"
#include "vm/task/secret_source.h"

/*
 * Theory of operation
 * -------------------
 * For each value this process makes a pipe, of which the filter gets one end and a child of the spawner's (secret_source.c) the
 * other. So no value is ever here. The filter knows that it is on its way before anybody has fetched it, and has requests wait.
 *
 * Both tell how it went: the child in words, the filter whether it is a value. When both have, the next time is due: after
 * `refresh_s`, or before the value expires; after RETRY_S if it failed. What failed leaves the value of before where it is.
 */

#define RETRY_S	   30
#define HURRY_S	   5 /* ... before it expires, or a tenth of its time */
#define LATE_S	   5 /* after what a command may take: for a child that does not come to its end */
#define NO_RESULT  UINT32_MAX
#define DAYS_100_S 8640000u

struct net_source {
	TAILQ_ENTRY(net_source) link;
	struct network *n;
	char name[SECRET_NAME_MAX + 1];
	struct program program; /* while `runs` */
	bool runs, again, doomed;
	bool listed;
	bool failed;
	uint32_t result, expires_s; /* as the filter says; or NO_RESULT */
	uint32_t refresh_s;	    /* as its source says; 0: never */
	char why[300];		    /* of the source, if it failed */
	uint64_t due_ms;	    /* of the loop's clock; 0: never */
};

static void fetch(struct net_source *src);

static uint64_t now_ms(const struct network *n)
{
	return uv_now(n->s->vm->ctx.loop);
}

void network_secrets_init(struct network *n)
{
	TAILQ_INIT(&n->sources);
}

static void source_free(struct net_source *src)
{
	TAILQ_REMOVE(&src->n->sources, src, link);
	free(src);
}

static struct net_source *find(const struct network *n, const char *name)
{
	struct net_source *src;

	TAILQ_FOREACH(src, &n->sources, link)
		if (!strcmp(src->name, name) && !src->doomed)
			return src;
	return NULL;
}

/* ---- when it is due ---- */

static void arm(struct network *n);

static void on_due(uv_timer_t *timer)
{
	struct network *n = timer->data;
	struct net_source *src, *next;

	for (src = TAILQ_FIRST(&n->sources); src; src = next) {
		next = TAILQ_NEXT(src, link);
		if (src->due_ms && src->due_ms <= now_ms(n) && !src->doomed)
			fetch(src);
	}
	arm(n);
}

static void arm(struct network *n)
{
	const struct net_source *src;
	const uint64_t now = now_ms(n);
	uint64_t due = UINT64_MAX;

	if (!n->has_timer || n->closing)
		return;
	/* Nobody takes it without a gateway, and what is being fetched tells when it is due again. */
	TAILQ_FOREACH(src, &n->sources, link)
		if (n->gateway && src->due_ms && !src->runs && !src->doomed)
			due = MIN(due, src->due_ms);
	if (due == UINT64_MAX)
		uv_timer_stop(&n->refresh);
	else
		uv_timer_start(&n->refresh, on_due, due - MIN(due, now), 0);
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct network *n = handle->data;

	n->part_gone(n);
}

static void begin_timer(struct network *n)
{
	if (n->has_timer || uv_timer_init(n->s->vm->ctx.loop, &n->refresh) < 0)
		return;
	n->refresh.data = n;
	n->has_timer = true;
	n->nopen++;
}

/* ---- how it went ---- */

static const char *who(const struct network *n)
{
	return n->s->label.who ? n->s->label.who : "a sandbox";
}

static const char *words_of(uint32_t result)
{
	static const char *const words[] = {
		[NET_SECRET_EMPTY] = "nothing came",
		[NET_SECRET_SIZE] = "it has less than 6 bytes, or more than 16384",
		[NET_SECRET_CHARACTER] = "it is more than a line, or has a control character in it",
		[NET_SECRET_LATE] = "it did not come in time",
		[NET_SECRET_NO_MEMORY] = "the network's filter is out of memory",
	};

	return result < ARRAY_SIZE(words) && words[result] ? words[result] : "nothing came";
}

static void report(struct net_source *src)
{
	struct network *n = src->n;
	struct problem p;

	problem_set(
		&p, PROBLEM_NO_SECRET,
		"Put it right: it is read again by itself. Requests that need it are refused until "
		"then, or go with the value of before where that has been sent.",
		"secret %s: %s", src->name, *src->why ? src->why : words_of(src->result));
	log_about(LOG_LEVEL_WARN, &n->s->label, problem_code_str(p.code), "%s: %s", who(n),
		  p.cause);
	tell_owner(n->s, secrets, &p);
}

/* Has everybody said how it went? */
static void conclude(struct net_source *src)
{
	struct network *n = src->n;
	const bool good = src->result == NET_SECRET_GOOD;
	uint64_t s = src->refresh_s;

	if (src->runs || src->result == NO_RESULT || n->closing)
		return;
	if (good && src->expires_s) {
		const uint64_t e = src->expires_s -
				   MIN(src->expires_s, (uint32_t)MAX(HURRY_S, src->expires_s / 10));

		s = s ? MIN(s, MAX(e, 1)) : MAX(e, 1);
	}
	if (!good)
		s = src->refresh_s ? MIN(src->refresh_s, RETRY_S) : RETRY_S;
	src->due_ms = s ? now_ms(n) + MIN(s, (uint64_t)DAYS_100_S) * 1000 : 0;
	if (!good && !src->failed)
		report(src);
	if (good && src->failed)
		log_about(LOG_LEVEL_INFO, &n->s->label, NULL,
			  "%s: secret %s: there is a value again", who(n), src->name);
	src->failed = !good;
	arm(n);
}

void network_secret_read(void *network, const struct net_secret_read *what)
{
	struct network *n = network;
	struct net_source *src = find(n, what->name);

	if (!src)
		return;
	src->result = what->result;
	src->expires_s = what->expires_s;
	conclude(src);
}

/* What it has said: see enum secret_source_fd. */
static void read_words(struct net_source *src, char *text)
{
	char *line;

	while ((line = strsep(&text, "\n"))) {
		if (!strncmp(line, "refresh ", 8))
			src->refresh_s = (uint32_t)strtoul(line + 8, NULL, 10);
		else if (!strncmp(line, "failed ", 7))
			snprintf(src->why, sizeof(src->why), "%s", line + 7);
		else if (!strncmp(line, "said ", 5))
			log_about(LOG_LEVEL_INFO, &src->n->s->label, NULL,
				  "%s: secret %s: the command said: %s", who(src->n), src->name,
				  line + 5);
	}
}

static void on_over(struct program *p)
{
	struct net_source *src = p->data;
	struct network *n = src->n;

	src->runs = false;
	if (p->failed)
		snprintf(src->why, sizeof(src->why), "%.120s: %s", p->step, strerror(-p->failed));
	else if (p->late)
		snprintf(src->why, sizeof(src->why), "whoever reads it did not come to an end");
	else
		read_words(src, p->output);
	if (src->doomed || n->closing)
		source_free(src);
	else if (src->again)
		fetch(src);
	else
		conclude(src);
	n->part_gone(n);
}

/* ---- fetched ---- */

/* The places where it goes, as a list: host names and addresses with their ports. */
static void put_places(const struct secret_uses *uses, const char *name, struct buf *out)
{
	const char *before = "";

	for (size_t i = 0; i < uses->n; i++) {
		const struct allow_entry *host = &uses->use[i].place.host;

		if (strcmp(uses->use[i].name, name) != 0)
			continue;
		(void)buf_printf(out, "%s%s%s:%u", before, host->kind == ALLOW_BELOW ? "*." : "",
				 host->name, host->port);
		before = " ";
	}
	(void)buf_append(out, "", 1);
}

/* Return: a file in memory with what is asked for, or -errno. */
static int make_request(const struct net_source *src)
{
	const struct net_policy *policy = &src->n->policy;
	struct secret_uses uses;
	struct buf out = {0};
	char why[128];
	int fd = -1, r = secret_uses_parse(policy->secrets, strlen(policy->secrets), &uses, why);

	if (r < 0)
		return r;
	(void)buf_append(&out, policy->secrets_file, strlen(policy->secrets_file) + 1);
	put_places(&uses, src->name, &out);
	secret_uses_fini(&uses);
	r = out.failed;
	if (r == 0)
		r = fd = memory_new("secret");
	if (r >= 0)
		r = fileio_write(fd, out.data, out.len);
	buf_clear(&out);
	if (r < 0 && fd >= 0)
		close(fd);
	return r < 0 ? r : fd;
}

static int start(struct net_source *src)
{
	struct network *n = src->n;
	const struct sandbox_spec *spec = &n->s->spec;
	struct order order = {.program = ORDER_SECRET,
			      .secret = {.owner = spec->owner, .group = spec->group}};
	int pipe[2], r;

	_cleanup_close_ int request = make_request(src);

	if (request < 0)
		return request;
	if (pipe2(pipe, O_CLOEXEC) < 0)
		return -errno;

	_cleanup_close_ int value = pipe[1];
	const int fds[] = {request, value};

	r = gateway_secret(n->gateway, src->name, pipe[0]); /* which is its own now */
	if (r < 0)
		return r;
	order_set(order.secret.name, src->name);
	src->program = (struct program){.fds = fds,
					.nfds = ARRAY_SIZE(fds),
					.label = &n->s->label,
					.limit_ms = SECRET_SOURCE_MS + LATE_S * 1000,
					.over = on_over,
					.data = src};
	r = program_start(&src->program, n->s->vm->ctx.loop, n->s->vm->ctx.spawner, &order,
			  sizeof(order));
	src->program.fds = NULL;
	return r;
}

static void fetch(struct net_source *src)
{
	struct network *n = src->n;
	int r;

	src->again = src->runs;
	if (src->runs || !n->gateway || n->closing)
		return;
	*src->why = '\0';
	src->result = NO_RESULT;
	src->due_ms = 0;
	r = n->s->vm->ctx.spawner ? start(src) : -EPIPE;
	if (r == 0) {
		src->runs = true;
		n->nopen++;
		return;
	}
	snprintf(src->why, sizeof(src->why), "it cannot be fetched: %s", strerror(-r));
	src->result = NET_SECRET_EMPTY;
	conclude(src);
}

static void doom(struct net_source *src)
{
	src->doomed = true;
	if (src->runs)
		child_kill(&src->program.child);
	else
		source_free(src);
}

static struct net_source *add(struct network *n, const char *name)
{
	struct net_source *src = calloc(1, sizeof(*src));

	if (!src)
		return NULL;
	src->n = n;
	src->refresh_s = RETRY_S;
	snprintf(src->name, sizeof(src->name), "%s", name);
	TAILQ_INSERT_TAIL(&n->sources, src, link);
	return src;
}

/* The sources are those of the policy's secrets, from now on. */
static void match(struct network *n, const struct secret_uses *uses)
{
	struct net_source *src, *next;

	TAILQ_FOREACH(src, &n->sources, link)
		src->listed = false;
	for (size_t i = 0; i < uses->n; i++) {
		src = find(n, uses->use[i].name);
		if (!src)
			src = add(n, uses->use[i].name);
		if (src)
			src->listed = true;
	}
	for (src = TAILQ_FIRST(&n->sources); src; src = next) {
		next = TAILQ_NEXT(src, link);
		if (!src->listed && !src->doomed)
			doom(src);
	}
}

void network_secrets_send(struct network *n, bool anew)
{
	const struct net_policy *policy = &n->policy;
	struct net_source *src, *next;
	struct secret_uses uses;
	char why[128], *uses_now;

	if (asprintf(&uses_now, "%s\n%s", policy->secrets_file, policy->secrets) < 0)
		return;
	if (!anew && n->sources_for && !strcmp(uses_now, n->sources_for)) {
		free(uses_now);
		return;
	}
	free(n->sources_for);
	n->sources_for = uses_now;
	if (secret_uses_parse(policy->secrets, strlen(policy->secrets), &uses, why) < 0)
		return;
	match(n, &uses);
	secret_uses_fini(&uses);
	if (!TAILQ_EMPTY(&n->sources))
		begin_timer(n);
	for (src = TAILQ_FIRST(&n->sources); src; src = next) {
		next = TAILQ_NEXT(src, link);
		if (!src->doomed)
			fetch(src);
	}
	arm(n);
}

void network_secrets_close(struct network *n)
{
	struct net_source *src, *next;

	for (src = TAILQ_FIRST(&n->sources); src; src = next) {
		next = TAILQ_NEXT(src, link);
		if (!src->doomed)
			doom(src);
	}
	if (n->has_timer)
		uv_close((uv_handle_t *)&n->refresh, on_timer_closed);
}
