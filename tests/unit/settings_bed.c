/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of settings: those of one session, and what is said of a text. */
/* modules: fs/settings.c fs/settings_parse.c fs/paths.c vm/path.c fs/env.c fs/problem.c vm/buf.c */
/* modules: fs/netset.c vm/allow_check.c vm/net/allow.c vm/net/address.c */
#include "settings_bed.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

const struct settings_limits none = {0};

int settings_bed_setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_int_equal(settings_init(&f->s), 0);
	*state = f;
	return 0;
}

int settings_bed_teardown(void **state)
{
	struct fixture *f = *state;

	settings_clear(&f->s);
	free(f);
	return 0;
}

int parse(struct fixture *f, const char *text)
{
	return settings_parse(&f->s, text, strlen(text), &none, &f->why);
}

void assert_refused(struct fixture *f, const char *text, const char *code, const char *about)
{
	assert_int_equal(parse(f, text), -EINVAL);
	assert_string_equal(f->why.code, code);
	if (!strstr(f->why.cause, about))
		fail_msg("\"%s\" does not name \"%s\"", f->why.cause, about);
	assert_true(*f->why.fix);
}
