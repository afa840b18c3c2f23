/* SPDX-License-Identifier: Apache-2.0 */
/* One side of a connection over TLS that is looked into. */
#ifndef XSBX_VM_NET_FILTER_TLS_H
#define XSBX_VM_NET_FILTER_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/base/buf.h"

struct authority;
struct tls;
struct tls_kit;

/**
 * tls_kit_new() - What all sides have in common
 * @authority: Signs certificates for the guest; must outlive the kit
 * @ret_kit: Result; end it with tls_kit_free()
 *
 * Return: 0 or -ENOMEM.
 */
int tls_kit_new(struct authority *authority, struct tls_kit **ret_kit);
void tls_kit_free(struct tls_kit *kit);

/* Adds the certificates of a file in PEM format to those by which servers are judged; there are none before that. @bytes need not be
 * terminated. Return: how many were added, or -ENOMEM. */
int tls_kit_trust(struct tls_kit *kit, const void *bytes, size_t len);

/**
 * tls_accept() - Begin the side towards a client
 * @kit: Kit
 * @name: The server that it wants: another name in its hello is refused; "": any, which is tls_name() from TLS_CHOOSES on
 * @out: What is to be sent to the other end is added to it, by any of these functions; must outlive it
 * @ret_tls: Result; end it with tls_free()
 *
 * Return: 0 or -ENOMEM.
 */
int tls_accept(struct tls_kit *kit, const char *name, struct buf *out, struct tls **ret_tls);

/* Begins the side towards a server, whose certificate has to be for @name. @h2: offer that as well. Return: as above. */
int tls_connect(struct tls_kit *kit, const char *name, bool h2, struct buf *out,
		struct tls **ret_tls);

void tls_free(struct tls *t);

enum tls_stage {
	TLS_SHAKES,  /* needs more from the other end */
	TLS_CHOOSES, /* the client's hello is there: tls_choose() is due */
	TLS_OPEN,
	TLS_FAILED, /* tls_why() */
};

/* Goes on with the handshake. */
enum tls_stage tls_shake(struct tls *t);

/* Has the client offered HTTP/2? From TLS_CHOOSES on. */
bool tls_offers_h2(const struct tls *t);
/* Which of both it is to be. */
void tls_choose(struct tls *t, bool h2);

/* Is it HTTP/2 that was agreed on? From TLS_OPEN on. */
bool tls_is_h2(const struct tls *t);

/* The server that it is for. */
const char *tls_name(const struct tls *t);

/* What failed, for people. */
const char *tls_why(const struct tls *t);

/* Takes in what has come from the other end. Return: 0 or -ENOMEM. */
int tls_feed(struct tls *t, const void *bytes, size_t len);

/* Reads what it says. Return: bytes; -EAGAIN: nothing there; 0: it has said that it ends; -EPROTO. */
ssize_t tls_read(struct tls *t, void *ret_bytes, size_t size);

/* Says something. Return: 0 or -EPROTO. */
int tls_write(struct tls *t, const void *bytes, size_t len);

/* Says that nothing more comes. */
void tls_end(struct tls *t);

#endif
