/* SPDX-License-Identifier: Apache-2.0 */
/* The value of a secret, and how it may look where somebody repeats it. */
#ifndef XSBX_VM_NET_FILTER_SECRET_VALUE_H
#define XSBX_VM_NET_FILTER_SECRET_VALUE_H

#include <stddef.h>
#include <stdint.h>

#include "vm/base/secret_use.h"

#define SECRET_VALUE_MIN 6 /* bytes: what is shorter is found by chance where it is not meant */
#define SECRET_FORMS_MAX 48

struct secret_form {
	const uint8_t *bytes;
	size_t len;
};

/*
 * Counted: it is kept by the list of secrets, and by each connection over which it went. Its memory is wiped with the last.
 *
 * - `form[0]` is the value itself; no two are the same.
 * - `label` is what stands in its place: SECRET_PLACEHOLDER and its name.
 */
struct secret_value {
	unsigned refs;
	char label[sizeof(SECRET_PLACEHOLDER) + SECRET_NAME_MAX];
	struct secret_form form[SECRET_FORMS_MAX];
	unsigned nforms;
	uint8_t *memory; /* of all forms */
	size_t size;
};

/**
 * secret_value_new() - Keep a value
 * @name: Of the secret
 * @bytes: Value: SECRET_VALUE_MIN to SECRET_VALUE_MAX bytes, none of them a control character
 * @len: Its length
 * @ret_value: Result; release it with secret_value_unref()
 *
 * Return: 0, -EINVAL for a control character, -EMSGSIZE for another length, -ENOMEM.
 */
int secret_value_new(const char *name, const void *bytes, size_t len,
		     struct secret_value **ret_value);

struct secret_value *secret_value_ref(struct secret_value *v);
void secret_value_unref(struct secret_value *v);

/* Writes it with %XX for all but unreserved characters. @to has three bytes for each of it. Return: how many. */
size_t secret_value_percent(const struct secret_value *v, char *to);

/* Writes it as it stands in a JSON string. @to has two bytes for each of it. Return: how many. */
size_t secret_value_json(const struct secret_value *v, char *to);

#endif
