/* SPDX-License-Identifier: Apache-2.0 */
/* Sealed data. See seal.h. */
#include "seal.h"

#include <assert.h>
#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "agent/protocol.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * A sealed stream is a header and chunks:
 *
 *	u8[8] "xsbxseal", u32 version, u8[8] which key, u8[32] salt; then CHUNK bytes and a tag of 16 bytes, and so on; the
 *	last chunk is shorter, or as long, and may be empty
 *
 * Each stream has a key of its own, derived (HKDF, SHA-256) from the host's, the salt, which is random, and what it is for. So
 * a stream that is opened for something else, or whose header was changed, has another key, and its first chunk is refused.
 * Chunks are encrypted with AES-256-GCM; the nonce is the chunk's number and whether it is the last: none can be moved, left
 * out or added (this is the STREAM construction, as age has it). "which key" is derived from the host's key likewise, and
 * says no more than whether it is the same.
 */

#define MAGIC	    "xsbxseal"
#define VERSION	    1u
#define SALT	    32u
#define KEY_ID	    8u
#define HEADER	    (8u + 4 + KEY_ID + SALT)
#define CHUNK	    (64u << 10)
#define TAG	    16u
#define NONCE	    12u

#define FOR_STREAM  "xsbxfs sealed stream 1: "
#define FOR_KEY_ID  "xsbxfs which key"
#define FOR_CONTENT "xsbxfs content: "

struct seal_key {
	unsigned char bytes[SEAL_KEY];
	unsigned char id[KEY_ID];
};

void seal_clear(void *secret, size_t len)
{
	OPENSSL_cleanse(secret, len);
}

/* ---- keys ---- */

/* Return: 0, or -ENOMEM, the only thing that can go wrong. */
static int derive(const unsigned char key[SEAL_KEY], const unsigned char *salt, size_t nsalt,
		  const char *purpose, const char *what, unsigned char *ret, size_t len)
{
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
	EVP_KDF_CTX *ctx = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
	char sha[] = "SHA256";
	OSSL_PARAM params[6], *p = params;
	int r;

	*p++ = OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, sha, 0);
	*p++ = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)key, SEAL_KEY);
	if (nsalt)
		*p++ = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)salt, nsalt);
	/* They are put one behind the other. */
	*p++ = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)purpose,
						 strlen(purpose));
	*p++ = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)what, strlen(what));
	*p = OSSL_PARAM_construct_end();
	r = ctx && EVP_KDF_derive(ctx, ret, len, params) == 1 ? 0 : -ENOMEM;
	EVP_KDF_CTX_free(ctx);
	EVP_KDF_free(kdf);
	return r;
}

