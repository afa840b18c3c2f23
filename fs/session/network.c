/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a session: its refusals, its ports, changes while the sandbox runs. */
#include "network.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs.h"
#include "fs/config/network.h"
#include "job.h"
#include "quota.h"
#include "session.h"
#include "touch.h"

/* Limits lines in `events` and in the audit log, which all share: a sandbox can have many connections in a second, and refused. */
#define EVENTS_BURST	  20u
#define CONNECTIONS_BURST 100u
#define REFILL_MS	  1000u

/* ---- net/refused ---- */

void netlog_fini(struct netlog *log)
{
	for (unsigned i = 0; i < NETLOG_KEPT && log->line; i++)
		free(log->line[i]);
	free(log->line);
	*log = (struct netlog){0};
}

/* "2026-11-22T05:10:11.123Z" */
static void write_time(int64_t ms, char ret_text[32])
{
	time_t s = (time_t)(ms / 1000);
	struct tm tm;
	size_t n;

	gmtime_r(&s, &tm);
	n = strftime(ret_text, 24, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(ret_text + n, 32 - n, ".%03dZ", (int)(ms % 1000));
}

/* One line, or two where some were not reported. Return: text of the caller's, or NULL. */
static char *make_line(const struct sandbox_denied *d)
{
	char time[32], lost[64] = "", port[8] = "-", *line;

	write_time(d->time_ms, time);
	if (d->port)
		snprintf(port, sizeof(port), "%u", d->port);
	if (d->lost)
		snprintf(lost, sizeof(lost), "# %u more, too many at a time\n", d->lost);
	if (asprintf(&line, "%s%s %s %s %s\n", lost, time, d->name, port, d->reason) < 0)
		return NULL;
	return line;
}

/* Which of a session's budgets is used up: what is counted here may lag behind what the filter has counted. Return: is there one? It
 * may have been taken away meanwhile. */
static bool budget_problem(struct session *s, struct problem *why)
{
	const struct net_budget *most = &s->settings.spec.policy.most;
	const struct net_budget used = network_used(s);
	const struct {
		const char *key;
		uint64_t used, most;
	} all[] = {{"net_bytes", used.bytes, most->bytes},
		   {"net_requests", used.requests, most->requests},
		   {"net_connections", used.connections, most->connections}};
	double share = -1;
	size_t met = 0;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		const double of = all[i].most ? (double)all[i].used / (double)all[i].most : -1;

		if (of > share) {
			met = i;
			share = of;
		}
	}
	if (share < 0)
		return false;
	problem_set(why, PROBLEM_NET_BUDGET,
		    "Write a larger one into config, or 0 for no limit; status.json shows what is "
		    "used.",
		    "%s is used up, which is %" PRIu64 ": nothing more is let through",
		    all[met].key, all[met].most);
	return true;
}

/* What is refused once a day's bytes are used up is so because of that, also in sessions that begin then. */
static void say_spent(struct session *s, const struct sandbox_denied *what)
{
	const bool day = !quota_net_left(s->fs, s->uid);
	struct problem why;

	if ((!day && !what->spent) || problem_kept(&s->front.error)->code != PROBLEM_NONE)
		return;
	if (day)
		quota_net_problem(s->fs, s->uid, &why);
	else if (!budget_problem(s, &why))
		return;
	session_problem(s, &why);
}

void network_denied(struct session *s, const struct sandbox_denied *what)
{
	struct netlog *log = &s->netlog;
	char *line = make_line(what), **slot;
	bool report = rate_take(&log->events.rate, EVENTS_BURST, REFILL_MS, uv_now(s->fs->loop));

	touch_rest(s);
	say_spent(s, what);
	log->total += 1ull + what->lost;
	s->fs->stats.denied += 1ull + what->lost;
	log->mtime = clock_now();
	if (report) {
		events_add_denied(&s->fs->events, s, what, log->events.quiet + what->lost);
		audit_denied(s, what, log->events.quiet + what->lost);
	}
	log->events.quiet = report ? 0 : log->events.quiet + 1 + what->lost;
	if (!log->line)
		log->line = calloc(NETLOG_KEPT, sizeof(*log->line));
	if (!line || !log->line) {
		free(line);
		return;
	}
	slot = &log->line[log->next % NETLOG_KEPT];
	free(*slot);
	*slot = line;
	log->next++;
}

