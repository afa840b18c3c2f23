/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the server name that a TLS client announces. */
#include "hello.h"

#include <errno.h>
#include <string.h>

#include "vm/base/allow.h"
#include "vm/base/net_reason.h"

/*
 * Theory of operation
 * -------------------
 * A client names its server in the ClientHello, in the clear. That message is put into records,
 * which are put into segments, and both may cut it anywhere: so it is gathered from its records
 * first, and nothing of it passes before all of it was read and found to be well-formed. A hello
 * that two readers could understand differently (two server names, two extensions of a kind,
 * lengths that do not add up) is refused, because the server might read it the other way.
 *
 * A hello that hides the name (ECH and its drafts) is refused whatever name it wears outside: the
 * servers that can decrypt it serve many names behind one address. Clients that send such an
 * extension only for show cannot be told apart from the others, and are refused as well.
 *
 * The name may come a second time: a TLS 1.3 server can ask for another hello, and some believe
 * that one. So records are watched until one says that the time of hellos is over: encrypted data,
 * or any other handshake message in the clear. A ChangeCipherSpec does not, TLS 1.3 clients may
 * send one before their second hello; what follows it is either that hello or noise (an encrypted
 * TLS 1.2 message), which its first bytes tell apart. Nor does encrypted data if the hello announced
 * it as early data: a server may skip that and ask again, so such a connection is watched to its end.
 */

#define RECORD_HEADER	 5
#define RECORD_MAX	 (16384 + 2048) /* an encrypted one, in TLS 1.2 */
#define RECORD_CIPHER	 20
#define RECORD_ALERT	 21
#define RECORD_HANDSHAKE 22
#define RECORD_DATA	 23

#define MESSAGE_HEADER	 4
#define MESSAGE_HELLO	 1

#define EXT_SERVER_NAME	 0x0000
#define EXT_EARLY_DATA	 0x002a
#define EXT_ECH		 0xfe0d
#define EXT_ESNI	 0xffce
#define EXTS_MAX	 128

/* A piece of a message that is eaten from its front; `bad` once it was too short. */
struct bytes {
	const uint8_t *p;
	size_t len;
	bool bad;
};

static const uint8_t *eat(struct bytes *b, size_t n)
{
	const uint8_t *p = b->p;

	if (b->bad || b->len < n) {
		b->bad = true;
		return NULL;
	}
	b->p += n;
	b->len -= n;
	return p;
}

/* A number of @width bytes. */
static size_t eat_number(struct bytes *b, unsigned width)
{
	const uint8_t *p = eat(b, width);
	size_t v = 0;

	for (unsigned i = 0; p && i < width; i++)
		v = v << 8 | p[i];
	return v;
}

/* What a length of @width bytes is in front of. */
static struct bytes eat_vector(struct bytes *b, unsigned width)
{
	const size_t len = eat_number(b, width);
	const uint8_t *p = eat(b, len);

	return (struct bytes){p, p ? len : 0, !p};
}

static bool is_hidden(size_t type)
{
	return type == EXT_ECH || type == EXT_ESNI || (type >= 0xfe02 && type <= 0xfe0c) ||
	       (type >= 0xff02 && type <= 0xff04);
}

static unsigned check_server_name(struct bytes ext, const char *name)
{
	struct bytes names = eat_vector(&ext, 2), host;
	char asked[ALLOW_NAME_MAX + 1];
	size_t type;

	type = eat_number(&names, 1);
	host = eat_vector(&names, 2);
	if (names.bad || host.bad || names.len || ext.len || type != 0)
		return NET_NOT_TLS;
	if (allow_canonical((const char *)host.p, host.len, asked) < 0)
		return NET_SERVER_NAME;
	return strcmp(asked, name) ? NET_SERVER_NAME : NET_OK;
}

/* @msg: the body of a ClientHello. */
static unsigned check_hello(struct hello *h, struct bytes msg, const char *name)
{
	unsigned reason = NET_NO_SERVER_NAME, n = 0;
	size_t seen[EXTS_MAX];
	struct bytes exts;

	eat(&msg, 2 + 32);   /* version, random */
	eat_vector(&msg, 1); /* session */
	eat_vector(&msg, 2); /* ciphers */
	eat_vector(&msg, 1); /* compression */
	if (!msg.bad && msg.len == 0)
		return NET_NO_SERVER_NAME;
	exts = eat_vector(&msg, 2);
	if (msg.bad || msg.len)
		return NET_NOT_TLS;
	while (exts.len) {
		const size_t type = eat_number(&exts, 2);
		const struct bytes ext = eat_vector(&exts, 2);

		if (exts.bad || n == EXTS_MAX)
			return NET_NOT_TLS;
		for (unsigned i = 0; i < n; i++)
			if (seen[i] == type)
				return NET_NOT_TLS;
		seen[n++] = type;
		if (is_hidden(type))
			return NET_ENCRYPTED_HELLO;
		h->early |= type == EXT_EARLY_DATA;
		if (type == EXT_SERVER_NAME)
			reason = check_server_name(ext, name);
		if (reason != NET_OK && reason != NET_NO_SERVER_NAME)
			return reason;
	}
	return reason;
}