int seal_key_new(const unsigned char bytes[SEAL_KEY], struct seal_key **ret_key)
{
	struct seal_key *key = mmap(NULL, sizeof(*key), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int r;

	if (key == MAP_FAILED)
		return -ENOMEM;
	/* Both are as good as it gets: a limit may forbid the first. */
	(void)mlock(key, sizeof(*key));
	(void)madvise(key, sizeof(*key), MADV_DONTDUMP);
	memcpy(key->bytes, bytes, SEAL_KEY);
	r = derive(key->bytes, NULL, 0, FOR_KEY_ID, "", key->id, KEY_ID);
	if (r < 0) {
		seal_key_free(key);
		return r;
	}
	*ret_key = key;
	return 0;
}

struct seal_key *seal_key_free(struct seal_key *key)
{
	if (key) {
		seal_clear(key, sizeof(*key));
		munmap(key, sizeof(*key));
	}
	return NULL;
}

int seal_name(const struct seal_key *key, const char *content, char ret_hex[SEAL_NAME])
{
	unsigned char bytes[(SEAL_NAME - 1) / 2];
	int r = derive(key->bytes, NULL, 0, FOR_CONTENT, content, bytes, sizeof(bytes));

	for (size_t i = 0; r == 0 && i < sizeof(bytes); i++)
		snprintf(ret_hex + 2 * i, 3, "%02x", bytes[i]);
	return r;
}

struct seal_purpose seal_purpose(const char *file, const char *of)
{
	struct seal_purpose p;

	snprintf(p.text, sizeof(p.text), "%s %s", file, of);
	return p;
}

/* ---- chunks ---- */

struct crypt {
	EVP_CIPHER_CTX *ctx;
	uint64_t chunks;
};

static int crypt_begin(struct crypt *c, const struct seal_key *key, const unsigned char salt[SALT],
		       const char *what, bool seals)
{
	unsigned char own[SEAL_KEY];
	int r = derive(key->bytes, salt, SALT, FOR_STREAM, what, own, sizeof(own));

	c->ctx = EVP_CIPHER_CTX_new();
	if (r == 0 && (!c->ctx || EVP_CipherInit_ex(c->ctx, EVP_aes_256_gcm(), NULL, own, NULL,
						    seals ? 1 : 0) != 1))
		r = -ENOMEM;
	seal_clear(own, sizeof(own));
	return r;
}

static int crypt_chunk(struct crypt *c, bool last, const unsigned char *in, size_t len,
		       unsigned char *out)
{
	unsigned char nonce[NONCE] = {0};
	int n = 0;

	for (unsigned i = 0; i < 8; i++)
		nonce[i] = (unsigned char)(c->chunks >> 8 * i);
	nonce[NONCE - 1] = last;
	c->chunks++;
	return EVP_CipherInit_ex(c->ctx, NULL, NULL, NULL, nonce, -1) == 1 &&
			       EVP_CipherUpdate(c->ctx, out, &n, in, (int)len) == 1 &&
			       (size_t)n == len
		       ? 0
		       : -ENOMEM;
}

/* ---- sealing ---- */

struct sealer {
	struct sink sink, *to;
	struct crypt crypt;
	size_t len; /* in `plain` */
	unsigned char plain[CHUNK], sealed[CHUNK + TAG];
};

static int put_chunk(struct sealer *s, bool last)
{
	int r = crypt_chunk(&s->crypt, last, s->plain, s->len, s->sealed), n;

	if (r == 0 && (EVP_CipherFinal_ex(s->crypt.ctx, s->sealed + s->len, &n) != 1 ||
		       EVP_CIPHER_CTX_ctrl(s->crypt.ctx, EVP_CTRL_AEAD_GET_TAG, TAG,
					   s->sealed + s->len) != 1))
		r = -ENOMEM;
	if (r == 0)
		r = s->to->write(s->to, s->sealed, s->len + TAG);
	s->len = 0;
	return r;
}

/* A full chunk waits until it is known whether there is another one behind it. */
static int put(struct sink *sink, const void *data, size_t len)
{
	struct sealer *s = container_of(sink, struct sealer, sink);
	const char *p = data;

	while (len) {
		size_t n;
		int r = s->len == CHUNK ? put_chunk(s, false) : 0;

		if (r < 0)
			return r;
		n = MIN(len, CHUNK - s->len);
		memcpy(s->plain + s->len, p, n);
		s->len += n;
		p += n;
		len -= n;
	}
	return 0;
}

static int put_header(const struct seal_key *key, struct sink *to, unsigned char ret_salt[SALT])
{
	uint8_t bytes[HEADER];
	struct proto_out o = {bytes, 0, sizeof(bytes), false};

	if (getrandom(ret_salt, SALT, 0) != (ssize_t)SALT)
		return -EIO;
	put_bytes(&o, MAGIC, 8);
	put_u32(&o, VERSION);
	put_bytes(&o, key->id, KEY_ID);
	put_bytes(&o, ret_salt, SALT);
	return to->write(to, bytes, o.len);
}

int sealer_new(const struct seal_key *key, const char *what, struct sink *to,
	       struct sealer **ret_sealer)
{
	struct sealer *s = calloc(1, sizeof(*s));
	unsigned char salt[SALT];
	int r = s ? put_header(key, to, salt) : -ENOMEM;

	if (r == 0)
		r = crypt_begin(&s->crypt, key, salt, what, true);
	if (r < 0) {
		sealer_free(s);
		return r;
	}
	s->sink.write = put;
	s->to = to;
	*ret_sealer = s;
	return 0;
}

struct sink *sealer_sink(struct sealer *s)
{
	return &s->sink;
}

int sealer_end(struct sealer *s)
{
	return put_chunk(s, true);
}

struct sealer *sealer_free(struct sealer *s)
{
	if (s)
		EVP_CIPHER_CTX_free(s->crypt.ctx); /* which clears its key */
	free(s);
	return NULL;
}

/* ---- opening ---- */

struct unsealer {
	struct source source, *from;
	struct crypt crypt;
	bool last;	/* there is no other chunk behind that in `plain` */
	size_t at, len; /* what is left in `plain` */
	size_t ahead;	/* bytes in `sealed`: one more than a chunk, if there are so many */
	unsigned char plain[CHUNK], sealed[CHUNK + TAG + 1];
};

/* Return: 0 or -errno. */
static int next_chunk(struct unsealer *u)
{
	const ssize_t n =
		u->from->read(u->from, u->sealed + u->ahead, sizeof(u->sealed) - u->ahead);
	unsigned char rest[16];
	size_t len;
	int r, end;

	if (n < 0)
		return (int)n;
	u->ahead += (size_t)n;
	u->last = u->ahead < sizeof(u->sealed);
	len = u->last ? u->ahead : CHUNK + TAG;
	if (len < TAG)
		return -EBADMSG;
	r = crypt_chunk(&u->crypt, u->last, u->sealed, len - TAG, u->plain);
	if (r < 0)
		return r;
	if (EVP_CIPHER_CTX_ctrl(u->crypt.ctx, EVP_CTRL_AEAD_SET_TAG, TAG, u->sealed + len - TAG) !=
		    1 ||
	    EVP_CipherFinal_ex(u->crypt.ctx, rest, &end) != 1)
		return -EBADMSG;
	u->at = 0;
	u->len = len - TAG;
	u->sealed[0] = u->sealed[len]; /* the byte behind it, unless it is the last */
	u->ahead -= len;
	return 0;
}

static ssize_t get(struct source *source, void *buf, size_t len)
{
	struct unsealer *u = container_of(source, struct unsealer, source);
	size_t done = 0;

	while (done < len) {
		size_t n;
		int r;

		if (u->at == u->len) {
			if (u->last)
				break;
			r = next_chunk(u);
			if (r < 0) {
				u->at = u->len = 0;
				return r;
			}
			continue;
		}
		n = MIN(len - done, u->len - u->at);
		memcpy((char *)buf + done, u->plain + u->at, n);
		u->at += n;
		done += n;
	}
	return (ssize_t)done;
}

static int get_header(const struct seal_key *key, struct source *from, unsigned char ret_salt[SALT])
{
	uint8_t bytes[HEADER], id[KEY_ID];
	struct proto_in in = {bytes, bytes + sizeof(bytes), false};
	int r = source_read(from, bytes, sizeof(bytes));
	char magic[8];

	if (r < 0)
		return r;
	get_bytes(&in, magic, sizeof(magic));
	if (memcmp(magic, MAGIC, sizeof(magic)) != 0)
		return -EBADMSG;
	if (get_u32(&in) != VERSION)
		return -EPROTONOSUPPORT;
	get_bytes(&in, id, KEY_ID);
	get_bytes(&in, ret_salt, SALT);
	return CRYPTO_memcmp(id, key->id, KEY_ID) == 0 ? 0 : -EKEYREJECTED;
}

int unsealer_new(const struct seal_key *key, const char *what, struct source *from,
		 struct unsealer **ret_unsealer)
{
	struct unsealer *u = calloc(1, sizeof(*u));
	unsigned char salt[SALT];
	int r = u ? get_header(key, from, salt) : -ENOMEM;

	if (r == 0)
		r = crypt_begin(&u->crypt, key, salt, what, false);
	if (r < 0) {
		unsealer_free(u);
		return r;
	}
	u->source.read = get;
	u->from = from;
	*ret_unsealer = u;
	return 0;
}

struct source *unsealer_source(struct unsealer *u)
{
	return &u->source;
}

struct unsealer *unsealer_free(struct unsealer *u)
{
	if (u)
		EVP_CIPHER_CTX_free(u->crypt.ctx);
	free(u);
	return NULL;
}

/* ---- in memory ---- */

struct buf_sink {
	struct sink sink;
	struct buf *buf;
};

static int append(struct sink *s, const void *data, size_t len)
{
	return buf_append(container_of(s, struct buf_sink, sink)->buf, data, len);
}

int seal_bytes(const struct seal_key *key, const char *what, const void *data, size_t len,
	       struct buf *out)
{
	struct buf_sink to = {{append}, out};
	struct sealer *s = NULL;
	int r = sealer_new(key, what, &to.sink, &s);

	if (r == 0)
		r = put(&s->sink, data, len);
	if (r == 0)
		r = sealer_end(s);
	sealer_free(s);
	return r;
}

int unseal_bytes(const struct seal_key *key, const char *what, const void *data, size_t len,
		 struct buf *out)
{
	struct byte_source from = byte_source(data, len);
	struct unsealer *u = NULL;
	char piece[4096];
	ssize_t n = 1;
	int r = unsealer_new(key, what, &from.source, &u);

	while (r == 0 && n > 0) {
		n = get(&u->source, piece, sizeof(piece));
		r = n < 0 ? (int)n : buf_append(out, piece, (size_t)n);
	}
	seal_clear(piece, sizeof(piece));
	unsealer_free(u);
	return r;
}