void network_connected(struct session *s, const char *name, uint16_t port)
{
	struct netlog_rate *r = &s->netlog.connections;

	if (!s->fs->audit)
		return;
	touch_rest(s);
	if (!rate_take(&r->rate, CONNECTIONS_BURST, REFILL_MS, uv_now(s->fs->loop))) {
		r->quiet++;
		return;
	}
	audit_connected(s, name, port, r->quiet);
	r->quiet = 0;
}

/* ---- who, and how much ---- */

static int put_who(const struct run *r, const char *between, size_t begin, struct buf *out)
{
	return buf_printf(out, "%s%s", out->len > begin ? between : "", run_words(r).text);
}

/* @left: it has ended, and processes of it go on. */
static bool ran_at(const struct run *r, int64_t ms, bool left)
{
	return r->started.tv_sec && clock_ms(&r->started) <= ms &&
	       (left || !run_ended(r) || ms <= clock_ms(&r->ended));
}

/* The session's own run of then. They follow each other. */
static const struct run *own_run_at(const struct session *s, int64_t ms)
{
	const struct run *r;

	TAILQ_FOREACH_REVERSE(r, &s->runs, run_list, link) {
		if (ran_at(r, ms, false))
			return r;
		if (r->started.tv_sec && run_ended(r) && clock_ms(&r->ended) < ms)
			break;
	}
	return NULL;
}

int network_who(const struct session *s, int64_t ms, const char *between, struct buf *out)
{
	const struct run *own = own_run_at(s, ms);
	const size_t begin = out->len;
	const struct job *j;
	int r = own ? put_who(own, between, begin, out) : 0;

	TAILQ_FOREACH(j, &s->jobs, link)
		if (r >= 0 && !j->of_session && j->front.latest &&
		    ran_at(j->front.latest, ms, j->inside))
			r = put_who(j->front.latest, between, begin, out);
	return r;
}

/* Return: does its filter say how many requests there were? */
static bool sample(struct session *s)
{
	struct sandbox_traffic t;

	if (!s->sandbox || sandbox_traffic(s->sandbox, &t) < 0)
		return false;
	s->net_now.bytes = MAX(s->net_now.bytes, t.bytes_in + t.bytes_out);
	s->net_now.connections = MAX(s->net_now.connections, t.connections);
	s->net_now.requests = MAX(s->net_now.requests, t.requests);
	return t.requests != 0;
}

void network_sample(struct session *s)
{
	(void)sample(s);
}

/* A request is told of when it is over, and counted by the filter when it begins: lines count where that has said nothing, as one
 * from before this daemon does. */
void network_count(struct session *s, const struct sandbox_logged *what)
{
	if (!sample(s))
		s->net_now.requests += *what->method != '\0';
}

/* What filters say, one after the other, may be more than there can be. */
static uint64_t sum(uint64_t a, uint64_t b)
{
	return MIN(a, NETWORK_USED_MAX) + MIN(b, NETWORK_USED_MAX - MIN(a, NETWORK_USED_MAX));
}

struct net_budget network_sum(const struct net_budget *a, const struct net_budget *b)
{
	return (struct net_budget){sum(a->bytes, b->bytes), sum(a->requests, b->requests),
				   sum(a->connections, b->connections)};
}

struct net_budget network_used(struct session *s)
{
	network_sample(s);
	return network_sum(&s->net_used, &s->net_now);
}

void network_gone(struct session *s)
{
	s->net_used = network_sum(&s->net_used, &s->net_now);
	s->net_now = (struct net_budget){0};
}

/* ---- ports ---- */

static void render_port(void *data, const struct sandbox_port *port)
{
	(void)buf_printf(data, "%u %u http://127.0.0.1:%u/\n", port->guest, port->host, port->host);
}

