/* SPDX-License-Identifier: Apache-2.0 */
/* Parses and prints manifests. */
#include "manifest.h"

#include <errno.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdbool.h>
#include <string.h>

#include "chunk.h"

/*
 * Theory of operation
 * -------------------
 * A manifest is one line followed by JSON. The line is "xsbxfs-store 1" and an HMAC-SHA-256 over all
 * that follows it, or "-" if its writer had no secret. So bytes are authenticated, and no canonical form
 * of JSON is needed. A reader that has a secret rejects every manifest without a valid HMAC.
 *
 * Everything else follows from the manifest: it contains its own kind and key, and the checksum of every
 * chunk. Its numbers are checked against limits before memory is allocated for them.
 *
 * One compressed object per key would be simpler, and was tried. But chunks are transferred in parallel, and
 * a single connection gets a fraction of a store's bandwidth: a snapshot of 300 MiB, 40 compressed, is put
 * in 0.8 s and fetched in 0.5 at 90 MiB/s per connection, and as one object in 1.2 and 0.9; at 10 MiB/s in
 * 1.3 and 1.2 instead of 4.7 and 4.4. Chunks also let interrupted transfers resume in both directions;
 * compression overlaps with sending; bytes are checked before they are unpacked without being kept on disk
 * until the last one arrives; and snapshots of one kernel share a sixth of their chunks or more.
 */

#define MAGIC	   "xsbxfs-store 1 "
#define FORMAT	   1
#define PER_FILE   (STORE_KEY_MAX + 200)
#define PER_CHUNK  100
#define MAC_HEX	   (DIGEST_HEX - 1)
#define NO_MAC	   "-"
#define MAC_BINARY 32

static const char hex_digits[] = "0123456789abcdef";

static int mac_of(const char *secret, const char *text, size_t len, char ret_hex[DIGEST_HEX])
{
	unsigned char md[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	if (!HMAC(EVP_sha256(), secret, (int)strlen(secret), (const unsigned char *)text, len, md,
		  &n) ||
	    n != MAC_BINARY)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++)
		snprintf(ret_hex + 2 * (size_t)i, 3, "%02x", md[i]);
	return 0;
}

/* Return: bytes of the first line, if it is right, or -errno. */
static int check_head(const char *text, size_t len, const char *secret)
{
	const size_t magic = strlen(MAGIC);
	const char *eol;
	char mac[DIGEST_HEX];
	int r;

	if (len < magic || memcmp(text, MAGIC, magic) != 0)
		return -EBADMSG;
	eol = memchr(text, '\n', MIN(len, magic + MAC_HEX + 1));
	if (!eol)
		return -EBADMSG;
	if (!secret)
		return (int)(eol + 1 - text);
	r = mac_of(secret, eol + 1, len - (size_t)(eol + 1 - text), mac);
	if (r < 0)
		return r;
	if ((size_t)(eol - text) != magic + MAC_HEX ||
	    CRYPTO_memcmp(text + magic, mac, MAC_HEX) != 0)
		return -EACCES;
	return (int)(eol + 1 - text);
}

/* ---- reading ---- */

static bool take_hex(const char *text, char ret_hex[DIGEST_HEX])
{
	if (strlen(text) != DIGEST_HEX - 1 || strspn(text, hex_digits) != DIGEST_HEX - 1)
		return false;
	memcpy(ret_hex, text, DIGEST_HEX);
	return true;
}

static bool take_key(const char *text, char ret_key[STORE_KEY_MAX + 1])
{
	if (!store_key_valid(text))
		return false;
	memcpy(ret_key, text, strlen(text) + 1);
	return true;
}

/* Of the last file. */
static int take_chunk(json_t *v, struct manifest *m)
{
	const uint64_t bytes = m->files[m->nfiles - 1].bytes;
	const struct manifest_chunk *last = m->nchunks ? &m->chunks[m->nchunks - 1] : NULL;
	struct manifest_chunk c = {.file = (uint32_t)m->nfiles - 1};
	json_int_t index, stored;
	const char *sha256;

	if (json_unpack(v, "[IIs!]", &index, &stored, &sha256) < 0 || index < 0 ||
	    index > UINT32_MAX || (uint64_t)index * m->chunk_bytes >= bytes || stored <= 0 ||
	    (uint64_t)stored > chunk_stored_max(m->chunk_bytes) || !take_hex(sha256, c.sha256))
		return -EBADMSG;
	c.index = (uint32_t)index;
	c.stored = (uint32_t)stored;
	return last && last->file == c.file && last->index >= c.index ? -EBADMSG
								      : manifest_add(m, &c);
}

static int take_file(json_t *v, struct manifest *m)
{
	struct manifest_file *f = &m->files[m->nfiles];
	const char *name, *sha256;
	json_int_t bytes;
	json_t *chunks;
	int r = 0;

	if (json_unpack(v, "{ss sI ss so}", "name", &name, "bytes", &bytes, "sha256", &sha256,
			"chunks", &chunks) < 0 ||
	    !take_key(name, f->name) || !take_hex(sha256, f->sha256) || bytes < 0 ||
	    bytes > MANIFEST_FILE_MAX || !json_is_array(chunks))
		return -EBADMSG;
	f->bytes = (uint64_t)bytes;
	for (size_t i = 0; i < m->nfiles; i++) {
		if (strcmp(m->files[i].name, f->name) == 0)
			return -EBADMSG;
	}
	m->nfiles++;
	for (size_t i = 0; r == 0 && i < json_array_size(chunks); i++)
		r = take_chunk(json_array_get(chunks, i), m);
	return r;
}

