/* SPDX-License-Identifier: Apache-2.0 */
/* Traces: spans for a collector of OpenTelemetry. See traces.h. */
#include "traces.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "audit.h"
#include "fs.h"
#include "fs/request/clock.h"
#include "job.h"
#include "session.h"
#include "vm/base/digest.h"
#include "vm/vm.h"

#define TRACE_ID   33u /* hexadecimal digits, and the end */
#define SPAN_ID	   17u
#define VARIABLE   "TRACEPARENT"
#define TEXT_MOST  1024u /* bytes of a text in a span that is too long; and half of that, */
#define TEXT_LEAST 64u	 /* ... down to this many, with which none is */
#define KIND	   1	 /* SPAN_KIND_INTERNAL */
#define ERROR	   2	 /* STATUS_CODE_ERROR */

/* A span and where it belongs. */
struct ids {
	char trace[TRACE_ID], span[SPAN_ID], parent[SPAN_ID]; /* parent "": it has none */
};

/* ---- numbers ---- */

static uint64_t ns_of(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

static bool is_hex(const char *text, size_t len)
{
	return strspn(text, "0123456789abcdef") >= len && strspn(text, "0") < len;
}

/* 00-TRACE-SPAN-FLAGS; of later versions, what they have more does not count. Return: whether it is one. */
static bool parse_parent(const char *text, struct ids *ids)
{
	if (!text || strlen(text) < 55 || strncmp(text, "ff", 2) == 0 || text[2] != '-' ||
	    text[35] != '-' || text[52] != '-' || (strncmp(text, "00", 2) == 0 && text[55]) ||
	    !is_hex(text + 3, 32) || !is_hex(text + 36, 16))
		return false;
	snprintf(ids->trace, sizeof(ids->trace), "%.32s", text + 3);
	snprintf(ids->parent, sizeof(ids->parent), "%.16s", text + 36);
	return true;
}

/* The value of a variable among NAME=VALUE, a NUL behind each; or NULL. */
static const char *find_in(const struct buf *env, const char *name)
{
	const size_t len = strlen(name);

	for (size_t at = 0; at < env->len; at += strlen(env->data + at) + 1)
		if (strncmp(env->data + at, name, len) == 0 && env->data[at + len] == '=')
			return env->data + at + len + 1;
	return NULL;
}

static const char *session_variable(const struct session *s)
{
	const struct sandbox_spec *spec = &s->settings.spec;

	for (size_t i = 0; i < spec->nenv; i++)
		if (strcmp(spec->env[i].name, VARIABLE) == 0)
			return spec->env[i].value;
	return NULL;
}

static const char *run_variable(const struct session *s, const struct run *r)
{
	const char *value = find_in(&r->env, VARIABLE);
	const struct job *j;

	TAILQ_FOREACH(j, &s->jobs, link)
		if (!value && *r->job && j->front.latest == r)
			value = find_in(&j->settings.env, VARIABLE);
	return value ? value : session_variable(s);
}

/* The numbers of a span, from words that nothing else has. */
static void derive(const char *words, const char *what, char *ret, size_t size)
{
	char text[320], sum[DIGEST_HEX] = "";

	snprintf(text, sizeof(text), "%s/%s", what, words);
	if (digest_of(text, strlen(text), sum) < 0)
		snprintf(sum, sizeof(sum), "%064x", 1);
	snprintf(ret, size, "%s", sum);
}

static void child_of(const struct ids *of, const char *what, struct ids *ret)
{
	char words[SPAN_ID + TRACE_ID];

	snprintf(words, sizeof(words), "%s%s", of->trace, of->span);
	*ret = *of;
	snprintf(ret->parent, sizeof(ret->parent), "%s", of->span);
	derive(words, what, ret->span, sizeof(ret->span));
}

/* Of a run or job; or with NULL of the session itself, at @at. */
static void ids_of(const struct session *s, const struct run *r, uint64_t at, struct ids *ret)
{
	char words[256];

	*ret = (struct ids){.parent = ""};
	snprintf(words, sizeof(words), "%s/%" PRIu64 "/%s/%u/%" PRIu64, s->path,
		 ns_of(&s->fs->started), r ? r->job : "", r ? r->id : 0,
		 r ? ns_of(&r->submitted) : at);
	derive(words, "span", ret->span, sizeof(ret->span));
	if (!parse_parent(r ? run_variable(s, r) : session_variable(s), ret))
		derive(words, "trace", ret->trace, sizeof(ret->trace));
}

/* ---- spans ---- */

/* Of each text in it that is longer, the beginning, and a mark. */
static void shorten(json_t *v, size_t most)
{
	_cleanup_free_ char *cut = NULL;
	const char *key, *text = json_string_value(v);
	size_t i, len = most;
	json_t *part;

	json_object_foreach(v, key, part)
	{
		shorten(part, most);
	}
	json_array_foreach(v, i, part)
	{
		shorten(part, most);
	}
	if (!text || json_string_length(v) <= most)
		return;
	while (len && (text[len] & 0xc0) == 0x80) /* in the middle of a character */
		len--;
	if (asprintf(&cut, "%.*s\xe2\x80\xa6", (int)len, text) < 0)
		cut = NULL;
	(void)json_string_set(v, cut ? cut : "");
}

/* Takes over @o. Return: it on one line, which is not longer than what can be sent; or NULL. */
static char *line_of(json_t *o)
{
	char *text = json_dumps(o, JSON_COMPACT);

	for (size_t most = TEXT_MOST; text && strlen(text) > VM_TRACE_MAX && most >= TEXT_LEAST;
	     most /= 2) {
		free(text);
		shorten(o, most);
		text = json_dumps(o, JSON_COMPACT);
	}
	json_decref(o);
	return text;
}

static json_t *value_of(json_t *v)
{
	char number[24];

	if (json_is_string(v))
		return json_pack("{s:O}", "stringValue", v);
	snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(v));
	return json_pack("{s:s}", "intValue", number);
}

