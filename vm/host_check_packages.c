/* SPDX-License-Identifier: Apache-2.0 */
/* What this host has to install packages with, found without installing any; for `doctor`. */
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host_check.h"
#include "vm/base/util.h"
#include "vm/jail/view.h"

/*
 * Virtual machines have packages installed by their image's own program. Those of processes that see
 * this host's programs are installed by the one in PATH, or the image's. Where they come from is what
 * the configuration says, or else what the host's own tools say when they are asked, which is when
 * packages are first installed: here it is only seen whether there is a tool to ask.
 */
static const struct {
	const char *what, *installer, *image, *asked;
	const char *keys;  /* of the configuration that say where from */
	const char *build; /* how to have the installer */
	const char *source;
} kinds[] = {
	[SURVEY_PYTHON] = {"Python's", "uv", "python", "pip3", "python_index, python_hosts",
			   "Build the image, which has it: scripts/images python.",
			   "Install pip (python3-pip), or set python_index or python_hosts in "
			   "[packages]."},
	[SURVEY_NPM] = {"npm's", "bun", "javascript", "npm", "npm_registry",
			"Build the image, which has it: scripts/images javascript.",
			"Install npm, or set npm_registry in [packages]."},
};
static_assert(ARRAY_SIZE(kinds) == SURVEY_NREGISTRIES, "each registry");

static bool in_path(const char *path, const char *program)
{
	char found[PATH_MAX];

	return path && view_find_program_in(path, program, found) == 0;
}

static bool is_set(const char *value)
{
	return value && *value;
}

/* Says of one registry what is there. Return: "", or how to mend what is not. */
static const char *tell_registry(enum survey_registry which, const struct vm_packages *cfg,
				 const char *path, bool image, char *out, size_t size)
{
	const bool host = in_path(path, kinds[which].installer);
	const bool set = which == SURVEY_PYTHON
				 ? is_set(cfg->python_index) || is_set(cfg->python_hosts)
				 : is_set(cfg->npm_registry);
	const bool asked = in_path(path, kinds[which].asked);
	char where[64];
	int n;

	if (host)
		snprintf(where, sizeof(where), "in PATH");
	else
		snprintf(where, sizeof(where), "of image %s", kinds[which].image);
	n = host || image ? snprintf(out, size, "%s by %s %s", kinds[which].what,
				     kinds[which].installer, where)
			  : snprintf(out, size, "%s can't be installed: no %s", kinds[which].what,
				     kinds[which].installer);
	if (is_set(cfg->offline))
		return host || image ? "" : kinds[which].build;
	out += MIN((size_t)n, size - 1);
	size -= MIN((size_t)n, size - 1);
	if (set)
		snprintf(out, size, ", from where [packages] says (%s)", kinds[which].keys);
	else if (asked)
		snprintf(out, size, ", from where this host's %s says", kinds[which].asked);
	else
		snprintf(out, size, ", from where is not known: no %s, and [packages] is silent",
			 kinds[which].asked);
	if (!host && !image)
		return kinds[which].build;
	return set || asked ? "" : kinds[which].source;
}

static bool has_file(const char *dir, const char *name, int mode)
{
	char path[PATH_MAX];

	return is_set(dir) &&
	       snprintf(path, sizeof(path), "%s/%s", dir, name) < (int)sizeof(path) &&
	       access(path, mode) == 0;
}

void survey_packages(const struct vm_packages *cfg, const char *path,
		     const bool image[SURVEY_NREGISTRIES], struct survey *ret)
{
	char words[SURVEY_NREGISTRIES][150];
	const char *fix = "";

	if (!has_file(cfg->dir, "prepare", X_OK) || !has_file(cfg->dir, "install", R_OK)) {
		survey_say(ret, VM_WARN,
			   "Install the whole package, or name the directory: installer in "
			   "[packages].",
			   "none can be installed: no prepare and install in %.200s",
			   cfg->dir ? cfg->dir : "(nowhere)");
		return;
	}
	if (is_set(cfg->offline) && access(cfg->offline, R_OK | X_OK) < 0) {
		survey_say(ret, VM_WARN, "Correct offline in [packages].",
			   "the directory they come from can't be read: %.200s", cfg->offline);
		return;
	}
	for (int i = 0; i < SURVEY_NREGISTRIES; i++) {
		const char *mend = tell_registry((enum survey_registry)i, cfg, path, image[i],
						 words[i], sizeof(words[i]));

		fix = *fix ? fix : mend;
	}
	survey_say(ret, *fix ? VM_WARN : VM_OK, fix, "%s; %s%s%.150s", words[SURVEY_PYTHON],
		   words[SURVEY_NPM], is_set(cfg->offline) ? "; all from " : "",
		   is_set(cfg->offline) ? cfg->offline : "");
}

void survey_layers(const struct survey_layers *l, struct survey *ret)
{
	const unsigned long long mib = l->bytes >> 20, most = l->limit >> 20;
	char limit[48] = "no limit";

	if (l->limit)
		snprintf(limit, sizeof(limit), "at most %llu MiB", most);
	if (l->error)
		survey_say(ret, VM_WARN,
			   "Give the user who mounts the right to write there, or name another "
			   "cache_dir: until then, no packages that are missing are installed.",
			   "%.200s: %s", l->dir, strerror(-l->error));
	else
		survey_say(ret, VM_OK, "", "%u, %s%llu MiB, %s, in %.200s", l->n,
			   l->more ? "more than " : "", mib, limit, l->dir);
}
