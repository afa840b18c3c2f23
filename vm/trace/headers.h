/* SPDX-License-Identifier: Apache-2.0 */
/* Headers for a collector, which may hold a key: KEY=VALUE,... as OpenTelemetry has them. */
#ifndef XSBX_VM_TRACE_HEADERS_H
#define XSBX_VM_TRACE_HEADERS_H

#include <curl/curl.h>
#include <stddef.h>

/**
 * headers_add() - Read headers
 * @list: Headers, as curl has them; more are added
 * @text: KEY=VALUE, with commas between; blanks around each do not count, and values may have %XX
 * @ret_wrong: How many were left out, which are none, or which this program sends itself
 *
 * Return: number of the first that was left out, from 1; or 0.
 */
size_t headers_add(struct curl_slist **list, const char *text, size_t *ret_wrong);

#endif