/* Takes over @words: an object of strings and integers. Return: attributes, as OTLP has them. */
static json_t *attributes(json_t *words)
{
	json_t *list = json_array(), *v;
	const char *key;

	json_object_foreach(words, key, v)
	{
		json_array_append_new(list,
				      json_pack("{s:s, s:o}", "key", key, "value", value_of(v)));
	}
	json_decref(words);
	return list;
}

static json_t *time_of(uint64_t ns)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, ns);
	return json_string(text);
}

/* Takes over @words. @why: it went wrong, because of that; or NULL */
static void tell(const struct session *s, const struct ids *ids, const char *name, uint64_t from,
		 uint64_t to, json_t *words, const struct problem *why)
{
	json_t *o = json_object();
	char *text;

	json_object_set_new(o, "traceId", json_string(ids->trace));
	json_object_set_new(o, "spanId", json_string(ids->span));
	if (*ids->parent)
		json_object_set_new(o, "parentSpanId", json_string(ids->parent));
	json_object_set_new(o, "name", json_string(name));
	json_object_set_new(o, "kind", json_integer(KIND));
	json_object_set_new(o, "startTimeUnixNano", time_of(from));
	json_object_set_new(o, "endTimeUnixNano", time_of(MAX(from, to)));
	if (!words)
		words = json_object();
	json_object_set_new(words, "xsbxfs.session", json_string(s->path));
	json_object_set_new(o, "attributes", attributes(words));
	if (why && why->code)
		json_object_set_new(o, "status",
				    json_pack("{s:i, s:o}", "code", ERROR, "message",
					      audit_text(why->cause, strlen(why->cause))));
	text = line_of(o);
	if (text)
		vm_trace(s->fs->vm, text);
	free(text);
}

char *traces_resource(const char *mountpoint)
{
	struct utsname host;
	json_t *o =
		json_pack("{s:s, s:s}", "service.name", "xsbxfs", "service.version", XSBX_VERSION);

	if (mountpoint)
		json_object_set_new(o, "service.instance.id",
				    audit_text(mountpoint, strlen(mountpoint)));
	if (uname(&host) == 0)
		json_object_set_new(o, "host.name",
				    audit_text(host.nodename, strlen(host.nodename)));
	return line_of(attributes(o));
}

static bool is_off(const struct session *s)
{
	return !s->fs->vm || !vm_traces(s->fs->vm);
}

/* ---- runs ---- */

