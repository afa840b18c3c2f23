/* SPDX-License-Identifier: Apache-2.0 */
/* The README.md nodes. */
#include "help.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "vm/base/util.h"

/*
 * These are the first thing that a person or a program in front of a mount reads, so they begin with
 * lines to copy. Paths are relative to the mount, because the mount may be seen under another
 * name elsewhere (a bind mount, a container).
 */

struct sample {
	const char *language;
	const char *ending; /* of a source file */
	const char *first;  /* a line of code, fit for single quotes in a shell */
	const char *set, *get;
	const char *printed;
};

static const struct sample samples[] = {
	{"python", "py", "print(6 * 7)", "x = 41", "print(x + 1)", "42"},
	{"javascript", "js", "console.log(6 * 7)", "let x = 41", "console.log(x + 1)", "42"},
	{"raw", "sh", "echo $((6 * 7))", "x=41", "echo $((x + 1))", "42"},
};

static const struct sample *sample_for(const char *language)
{
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		if (strcmp(samples[i].language, language) == 0)
			return &samples[i];
	}
	return &samples[0];
}

/* Short text, returned by value. */
struct words {
	char text[48];
};

static struct words seconds(unsigned n, const char *none)
{
	struct words w;

	if (n == 0)
		snprintf(w.text, sizeof(w.text), "%s", none);
	else
		snprintf(w.text, sizeof(w.text), "%u s", n);
	return w;
}

static struct words bytes(uint64_t n)
{
	struct words w;

	if (n >= 1 << 20 && n % (1 << 20) == 0)
		snprintf(w.text, sizeof(w.text), "%" PRIu64 " MiB", n >> 20);
	else if (n >= 1 << 10 && n % (1 << 10) == 0)
		snprintf(w.text, sizeof(w.text), "%" PRIu64 " KiB", n >> 10);
	else
		snprintf(w.text, sizeof(w.text), "%" PRIu64 " bytes", n);
	return w;
}

/* `limit` as a remark behind a setting, or nothing. */
static struct words at_most(unsigned limit, const char *unit)
{
	struct words w = {""};

	if (limit)
		snprintf(w.text, sizeof(w.text), " (at most %u%s)", limit, unit);
	return w;
}

/* A limit of the administrator, where 0 stands for none. */
static struct words limit(unsigned n, const char *unit)
{
	struct words w;

	if (n)
		snprintf(w.text, sizeof(w.text), "up to %u%s", n, unit);
	else
		snprintf(w.text, sizeof(w.text), "no limit set");
	return w;
}

/* Appends a command, and what it does, at the same column for all of them. Return: 0 or -ENOMEM, so that several can
 * be or-ed. */
static int printf_like(3, 4) example(struct buf *out, const char *comment, const char *command, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, command);
	vsnprintf(text, sizeof(text), command, ap);
	va_end(ap);
	return buf_printf(out, "    %-42s # %s\n", text, comment);
}

static int root_examples(const struct conf *c, struct buf *out)
{
	const char *name = c->template[0].name;
	const struct sample *s = sample_for(c->template[0].settings.spec.language);
	char waits[64];
	int r;

	snprintf(waits, sizeof(waits), "waits for the end: %s", s->printed);
	r = buf_printf(
		out,
		"# Sandboxes as files\n\n"
		"Each directory you make below a template is a sandbox: a small virtual machine, "
		"or a process\n"
		"in a jail where the list of templates says so. Paths here are relative to this "
		"directory.\n\n");
	r |= example(out, "a sandbox", "mkdir %s/demo", name);
	r |= example(out, "run code", "echo '%s' > %s/demo/in", s->first, name);
	r |= example(out, waits, "cat %s/demo/stdout", name);
	r |= example(out, "0", "cat %s/demo/exit_code", name);
	r |= example(out, "one line about the run", "cat %s/demo/summary", name);
	r |= example(out, "into its working directory", "cp data.csv %s/demo/files/", name);
	r |= example(out, "run a file", "cp job.%s %s/demo/in", s->ending, name);
	r |= example(out, "destroy it and all that is in it", "rmdir %s/demo", name);
	return r;
}

