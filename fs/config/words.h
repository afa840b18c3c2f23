/* SPDX-License-Identifier: Apache-2.0 */
/* Words of a command, quoted as a shell would; nothing is expanded. */
#ifndef XSBX_FS_CONFIG_WORDS_H
#define XSBX_FS_CONFIG_WORDS_H

#include <stddef.h>

#include "vm/base/buf.h"

struct problem;

/**
 * words_parse() - Parse the words of a line
 * @text: Text, without NUL bytes; a line goes on behind a newline that is quoted
 * @len: How many bytes
 * @out: Each word is appended, with a NUL behind it
 * @ret_len: How much of the text the line took, without its newline
 * @ret_why: Filled in if it fails
 *
 * Quoting is that of sh(1), POSIX.1-2017 XCU 2.2: '...', "..." with a backslash in front of $ ` " \
 * and newline, and a backslash in front of any character. What a shell would expand or obey, and is
 * not quoted, is refused: no shell is here.
 *
 * Return: 0, -EINVAL, -ENOMEM, -EFBIG past the limit of @out; @out may have got words in any case.
 */
int words_parse(const char *text, size_t len, struct buf *out, size_t *ret_len,
		struct problem *ret_why);

/* Appends @words, with a NUL behind each, so that words_parse() finds the same ones. Return: as
 * buf_append(). */
int words_print(const char *words, size_t len, struct buf *out);

/* Appends a word in single quotes. Return: likewise. */
int words_quote(const char *word, struct buf *out);

#endif