void network_list_ports(const struct session *s, struct buf *out)
{
	if (s->sandbox)
		sandbox_ports(s->sandbox, render_port, out);
}

void network_ports_changed(struct session *s)
{
	struct buf words = {0};
	const char *text;

	touch_session(s);
	s->ports_mtime = clock_now();
	network_list_ports(s, &words);
	for (size_t i = 0; i < words.len; i++)
		if (words.data[i] == '\n')
			words.data[i] = i + 1 < words.len ? ',' : '\0';
	text = words.failed ? "too many to list for want of memory" : buf_str(&words);
	events_add(&s->fs->events, s, "ports", text && *text ? text : "none");
	buf_clear(&words);
}

/* ---- changes while the sandbox runs ---- */

/* A port that was added while the sandbox runs. When the answer comes, the sandbox may be another one. */
struct asked {
	struct session *s; /* reference */
	const struct sandbox
		*sandbox; /* that was asked: until it has answered, no other is at its address */
	struct sandbox_port port;
};

static struct asked *asked_new(struct session *s, const struct sandbox_port *p)
{
	struct asked *a = malloc(sizeof(*a));

	if (a)
		*a = (struct asked){session_ref(s), s->sandbox, *p};
	return a;
}

static void asked_free(struct asked *a)
{
	session_unref(a->s);
	free(a);
}

static bool has_port(const struct sandbox_spec *spec, const struct sandbox_port *p)
{
	for (size_t i = 0; i < spec->nports; i++)
		if (spec->ports[i].guest == p->guest && spec->ports[i].host == p->host)
			return true;
	return false;
}

/* Says in the session's `error` why a port could not be forwarded. Return: the error for a writer. */
static int refuse_port(struct session *s, const struct sandbox_port *p, int e, const char *why)
{
	if (e == -EOPNOTSUPP) {
		session_problemf(s, PROBLEM_FROZEN,
				 "echo close > ctl; echo reset > ctl; then change it.",
				 "ports cannot be added while the sandbox runs: it began with "
				 "neither network nor ports, so nothing leads there");
		return -EBUSY;
	}
	session_problemf(s, e == -EADDRINUSE ? PROBLEM_PORT_TAKEN : PROBLEM_PORT,
			 "Name another port, or leave out the one of this machine to get one that "
			 "is free.",
			 "port %u cannot be forwarded: %s", p->guest, *why ? why : strerror(-e));
	s->front.config_error = true;
	return e;
}

/* Removes a port that could not be forwarded from the settings. */
static void forget_port(struct session *s, const struct sandbox_port *p)
{
	const struct sandbox_spec *spec = &s->settings.spec;
	struct sandbox_port ports[SANDBOX_PORTS_MAX];
	size_t kept = 0;

	for (size_t i = 0; i < spec->nports; i++)
		if (spec->ports[i].guest != p->guest || spec->ports[i].host != p->host)
			ports[kept++] = spec->ports[i];
	netset_put_ports(&s->settings, ports, kept);
	touch_rest(s);
	s->config_mtime = clock_now();
}

static void on_forwarded(void *data, int err, const struct sandbox_port *port, const char *why)
{
	struct asked *a = data;
	struct session *s = a->s;

	(void)port; /* sandbox_ports() has it */
	if (err < 0 && err != -ESTALE && !s->dead && s->sandbox && s->sandbox == a->sandbox) {
		refuse_port(s, &a->port, err, why);
		forget_port(s, &a->port);
		events_add(&s->fs->events, s, "port", problem_kept(&s->front.error)->cause);
	}
	session_unref(s);
	free(a);
}

static int forward(struct session *s, const struct sandbox_port *p)
{
	struct asked *a = asked_new(s, p);
	char why[VM_WHY_MAX] = "";
	int e;

	if (!a)
		return -ENOMEM;
	e = sandbox_forward(s->sandbox, p->guest, p->host, on_forwarded, a, why);
	if (e == 0)
		return 0;
	asked_free(a);
	return refuse_port(s, p, e, why);
}

