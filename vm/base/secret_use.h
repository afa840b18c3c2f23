/* SPDX-License-Identifier: Apache-2.0 */
/* Which secrets go with which requests: names of secrets, never their values. */
#ifndef XSBX_VM_BASE_SECRET_USE_H
#define XSBX_VM_BASE_SECRET_USE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "place.h"

struct http_path;

/*
 * One use a line, `PLACE WAY [ARGUMENT] NAME`; # starts a comment. (Blanks separate as well as newlines: each way has a known
 * number of words.)
 *
 *	api.example.com bearer NAME		Authorization: Bearer VALUE
 *	api.example.com basic USER NAME		Authorization: Basic base64(USER:VALUE)
 *	api.example.com header X-Api-Key NAME	X-Api-Key: VALUE
 *	api.example.com query key NAME		key=VALUE, the last parameter of the query
 *	api.example.com placeholder NAME	xsbx-secret-NAME becomes VALUE, in headers, the query, and bodies up to 64 KiB
 *
 * A place without a port means 443 alone, where nothing but TLS is spoken (guard.h): secrets go over plain HTTP only where another
 * port says so, if the client speaks that there. It is never *: who gets a secret is named.
 */
#define SECRET_USES_TEXT_MAX 16384
#define SECRET_USES_MAX	     64
#define SECRET_NAME_MAX	     64 /* of [A-Za-z0-9._-], not starting with a dot or a dash */
#define SECRET_VALUE_MAX     16384 /* bytes: no control characters; newlines at the end are taken off */
#define SECRET_PLACEHOLDER   "xsbx-secret-"

enum secret_way { SECRET_BEARER, SECRET_BASIC, SECRET_HEADER, SECRET_QUERY, SECRET_IN_PLACE };

struct secret_use {
	struct place place;
	enum secret_way way;
	const char *argument; /* the user, header or parameter; "" if there is none */
	const char *name;
};

/* All zeroes is a valid list without any. */
struct secret_uses {
	struct secret_use *use;
	size_t n;
	char *text;
};

/* The word for a way. */
const char *secret_way_str(enum secret_way way);

/* As rules_parse(). A header that frames the message or names its host (Host, Content-Length, Transfer-Encoding, Connection, ...)
 * is no header for a secret. */
int secret_uses_parse(const char *text, size_t len, struct secret_uses *ret_uses,
		      char ret_why[static 128]);
void secret_uses_fini(struct secret_uses *uses);

/* Writes use @i as text, without a newline. Return: as snprintf(). */
int secret_uses_print(const struct secret_uses *uses, size_t i, char *ret_text, size_t size);

/* Is this a name for a secret? */
bool secret_name_is_valid(const char *name, size_t len);

/* Does it go to @host and @port with this path, however a server may read it? */
bool secret_use_fits(const struct secret_use *use, const char *host, uint16_t port,
		     const struct http_path *path);

/* Is there one that may go to @host and @port, whatever the path? */
bool secret_uses_have_host(const struct secret_uses *uses, const char *host, uint16_t port);

#endif
