/* SPDX-License-Identifier: Apache-2.0 */
/* What a job executes: arguments, environment, directory. */
#include "program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/code.h"
#include "agent/core/guest_env.h"
#include "agent/core/spawn.h"
#include "agent/core/util.h"

#define ROOT_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Where a program finds its code: nobody can change it, and no other name leads to it. */
#define CODE_PATH "/proc/self/fd/" SPAWN_CTL_WORD

static size_t count_words(struct proto_str s)
{
	size_t n = 0;

	for (uint32_t i = 0; i < s.len; i++)
		n += !s.data[i];
	return n;
}

/* Does the kernel know what to do with it? */
static bool is_executable(struct proto_str code)
{
	return (code.len >= 2 && memcmp(code.data, "#!", 2) == 0) ||
	       (code.len >= 4 && memcmp(code.data, "\177ELF", 4) == 0);
}

/* The program for the code; or NULL. Options that keep an interpreter from obeying files in the working directory are
 * the session's: a job is a program of the user's, started as he would. */
static const char *interpreter_of(const struct guest_env *env, const struct proto_job *req)
{
	if (req->language.len)
		return interp_program(env, req->language);
	return is_executable(req->code) ? CODE_PATH : "bash";
}

static int make_argv(const struct guest_env *env, const struct proto_job *req, struct program *p)
{
	const size_t n = count_words(req->argv);
	const char *word = req->argv.data;
	size_t at = 0;

	p->argv = calloc(n + 3, sizeof(*p->argv));
	if (!p->argv)
		return -ENOMEM;
	for (; at < n; at++, word += strlen(word) + 1)
		p->argv[at] = word;
	if (n)
		return *p->argv[0] ? 0 : -EINVAL;
	p->argv[0] = interpreter_of(env, req);
	if (p->argv[0] && strcmp(p->argv[0], CODE_PATH) != 0)
		p->argv[1] = CODE_PATH;
	return p->argv[0] ? 0 : -EINVAL;
}

/* Puts NAME=VALUE into @envp, in place of another one of that name. Takes @entry. */
static void put_variable(char **envp, char *entry)
{
	const size_t name = strcspn(entry, "=") + 1;
	size_t n = 0;

	while (envp[n] && strncmp(envp[n], entry, name) != 0)
		n++;
	free(envp[n]);
	envp[n] = entry;
}

/* Those that its terminal and its user have. Return: how many. */
static size_t extra_variables(const struct proto_job *req, const char *ret_extra[5])
{
	static const char *const of_root[] = {"HOME=/root", "USER=root", "LOGNAME=root", ROOT_PATH};
	size_t n = 0;

	if (req->flags & PROTO_JOB_TTY)
		ret_extra[n++] = "TERM=xterm-256color";
	for (size_t i = 0; (req->flags & PROTO_JOB_ROOT) && i < ARRAY_SIZE(of_root); i++)
		ret_extra[n++] = of_root[i];
	return n;
}

/* As the session's; what its interpreter is to find under another name (see interp_configure()) has its own. */
static int make_envp(const struct interp_config *config, const struct proto_job *req,
		     struct program *p)
{
	const size_t more = count_words(req->env);
	const char *extra[5], *word = req->env.data;
	const size_t nextra = extra_variables(req, extra);
	size_t n = 0;

	while (config->envp[n])
		n++;
	p->envp = calloc(n + more + nextra + 2, sizeof(*p->envp));
	if (!p->envp)
		return -ENOMEM;
	for (size_t i = 0; i < n + nextra + more; i++) {
		const char *from = i < n ? config->envp[i] : i < n + nextra ? extra[i - n] : word;
		char *entry = strdup(strncmp(from, "XSBX_PYTHON", 11) == 0 ? from + 5 : from);

		if (!entry)
			return -ENOMEM;
		put_variable(p->envp, entry);
		if (i >= n + nextra)
			word += strlen(word) + 1;
	}
	return 0;
}

static int make_cwd(const struct guest_env *env, struct proto_str cwd, struct program *p)
{
	char *pwd;

	if (!cwd.len)
		return 0;
	if (asprintf(&p->cwd, "%s%s%.*s", cwd.data[0] == '/' ? "" : env->work,
		     cwd.data[0] == '/' ? "" : "/", (int)cwd.len, cwd.data) < 0) {
		p->cwd = NULL;
		return -ENOMEM;
	}
	if (asprintf(&pwd, "PWD=%s", p->cwd) < 0)
		return -ENOMEM;
	put_variable(p->envp, pwd);
	return 0;
}

static int make_code(struct proto_str code, struct program *p)
{
	if (!code.len)
		return 0;
	p->code = code_new();
	return p->code < 0 ? -errno : code_seal(p->code, code);
}

int program_make(const struct guest_env *env, const struct interp_config *config,
		 const struct proto_job *req, struct program *ret_p)
{
	int r;

	*ret_p = (struct program){.code = -1};
	if (config->language < 0)
		return -EINVAL;
	r = make_argv(env, req, ret_p);
	if (r == 0)
		r = make_envp(config, req, ret_p);
	if (r == 0)
		r = make_cwd(env, req->cwd, ret_p);
	return r == 0 ? make_code(req->code, ret_p) : r;
}

void program_fini(struct program *p)
{
	for (size_t n = 0; p->envp && p->envp[n]; n++)
		free(p->envp[n]);
	free(p->envp);
	free(p->argv);
	free(p->cwd);
	close_fd(&p->code);
}
