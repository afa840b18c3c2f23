/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to a collector, one at a time: OTLP over HTTP, as JSON. */
#ifndef XSBX_VM_TRACE_SENDER_H
#define XSBX_VM_TRACE_SENDER_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#include "vm/base/buf.h"

enum sender_end {
	SENDER_BUSY, /* it is under way */
	SENDER_DONE,
	SENDER_LATER,	/* the collector is away, or has no time: the same again later */
	SENDER_REFUSED, /* it does not want this one */
};

struct sender {
	CURLM *multi;
	CURL *easy; /* NULL: nothing is under way */
	struct curl_slist *headers;
	char url[2048];
	struct buf body;
	size_t received;
	char why[CURL_ERROR_SIZE + 64];
};

/* @url: of the collector; its path for traces is added, if it has none. Return: false: that is no address, or there is no memory. */
bool sender_init(struct sender *s, const char *url);
void sender_fini(struct sender *s);

/* Begins with what is in `body`. Return: false: out of memory. */
bool sender_begin(struct sender *s);

/* Goes on; waits for at most @ms, or until @fd can be read. Return: what has become of the request; BUSY also if there is none. */
enum sender_end sender_wait(struct sender *s, int fd, int ms);

#endif
