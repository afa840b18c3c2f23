/* SPDX-License-Identifier: Apache-2.0 */
/* Links: numbered records. See link.h. */
#include "link.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "protocol.h"

static uint32_t after(uint32_t number)
{
	return number == UINT32_MAX ? 1 : number + 1;
}

/* Is @number not behind @last? Numbers go round, so that is what lies less than half of a round before it. */
static bool is_up_to(uint32_t number, uint32_t last)
{
	return last - number < UINT32_MAX / 2;
}

static bool is_old(const struct link_in *l, uint32_t number)
{
	return l->begun && number && is_up_to(number, l->number);
}

/* A header is whole. Return: 0 or -EPROTO. */
static int begin(struct link_in *l)
{
	struct proto_in in = {l->head, l->head + sizeof(l->head), false};
	const uint32_t len = get_u32(&in), number = get_u32(&in);

	if (len == 0 || len > LINK_DATA_MAX)
		return -EPROTO;
	l->twice = is_old(l, number);
	if (!l->twice && l->begun && number && number != after(l->number))
		return -EPROTO;
	if (!l->twice)
		l->number = number;
	l->begun = true;
	l->left = len;
	l->nhead = 0;
	return 0;
}

ssize_t link_take(struct link_in *l, uint8_t *bytes, size_t len)
{
	size_t from = 0, to = 0;

	while (from < len) {
		size_t n = len - from;

		if (!l->left) {
			n = n < LINK_HEADER - l->nhead ? n : LINK_HEADER - l->nhead;
			memcpy(l->head + l->nhead, bytes + from, n);
			l->nhead += (uint32_t)n;
			from += n;
			if (l->nhead == LINK_HEADER && begin(l) < 0)
				return -EPROTO;
			continue;
		}
		n = n < l->left ? n : l->left;
		if (!l->twice) {
			memmove(bytes + to, bytes + from, n);
			to += n;
		}
		from += n;
		l->left -= (uint32_t)n;
	}
	return (ssize_t)to;
}

void link_cut(struct link_in *l)
{
	l->left = l->nhead = 0;
}

void link_head(struct link_out *l, size_t len, uint8_t ret_head[LINK_HEADER])
{
	struct proto_out o = {ret_head, 0, LINK_HEADER, false};

	assert(len && len <= LINK_DATA_MAX);
	put_u32(&o, (uint32_t)len);
	put_u32(&o, l->next);
	l->next = after(l->next);
}

bool link_has_sent(const struct link_out *l, uint32_t number)
{
	return l->next != number && is_up_to(number, l->next);
}
