/* SPDX-License-Identifier: Apache-2.0 */
/* One side of a connection over TLS that is looked into. */
#include "tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "authority.h"
#include "vm/base/allow.h"
#include "vm/base/util.h"

/*
 * Theory of operation
 * -------------------
 * OpenSSL takes its records from `in`, and puts them where whoever began the side wants them; this process's sockets are read and
 * written by flow.c alone. What has been taken is freed: a side that is quiet keeps nothing.
 *
 * The side towards the guest is a server with the certificate of the name that the guest has looked up, signed by the session's
 * authority. Its handshake stops at the client's hello (TLS_CHOOSES): which version of HTTP is spoken depends on what the real
 * server speaks, for what is passed on is not translated from one version into the other.
 *
 * The side towards the server is a client like any other, which trusts what the host trusts. A server that this does not trust
 * is not talked to: the guest, which cannot judge it any more, gets an answer that says so.
 */

#define ALPN_H2	     "\x02h2"
#define ALPN_HTTP1   "\x08http/1.1"
#define LEN(literal) (sizeof(literal) - 1)

struct tls_kit {
	struct authority *authority;
	SSL_CTX *server, *client;
	BIO_METHOD *records;
};

struct tls {
	struct tls_kit *kit;
	SSL *ssl;
	char name[ALLOW_NAME_MAX + 1];
	enum tls_stage stage;
	struct buf in; /* what has come from the other end, from `at` on */
	size_t at;
	struct buf *out;
	bool offers_h2, chosen, chosen_h2;
	char why[160];
};

/* ---- the client's hello ---- */

static bool offers(const uint8_t *list, size_t len, const char *protocol, size_t n)
{
	if (len < 2 || (size_t)(list[0] << 8 | list[1]) != len - 2)
		return false;
	for (size_t at = 2; at < len; at += 1u + list[at])
		if (at + n <= len && !memcmp(list + at, protocol, n))
			return true;
	return false;
}

/* A list with one name, of a host: the one that is wanted, or any if @name is "", which it is then. */
static bool names_server(const uint8_t *p, size_t len, char name[static ALLOW_NAME_MAX + 1])
{
	char canonical[ALLOW_NAME_MAX + 1];

	if (len < 5 || (size_t)(p[0] << 8 | p[1]) != len - 2 || p[2] != TLSEXT_NAMETYPE_host_name ||
	    (size_t)(p[3] << 8 | p[4]) != len - 5)
		return false;
	if (allow_canonical((const char *)p + 5, len - 5, canonical) < 0)
		return false;
	if (!*name)
		memcpy(name, canonical, sizeof(canonical));
	return !strcmp(canonical, name);
}

static int on_hello(SSL *ssl, int *alert, void *data)
{
	struct tls *t = SSL_get_app_data(ssl);
	const uint8_t *p;
	size_t len;
	bool meant;

	(void)data;
	if (t->chosen)
		return SSL_CLIENT_HELLO_SUCCESS;
	if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &p, &len))
		meant = names_server(p, len, t->name);
	else
		meant = *t->name; /* no name is that by which it was looked up */
	if (!meant) {
		snprintf(t->why, sizeof(t->why), "other TLS server name");
		*alert = SSL_AD_UNRECOGNIZED_NAME;
		return SSL_CLIENT_HELLO_ERROR;
	}
	if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &p,
				      &len))
		t->offers_h2 = offers(p, len, ALPN_H2, LEN(ALPN_H2));
	return SSL_CLIENT_HELLO_RETRY;
}

static int on_alpn(SSL *ssl, const uint8_t **ret, uint8_t *ret_len, const uint8_t *list,
		   unsigned len, void *data)
{
	const struct tls *t = SSL_get_app_data(ssl);
	const char *const chosen = t->chosen_h2 ? ALPN_H2 : ALPN_HTTP1;

	(void)data;
	for (unsigned at = 0; at < len; at += 1u + list[at]) {
		if (list[at] != (uint8_t)chosen[0] || at + 1u + list[at] > len ||
		    memcmp(list + at, chosen, 1u + list[at]) != 0)
			continue;
		*ret = list + at + 1;
		*ret_len = list[at];
		return SSL_TLSEXT_ERR_OK;
	}
	return SSL_TLSEXT_ERR_NOACK;
}

