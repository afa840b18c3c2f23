/* SPDX-License-Identifier: Apache-2.0 */
/* All keys as text. See key_list.h. */
#include "key_list.h"

#include "key.h"
#include "vm/base/buf.h"
#include "vm/base/util.h"

static const char *section_name(enum conf_section section)
{
	static const char *const others[CONF_NSECTIONS] = {
		[CONF_OPTION] = "option", [CONF_TEMPLATE] = "template", [CONF_SESSION] = "config"};

	return others[section] ? others[section] : key_section(section);
}

static const char *kind(enum key_type type)
{
	switch ((int)type) {
	case KEY_NUMBER:
	case KEY_COUNT: return "number";
	case KEY_SIZE: return "size";
	case KEY_PATH:
	case KEY_PROGRAM:
	case KEY_OWN_FILE:
	case KEY_RO:
	case KEY_RW:
	case KEY_WORK: return "path";
	default: return "text";
	}
}

static int put_values(const struct key *k, struct buf *out)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(k->words) && k->words[i]; i++)
		r = buf_printf(out, "%s%s", i ? "|" : "", k->words[i]);
	if (r >= 0 && !k->words[0])
		r = buf_printf(out, "%s", kind(k->type));
	else if (r >= 0 && (k->type == KEY_PATH || k->type == KEY_PROGRAM))
		r = buf_printf(out, "|path");
	return r;
}

int key_list(struct buf *out)
{
	int r = 0;

	for (enum conf_section s = 0; s < CONF_NSECTIONS; s++) {
		for_each_key(k, s)
		{
			if (r >= 0)
				r = buf_printf(out, "%s\t%s\t", section_name(s), k->name);
			if (r >= 0)
				r = put_values(k, out);
			if (r >= 0)
				r = buf_printf(out, "\t%s\t%s\n", k->standard ? k->standard : "",
					       k->comment ? k->comment : "");
		}
	}
	return r;
}
