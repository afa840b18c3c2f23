/* SPDX-License-Identifier: Apache-2.0 */
/* What something saved lacks to be all that there was, in words. */
#ifndef XSBX_FS_SESSION_FLAWS_H
#define XSBX_FS_SESSION_FLAWS_H

struct saved;

struct flaws {
	char text[320]; /* "" if there are none */
};

/* What is not in the files of @saved, which may be NULL, as it was in the sandbox: for who looks at them. */
struct flaws flaws_of_files(const struct saved *saved);

/* Likewise, what a sandbox lacks that began with these files alone. FIFOs are made again. */
struct flaws flaws_of_wake(const struct saved *saved);

#endif