static int on_cert(SSL *ssl, void *data)
{
	const struct tls *t = SSL_get_app_data(ssl);
	EVP_PKEY *key;
	X509 *cert = authority_leaf(t->kit->authority, t->name, &key);

	(void)data;
	return cert && SSL_use_certificate(ssl, cert) && SSL_use_PrivateKey(ssl, key);
}

/* ---- records ---- */

static int on_read(BIO *bio, char *ret, int size)
{
	struct tls *t = BIO_get_data(bio);
	const size_t n = MIN(t->in.len - t->at, (size_t)size);

	BIO_clear_retry_flags(bio);
	if (n == 0) {
		BIO_set_retry_read(bio);
		return -1;
	}
	memcpy(ret, t->in.data + t->at, n);
	t->at += n;
	if (t->at == t->in.len) {
		buf_clear(&t->in);
		t->at = 0;
	}
	return (int)n;
}

static int on_write(BIO *bio, const char *bytes, int len)
{
	struct tls *t = BIO_get_data(bio);

	return buf_append(t->out, bytes, (size_t)len) < 0 ? -1 : len;
}

static long on_control(BIO *bio, int what, long number, void *data)
{
	(void)bio;
	(void)number;
	(void)data;
	return what == BIO_CTRL_FLUSH;
}

static BIO_METHOD *new_records(void)
{
	BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "records");

	if (m && BIO_meth_set_read(m, on_read) && BIO_meth_set_write(m, on_write) &&
	    BIO_meth_set_ctrl(m, on_control))
		return m;
	BIO_meth_free(m);
	return NULL;
}

/* ---- what all have in common ---- */

static SSL_CTX *new_context(const SSL_METHOD *method)
{
	SSL_CTX *c = SSL_CTX_new(method);

	if (!c)
		return NULL;
	SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
	SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
				    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	return c;
}

