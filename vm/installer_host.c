/* SPDX-License-Identifier: Apache-2.0 */
/* What an installation takes of this host, found out by a program of the user's. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>

#include "installer_internal.h"
#include "vm_internal.h"

#define FACTS_ENV 32

/* Keeps a fact. Return: false if the line is none, but words. */
bool installer_fact(struct installer *in, const char *line)
{
	const struct {
		const char *name;
		char *to;
		size_t size;
	} facts[] = {
		{"tree ", in->tree, sizeof(in->tree)},
		{"tool ", in->tool, sizeof(in->tool)},
		{"index ", in->index, sizeof(in->index)},
	};

	for (size_t i = 0; i < ARRAY_SIZE(facts); i++) {
		const size_t len = strlen(facts[i].name);

		if (strncmp(line, facts[i].name, len) != 0)
			continue;
		snprintf(facts[i].to, facts[i].size, "%s", line + len);
		return true;
	}
	if (strncmp(line, "host ", 5) == 0) {
		const size_t len = strlen(in->hosts);

		snprintf(in->hosts + len, sizeof(in->hosts) - len, "%s\n", line + 5);
		return true;
	}
	return false;
}

static void on_words(struct reader *r, const void *bytes, size_t len)
{
	installer_words(r->data, bytes, len);
}

/* The program is gone, and has said all it had to say. */
static void over(struct installer *in)
{
	char quote[600];

	if (--in->nopen)
		return;
	if (in->failed)
		installer_give_up(in, "", "%.300s/prepare was not started: %s", in->cfg.dir,
				  strerror(-in->failed));
	else if (in->vm->closing)
		installer_give_up(in, "", "xsbxfs is ending");
	else if (!WIFEXITED(in->status) || WEXITSTATUS(in->status))
		installer_give_up(in, "Mend what it says, and reset the session to try again.",
				  "packages can't be installed on this host: %s",
				  tail_quote(&in->said, "error: ", quote, sizeof(quote)));
	else
		installer_prepared(in);
}

static void on_words_closed(struct reader *r)
{
	over(r->data);
}

static void child_over(struct installer *in)
{
	if (in->words.open && !in->failed)
		reader_drain(&in->words);
	reader_close(&in->words);
	over(in);
}

static void on_failed(struct child *c, int err, const char *step)
{
	struct installer *in = c->data;

	(void)step;
	in->failed = err;
	child_over(in);
}

static void on_exited(struct child *c, int status)
{
	struct installer *in = c->data;

	in->status = status;
	child_over(in);
}

/* What the program may know of the daemon's environment, and what the configuration says. */
static void list_env(const struct vm_packages *cfg, char text[][1200], const char *envp[FACTS_ENV])
{
	static const char *const names[] = {"HOME", "PATH", "USER", "LOGNAME", "PIP_INDEX_URL"};
	const struct {
		const char *name, *value;
	} own[] = {
		{"XSBXFS_PYTHON_INDEX", cfg->python_index},
		{"XSBXFS_PYTHON_HOSTS", cfg->python_hosts},
		{"XSBXFS_NPM_REGISTRY", cfg->npm_registry},
		{"XSBXFS_NPM_HOSTS", cfg->npm_hosts},
		{"XSBXFS_OFFLINE", cfg->offline},
	};
	size_t n = 1; /* the first is the cache's */

	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		if (!own[i].value)
			continue;
		snprintf(text[i], sizeof(text[i]), "%s=%.1100s", own[i].name, own[i].value);
		envp[n++] = text[i];
	}
	for (char **e = environ; *e; e++) {
		for (size_t i = 0; i < ARRAY_SIZE(names) && n + 1 < FACTS_ENV; i++) {
			const size_t len = strlen(names[i]);

			if (strncmp(*e, names[i], len) == 0 && (*e)[len] == '=')
				envp[n++] = *e;
		}
	}
	envp[n] = NULL;
}

int installer_prepare(struct installer *in)
{
	const struct layer_need *need = &in->current->need;
	_cleanup_free_ char *program = NULL, *cache = NULL;
	_cleanup_close_ int ours = -1, theirs = -1;
	const char *envp[FACTS_ENV];
	char text[5][1200];
	int p[2], r;

	if (asprintf(&program, "%s/prepare", in->cfg.dir) < 0)
		program = NULL;
	if (asprintf(&cache, "XSBXFS_CACHE=%s", in->vm->cache_dir) < 0)
		cache = NULL;
	if (!program || !cache)
		return -ENOMEM;
	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	ours = p[0];
	theirs = p[1];
	envp[0] = cache;
	list_env(&in->cfg, text, envp);
	in->status = in->failed = 0;
	in->child = (struct child){.failed = on_failed, .exited = on_exited, .data = in};
	in->words = (struct reader){.bytes = on_words, .closed = on_words_closed, .data = in};

	const char *const argv[] = {program, need->language, need->host ? "host" : "image",
				    need->host ? "" : need->image, NULL};
	const struct spawn_fd fds[] = {{theirs, STDOUT_FILENO}, {theirs, STDERR_FILENO}};
	const struct spawn_spec spec = {argv, envp, fds, ARRAY_SIZE(fds),
					SPAWN_OOM_FIRST | SPAWN_TOOL};

	r = child_start(in->vm->spawner, &spec, &in->child);
	if (r < 0)
		return r;
	in->nopen = 1;
	if (reader_open(&in->words, in->vm->loop, steal_fd(&ours)) == 0)
		in->nopen++;
	return 0;
}
