/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning and the end of a configuration. */
#include "daemon_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "vm/base/secret_list.h"
#include "vm/base/spec.h"

int conf_init(struct conf *c)
{
	/* The first is the one that examples show. */
	static const char *const builtin[] = {"shell", "python", "javascript", "raw", "dev"};
	const struct conf_source nowhere = {0};

	*c = (struct conf){.log_level = LOG_NLEVELS};
	if (key_init(CONF_GLOBAL, CONF_OPTION, c) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(builtin); i++) {
		if (!conf_template_get(c, builtin[i], &nowhere))
			return -ENOMEM;
	}
	return 0;
}

void conf_clear(struct conf *c)
{
	free(c->mountpoint);
	free(c->audit_where);
	key_clear(CONF_GLOBAL, CONF_OPTION, c);
	for (size_t i = 0; i < PACKAGES_NKINDS; i++)
		packages_clear(&c->packages.list[i]);
	for (size_t i = 0; i < c->ntemplates; i++) {
		free(c->template[i].name);
		settings_clear(&c->template[i].settings);
	}
	secret_list_fini(&c->vm.secrets);
	quotas_clear(&c->quota);
	quotas_clear(&c->known);
	free(c->vm_users);
	spec_free(&c->learn);
	buf_clear(&c->notes);
	buf_clear(&c->files);
	*c = (struct conf){0};
}
