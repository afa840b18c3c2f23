/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the configuration: texts that are read as files, in a directory of their own. */
#ifndef XSBX_CONF_BED_H
#define XSBX_CONF_BED_H

#include <stdio.h>

#include "fs/conf_internal.h"

extern char why[2048];
extern char dir[64];  /* the current directory of the tests, and their home */
extern FILE *example; /* man/xsbxfs.conf.example, or NULL if it was not there */

/* Reads bytes as a file; a text, and settles it. Return: what the module does; @c is to be cleared. */
int read_text_len(struct conf *c, const char *text, size_t len);
int read_text(struct conf *c, const char *text);

void assert_says(const char *words);

/* A text is not taken, and the reason has these words. */
void assert_refused(const char *text, const char *words);

void write_file(const char *path, const char *text);

/* For a group: a home with "mnt", "link" to it, "file", and ".config". */
int conf_bed_setup(void **state);
int conf_bed_teardown(void **state);

#endif
