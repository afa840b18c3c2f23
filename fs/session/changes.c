/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions on a copy of a host directory: what was changed there, and what of it was reviewed. */
#include "changes.h"

#include <string.h>

#include "session.h"
#include "touch.h"

void changes_drop(struct session *s)
{
	touch_rest(s);
	workdir_free(s->changes.work);
	s->changes.work = NULL;
	s->changes.epoch++;
	s->changes.is_reviewed = s->changes.is_asked = false;
	buf_clear(&s->changes.reviewed);
	buf_clear(&s->changes.asked);
}

void changes_begin(struct session *s)
{
	changes_drop(s);
	if (s->settings.spec.work)
		s->changes.work = workdir_of(s->sandbox);
}

int changes_remember(struct session *s, unsigned epoch, const struct vm_changes *c)
{
	struct changes *mine = &s->changes;

	if (epoch != mine->epoch)
		return 0;
	touch_rest(s);
	buf_clear(&mine->reviewed);
	mine->is_reviewed = true;
	return buf_append(&mine->reviewed, c->text, c->len);
}

/* The line at @at of @len bytes, without its end. Return: where the next one begins. */
size_t changes_line(const char *text, size_t len, size_t at, size_t *ret_len)
{
	const char *end = memchr(text + at, '\n', len - at);

	*ret_len = end ? (size_t)(end - text) - at : len - at;
	return at + *ret_len + (end != NULL);
}