/* The packages of a template as a remark, or nothing. */
static struct words packages(const char *text)
{
	struct words w = {""};
	unsigned n = 1;

	if (!*text)
		return w;
	for (const char *p = text; (p = strchr(p, ' ')); p++)
		n++;
	if (snprintf(w.text, sizeof(w.text), "; with %s", text) >= (int)sizeof(w.text))
		snprintf(w.text, sizeof(w.text), "; with %u package%s", n, n == 1 ? "" : "s");
	return w;
}

/* What its code is written in: "raw" tells nobody, least of all where an image has compilers of another language. */
static const char *language(const struct conf_template *t)
{
	const char *name = t->settings.spec.language;

	return strcmp(name, "raw") == 0 ? "raw (bash)" : name;
}

static int root_template(const struct conf_template *t, struct buf *out)
{
	return buf_printf(out, "- `%s/` %s, %u MiB, %s a run%s%s%s\n", t->name, language(t),
			  t->settings.spec.memory_mb,
			  seconds(t->settings.timeout_s, "no time limit for").text,
			  packages(t->settings.spec.packages).text,
			  t->settings.spec.network ? "; with a network" : "",
			  t->settings.spec.backend == VM_PROCESS ? "; as a process" : "");
}

/* Those of the configuration before those that images have brought along, of which there can be many. */
static int root_templates(const struct conf *c, struct buf *out)
{
	const size_t shown = MIN(c->ntemplates, (size_t)9);
	size_t n = 0;
	int r = buf_printf(out, "\n## Templates\n\n");

	for (int of_image = 0; of_image <= 1; of_image++) {
		for (size_t i = 0; i < c->ntemplates && n < shown && r >= 0; i++) {
			if (c->template[i].of_image != of_image)
				continue;
			r = root_template(&c->template[i], out);
			n++;
		}
	}
	if (r >= 0 && shown < c->ntemplates)
		r = buf_printf(out, "- and %zu more: `ls`\n", c->ntemplates - shown);
	return r;
}

static const char *network_words(const struct conf *c)
{
	return c->allow_network
		       ? "- No network inside, unless `config` has `network = on`, `allow = "
			 "example.com` or `net/rules`. What\n"
			 "  was refused: `net/refused`. With `ask = yes` it waits in "
			 "`net/pending`: move it to `net/allowed`.\n"
		       : "- There is no network inside.\n";
}