static int take(json_t *o, struct manifest *m)
{
	json_int_t format, chunk_bytes, tsc_khz;
	const char *kind, *key;
	json_t *files;
	int r = 0;

	if (json_unpack(o, "{sI ss ss sI sI so}", "format", &format, "kind", &kind, "key", &key,
			"chunk_bytes", &chunk_bytes, "tsc_khz", &tsc_khz, "files", &files) < 0 ||
	    format != FORMAT || !take_key(key, m->key) || chunk_bytes < CHUNK_MIN ||
	    chunk_bytes > CHUNK_MAX || tsc_khz < 0 || tsc_khz > UINT32_MAX ||
	    !json_is_array(files) || json_array_size(files) == 0 ||
	    json_array_size(files) > MANIFEST_FILES_MAX)
		return -EBADMSG;
	m->kind = store_kind_of(kind);
	m->chunk_bytes = (uint32_t)chunk_bytes;
	m->tsc_khz = (uint64_t)tsc_khz;
	if (m->kind == STORE_NKINDS)
		return -EBADMSG;
	for (size_t i = 0; r == 0 && i < json_array_size(files); i++)
		r = take_file(json_array_get(files, i), m);
	return r;
}

int manifest_parse(const char *text, size_t len, const char *secret, struct manifest *ret_m)
{
	int r = len > MANIFEST_MAX ? -EBADMSG : check_head(text, len, secret);
	json_t *o;

	if (r < 0)
		return r;
	o = json_loadb(text + r, len - (size_t)r, JSON_REJECT_DUPLICATES, NULL);
	*ret_m = (struct manifest){0};
	r = o ? take(o, ret_m) : -EBADMSG;
	json_decref(o);
	if (r == 0)
		r = digest_of(text, len, ret_m->sha256);
	if (r < 0)
		manifest_clear(ret_m);
	return r;
}

/* ---- writing ---- */

size_t manifest_bound(size_t nfiles, size_t nchunks)
{
	return 512 + STORE_KEY_MAX + nfiles * PER_FILE + nchunks * PER_CHUNK;
}

/* Names and keys are of characters that JSON takes as they are. */
static int print_body(const struct manifest *m, struct buf *out)
{
	size_t chunk = 0;
	int r = buf_printf(
		out,
		"{\"format\": %d, \"kind\": \"%s\", \"key\": \"%s\", \"chunk_bytes\": %u, "
		"\"tsc_khz\": %llu, \"files\": [\n",
		FORMAT, store_kind_str(m->kind), m->key, m->chunk_bytes,
		(unsigned long long)m->tsc_khz);

	for (size_t i = 0; r == 0 && i < m->nfiles; i++) {
		const struct manifest_file *f = &m->files[i];
		const char *before = "\n";

		r = buf_printf(
			out,
			"%s{\"name\": \"%s\", \"bytes\": %llu, \"sha256\": \"%s\", \"chunks\": [",
			i ? ",\n" : "", f->name, (unsigned long long)f->bytes, f->sha256);
		for (; r == 0 && chunk < m->nchunks && m->chunks[chunk].file == i; chunk++) {
			const struct manifest_chunk *c = &m->chunks[chunk];

			r = buf_printf(out, "%s[%u, %u, \"%s\"]", before, c->index, c->stored,
				       c->sha256);
			before = ",\n";
		}
		if (r == 0)
			r = buf_printf(out, "]}");
	}
	return r < 0 ? r : buf_printf(out, "]}\n");
}

int manifest_print(const struct manifest *m, const char *secret, size_t pad, struct buf *out)
{
	const size_t head = strlen(MAGIC) + (secret ? MAC_HEX : strlen(NO_MAC)) + 1;
	struct buf body = {.limit = MANIFEST_MAX};
	char mac[DIGEST_HEX] = NO_MAC;
	int r = print_body(m, &body);

	if (r == 0 && pad && head + body.len > pad)
		r = -EFBIG;
	while (r == 0 && head + body.len < pad)
		r = buf_append(&body, "\n", 1);
	if (r == 0 && secret)
		r = mac_of(secret, body.data, body.len, mac);
	if (r == 0)
		r = buf_printf(out, MAGIC "%s\n", mac);
	if (r == 0)
		r = buf_append(out, body.data, body.len);
	buf_clear(&body);
	return r;
}

void manifest_clear(struct manifest *m)
{
	free(m->chunks);
	*m = (struct manifest){0};
}

/* ---- chunks ---- */

int manifest_add(struct manifest *m, const struct manifest_chunk *c)
{
	struct manifest_chunk *more = m->chunks;

	if (m->nchunks == MANIFEST_CHUNKS_MAX)
		return -EFBIG;
	/* There is room for as many as the next power of two. */
	if (!more || (m->nchunks & (m->nchunks - 1)) == 0)
		more = realloc(m->chunks, MAX(2 * m->nchunks, 1u) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	m->chunks = more;
	more[m->nchunks++] = *c;
	return 0;
}

uint64_t manifest_chunk_at(const struct manifest *m, const struct manifest_chunk *c)
{
	return (uint64_t)c->index * m->chunk_bytes;
}

uint32_t manifest_chunk_bytes(const struct manifest *m, const struct manifest_chunk *c)
{
	return (uint32_t)MIN((uint64_t)m->chunk_bytes,
			     m->files[c->file].bytes - manifest_chunk_at(m, c));
}

uint64_t manifest_data(const struct manifest *m)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < m->nchunks; i++)
		sum += manifest_chunk_bytes(m, &m->chunks[i]);
	return sum;
}

uint64_t manifest_stored(const struct manifest *m)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < m->nchunks; i++)
		sum += m->chunks[i].stored;
	return sum;
}
