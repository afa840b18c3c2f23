/* SPDX-License-Identifier: Apache-2.0 */
/* Inode numbers as the host is told them: those that the files had where they were packed. */
#ifndef XSBX_AGENT_FILES_NUMBER_H
#define XSBX_AGENT_FILES_NUMBER_H

#include <stdint.h>
#include <sys/types.h>

#include "inodes.h"

/*
 * Programs take two files for one if their numbers are the same, and one for two if they are not: cp(1), tar(1) and rm(1) remember
 * them while they walk through a tree, and that may be when a session wakes. What was unpacked are new files, so their numbers are
 * translated to those of the files that they were. All others get numbers of a generation of their own, which no file had
 * before.
 */
struct numbers {
	struct inodes shown;
	uint64_t generation; /* above that of all in the table; 0: nothing was unpacked */
};

/* Return: what is told of the file with the number @own. */
uint64_t number_of(const struct numbers *ns, ino_t own);

/* The file with the number @own is the one that was told as @shown, which is not 0. Return: 0 or -ENOMEM. */
int number_set(struct numbers *ns, ino_t own, uint64_t shown);

/* There are no such files any more; what comes is of a later generation. */
void numbers_clear(struct numbers *ns);

#endif
