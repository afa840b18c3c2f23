/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets that come by the environment. */
#include "secret.h"

#include <stdlib.h>
#include <string.h>

char *secret_take(const char *name)
{
	char *value = getenv(name);
	char *copy = value && *value ? strdup(value) : NULL;

	if (value)
		explicit_bzero(value, strlen(value));
	unsetenv(name);
	return copy;
}
