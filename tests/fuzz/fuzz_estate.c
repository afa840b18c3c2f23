/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes what an heir finds in an estate: it refuses it, or reads it and goes on with it. */
/* modules: vm/base/estate.c vm/base/estate_file.c vm/base/io.c vm/base/estate_items.c vm/base/estate_load.c vm/base/estate_tidy.c */
/* modules: vm/base/memory.c */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "vm/base/estate.h"
#include "vm/base/estate_internal.h"
#include "vm/base/util.h"

#define SIZE_MOST (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The head behind magic and version, and the beginning of both areas. Return: the file. */
static int make(const uint8_t *data, size_t size)
{
	struct estate *e;
	size_t half;
	int fd, r = estate_new(&e);

	assert(r == 0);
	memcpy(&e->head->given_up, data, 12);
	data += 12;
	size -= 12;
	half = e->head->committed & ESTATE_AREA_BIT ? size / 2 : 0;
	r = estate_grow(e, 0, size - half);
	assert(r == 0);
	r = estate_grow(e, 1, half);
	assert(r == 0);
	memcpy(e->area[1].map, data, half);
	memcpy(e->area[0].map, data + half, size - half);
	fd = dup(estate_fd(e));
	assert(fd >= 0);
	estate_free(e);
	return fd;
}

struct sum {
	size_t n, bytes;
	unsigned char all;
};

static int add(void *data, const struct record *rec, uint64_t sub)
{
	struct sum *sum = data;

	(void)sub;
	sum->n++;
	for (const unsigned char *p = rec->fields.at; p < rec->fields.end; p++)
		sum->all ^= *p;
	sum->bytes += (size_t)(rec->fields.end - rec->fields.at);
	return 0;
}

static struct sum sum_of(const struct estate *e)
{
	struct sum sum = {0};

	/* Those that a daemon has are small numbers. */
	for (uint32_t kind = 1; kind < 256; kind++)
		(void)estate_each(e, kind, add, &sum);
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct estate *e;
	struct sum before, after;
	int fd, r;

	if (size < 12 || size > SIZE_MOST)
		return 0;
	r = estate_open(make(data, size), &e);
	if (r < 0)
		return 0;
	before = sum_of(e);
	estate_drop_all(e, 255, 1);
	r = estate_put(e, 254, UINT64_MAX, UINT64_MAX, data, size);
	if (r < 0) { /* the serials have come to their end */
		assert(r == -EOVERFLOW && !estate_is_whole(e));
		estate_free(e);
		return 0;
	}
	for (unsigned i = 0; i < 4; i++) {
		r = estate_commit(e);
		assert(r == 0);
	}
	r = estate_drop(e, 254, UINT64_MAX, UINT64_MAX);
	assert(r == 0);
	r = estate_commit(e);
	assert(r == 0);
	fd = dup(estate_fd(e));
	estate_free(e);
	/* What it has taken and written, it takes again. */
	r = estate_open(fd, &e);
	assert(r == 0);
	after = sum_of(e);
	assert(after.n <= before.n && after.bytes <= before.bytes);
	estate_free(e);
	return 0;
}
