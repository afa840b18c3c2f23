/* SPDX-License-Identifier: Apache-2.0 */
/* What sandbox a session wants, or a template. */
#ifndef XSBX_FS_SESSION_SPEC_H
#define XSBX_FS_SESSION_SPEC_H

#include "vm/vm.h"
#include "fs/config/settings.h"
#include "netenv.h"

struct fs;
struct session;

#define SPEC_ENV_MAX (SETTINGS_ENV_MAX + NETENV_MAX)

/* `sandbox` points into the rest of it, and into what it was made of. */
struct spec {
	struct sandbox_spec sandbox;
	char name[160];
	struct sandbox_env env[SPEC_ENV_MAX], template_env[SPEC_ENV_MAX];
	char *allow;
};

/* Return: 0 or -errno; spec_clear() it whatever the result. */
int spec_of_session(struct spec *spec, const struct session *s);
void spec_clear(struct spec *spec);

/* Has those templates made ready that the configuration says, from the start of the mount. */
void spec_prepare(struct fs *fs);

#endif
