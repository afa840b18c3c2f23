/* SPDX-License-Identifier: Apache-2.0 */
/* What is heard of a machine: its console, QEMU's words and events, and how its process ends. */
#include <string.h>
#include <sys/wait.h>

#include "qemu_argv.h"
#include "qemu_internal.h"
#include "vm/base/log.h"
#include "vm/base/problem.h"

/* ---- what QEMU says ---- */

static void on_reader_closed(struct reader *r)
{
	qemu_part_gone(r->data);
}

static void on_console(struct reader *r, const void *bytes, size_t len)
{
	struct backend *b = r->data;

	if (!b->destroying)
		b->events->console(b->data, bytes, len);
}

static void on_words(struct reader *r, const void *bytes, size_t len)
{
	struct backend *b = r->data;

	tail_add(&b->said, bytes, len);
}

static void on_event(void *data, const char *name, json_t *details)
{
	struct backend *b = data;
	const char *id = json_string_value(json_object_get(details, "id"));
	const char *status = json_string_value(json_object_get(details, "status"));
	const char *reason = json_string_value(json_object_get(details, "reason"));

	if (strcmp(name, "MIGRATION") == 0 && status)
		log_trace(b->child.label, "backend", "migration: %s", status);
	if (!b->destroying && strcmp(name, "MIGRATION") == 0 && status)
		qemu_on_migration(b, status);
	if (strcmp(name, "SHUTDOWN") == 0 && reason)
		b->reset = strcmp(reason, "guest-reset") == 0;

	if (b->destroying || strcmp(name, "VSERPORT_CHANGE") != 0 || !id ||
	    strcmp(id, QEMU_AGENT_ID) != 0)
		return;
	log_trace(b->child.label, "backend", "the agent's port is %s",
		  json_is_true(json_object_get(details, "open")) ? "open" : "closed");
	if (json_is_true(json_object_get(details, "open")))
		b->events->up(b->data);
	else
		b->events->hangup(b->data);
}

/* Without control there is still the agent; if QEMU is gone, its end says so. */
static void on_control_lost(void *data, int err)
{
	const struct backend *b = data;

	log_trace(b->child.label, "backend", "its control connection ended: %s",
		  err ? strerror(-err) : "end of file");
}

static void on_control_closed(void *data)
{
	qemu_part_gone(data);
}

static const struct qmp_events control_events = {on_event, on_control_lost, on_control_closed};

/* ---- its process ---- */

static void child_over(struct backend *b, struct problem *p)
{
	char quote[400];

	b->child_gone = true;
	if (b->destroying) {
		qemu_part_gone(b);
		return;
	}
	if (b->console.open)
		reader_drain(&b->console);
	if (b->words.open)
		reader_drain(&b->words);
	if (b->said.total)
		problem_add(p, "; it said: %s", tail_quote(&b->said, NULL, quote, sizeof(quote)));
	qemu_tell_down(b, p);
}

static void on_started(struct child *c)
{
	struct backend *b = c->data;

	log_trace(c->label, "backend", "QEMU runs, process %d", (int)c->pid);
	b->all->jail_seen[VM_MICROVM] = true;
	b->all->jail[VM_MICROVM] = c->report;
}

static void on_failed(struct child *c, int err, const char *step)
{
	struct problem p;

	problem_set(&p, PROBLEM_QEMU_FAILED, "xsbxfs --check shows whether QEMU is usable.",
		    "QEMU was not started: %s: %s", step, strerror(-err));
	child_over(c->data, &p);
}

static void on_exited(struct child *c, int status)
{
	struct backend *b = c->data;
	const double seconds = (double)(uv_now(b->all->ctx->loop) - b->started_at) / 1000;
	struct problem p;

	if (b->qmp.reader.open)
		reader_drain(&b->qmp.reader);
	if (c->oom_kills > c->stats.oom_noted && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		problem_set(&p, PROBLEM_OUT_OF_MEMORY,
			    "Reset the session; see what else uses the host's memory.",
			    "the host had no memory for QEMU, and killed it after %.1f s", seconds);
	else if (WIFSIGNALED(status))
		problem_set(&p, PROBLEM_QEMU_KILLED,
			    "Reset the session; look for a lack of memory.",
			    "QEMU was killed by signal %d (%s) after %.1f s", WTERMSIG(status),
			    strsignal(WTERMSIG(status)), seconds);
	else if (WEXITSTATUS(status))
		problem_set(&p, PROBLEM_QEMU_EXITED, "", "QEMU ended with status %d after %.1f s",
			    WEXITSTATUS(status), seconds);
	else
		problem_set(&p, PROBLEM_MACHINE_OFF, "", "the machine %s itself%s after %.1f s",
			    b->reset ? "reset" : "switched", b->reset ? "" : " off", seconds);
	child_over(b, &p);
}

/* ---- listening ---- */

void qemu_prepare(struct backend *b, const struct log_label *label)
{
	b->child.data = b;
	b->child.label = label;
	b->child.started = on_started;
	b->child.failed = on_failed;
	b->child.exited = on_exited;
	qmp_init(&b->qmp, &control_events, b);
}

static void open_reader(struct backend *b, struct reader *r, int *fd,
			void (*bytes)(struct reader *r, const void *bytes, size_t len))
{
	r->data = b;
	r->bytes = bytes;
	r->closed = on_reader_closed;
	if (reader_open(r, b->all->ctx->loop, steal_fd(fd)) == 0)
		b->nopen++;
}

void qemu_listen(struct backend *b, int *console, int *words)
{
	if (*console >= 0)
		open_reader(b, &b->console, console, on_console);
	if (*words >= 0)
		open_reader(b, &b->words, words, on_words);
}

/* Takes our ends but the agent's. */
