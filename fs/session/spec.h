/* SPDX-License-Identifier: Apache-2.0 */
/* The spec of the sandbox that a session needs, or a template. */
#ifndef XSBX_FS_SESSION_SPEC_H
#define XSBX_FS_SESSION_SPEC_H

#include "vm/vm.h"
#include "fs/config/settings.h"
#include "netenv.h"

struct fs;
struct session;

#define SPEC_ENV_MAX (SETTINGS_ENV_MAX + NETENV_MAX)

/* `sandbox` points into the rest of it, and into what it was made from. */
struct spec {
	struct sandbox_spec sandbox;
	char name[160];
	struct sandbox_env env[SPEC_ENV_MAX], template_env[SPEC_ENV_MAX];
	struct vm_path paths[VM_PATHS_MAX];
	char *allow;
};

/* Return: 0 or -errno; spec_clear() is due whatever the result. */
int spec_of_session(struct spec *spec, const struct session *s);
void spec_clear(struct spec *spec);

/* Prepares the templates that the configuration names, at the start of the mount. */
void spec_prepare(struct fs *fs);

#endif
