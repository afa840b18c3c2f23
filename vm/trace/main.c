/* SPDX-License-Identifier: Apache-2.0 */
/* xsbxfs-trace: sends spans to a collector of OpenTelemetry. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "headers.h"
#include "sender.h"
#include "spans.h"
#include "vm/base/ms.h"
#include "vm/base/secret.h"
#include "vm/base/util.h"
#include "vm/store/confine.h"

/*
 * Theory of operation
 * -------------------
 * The daemon may open no connections, and must wait for nobody. So it writes spans into a pipe, and drops those that there is no
 * room for; this program, which the spawner starts, reads them at any time, keeps a queue, and sends it in batches. A collector that
 * is away is tried again, after a second at first and a minute at most, while the queue fills up; what does not fit is dropped.
 *
 * On standard output it says what became of them: "sent N", "dropped N", and "away WHY" or "back", for the daemon to count and to
 * log; "warning WORDS" is for the log alone. It ends with its input, after what it has was sent, or could not be in END_MS.
 *
 * It confines itself, as xsbxfs-store does, before it reads anything: connections, and the files that those take.
 */

#define USAGE                                                              \
	"usage: xsbxfs-trace --url URL\n"                                  \
	"Sends spans from standard input, one a line, to a collector of\n" \
	"OpenTelemetry. xsbxfs starts it. See xsbxfs-trace(8).\n"

#define GATHER_MS 500u	/* spans are sent together that come within this time */
#define AGAIN_MS  1000u /* after a failure, and twice as long after each more */
#define AGAIN_MAX 60000u
#define END_MS	  2000u
#define IDLE_MS	  60000u

struct tracer {
	struct spans queue;
	struct sender sender;
	size_t sending; /* of the queue, in the request that is under way */
	uint64_t since; /* when the oldest one came that nobody sends; 0: there is none */
	uint64_t again_at, again_ms; /* 0: it answers */
	uint64_t end_at;	     /* 0: its input has not ended */
};

static uint64_t now_ms(void)
{
	return (uint64_t)ms_now(CLOCK_MONOTONIC);
}

static void say(const char *word, size_t n)
{
	if (n)
		printf("%s %zu\n", word, n);
	fflush(stdout);
}

/* ---- in ---- */

static void read_input(struct tracer *t)
{
	static char bytes[64 << 10];
	const ssize_t n = t->end_at ? -1 : read(STDIN_FILENO, bytes, sizeof(bytes));

	if (n > 0)
		say("dropped", spans_read(&t->queue, bytes, (size_t)n));
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		t->end_at = t->end_at ? t->end_at : now_ms() + END_MS;
	if (t->queue.n > t->sending && !t->since)
		t->since = now_ms();
}

/* ---- out ---- */

static bool is_due(const struct tracer *t, uint64_t now)
{
	if (t->sender.easy || !t->queue.n || now < t->again_at)
		return false;
	return t->end_at || t->queue.n >= SPANS_BATCH || now >= t->since + GATHER_MS;
}

static void later(struct tracer *t)
{
	if (!t->again_ms)
		printf("away %.200s\n", t->sender.why);
	t->again_ms = t->again_ms ? MIN(t->again_ms * 2, (uint64_t)AGAIN_MAX) : AGAIN_MS;
	t->again_at = now_ms() + t->again_ms;
	fflush(stdout);
}

static void begin(struct tracer *t)
{
	t->sending = spans_body(&t->queue, &t->sender.body);
	t->since = 0;
	if (sender_begin(&t->sender))
		return;
	t->sending = 0;
	snprintf(t->sender.why, sizeof(t->sender.why), "out of memory");
	later(t);
}

static void ended(struct tracer *t, enum sender_end how)
{
	if (how == SENDER_LATER) {
		later(t);
	} else {
		if (t->again_ms)
			printf("back\n");
		if (how == SENDER_REFUSED)
			printf("refused %.200s\n", t->sender.why);
		t->again_at = t->again_ms = 0;
		say(how == SENDER_DONE ? "sent" : "dropped", t->sending);
		spans_drop(&t->queue, t->sending);
	}
	t->sending = 0;
	t->since = t->queue.n ? now_ms() : 0;
	fflush(stdout);
}