static int root_rules(const struct conf *c, struct buf *out)
{
	return buf_printf(
		out,
		"\n## What to know\n\n"
		"- A session keeps its state (variables, imports, files) from run to run; only its "
		"owner may use it.\n"
		"- Closing `in` starts a run (of what `>>` appended alone); runs queue. Write "
		"`stdin` before it.\n"
		"- `stdout`, `stderr`, `output` and `exit_code` wait for the latest run.\n"
		"- Nothing in `runs/N/` waits, except `wait`. For long work: write to `in`, go on, "
		"look whether\n"
		"  `runs/N/exit_code` exists. `tail -f runs/N/stdout` follows it (not `stdout`).\n"
		"- Live input: `exec 3> stdin` before `in`, `echo line >&3`. `mkdir jobs/a`: a "
		"program "
		"beside.\n"
		"- What threads and timers print after a run's end is not in its output: "
		"`join` them.\n"
		"- `exit_code`: 124 it ran past `timeout_s`, 137 killed or out of memory, 128+N "
		"signal N.\n"
		"  `runs/N/state`: `lost` it may have run, its result is unknown; `refused` it "
		"never ran, try\n"
		"  again; neither has an `exit_code`.\n"
		"- If a command fails, `cat error` in the session says why; if `mkdir` does, the "
		"one here.\n"
		"- Stop a run: `echo interrupt > ctl`, or `kill`. If its sandbox died, a session "
		"is `closed`:\n"
		"  `echo reset > ctl` gives it a new one. Idle too long it is `asleep` till it "
		"is used, or `closed`.\n"
		"- Go back: `mkdir checkpoints/a`, `echo restore a > ctl`. A copy: `from = demo` "
		"in its `config`.\n"
		"- `files/` is the working directory and `HOME` of the code, live in both "
		"directions.\n"
		"- Settings: `cat config`; `echo 'timeout_s = 60' >> config`. Only before the "
		"first run:\n"
		"  `memory_mb`, `cpus`, `packages`, `warmup`, `seed`, `clock`, `network`, "
		"variables "
		"(`env.A = b`).\n"
		"- Packages: `packages = pandas==2.3.3`, of npm `lodash@4.17.21`; at first, they "
		"are waited for.\n"
		"- A server inside listens at 0.0.0.0: `ports = 8080`; `cat ports` says where it "
		"is here.\n"
		"%s- Session names: 1 to %u of A-Z a-z 0-9 . _ - (not first: . -). Any: `mktemp -d "
		"%s/XXXXXXXX`.\n"
		"\n## Limits\n\n"
		"- code: 1 MiB; output: %s each for stdout and stderr, the rest is dropped and\n"
		"  `runs/N/status.json` says so; kept: the last %u runs and %s of a session\n"
		"- memory: %s; processors: %s; time of a run: %s\n"
		"\nMore: `doctor` (is this host in order?), `isolation` (what holds), `quota` "
		"(yours), `status.html`,\n"
		"`status.json`, `events` (`tail -n 20`), `metrics`; in each session `README.md`; "
		"man 5 xsbxfs.\n",
		network_words(c), PLAIN_NAME_MAX, c->template[0].name, bytes(c->output_bytes).text,
		c->history_runs, bytes(c->history_bytes).text,
		limit(c->limits.max_memory_mb, " MiB").text, limit(c->limits.max_cpus, "").text,
		limit(c->limits.max_timeout_s, " s").text);
}

int help_root(const struct conf *c, struct buf *out)
{
	int r = root_examples(c, out);

	r |= root_templates(c, out);
	return r | root_rules(c, out);
}

/* What becomes of one that nobody uses. */
static const char *when_idle(const struct settings *s)
{
	return settings_hibernate(s) ? "asleep" : "closed";
}

int help_template(const struct conf *c, const struct conf_template *t, struct buf *out)
{
	const struct sample *s = sample_for(t->settings.spec.language);
	char waits[64], made[64];
	int r;

	snprintf(waits, sizeof(waits), "waits for the end: %s", s->printed);
	snprintf(made, sizeof(made), "a sandbox; its code: %s", language(t));
	r = buf_printf(out, "# Template %s\n\n", t->name);
	r |= example(out, made, "mkdir demo");
	r |= example(out, "run code", "echo '%s' > demo/in", s->first);
	r |= example(out, waits, "cat demo/stdout");
	r |= example(out, "destroy it", "rmdir demo");
	if (r < 0)
		return r;
	return buf_printf(
		out,
		"\nThe name of a session has 1 to %u of the characters A-Z a-z 0-9 . _ - and "
		"begins with "
		"neither a\ndot nor a dash. If `mkdir` fails, `cat ../error` says why.\n"
		"\nA session begins with %u MiB of memory%s, %u processor%s, %s a run,\n"
		"and is %s when idle: %s. `template.json` shows the rest, and what the\n"
		"image holds. A session's `config` changes its settings.\n",
		PLAIN_NAME_MAX, t->settings.spec.memory_mb,
		at_most(c->limits.max_memory_mb, " MiB").text, t->settings.spec.cpus,
		t->settings.spec.cpus == 1 ? "" : "s",
		seconds(t->settings.timeout_s, "no time limit for").text, when_idle(&t->settings),
		seconds(t->settings.idle_timeout_s, "never").text);
}

static int session_examples(const struct sample *e, bool fresh, struct buf *out)
{
	char waits[64], lasts[64];
	int r;

	snprintf(waits, sizeof(waits), "waits for the end: %s", e->printed);
	snprintf(lasts, sizeof(lasts), "state lasts: %s", e->printed);
	r = example(out, "run code", "echo '%s' > in", e->first);
	r |= example(out, waits, "cat stdout");
	r |= example(out, "run a file", "cp job.%s in; cat exit_code", e->ending);
	if (fresh || r < 0)
		return r;
	r = example(out, "set a variable", "echo '%s' > in", e->set);
	r |= example(out, lasts, "echo '%s' > in; cat stdout", e->get);
	return r;
}

