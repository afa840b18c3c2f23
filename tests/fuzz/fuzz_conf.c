/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the configuration: an input with an odd number of bytes is a file, another one is a -o. */
/* modules: fs/config/daemon.c fs/config/daemon_key.c fs/config/daemon_file.c fs/config/daemon_again.c vm/base/record.c fs/config/daemon_template.c fs/config/daemon_image.c vm/base/trusted.c fs/config/daemon_init.c fs/config/packages.c fs/config/settings.c fs/config/key.c fs/config/value.c vm/base/upstream.c vm/base/spec.c fs/config/paths.c vm/base/path.c fs/config/network.c fs/config/ruleset.c vm/base/rules.c vm/base/place.c vm/base/http_path.c vm/base/words.c vm/base/secret_use.c vm/base/secret_list.c vm/base/problem.c fs/tree/help.c vm/base/buf.c fs/config/entry.c fs/config/words.c fs/config/quota.c vm/base/exact.c */
/* modules: vm/net/allow_check.c vm/base/allow.c vm/base/address.c */
/* libs: inih */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "fs/config/daemon_internal.h"
#include "fs/tree/help.h"

#define BUILTIN 5 /* templates */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_file(struct conf *c, const uint8_t *data, size_t size, struct conf_source *src)
{
	FILE *file = fmemopen((void *)data, size, "r");
	int r;

	assert(file);
	src->file = "fuzz";
	src->only = size % 4 == 3 ? "app" : NULL; /* as an image brings it */
	r = conf_read(c, file, src);
	for (size_t i = 0; src->only && i < c->ntemplates; i++) {
		const struct sandbox_spec *spec = &c->template[i].settings.spec;

		assert(spec->npaths == 0 && !spec->work && !spec->root && !spec->network);
		assert(i < BUILTIN || strcmp(c->template[i].name, "app") == 0);
	}
	src->only = NULL;
	fclose(file);
	return r;
}

static int read_option(struct conf *c, const uint8_t *data, size_t size,
		       const struct conf_source *src)
{
	char *text = strndup((const char *)data, size);
	int r;

	assert(text);
	r = conf_set_options(c, text, src);
	free(text);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char why[512] = "";
	struct conf_source src = {.why = why, .why_size = sizeof(why)};
	struct buf help = {0};
	struct conf c;
	int r;

	assert(conf_init(&c) == 0);
	if (size % 2)
		r = read_file(&c, data, size, &src);
	else
		r = read_option(&c, data, size, &src);
	if (r == 0)
		r = conf_settle(&c, &src);
	assert(r == 0 || (r < 0 && *why)); /* the errno may be that of a file it names */
	for (size_t i = 0; i < c.ntemplates && r == 0; i++) {
		assert(plain_name_ok(c.template[i].name) &&
		       plain_name_ok(c.template[i].settings.spec.image));
		assert(c.template[i].settings.spec.memory_mb >= 128);
		assert(help_session(&c.template[i], &c.template[i].settings, &help) == 0);
	}
	assert(r < 0 || help_root(&c, &help) == 0);
	buf_clear(&help);
	conf_clear(&c);
	return 0;
}
