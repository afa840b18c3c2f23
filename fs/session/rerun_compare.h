/* SPDX-License-Identifier: Apache-2.0 */
/* Two runs compared, byte for byte, in another thread. Part of rerun.h. */
#ifndef XSBX_FS_SESSION_RERUN_COMPARE_H
#define XSBX_FS_SESSION_RERUN_COMPARE_H

#include <stdbool.h>

#include "vm/base/buf.h"

struct fs;
struct pack;
struct run;

enum compare_verdict { COMPARE_SAME, COMPARE_NO_FILES, COMPARE_DIFFERS, COMPARE_FAILED };

/**
 * compare_new() - Begin to compare
 * @fs: The mount, of which both are; `comparing` there counts what is under way
 * @one: The run
 * @other: Its replay; both have ended
 * @files: References to the files behind each, which are taken over; or NULL
 * @no_files: Why there are none, if there are not
 * @done: Called from the loop; @text: lines
 *
 * Return: 0 or -errno; the references are dropped then.
 */
int compare_new(struct fs *fs, const struct run *one, const struct run *other,
		struct pack *files[2], const char *no_files,
		void (*done)(void *data, enum compare_verdict verdict, const struct buf *text),
		void *data);

#endif