/* Until when there is nothing to be done but to wait. */
static int time_left(const struct tracer *t, uint64_t now)
{
	uint64_t until = now + IDLE_MS;

	if (!t->sender.easy && t->queue.n)
		until = t->end_at ? now : t->since + GATHER_MS;
	if (!t->sender.easy && t->queue.n && until < t->again_at)
		until = t->again_at;
	if (t->end_at)
		until = MIN(until, t->end_at);
	return until > now ? (int)(until - now) : 0;
}

static void run(struct tracer *t)
{
	uint64_t now = now_ms();

	while (!t->end_at || (t->queue.n && now < t->end_at)) {
		enum sender_end how;

		if (is_due(t, now))
			begin(t);
		how = sender_wait(&t->sender, t->end_at ? -1 : STDIN_FILENO, time_left(t, now));
		if (how != SENDER_BUSY)
			ended(t, how);
		read_input(t);
		now = now_ms();
	}
	say("dropped", t->queue.n);
}

/* ---- */

static const char *parse(int argc, char **argv)
{
	static const struct option longs[] = {
		{"url", required_argument, NULL, 'u'},
		{"version", no_argument, NULL, 'V'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	const char *url = NULL;
	int c;

	while ((c = getopt_long(argc, argv, "+hV", longs, NULL)) != -1) {
		switch (c) {
		case 'u': url = optarg; break;
		case 'h': fputs(USAGE, stdout); exit(0);
		case 'V': puts("xsbxfs-trace " XSBX_VERSION); exit(0);
		default: fputs(USAGE, stderr); exit(2);
		}
	}
	if (!url || optind != argc) {
		fputs(USAGE, stderr);
		exit(2);
	}
	return url;
}

/* Those of traces count more than those of all that is sent. What they hold may be a key, and is said nowhere. */
static void take_headers(struct sender *s)
{
	static const char *const names[] = {"OTEL_EXPORTER_OTLP_HEADERS",
					    "OTEL_EXPORTER_OTLP_TRACES_HEADERS"};
	const char *name = NULL;
	char *text = NULL;
	size_t first, wrong;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char *value = secret_take(names[i]);

		if (!value)
			continue;
		free(text);
		text = value;
		name = names[i];
	}
	if (!text)
		return;
	first = headers_add(&s->headers, text, &wrong);
	if (first)
		printf("warning %s: %zu left out, the first of them the %zu. there: KEY=VALUE is "
		       "wanted, with commas between and %%XX in values\n",
		       name, wrong, first);
	fflush(stdout);
	explicit_bzero(text, strlen(text));
	free(text);
}

int main(int argc, char **argv)
{
	const char *url = parse(argc, argv);
	struct store_confinement c = {.network = true, .ca_file = getenv("SSL_CERT_FILE")};
	struct tracer t = {.sending = 0};

	signal(SIGPIPE, SIG_IGN);
	if (!sender_init(&t.sender, url)) {
		fprintf(stderr, "xsbxfs-trace: %s: no address of a collector\n", url);
		return 2;
	}
	take_headers(&t.sender);
	if (store_confine(&c) < 0) {
		fprintf(stderr, "xsbxfs-trace: can't confine itself: %s\n", c.why);
		return 1;
	}
	if (fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK) < 0) {
		fprintf(stderr, "xsbxfs-trace: standard input: %s\n", strerror(errno));
		return 1;
	}
	spans_init(&t.queue);
	run(&t);
	/* To take a transfer apart is to wait for a name server that does not answer, and the mount's end waits for this. */
	if (t.sender.easy) {
		fflush(stdout);
		_exit(0);
	}
	spans_fini(&t.queue);
	sender_fini(&t.sender);
	return 0;
}
