/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a migration stream that has a machine's memory. See ram_stream.h. */
#include "ram_stream.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "vm/base/arch.h"
#include "vm/base/util.h"

/* Of QEMU's migration/savevm.c and ram.c; all numbers have their highest byte first. */
#define MACHINE	      ARCH_KIND /* QEMU compares no more than is there, and so no version */
#define BLOCK	      "ram"	/* of the memory backend that all copies have */
#define CONFIGURATION 0x07
#define SUBSECTION    0x05
#define PAGE_BITS \
	"configuration/target-page-bits" /* without it, the fewest that a processor could have: arm's are 10 */
#define SECTION_START 0x01
#define SECTION_END   0x03
#define FOOTER	      0x7e
#define SECTION	      0x7000u /* number of the section, which no device has */
#define RAM_VERSION   4u
#define FLAG_SIZE     0x04u
#define FLAG_PAGE     0x08u
#define FLAG_EOS      0x10u
#define FLAG_CONTINUE 0x20u

static const uint8_t magic[RAM_STREAM_MAGIC] = {'Q', 'E', 'V', 'M', 0, 0, 0, 3};

#define NAME   (1 + sizeof(BLOCK) - 1)
#define BLOCKS (8 + NAME + 8 + 8)		    /* total; name, size; end */
#define START  (1 + 4 + 1 + 3 + 4 + 4 + BLOCKS + 5) /* with its footer */
#define CONFIG (1 + 4 + sizeof(MACHINE) - 1 + 1 + 1 + sizeof(PAGE_BITS) - 1 + 4 + 4)
#define BEFORE (RAM_STREAM_MAGIC + CONFIG + START + 1 + 4)
#define BEHIND (8 + 5)

static uint8_t *put(uint8_t *out, const void *data, size_t len)
{
	memcpy(out, data, len);
	return out + len;
}

static uint8_t *put_8(uint8_t *out, uint8_t v)
{
	*out = v;
	return out + 1;
}

static uint8_t *put_32(uint8_t *out, uint32_t v)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		out = put_8(out, (uint8_t)(v >> shift));
	return out;
}

static uint8_t *put_64(uint8_t *out, uint64_t v)
{
	return put_32(put_32(out, (uint32_t)(v >> 32)), (uint32_t)v);
}

static uint8_t *put_name(uint8_t *out, const char *name)
{
	return put(put_8(out, (uint8_t)strlen(name)), name, strlen(name));
}

static uint8_t *put_footer(uint8_t *out)
{
	return put_32(put_8(out, FOOTER), SECTION);
}

size_t ram_stream_first(void)
{
	return BEFORE + 8 + NAME;
}

size_t ram_stream_size(uint32_t pages)
{
	return BEFORE + (pages ? NAME : 0) + (size_t)pages * RAM_STREAM_STRIDE + BEHIND;
}

static uint8_t *put_start(uint8_t *out, uint64_t bytes)
{
	out = put(out, magic, sizeof(magic));
	out = put_32(put_8(out, CONFIGURATION), sizeof(MACHINE) - 1);
	out = put(out, MACHINE, sizeof(MACHINE) - 1);
	out = put_name(put_8(out, SUBSECTION), PAGE_BITS);
	out = put_32(put_32(out, 1), (uint32_t)__builtin_ctz(RAM_PAGE));
	out = put_name(put_32(put_8(out, SECTION_START), SECTION), "ram");
	out = put_32(put_32(out, 0), RAM_VERSION);
	out = put_name(put_64(out, bytes | FLAG_SIZE), BLOCK);
	out = put_64(put_64(out, bytes), FLAG_EOS);
	return put_32(put_8(put_footer(out), SECTION_END), SECTION);
}

void ram_stream_write(uint8_t *out, uint64_t bytes, const struct ram_extent *extent,
		      size_t nextents)
{
	const uint8_t *begin = out;
	uint32_t pages = 0;

	out = put_start(out, bytes);
	assert(out == begin + BEFORE);
	for (size_t i = 0; i < nextents; i++) {
		for (uint32_t n = 0; n < extent[i].count; n++, pages++) {
			const uint64_t at = (uint64_t)(extent[i].first + n) * RAM_PAGE;

			/* Which block they are of is said at the first. */
			out = put_64(out, at | FLAG_PAGE | (pages ? FLAG_CONTINUE : 0));
			if (!pages)
				out = put_name(out, BLOCK);
			out += RAM_PAGE;
		}
	}
	out = put_footer(put_64(out, FLAG_EOS));
	assert(out == begin + ram_stream_size(pages));
}

int ram_stream_known(const uint8_t bytes[RAM_STREAM_MAGIC])
{
	return memcmp(bytes, magic, sizeof(magic)) == 0 ? 0 : -EPROTO;
}
