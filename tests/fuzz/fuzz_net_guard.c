/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes TLS and HTTP: however a stream is cut into pieces, the same bytes of it pass. */
/* modules: vm/net/filter/guard.c vm/net/filter/hello.c vm/net/filter/sniff.c vm/base/allow.c */
#include <assert.h>
#include <errno.h>

#include "vm/net/filter/guard.h"
#include "vm/base/net_reason.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Return: whether it was refused; *@ret_passed: how much passed before. */
static bool feed(struct guard g, const uint8_t *data, size_t size, size_t step, size_t *ret_passed)
{
	size_t passed = 0, have = 0;
	unsigned reason = NET_OK;

	while (have < size) {
		have = have + step < size ? have + step : size;
		while (passed < have) {
			const int n =
				guard_check(&g, data + passed, have - passed, "web.test", &reason);

			assert(n <= (int)(have - passed));
			if (n < 0) {
				assert(n == -EACCES && reason > NET_OK && reason < NET_NREASONS);
				*ret_passed = passed;
				return true;
			}
			if (n == 0 || g.kind >= GUARD_PROXY)
				break;
			passed += (size_t)n;
		}
	}
	*ret_passed = passed;
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint16_t ports[] = {443, 80, 8080};
	size_t whole, pieces;
	bool refused, again, sniffs;

	if (size < 2)
		return 0;
	for (unsigned i = 0; i < 3; i++) {
		const struct guard g = guard_for(ports[i], (enum guard_duty)(data[0] >> 6));

		sniffs = guard_sniffs(&g);
		refused = feed(g, data + 1, size - 1, size, &whole);
		again = feed(g, data + 1, size - 1, data[0] % 16 + 1U, &pieces);
		/* HTTP of which a part has passed is refused, and looked into if none has. */
		assert(again == refused || (sniffs && again));
		/* A word alone may pass before it is known to begin a request; see sniff_http(). */
		assert(pieces >= whole && (sniffs || pieces == whole));
		for (size_t n = whole; n < pieces; n++)
			assert(data[1 + n] > ' ' || data[1 + n] == '\r' || data[1 + n] == '\n');
	}
	return 0;
}
