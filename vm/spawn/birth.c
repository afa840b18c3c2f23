/* SPDX-License-Identifier: Apache-2.0 */
/* A child of the spawner's between its fork and the exec of its program, which takes some
 * milliseconds. */
#include "birth.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hung.h"
#include "vm/jail/source.h"
#include "vm/base/util.h"

/* For the log: a name, and neither its place nor its arguments. */
static const char *program_of(const struct spawn_job *job)
{
	const char *path = job->argv[0] ? job->argv[0] : "a task", *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Can the kernel not say what is there without asking whatever it lies on? */
static bool is_unknown(const char *path)
{
	_cleanup_close_ int fd = jail_source_open_cached(path);

	return fd == -EAGAIN;
}

/* Notes the paths that may be what it waits for. Return: 0 or -ENOMEM. */
static int keep_asked(struct birth *b, const struct jail_spec *spec)
{
	int r = 0;

	for (uint32_t i = 0; i < spec->nmounts && r == 0; i++) {
		const struct jail_mount *m = &spec->mounts[i];

		if ((m->kind == JAIL_RO || m->kind == JAIL_RW) && is_unknown(m->source))
			r = buf_append(&b->asked, m->source, strlen(m->source) + 1);
	}
	return r;
}

/* Those of them that are still not known: what it waits for is one of these. */
static void tell_asked(const struct birth *b, char ret[JAIL_WHAT_MAX])
{
	const char *path;
	size_t len = 0;

	ret[0] = '\0';
	for (size_t at = 0; at < b->asked.len && len < JAIL_WHAT_MAX; at += strlen(path) + 1) {
		path = b->asked.data + at;
		if (is_unknown(path))
			len += (size_t)snprintf(ret + len, JAIL_WHAT_MAX - len, "%s%s",
						len ? " or " : "", path);
	}
	if (!len)
		snprintf(ret, JAIL_WHAT_MAX, "what it shows of the host");
}

/* Return: 0 or -ENOMEM. */
static int keep_jail(struct birth *b, const struct jail_spec *spec)
{
	b->jail = *spec;
	b->jail.nmounts = 0;
	memset(b->jail.mounts, 0, sizeof(b->jail.mounts));
	b->jail.host_name = NULL;
	b->keep = spec->keep ? strdup(spec->keep) : NULL;
	b->jail.keep = b->keep;
	return spec->keep && !b->keep ? -ENOMEM : keep_asked(b, spec);
}

int birth_new(const struct spawn_job *job, int *ret_status, struct birth **ret_birth)
{
	struct birth *b = calloc(1, sizeof(*b));
	int p[2] = {-1, -1}, r;

	if (!b)
		return -ENOMEM;
	b->status = b->pidfd = -1;
	b->what = hung_paths(job);
	b->jailed = job->jail;
	snprintf(b->program, sizeof(b->program), "%s", program_of(job));
	r = job->jail ? keep_jail(b, job->jail) : 0;
	if (r == 0 && pipe2(p, O_CLOEXEC) < 0)
		r = -errno;
	if (r < 0) {
		birth_free(b);
		return r;
	}
	b->status = p[0];
	*ret_status = p[1];
	*ret_birth = b;
	return 0;
}

void birth_free(struct birth *b)
{
	if (!b)
		return;
	if (b->status >= 0)
		close(b->status);
	if (b->pidfd >= 0)
		close(b->pidfd);
	free(b->keep);
	buf_clear(&b->asked);
	free(b);
}

bool birth_asks(const struct birth *b)
{
	return b->asked.len > 0;
}

bool birth_end(const struct birth *b, int given_up, pid_t pid, struct jail_cell *cell,
	       int *ret_kept, struct spawn_error *e)
{
	char asked[JAIL_WHAT_MAX];
	ssize_t n;

	if (given_up < 0) {
		*e = (struct spawn_error){.step = SPAWN_STEP_EXEC, .error = given_up};
		if (b->jailed) {
			e->step = SPAWN_STEP_JAIL;
			tell_asked(b, asked);
			jail_fault_set(&e->fault, JAIL_STEP_SOURCE, given_up, asked);
		}
		return false;
	}
	do
		n = read(b->status, e, sizeof(*e));
	while (n < 0 && errno == EINTR);
	if (n == sizeof(*e))
		return false;
	if (!b->jailed)
		return true;
	e->step = SPAWN_STEP_JAIL;
	e->error = jail_verify(&b->jail, pid, cell, &e->fault);
	if (e->error == 0)
		e->error = jail_keep(&b->jail, pid, ret_kept, &e->fault);
	return e->error == 0;
}
