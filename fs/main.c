/* SPDX-License-Identifier: Apache-2.0 */
/* xsbxfs: the command line, and what it asks for. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon.h"
#include "fs/config/key_list.h"
#include "fs/tree/ctl.h"
#include "fs/tree/report.h"
#include "takeover.h"
#include "vm/base/log.h"
#include "vm/base/util.h"
#include "vm/spawn/heir_wire.h"
#include "vm/spawn/spawner.h"

/* ---- without a mount ---- */

static int prefetch(struct daemon *d)
{
	const char *name;

	if (prefetch_choose(&d->conf, &name) < 0) {
		fprintf(stderr, "xsbxfs: there is no template \"%s\"\n", name);
		return 2;
	}
	return daemon_run(d);
}

/* One process makes everything ready and says what there is, and the other writes it to the file. */
static int export(struct daemon *d)
{
	char *items[CONF_TEMPLATES_MAX * 3 + 2], line[512];
	int fds[2], status = 0;
	size_t n = 0;
	FILE *in;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		log_error("cannot start: %s", strerror(errno));
		return 1;
	}
	if (pid == 0) {
		close(fds[0]);
		d->prefetch.items = fdopen(fds[1], "w");
		exit(d->prefetch.items ? prefetch(d) : 1);
	}
	close(fds[1]);
	in = fdopen(fds[0], "r");
	while (in && n < ARRAY_SIZE(items) && fgets(line, sizeof(line), in)) {
		line[strcspn(line, "\n")] = '\0';
		items[n] = strdup(line);
		n += items[n] != NULL;
	}
	waitpid(pid, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	return prefetch_export(&d->conf, items, n);
}

static int check(const struct conf *conf)
{
	struct buf out = {0};
	bool failed = false;

	if (report_check(conf, &out, &failed) < 0)
		failed = true;
	log_printable(out.data, out.len, true);
	fwrite(out.data, 1, out.len, stdout);
	buf_clear(&out);
	return failed;
}

/* What there is to be written: keys of the configuration and of sessions, and what `ctl` takes. */
static int list_keys(void)
{
	struct buf out = {0};
	int r = key_list(&out);

	for (enum ctl_verb v = 0; r >= 0 && v < CTL_NVERBS; v++)
		r = buf_printf(&out, "ctl\t%s\t\t\t\n", ctl_verb_str(v));
	if (r >= 0 && fwrite(out.data, 1, out.len, stdout) != out.len)
		r = -EIO;
	buf_clear(&out);
	return r < 0 || fflush(stdout) != 0;
}

/* An heir has the mount's command line, behind a word of its own. */
static bool is_heir(struct daemon *d, int *argc, char **argv)
{
	if (*argc < 2)
		return false;
	revival_init(&d->revival, argv[1]);
	if (!d->revival.revives && strcmp(argv[1], HEIR_OPTION) != 0)
		return false;
	memmove(&argv[1], &argv[2], (size_t)(*argc - 1) * sizeof(*argv));
	(*argc)--;
	return true;
}

/* An heir that can't even read its configuration. That is understood by a spawner of another version as well. */
static void refuse(struct daemon *d, const char *why)
{
	const char *words;

	(void)daemon_meet_spawner(d, &words);
	if (d->spawner)
		spawner_refuse(d->spawner, why);
}

static int configure(struct daemon *d, int argc, char *argv[], char *ret_why, size_t why_size)
{
	const char *words;
	int r;

	if (!d->revival.revives)
		return conf_load(&d->conf, argc, argv, ret_why, why_size);
	/* What there is to be copied may be much, and the spawner is to hear that it gets on. */
	r = daemon_meet_spawner(d, &words);
	if (r < 0) {
		snprintf(ret_why, why_size, "%s", words);
		return r;
	}
	r = revival_open(&d->revival, d->spawner, ret_why, why_size);
	return r < 0 ? r : revival_configure(&d->conf, argc, argv, ret_why, why_size);
}

/* What was found while the configuration was read. */
static void say_notes(struct buf *notes)
{
	const char *line = buf_str(notes);

	for (size_t n; line && *line; line += n + 1) {
		n = strcspn(line, "\n");
		log_warn("%.*s", (int)n, line);
	}
	buf_clear(notes);
}

int main(int argc, char *argv[])
{
	static struct daemon d = {.lock = -1, .parent = -1, .fuse.watch.fd = -1};
	char why[1024];

	d.heir = is_heir(&d, &argc, argv);
	d.argv = argv;
	if (configure(&d, argc, argv, why, sizeof(why)) < 0) {
		log_printable(why, strlen(why), false);
		if (d.heir)
			refuse(&d, why);
		fprintf(stderr, "xsbxfs: %s\n", why);
		return 2;
	}
	log_open(d.conf.debug			   ? LOG_LEVEL_DEBUG
		 : d.conf.log_level != LOG_NLEVELS ? d.conf.log_level
		 : d.conf.action == CONF_MOUNT	   ? LOG_LEVEL_INFO
						   : LOG_LEVEL_WARN);
	log_set_format(d.conf.log_format);
	log_to_journal(log_is_journal(STDERR_FILENO, getenv("JOURNAL_STREAM")));
	say_notes(&d.conf.notes);
	switch (d.conf.action) {
	case CONF_HELP: fputs(conf_usage, stdout); return 0;
	case CONF_VERSION: printf("xsbxfs %s\n", XSBX_VERSION); return 0;
	case CONF_KEYS: return list_keys();
	case CONF_CHECK: return check(&d.conf);
	case CONF_PREFETCH: return prefetch(&d);
	case CONF_EXPORT: return export(&d);
	case CONF_IMPORT: return prefetch_import(&d.conf);
	case CONF_TAKEOVER: return takeover(&d.conf, TAKEOVER_PATIENCE_S);
	case CONF_MOUNT: return daemon_run(&d);
	}
	assert(0);
	return 1;
}
