/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc/stat says in a jail. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "vm/base/util.h"

/*
 * The host's tells, a hundred times a second, how busy each processor is, and with what. Programs read it
 * for how many there are, and for when the host was started, by which they reckon when processes were.
 * So it has these two, and of everything else nothing has ever happened.
 */

#define ZEROS " 0 0 0 0 0 0 0 0 0 0\n"

/* Keeps "cpu3" of its line, and "btime 1700000000". */
static void copy_line(FILE *out, const char *line)
{
	if (strncmp(line, "cpu", 3) == 0)
		fprintf(out, "%.*s" ZEROS, (int)strcspn(line, " \n"), line);
	else if (strncmp(line, "btime ", 6) == 0)
		fputs(line, out);
}

static void write_text(FILE *out)
{
	_cleanup_file_ FILE *in = fopen("/proc/stat", "re");
	_cleanup_free_ char *line = NULL;
	size_t room = 0;

	while (in && getline(&line, &room, in) >= 0)
		copy_line(out, line);
	fputs("intr 0\nctxt 0\nprocesses 0\nprocs_running 1\nprocs_blocked 0\nsoftirq" ZEROS, out);
}

static char *make(void)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	bool good;

	if (!out)
		return NULL;
	write_text(out);
	good = !ferror(out);
	if (fclose(out) == 0 && good)
		return text;
	free(text);
	return NULL;
}

const char *jail_stat_text(void)
{
	static char *text;

	if (!text)
		text = make();
	return text;
}
