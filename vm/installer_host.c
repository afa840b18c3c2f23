/* SPDX-License-Identifier: Apache-2.0 */
/* What an installation takes of this host, found out by a program of the user's. */
#include <errno.h>
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

/* The program is gone, and has said all it had to say. */
static void on_over(struct tool *t)
{
	struct installer *in = t->data;
	char quote[600];

	if (t->failed)
		installer_give_up(in, "", "%.300s/prepare was not started: %s", in->cfg.dir,
				  strerror(-t->failed));
	else if (in->vm->closing)
		installer_give_up(in, "", "xsbxfs is ending");
	else if (!WIFEXITED(t->status) || WEXITSTATUS(t->status))
		installer_give_up(in, "Mend what it says, and reset the session to try again.",
				  "packages can't be installed on this host: %s",
				  tail_quote(&in->words.said, "error: ", quote, sizeof(quote)));
	else
		installer_prepared(in);
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
	tool_env(names, ARRAY_SIZE(names), envp, n, FACTS_ENV);
}

int installer_prepare(struct installer *in)
{
	const struct layer_need *need = &in->current->need;
	_cleanup_free_ char *program = NULL, *cache = NULL;
	const char *envp[FACTS_ENV];
	char text[5][1200];

	if (asprintf(&program, "%s/prepare", in->cfg.dir) < 0)
		program = NULL;
	if (asprintf(&cache, "XSBXFS_CACHE=%s", in->vm->cache_dir) < 0)
		cache = NULL;
	if (!program || !cache)
		return -ENOMEM;
	envp[0] = cache;
	list_env(&in->cfg, text, envp);

	const char *const argv[] = {program, need->language, need->host ? "host" : "image",
				    need->host ? "" : need->image, NULL};

	in->prepare = (struct tool){.words = &in->words, .over = on_over, .data = in};
	return tool_start(&in->prepare, in->vm->loop, in->vm->spawner, argv, envp,
			  SPAWN_OOM_FIRST | SPAWN_TOOL);
}
