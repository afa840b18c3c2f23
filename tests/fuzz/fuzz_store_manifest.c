/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes manifests: what is accepted keeps its promises, and is the same when it is written again. */
/* modules: vm/store/manifest.c vm/store/chunk.c vm/store/kind.c vm/base/buf.c vm/base/digest.c */
/* libs: crypto jansson zstd */
#include <assert.h>
#include <string.h>

#include "vm/store/chunk.h"
#include "vm/store/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct manifest *m)
{
	assert(m->kind < STORE_NKINDS && store_key_valid(m->key));
	assert(m->chunk_bytes >= CHUNK_MIN && m->chunk_bytes <= CHUNK_MAX);
	assert(m->nfiles >= 1 && m->nfiles <= MANIFEST_FILES_MAX);
	for (size_t i = 0; i < m->nfiles; i++)
		assert(store_key_valid(m->files[i].name));
	assert(m->nchunks <= MANIFEST_CHUNKS_MAX);
	for (size_t i = 0; i < m->nchunks; i++) {
		const struct manifest_chunk *c = &m->chunks[i], *last = i ? c - 1 : c;
		uint32_t len;

		assert(c->file < m->nfiles);
		len = manifest_chunk_bytes(m, c);
		assert(len > 0 && len <= m->chunk_bytes);
		assert(c->stored > 0 && c->stored <= chunk_stored_max(m->chunk_bytes));
		assert(!i || c->file > last->file ||
		       (c->file == last->file && c->index > last->index));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct manifest m, again;
	struct buf text = {0};

	assert(manifest_parse((const char *)data, size, "no such secret", &m) < 0);
	if (manifest_parse((const char *)data, size, NULL, &m) < 0)
		return 0;
	check(&m);
	assert(manifest_print(&m, "secret", 0, &text) == 0);
	assert(manifest_parse(text.data, text.len, "secret", &again) == 0);
	assert(again.nfiles == m.nfiles && again.nchunks == m.nchunks &&
	       manifest_data(&again) == manifest_data(&m));
	manifest_clear(&again);
	manifest_clear(&m);
	buf_clear(&text);
	return 0;
}