/* Removes ports first: new ones may use the same ports of this machine. */
static int apply_ports(struct session *s, const struct sandbox_spec *from,
		       const struct sandbox_spec *to)
{
	int e = 0;

	for (size_t i = 0; i < from->nports; i++)
		if (!has_port(to, &from->ports[i]))
			(void)sandbox_unforward(s->sandbox, from->ports[i].guest);
	for (size_t i = 0; i < to->nports && e == 0; i++)
		if (!has_port(from, &to->ports[i]))
			e = forward(s, &to->ports[i]);
	return e;
}

struct net_policy network_policy(const struct session *s, const struct settings *with)
{
	struct net_policy p = with->spec.policy;

	p.first = s->fs->conf->limits.first_rules;
	p.learn = with->learn && s->fs->conf->limits.allow_learn;
	p.used = s->net_used;
	if (!quota_net_left(s->fs, s->uid)) {
		p.first = p.rules = "";
		p.ask = p.learn = false;
		p.most = p.used = (struct net_budget){.bytes = 1}; /* so that is what is said */
	}
	return p;
}

char *network_list(const struct session *s, const struct settings *with)
{
	return quota_net_left(s->fs, s->uid) ? netenv_allow(&s->fs->netenv, &with->spec)
					     : strdup("");
}

static bool same_policy(const struct net_policy *a, const struct net_policy *b)
{
	return !strcmp(a->rules, b->rules) && !strcmp(a->secrets, b->secrets) &&
	       !strcmp(a->secrets_file, b->secrets_file) && a->ask == b->ask &&
	       a->ask_s == b->ask_s && a->learn == b->learn && a->rate == b->rate &&
	       a->most.bytes == b->most.bytes && a->most.requests == b->most.requests &&
	       a->most.connections == b->most.connections;
}

/* Tells the sandbox what its network may be used for, if that has changed. */
static int apply_policy(struct session *s, const struct settings *with)
{
	const struct sandbox_spec *old = &s->settings.spec, *new = &with->spec;
	const struct net_policy policy = network_policy(s, with),
				before = network_policy(s, &s->settings);
	_cleanup_free_ char *list = NULL;
	char why[VM_WHY_MAX] = "";
	int e;

	if (!new->network || (!strcmp(old->allow, new->allow) && same_policy(&before, &policy)))
		return 0;
	list = network_list(s, with);
	e = list ? sandbox_policy(s->sandbox, list, &policy, why) : -ENOMEM;
	if (e < 0)
		session_problemf(s, PROBLEM_NETWORK, "", "the list was not taken: %s",
				 *why ? why : strerror(-e));
	return e;
}

int network_apply(struct session *s, const struct settings *with)
{
	const struct sandbox_spec *old = &s->settings.spec, *new = &with->spec;
	int e = apply_ports(s, old, new);

	if (e == 0)
		e = apply_policy(s, with);
	if (e < 0) { /* undoes it; only the first problem is reported */
		const struct problem first = *problem_kept(&s->front.error);

		(void)apply_ports(s, new, old);
		problem_keep(&s->front.error, &first);
	}
	return e;
}

void network_resume(struct session *s)
{
	const struct sandbox_spec *spec = &s->settings.spec;
	struct sandbox_port ports[SANDBOX_PORTS_MAX];
	const size_t n = spec->nports;
	char why[VM_WHY_MAX];

	memcpy(ports, spec->ports, n * sizeof(ports[0])); /* the settings may lose one */
	for (size_t i = 0; i < n; i++) {
		struct asked *a = asked_new(s, &ports[i]);
		const int e = a ? sandbox_forward(s->sandbox, ports[i].guest, ports[i].host,
						  on_forwarded, a, why)
				: 0;

		if (e == 0)
			continue;
		asked_free(a);
		/* It is there; or there is nothing that it could lead to, of which the user was told. */
		if (e == -EEXIST || e == -EOPNOTSUPP || e == -ENETDOWN || e == -ESTALE)
			continue;
		refuse_port(s, &ports[i], e, why);
		forget_port(s, &ports[i]);
	}
}