static json_t *words_of(const struct session *s, const struct run *r)
{
	json_t *o = json_object();

	json_object_set_new(o, "xsbxfs.state", json_string(run_state_str(r->state)));
	json_object_set_new(o, "xsbxfs.code_bytes", json_integer((json_int_t)r->code.len));
	if (*r->job)
		json_object_set_new(o, "xsbxfs.job", json_string(r->job));
	else
		json_object_set_new(o, "xsbxfs.run", json_integer(r->number));
	if (!*r->job)
		json_object_set_new(o, "xsbxfs.language",
				    json_string(s->t->settings.spec.language));
	if (run_has_status(r))
		json_object_set_new(o, "process.exit.code", json_integer(r->result.status));
	return o;
}

void traces_run(const struct session *s, const struct run *r)
{
	const struct problem *why = problem_kept(&r->problem);
	const uint64_t asked = ns_of(&r->submitted), ended = ns_of(&r->ended);
	const bool began = r->started.tv_sec;
	const uint64_t sent = began ? ns_of(&r->started) : ended;
	struct ids ids, child;

	if (is_off(s))
		return;
	ids_of(s, r, 0, &ids);
	tell(s, &ids, *r->job ? "job" : "run", asked, ended, words_of(s, r), why);
	child_of(&ids, "queue", &child);
	tell(s, &child, "queue", asked, sent, NULL, began ? NULL : why);
	if (!began)
		return;
	child_of(&ids, "execute", &child);
	tell(s, &child, "execute", sent, ended, NULL, why);
}

/* ---- starts and saves ---- */

struct step {
	const char *name;
	uint64_t us;
};

/* What it consisted of, one after the other, up to now. What is left at the beginning, is what it waited for before it had a place. */
static void send_steps(const struct session *s, const struct ids *ids, uint64_t from, uint64_t to,
		       enum problem_code awaited)
{
	const bool resumed = strcmp(s->info.start, "saved") == 0;
	const struct step steps[] = {
		{"greeting", s->info.setup_ms * 1000},
		{resumed				  ? "restore"
		 : strcmp(s->info.start, "snapshot") == 0 ? "clone"
							  : "boot",
		 s->info.boot_ms * 1000},
		{"place", s->info.waited_ms * 1000},
	};
	uint64_t end = to;
	struct ids child;

	/* One of the pool was there before it was asked for. */
	for (size_t i = 0; strcmp(s->info.start, "warm") != 0 && i < ARRAY_SIZE(steps); i++) {
		const uint64_t begin = MAX(from, end - MIN(end, steps[i].us * 1000));

		if (begin == end)
			continue;
		child_of(ids, steps[i].name, &child);
		tell(s, &child, steps[i].name, begin, end, NULL, NULL);
		end = begin;
	}
	if (end <= from ||
	    (awaited != PROBLEM_IMAGE_MISSING && awaited != PROBLEM_PACKAGES_INSTALLING))
		return;
	child_of(ids, "wait", &child);
	tell(s, &child, awaited == PROBLEM_IMAGE_MISSING ? "image" : "packages", from, end, NULL,
	     NULL);
}

void traces_start(const struct session *s, const struct run *r, uint64_t us,
		  enum problem_code awaited)
{
	const struct timespec now = clock_now();
	const uint64_t to = ns_of(&now), from = to - us * 1000;
	struct ids ids, queue;
	json_t *words;

	if (is_off(s))
		return;
	ids_of(s, r, from, &queue);
	if (r) {
		child_of(&queue, "queue", &ids);
		queue = ids;
		child_of(&queue, "start", &ids);
	} else {
		ids = queue;
	}
	words = json_pack("{s:s, s:s}", "xsbxfs.start", s->info.start, "xsbxfs.backend",
			  s->info.backend);
	tell(s, &ids, strcmp(s->info.start, "saved") == 0 ? "wake" : "start", from, to, words,
	     NULL);
	send_steps(s, &ids, from, to, awaited);
}

void traces_saved(const struct session *s, uint64_t us, const struct problem *why)
{
	const struct timespec now = clock_now();
	const uint64_t to = ns_of(&now), from = to - us * 1000;
	struct ids ids;

	if (is_off(s))
		return;
	ids_of(s, NULL, from, &ids);
	tell(s, &ids, "save", from, to, NULL, why);
}
