/* SPDX-License-Identifier: Apache-2.0 */
/* What an heir has from the daemon before it: an estate, and the descriptors that it speaks of. */
#ifndef XSBX_FS_BEQUEST_H
#define XSBX_FS_BEQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/base/fdbag.h"
#include "vm/base/problem.h"

struct estate;
struct spawner;
struct succession;
struct turn;

/*
 * It is one way for both kinds of heirs: of a daemon that serves (succession.h), and of one that has
 * died (revival.h). The estate is a copy, in a file of the heir's own, which it goes on with.
 *
 * Embedded by its owner, zeroed but for `s`. bequest_fini() frees all but the estate.
 */
struct bequest {
	struct succession *s; /* with all that is needed of a daemon that is about to serve */
	struct estate *estate;
	struct fdbag fds;
	struct problem why; /* it can't be read */
	uint32_t kind;	    /* of the record that was read last */
	size_t n;	    /* records */
};

/* Makes what is copied to: where there is a daemon that serves, before anybody waits. @resumes: it
 * is going to be gone on with. Return: 0 or -errno. */
int bequest_prepare(struct bequest *b, bool resumes);

/* Copies the estate @file, which is taken; @sp is told that this gets on. Return: 0 or -errno. */
int bequest_open(struct bequest *b, int file, struct spawner *sp);

/* For lent_inherit() and lent_adopt(): @data is a struct bequest. */
int bequest_take(void *data, unsigned number, int fd);

/* Reads all of it, believing nothing. @t: on, if it is gone on with. Return: 0, or -errno with a
 * reason. */
int bequest_read(struct bequest *b, struct turn *t);

/* What no record has named is closed. */
void bequest_fini(struct bequest *b);

#endif
