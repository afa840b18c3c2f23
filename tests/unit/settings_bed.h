/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of settings: those of one session, and what is said of a text. */
#ifndef XSBX_SETTINGS_BED_H
#define XSBX_SETTINGS_BED_H

#include "fs/netset.h"

extern const struct settings_limits none;

/* The state of each test. */
struct fixture {
	struct settings s;
	struct vm_problem why;
};

int settings_bed_setup(void **state);
int settings_bed_teardown(void **state);

int parse(struct fixture *f, const char *text);

/* @text is refused with @code, and the words name @about. */
void assert_refused(struct fixture *f, const char *text, const char *code, const char *about);

#endif
