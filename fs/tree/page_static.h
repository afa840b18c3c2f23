/* SPDX-License-Identifier: Apache-2.0 */
/* What all pages have alike: fs/tree/page/, as it is built into the program. */
#ifndef XSBX_FS_TREE_PAGE_STATIC_H
#define XSBX_FS_TREE_PAGE_STATIC_H

#include <stddef.h>

struct page_static {
	const char *data;
	size_t len;
};

struct page_static page_css(void);
struct page_static page_js(void);

/* A source of a Content-Security-Policy (level 3, 2.3.1): the element that has this for its whole text, and no other. In quotes. */
struct page_hash {
	char text[64];
};

/* Return: 0 or -ENOMEM. */
int page_static_hash(struct page_static part, struct page_hash *ret_hash);

#endif
