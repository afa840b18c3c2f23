/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that were not answered at once. See unanswered.h. */
#include "unanswered.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COPIED 16384u /* bytes that are rather copied */

void unanswered_init(struct unanswered *u, size_t size)
{
	*u = (struct unanswered){.size = size};
	TAILQ_INIT(&u->list);
}

static void request_free(struct unanswered *u, struct unanswered_request *r)
{
	if (r->len > COPIED && u->nspare < UNANSWERED_SPARE)
		u->spare[u->nspare++] = r->data;
	else
		free(r->data);
	free(r);
}

static void take_out(struct unanswered *u, struct unanswered_request *r)
{
	TAILQ_REMOVE(&u->list, r, link);
	LIST_REMOVE(r, near);
	u->n--;
	request_free(u, r);
}

void unanswered_fini(struct unanswered *u)
{
	struct unanswered_request *r;

	while ((r = TAILQ_FIRST(&u->list)))
		take_out(u, r);
	while (u->nspare)
		free(u->spare[--u->nspare]);
}

/* Kernels count them in steps of two. */
static unsigned bucket_of(uint64_t unique)
{
	return (unsigned)(unique / 2 % UNANSWERED_BUCKETS);
}

/* Return: its bytes, for ever; or NULL. */
static char *keep_bytes(struct unanswered *u, char **buffer, size_t len)
{
	char *data = len > COPIED ? *buffer : malloc(len);

	if (len <= COPIED && data)
		memcpy(data, *buffer, len);
	if (len > COPIED)
		*buffer = u->nspare ? u->spare[--u->nspare] : malloc(u->size);
	return data;
}

int unanswered_add(struct unanswered *u, uint64_t unique, char **buffer, size_t len)
{
	struct unanswered_request *r = malloc(sizeof(*r));
	char *data = r ? keep_bytes(u, buffer, len) : NULL;

	if (!data) {
		free(r);
		u->lost = true;
		return 0;
	}
	*r = (struct unanswered_request){.unique = unique, .len = len, .data = data};
	TAILQ_INSERT_TAIL(&u->list, r, link);
	LIST_INSERT_HEAD(&u->bucket[bucket_of(unique)], r, near);
	u->n++;
	return *buffer ? 0 : -ENOMEM;
}

void unanswered_drop(struct unanswered *u, uint64_t unique)
{
	struct unanswered_request *r;

	LIST_FOREACH(r, &u->bucket[bucket_of(unique)], near) {
		if (r->unique == unique) {
			take_out(u, r);
			return;
		}
	}
}
