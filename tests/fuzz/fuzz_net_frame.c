/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes Ethernet, IP, TCP and UDP headers, and the answers to frames. */
/* modules: vm/net/filter/frame.c */
#include <assert.h>

#include "vm/net/filter/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct frame f = frame_parse(data, size);
	uint8_t out[FRAME_OWN_MAX];
	struct frame back;

	if (f.kind != FRAME_TCP && f.kind != FRAME_UDP)
		return 0;
	assert(f.payload >= data && f.payload + f.payload_len <= data + size);
	if (f.kind == FRAME_TCP)
		back = frame_parse(out, frame_reset(&f, out));
	else
		back = frame_parse(out, frame_datagram(&f, data, 20, out));
	assert(back.kind == f.kind && back.src == f.dst && back.dst == f.src);
	assert(back.sport == f.dport && back.dport == f.sport);
	if (f.kind == FRAME_UDP)
		assert(frame_parse(out, frame_prohibited(&f, out)).kind == FRAME_IPV4);
	return 0;
}