int tls_kit_new(struct authority *authority, struct tls_kit **ret_kit)
{
	struct tls_kit *kit = calloc(1, sizeof(*kit));

	if (!kit)
		return -ENOMEM;
	kit->authority = authority;
	kit->server = new_context(TLS_server_method());
	kit->client = new_context(TLS_client_method());
	kit->records = new_records();
	if (!kit->server || !kit->client || !kit->records) {
		tls_kit_free(kit);
		return -ENOMEM;
	}
	SSL_CTX_set_client_hello_cb(kit->server, on_hello, NULL);
	SSL_CTX_set_alpn_select_cb(kit->server, on_alpn, NULL);
	SSL_CTX_set_cert_cb(kit->server, on_cert, NULL);
	SSL_CTX_set_session_cache_mode(kit->server, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(kit->server, 1);
	SSL_CTX_set_verify(kit->client, SSL_VERIFY_PEER, NULL);
	*ret_kit = kit;
	return 0;
}

void tls_kit_free(struct tls_kit *kit)
{
	if (!kit)
		return;
	SSL_CTX_free(kit->server);
	SSL_CTX_free(kit->client);
	BIO_meth_free(kit->records);
	free(kit);
}

int tls_kit_trust(struct tls_kit *kit, const void *bytes, size_t len)
{
	X509_STORE *store = SSL_CTX_get_cert_store(kit->client);
	BIO *bio = len <= INT32_MAX ? BIO_new_mem_buf(bytes, (int)len) : NULL;
	X509 *cert;
	int n = 0;

	if (!bio)
		return -ENOMEM;
	while ((cert = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
		n += X509_STORE_add_cert(store, cert);
		X509_free(cert);
	}
	ERR_clear_error();
	BIO_free(bio);
	return n;
}

static int new_side(struct tls_kit *kit, SSL_CTX *ctx, const char *name, struct buf *out,
		    struct tls **ret_tls)
{
	struct tls *t = calloc(1, sizeof(*t));
	BIO *bio = BIO_new(kit->records);

	if (t)
		t->ssl = SSL_new(ctx);
	if (!t || !bio || !t->ssl) {
		BIO_free(bio);
		tls_free(t);
		return -ENOMEM;
	}
	t->kit = kit;
	t->out = out;
	snprintf(t->name, sizeof(t->name), "%s", name);
	SSL_set_app_data(t->ssl, t);
	BIO_set_data(bio, t);
	BIO_set_init(bio, 1);
	SSL_set_bio(t->ssl, bio, bio);
	*ret_tls = t;
	return 0;
}

int tls_accept(struct tls_kit *kit, const char *name, struct buf *out, struct tls **ret_tls)
{
	const int r = new_side(kit, kit->server, name, out, ret_tls);

	if (r == 0)
		SSL_set_accept_state((*ret_tls)->ssl);
	return r;
}

int tls_connect(struct tls_kit *kit, const char *name, bool h2, struct buf *out,
		struct tls **ret_tls)
{
	static const char both[] = ALPN_H2 ALPN_HTTP1;
	const uint8_t *list = (const uint8_t *)both + (h2 ? 0 : LEN(ALPN_H2));
	struct in_addr address;
	struct tls *t;
	bool ok;

	if (new_side(kit, kit->client, name, out, &t) < 0)
		return -ENOMEM;
	SSL_set_connect_state(t->ssl);
	if (inet_pton(AF_INET, name, &address) == 1)
		ok = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(t->ssl), name);
	else
		ok = SSL_set1_host(t->ssl, name) && SSL_set_tlsext_host_name(t->ssl, name);
	SSL_set_hostflags(t->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	/* This one alone returns 0 if all is well. */
	if (!ok || SSL_set_alpn_protos(t->ssl, list,
				       (unsigned)(LEN(both) - (h2 ? 0 : LEN(ALPN_H2)))) != 0) {
		tls_free(t);
		return -ENOMEM;
	}
	*ret_tls = t;
	return 0;
}

void tls_free(struct tls *t)
{
	if (!t)
		return;
	SSL_free(t->ssl);
	buf_clear(&t->in);
	free(t);
}

/* ---- one of them ---- */

static void explain(struct tls *t)
{
	const long verdict = SSL_get_verify_result(t->ssl);
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());

	if (*t->why)
		return;
	if (!SSL_is_server(t->ssl) && verdict != X509_V_OK)
		snprintf(t->why, sizeof(t->why), "the server's certificate is not trusted: %s",
			 X509_verify_cert_error_string(verdict));
	else
		snprintf(t->why, sizeof(t->why), "TLS: %s",
			 reason ? reason : "the connection was cut off");
}

enum tls_stage tls_shake(struct tls *t)
{
	int r;

	if (t->stage == TLS_OPEN || t->stage == TLS_FAILED)
		return t->stage;
	ERR_clear_error();
	r = SSL_do_handshake(t->ssl);
	if (r == 1) {
		t->stage = TLS_OPEN;
	} else {
		switch (SSL_get_error(t->ssl, r)) {
		case SSL_ERROR_WANT_READ:
		case SSL_ERROR_WANT_WRITE: t->stage = TLS_SHAKES; break;
		case SSL_ERROR_WANT_CLIENT_HELLO_CB: t->stage = TLS_CHOOSES; break;
		default: explain(t); t->stage = TLS_FAILED;
		}
	}
	return t->stage;
}

bool tls_offers_h2(const struct tls *t)
{
	return t->offers_h2;
}

void tls_choose(struct tls *t, bool h2)
{
	t->chosen = true;
	t->chosen_h2 = h2;
}

bool tls_is_h2(const struct tls *t)
{
	const uint8_t *p;
	unsigned len;

	SSL_get0_alpn_selected(t->ssl, &p, &len);
	return len == LEN(ALPN_H2) - 1 && !memcmp(p, &ALPN_H2[1], len);
}

const char *tls_name(const struct tls *t)
{
	return t->name;
}

const char *tls_why(const struct tls *t)
{
	return t->why;
}

int tls_feed(struct tls *t, const void *bytes, size_t len)
{
	return buf_append(&t->in, bytes, len);
}

ssize_t tls_read(struct tls *t, void *ret_bytes, size_t size)
{
	int r;

	ERR_clear_error();
	r = SSL_read(t->ssl, ret_bytes, (int)MIN(size, (size_t)INT32_MAX));
	if (r > 0)
		return r;
	switch (SSL_get_error(t->ssl, r)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE: return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN: return 0;
	default: explain(t); return -EPROTO;
	}
}

int tls_write(struct tls *t, const void *bytes, size_t len)
{
	const uint8_t *p = bytes;

	ERR_clear_error();
	while (len > 0) {
		const int r = SSL_write(t->ssl, p, (int)MIN(len, (size_t)INT32_MAX));

		if (r <= 0) {
			explain(t);
			return -EPROTO;
		}
		p += r;
		len -= (size_t)r;
	}
	return 0;
}

void tls_end(struct tls *t)
{
	if (t->stage == TLS_OPEN)
		(void)SSL_shutdown(t->ssl);
	ERR_clear_error();
}