/* The payload's length of the record at @data, of which the header is there; -1 if it is none. */
static int record_length(const uint8_t *data)
{
	const int len = data[3] << 8 | data[4];

	return data[1] == 3 && data[2] <= 4 && len <= RECORD_MAX ? len : -1;
}

/*
 * Gathers a ClientHello from the records at @data into @msg.
 * Return: the records' length, 0 if there is more to come, or -1 if that is no ClientHello.
 */
static int gather(const uint8_t *data, size_t len, uint8_t *msg, size_t *ret_len)
{
	size_t at = 0, have = 0, want = MESSAGE_HEADER;

	while (have < want) {
		int n;

		if (len - at > 0 && data[at] != RECORD_HANDSHAKE)
			return -1;
		if (len - at < RECORD_HEADER)
			return 0;
		n = record_length(data + at);
		if (n <= 0 || have + (size_t)n > HELLO_MAX)
			return -1;
		at += RECORD_HEADER;
		/* The first bytes are looked at even if the record is not complete. */
		if (len - at < (size_t)n)
			return len - at > 0 && have == 0 && data[at] != MESSAGE_HELLO ? -1 : 0;
		memcpy(msg + have, data + at, (size_t)n);
		have += (size_t)n;
		at += (size_t)n;
		if (msg[0] != MESSAGE_HELLO)
			return -1;
		if (have >= MESSAGE_HEADER)
			want = MESSAGE_HEADER + (size_t)(msg[1] << 16 | msg[2] << 8 | msg[3]);
		if (want > HELLO_MAX)
			return -1;
	}
	if (have > want) /* another message in the same record */
		return -1;
	*ret_len = have;
	return (int)at;
}

static int check_greeting(struct hello *h, const uint8_t *data, size_t len, const char *name,
			  unsigned *ret_reason)
{
	uint8_t msg[HELLO_MAX];
	size_t have = 0;
	int n;

	n = gather(data, len, msg, &have);
	if (n == 0)
		return 0;
	*ret_reason = NET_NOT_TLS;
	if (n > 0)
		*ret_reason = check_hello(
			h, (struct bytes){msg + MESSAGE_HEADER, have - MESSAGE_HEADER, false},
			name);
	if (*ret_reason != NET_OK)
		return -EACCES;
	h->greeted = true;
	return n;
}

/* Is the handshake record at @data, behind a ChangeCipherSpec, a hello in the clear? */
static bool is_second_hello(const uint8_t *data, int len)
{
	const uint8_t *msg = data + RECORD_HEADER;

	if (msg[0] != MESSAGE_HELLO)
		return false;
	/* Of a version, and of a length that some server takes: 128 KiB. One of five million encrypted messages
	 * looks like that. */
	return len < 16 || (msg[1] <= 2 && msg[4] == 3);
}

/* Passes what there is of a record of data. */
static int pass_record(struct hello *h, size_t len)
{
	const unsigned n = h->skip < len ? h->skip : (unsigned)len;

	h->skip -= n;
	return (int)n;
}

int hello_check(struct hello *h, const uint8_t *data, size_t len, const char *name,
		unsigned *ret_reason)
{
	int n;

	if (h->done)
		return (int)len;
	if (h->skip)
		return pass_record(h, len);
	if (!h->greeted)
		return check_greeting(h, data, len, name, ret_reason);
	if (len < RECORD_HEADER)
		return 0;
	n = record_length(data);
	*ret_reason = NET_NOT_TLS;
	if (n < 0)
		return -EACCES;
	switch (data[0]) {
	case RECORD_CIPHER:
	case RECORD_ALERT:
		if (n > 64)
			return -EACCES;
		if (len < RECORD_HEADER + (size_t)n)
			return 0;
		h->changed |= data[0] == RECORD_CIPHER;
		return RECORD_HEADER + n;
	case RECORD_HANDSHAKE:
		if (len < RECORD_HEADER + (size_t)(n < 16 ? n : 16))
			return 0;
		if (n == 0)
			return -EACCES;
		if (h->changed ? is_second_hello(data, n) : data[RECORD_HEADER] == MESSAGE_HELLO)
			return check_greeting(h, data, len, name, ret_reason);
		h->done = true;
		return (int)len;
	case RECORD_DATA:
		h->skip = RECORD_HEADER + (unsigned)n;
		h->done = !h->early;
		return h->done ? (int)len : pass_record(h, len);
	default: return -EACCES;
	}
}
