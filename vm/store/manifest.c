/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing manifests. */
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
 * A manifest is a line, and JSON behind it. The line is "xsbxfs-store 1" and an HMAC-SHA-256 over
 * all that follows it, or "-" if whoever wrote it had no secret. So what is authenticated is bytes,
 * and there is no question of how JSON would have to be written to be the same again. Who has a
 * secret accepts nothing without it.
 *
 * All else hangs on the manifest: it names its own kind and key, and every chunk by checksum. What
 * it says is bounded before memory is taken for it.
 */

#define MAGIC	   "xsbxfs-store 1 "
#define FORMAT	   1
#define FILE_MAX   (1ull << 40)
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

static bool take_number(json_t *v, uint64_t max, uint64_t *ret)
{
	const json_int_t n = json_integer_value(v);

	if (!json_is_integer(v) || n < 0 || (uint64_t)n > max)
		return false;
	*ret = (uint64_t)n;
	return true;
}

static bool take_hex(json_t *v, char ret_hex[DIGEST_HEX])
{
	const char *text = json_string_value(v);

	if (!text || strlen(text) != DIGEST_HEX - 1 || strspn(text, hex_digits) != DIGEST_HEX - 1)
		return false;
	memcpy(ret_hex, text, DIGEST_HEX);
	return true;
}

static bool take_key(json_t *v, char ret_key[STORE_KEY_MAX + 1])
{
	const char *text = json_string_value(v);

	if (!text || !store_key_valid(text))
		return false;
	snprintf(ret_key, STORE_KEY_MAX + 1, "%s", text);
	return true;
}

static bool take_chunk(json_t *v, const struct manifest *m, const struct manifest_file *f,
		       struct manifest_chunk *ret_c)
{
	uint64_t index, stored;

	if (!json_is_array(v) || json_array_size(v) != 3 ||
	    !take_number(json_array_get(v, 0), UINT32_MAX, &index) ||
	    !take_number(json_array_get(v, 1), chunk_stored_max(m->chunk_bytes), &stored) ||
	    !take_hex(json_array_get(v, 2), ret_c->sha256))
		return false;
	if (!stored || index * m->chunk_bytes >= f->bytes ||
	    (f->nchunks && index <= f->chunks[f->nchunks - 1].index))
		return false;
	ret_c->index = (uint32_t)index;
	ret_c->stored = (uint32_t)stored;
	return true;
}

static int take_chunks(json_t *v, const struct manifest *m, struct manifest_file *f)
{
	const size_t n = json_array_size(v);

	if (!json_is_array(v) || n > MANIFEST_CHUNKS_MAX)
		return -EBADMSG;
	f->chunks = calloc(MAX(n, 1u), sizeof(*f->chunks));
	if (!f->chunks)
		return -ENOMEM;
	for (; f->nchunks < n; f->nchunks++) {
		if (!take_chunk(json_array_get(v, f->nchunks), m, f, &f->chunks[f->nchunks]))
			return -EBADMSG;
	}
	return 0;
}

static int take_file(json_t *v, struct manifest *m)
{
	struct manifest_file *f = &m->files[m->nfiles];

	if (!take_key(json_object_get(v, "name"), f->name) ||
	    !take_number(json_object_get(v, "bytes"), FILE_MAX, &f->bytes) ||
	    !take_hex(json_object_get(v, "sha256"), f->sha256))
		return -EBADMSG;
	for (size_t i = 0; i < m->nfiles; i++) {
		if (strcmp(m->files[i].name, f->name) == 0)
			return -EBADMSG;
	}
	m->nfiles++; /* from here on it is freed with the manifest */
	return take_chunks(json_object_get(v, "chunks"), m, f);
}

static int take(json_t *o, struct manifest *m)
{
	json_t *files = json_object_get(o, "files");
	const char *kind = json_string_value(json_object_get(o, "kind"));
	uint64_t format, chunk_bytes;
	int r = 0;

	m->kind = kind ? store_kind_of(kind) : STORE_NKINDS;
	if (m->kind == STORE_NKINDS || !take_key(json_object_get(o, "key"), m->key) ||
	    !take_number(json_object_get(o, "format"), FORMAT, &format) || format != FORMAT ||
	    !take_number(json_object_get(o, "chunk_bytes"), CHUNK_MAX, &chunk_bytes) ||
	    !take_number(json_object_get(o, "tsc_khz"), UINT32_MAX, &m->tsc_khz))
		return -EBADMSG;
	m->chunk_bytes = (uint32_t)chunk_bytes;
	if (chunk_bytes < CHUNK_MIN || !json_is_array(files) || json_array_size(files) == 0 ||
	    json_array_size(files) > MANIFEST_FILES_MAX)
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
	if (r < 0)
		manifest_clear(ret_m);
	return r;
}

/* ---- writing ---- */

size_t manifest_bound(size_t nfiles, size_t nchunks)
{
	return 512 + STORE_KEY_MAX + nfiles * PER_FILE + nchunks * PER_CHUNK;
}

static int print_file(const struct manifest_file *f, struct buf *out)
{
	int r = buf_printf(out,
			   "{\"name\": \"%s\", \"bytes\": %llu, \"sha256\": \"%s\", \"chunks\": [",
			   f->name, (unsigned long long)f->bytes, f->sha256);

	for (size_t i = 0; r == 0 && i < f->nchunks; i++)
		r = buf_printf(out, "%s[%u, %u, \"%s\"]", i ? ",\n" : "\n", f->chunks[i].index,
			       f->chunks[i].stored, f->chunks[i].sha256);
	return r < 0 ? r : buf_printf(out, "]}");
}

/* Names and keys are of characters that JSON takes as they are. */
static int print_body(const struct manifest *m, struct buf *out)
{
	int r = buf_printf(
		out,
		"{\"format\": %d, \"kind\": \"%s\", \"key\": \"%s\", \"chunk_bytes\": %u, "
		"\"tsc_khz\": %llu, \"files\": [\n",
		FORMAT, store_kind_str(m->kind), m->key, m->chunk_bytes,
		(unsigned long long)m->tsc_khz);

	for (size_t i = 0; r == 0 && i < m->nfiles; i++) {
		r = i ? buf_printf(out, ",\n") : 0;
		if (r == 0)
			r = print_file(&m->files[i], out);
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
	for (size_t i = 0; i < m->nfiles; i++)
		free(m->files[i].chunks);
	*m = (struct manifest){0};
}

/* ---- sums ---- */

uint32_t manifest_chunk_bytes(const struct manifest *m, const struct manifest_file *f,
			      uint32_t index)
{
	const uint64_t at = (uint64_t)index * m->chunk_bytes;

	return (uint32_t)MIN((uint64_t)m->chunk_bytes, f->bytes - at);
}

uint64_t manifest_data(const struct manifest *m)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < m->nfiles; i++) {
		for (size_t c = 0; c < m->files[i].nchunks; c++)
			sum += manifest_chunk_bytes(m, &m->files[i], m->files[i].chunks[c].index);
	}
	return sum;
}

uint64_t manifest_stored(const struct manifest *m)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < m->nfiles; i++) {
		for (size_t c = 0; c < m->files[i].nchunks; c++)
			sum += m->files[i].chunks[c].stored;
	}
	return sum;
}
