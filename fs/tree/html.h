/* SPDX-License-Identifier: Apache-2.0 */
/* Text of HTML, from bytes that nobody trusts. */
#ifndef XSBX_FS_TREE_HTML_H
#define XSBX_FS_TREE_HTML_H

#include <stdbool.h>
#include <stddef.h>

struct buf;

#define HTML_WORST \
	5u /* so many bytes become of one, at most; and some more of a text that is cut */

/**
 * html_bytes() - Append bytes as text
 * @out: Page, or an attribute of it in double quotes
 * @data: Any bytes: what a sandbox has printed, what a user has called something
 * @len: How many
 * @max: Bytes that are shown of these at most; "…" stands for the rest
 * @lines: Line feeds and tabs stay what they are
 *
 * What is shown can't end the text or the attribute that it is in (`&`, `<`, `>` and both quotes are character references, HTML
 * Living Standard, 13.1.4), and can't be mistaken for something else: what is no UTF-8 becomes U+FFFD; a control character its
 * picture (U+2400 to U+2421); and what is not seen, or changes the order in which the rest is seen (bidirectional controls, Unicode
 * Standard Annex 9), its number, `[U+202E]`.
 */
void html_bytes(struct buf *out, const void *data, size_t len, size_t max, bool lines);

/* The same of a string in one line. @text: or NULL, of which nothing is shown */
void html_text(struct buf *out, const char *text, size_t max);

/* The end of @data, likewise: from the beginning of a line on, where there is one among these bytes. */
void html_tail(struct buf *out, const void *data, size_t len, size_t max);

#endif