int help_session(const struct conf_template *t, const struct settings *s, struct buf *out)
{
	int r = buf_printf(out, "# A %s sandbox\n\n", t->settings.spec.language);

	if (r >= 0)
		r = session_examples(sample_for(t->settings.spec.language), s->fresh, out);
	if (r < 0)
		return r;
	return buf_printf(
		out,
		"\n| file | what it is |\n"
		"| --- | --- |\n"
		"| `in` | code; closing it starts a run |\n"
		"| `stdin` | standard input of the next run; write it before `in`, or keep it open "
		"|\n"
		"| `stdout` `stderr` `output` | of the latest run; a read waits for its end |\n"
		"| `exit_code` | of the latest run; a read waits for its end |\n"
		"| `summary` | the latest run in one line |\n"
		"| `state` | new, starting, idle, running, paused, asleep, closed or failed |\n"
		"| `error` | what went wrong last, and what to do |\n"
		"| `config` | settings; `>` replaces, `>>` adds |\n"
		"| `ctl` | `interrupt`, `kill`, `eof`, `reset`, `close`, `pause`, `resume`, "
		"`sleep`, "
		"`wake`, "
		"`checkpoint NAME`, `restore NAME`, `replay N`%s |\n"
		"| `net/allow` `net/refused` | names that may be reached, what was refused |\n"
		"| `net/rules` `net/secrets` | which requests may be made, which secrets go with "
		"them |\n"
		"| `net/pending/N/` | waits for leave: `mv` it to `net/allowed/` or `net/denied/` "
		"|\n"
		"| `net/log` `net/learned` | every connection that has ended, as JSON Lines; with "
		"`learn = yes`, rules for them |\n"
		"| `ports` | forwarded ports: `guest host url` |\n"
		"| `files/` | the working directory of the code, live in both directions; where "
		"`git` refuses it, it says how to make an exception; `getfattr -n "
		"user.xsbxfs.origin` tells which run or job changed a file last |\n%s"
		"| `files.events` | what changes there while you read, from either side |\n"
		"| `learned.conf` | with `learn = yes`: what a process sandbox needed, as a "
		"template |\n"
		"| `runs/N/` | every run; nothing there waits but `wait`, and `replay` for one |\n"
		"| `runs/NAME/` | mkdir: a place for one run, whose results nobody else can get |\n"
		"| `jobs/NAME/` | mkdir: a program beside the interpreter; its `config` says how%s "
		"|\n"
		"| `checkpoints/NAME/` | mkdir: saves the session%s; its `files/` can be "
		"read, "
		"`wait` waits until it is saved, `error` says why it was not |\n"
		"| `console` | boot log |\n"
		"| `status.html` | all there is to see, with a browser |\n"
		"| `status.json` | all there is to know; `stands_still`: the machine has nothing "
		"to do, "
		"and takes no processor time until something reaches it |\n\n"
		"Now: %u MiB of memory, %u processor%s, %s a run, %s when idle: %s%s.\n",
		s->spec.work ? ", `commit`, `discard`" : "",
		s->spec.work
			? "| `files.changes` | how `files/` differs from the host's directory, "
			  "which "
			  "`commit` changes |\n"
			: "",
		s->entrypoint && *s->entrypoint
			? "; with nothing said, `echo start > jobs/NAME/ctl` starts the image's "
			  "entry point"
			: "",
		s->spec.backend == VM_PROCESS ? "'s files, and of a process nothing else"
					      : " as it is",
		s->spec.memory_mb, s->spec.cpus, s->spec.cpus == 1 ? "" : "s",
		seconds(s->timeout_s, "no time limit for").text, when_idle(s),
		seconds(s->idle_timeout_s, "never").text,
		s->fresh ? ",\nand a new sandbox for every run: nothing lasts" : "");
}
