/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches the value of a secret, and hands it on without anybody else seeing it. A task of the spawner's. */
#ifndef XSBX_VM_TASK_SECRET_SOURCE_H
#define XSBX_VM_TASK_SECRET_SOURCE_H

#include <stddef.h>
#include <sys/types.h>

struct vm_secret;

/* Its descriptors. */
enum secret_source_fd {
	/* A file in memory: the owner's file of secrets, or nothing, and the places where the value is to go, HOST:PORT with blanks
	 * between them; each with its zero. */
	SECRET_SOURCE_REQUEST,
	SECRET_SOURCE_VALUE, /* a pipe to the network's filter */
	/* To the daemon: `refresh SECONDS` (0: never), `said TEXT` of a command, `failed TEXT`, each a line. */
	SECRET_SOURCE_WORDS,
};

#define SECRET_SOURCE_REQUEST_MAX 65536
#define SECRET_SOURCE_MS	  10000 /* for a command */

struct secret_source {
	const char *name;
	const struct vm_secret *
		secret; /* the administrator's, if there is one for this owner; the owner's own comes first */
	char *value; /* that of a variable, wiped once the child is there; NULL: it was not set */
	uid_t owner;
	gid_t group; /* of the session */
	uid_t mounter;
	const char *const *envp; /* for commands */
	/* Where sandboxes and the daemon can write: an owner's file is not there. Ends with NULL. */
	const char *const *written;
};

__attribute__((noreturn)) void secret_source_serve(const struct secret_source *what);

#endif
