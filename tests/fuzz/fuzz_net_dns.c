/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes queries, and reads the answers to them. */
/* modules: vm/net/filter/dns.c vm/base/allow.c */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "vm/net/filter/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t out[DNS_MESSAGE_MAX];
	char name[ALLOW_NAME_MAX + 1];
	struct dns_query q;
	const int r = dns_parse(data, size, &q);
	size_t n;

	if (r == -EBADMSG)
		return 0;
	if (r < 0) {
		assert(dns_answer(&q, DNS_FORMERR, 0, 0, out) == DNS_HEADER);
		return 0;
	}
	assert(strlen(q.name) > 0 && strlen(q.name) <= ALLOW_NAME_MAX);
	if (q.is_host)
		assert(allow_canonical(q.name, strlen(q.name), name) == 0 && !strcmp(name, q.name));
	n = dns_answer(&q, DNS_NOERROR, 0x01020304, 60, out);
	assert(n == DNS_HEADER + q.question_len + 16 && n <= sizeof(out));
	assert(!memcmp(out + DNS_HEADER, data + DNS_HEADER, q.question_len));
	assert(dns_parse(out, n, &q) == -EBADMSG);
	return 0;
}
