/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of HTTP requests in a form in which they can be compared. */
#ifndef XSBX_VM_BASE_HTTP_PATH_H
#define XSBX_VM_BASE_HTTP_PATH_H

#include <stddef.h>

#define HTTP_PATH_MAX 8192 /* bytes of a path, without its query */

/*
 * Servers disagree on what a path means, so there are two readings, and what is judged is judged by both:
 *
 * - `plain`: as RFC 3986 says (6.2.2): unreserved characters decoded, others as %XX in upper case, dot segments removed, and
 *   slashes that stand side by side are one;
 * - `bare`: as the most generous server reads it: everything decoded, again and again until nothing is left to decode; \ is a
 *   slash; what stands behind a ; in a segment is gone; then as above. It has no NUL: a path with one is refused.
 *
 * So /v1/%2e%2e/admin, /v1/..%2fadmin, /v1/..;/admin, /v1/%252e%252e/admin and /v1\..\admin are /admin in at least one of them.
 * The query, from the first ?, is part of neither.
 */
struct http_path {
	char plain[HTTP_PATH_MAX + 1], bare[HTTP_PATH_MAX + 1];
};

/**
 * http_path_read() - Read the path of a request
 * @target: Its target, in origin form: begins with a slash; or "*"
 * @len: Its length
 * @ret_path: Both readings
 *
 * Return: 0; -EINVAL if it is neither, has a NUL, a control character, a blank or a % without two digits; -ENAMETOOLONG.
 */
int http_path_read(const char *target, size_t len, struct http_path *ret_path);

#endif
