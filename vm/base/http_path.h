/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of HTTP requests in a form in which they can be compared, and patterns for them. */
#ifndef XSBX_VM_BASE_HTTP_PATH_H
#define XSBX_VM_BASE_HTTP_PATH_H

#include <stdbool.h>
#include <stddef.h>

#define HTTP_PATH_MAX 8192 /* bytes of a path, without its query */

/*
 * Servers disagree on what a path means, so there are two readings, and what is judged is judged by both:
 *
 * - `plain`: as RFC 3986 says (6.2.2): unreserved characters decoded, all others but the slash as %XX in upper case, dot segments
 *   removed, and slashes that stand side by side are one;
 * - `bare`: as the most generous server reads it: everything decoded, again and again until nothing is left to decode; \ is a
 *   slash; what stands behind a ; in a segment is gone, and so are dots and blanks at its end; then as above.
 *
 * What a dot segment takes away depends on what the segments before it are, of which there are more than two readings. So a path
 * with dot segments must be the same to all: /v1/%2e%2e/admin is /admin; but /v1/..%2fadmin, /v1/..;/admin, /v1/%252e%252e/admin,
 * /v1/..\admin and /v1//../admin are refused. So is what begins with two slashes: //v1/admin is /admin to a server that reads it as a
 * URL without a scheme, as programs for Node.js do.
 *
 * The query, from the first ?, is part of neither.
 */
struct http_path {
	char plain[HTTP_PATH_MAX + 1], bare[HTTP_PATH_MAX + 1];
};

/**
 * http_path_read() - Read the path of a request
 * @target: Its target, in origin form: begins with a slash; or "*"
 * @len: Its length
 * @ret_path: Both readings. Undefined on failure
 *
 * Return: 0; -EINVAL if it is neither, has a control character, a blank, a # or a % without two digits, or a control character
 * in any decoding; -EILSEQ if servers differ on where it leads: it hides dot segments, a host, or characters in overlong UTF-8;
 * -ENAMETOOLONG.
 */
int http_path_read(const char *target, size_t len, struct http_path *ret_path);

#define HTTP_PATTERN_MAX	     2048

/* A pattern for paths, in both readings: any number of HTTP_PATTERN_ANY, which stands for any characters, slashes too. */
#define HTTP_PATTERN_ANY	     '\1'

/* What http_pattern_parse() writes at most, for a pattern of @len bytes. */
#define HTTP_PATTERN_PLAIN_SIZE(len) (3 * (len) + 1)
#define HTTP_PATTERN_BARE_SIZE(len)  ((len) + 1)

/**
 * http_pattern_parse() - Read a pattern: a path with * for any characters, and %2A for a *
 * @text: Begins with a slash; need not be terminated
 * @len: Length in bytes, at most HTTP_PATTERN_MAX
 * @ret_plain: The pattern for plain readings
 * @ret_bare: The pattern for bare readings
 *
 * Return: what is wrong with it, or NULL. A pattern has nothing on which servers differ, other than %2F.
 */
const char *http_pattern_parse(const char *text, size_t len, char *ret_plain, char *ret_bare);

/**
 * http_pattern_fits() - Does a path fit a pattern?
 * @pattern: Of the same reading as @path
 * @path: Path
 * @any_case: Letters of either case are the same
 *
 * Takes time in proportion to the length of both, whatever they are.
 */
bool http_pattern_fits(const char *pattern, const char *path, bool any_case);

#endif
