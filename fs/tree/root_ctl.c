/* SPDX-License-Identifier: Apache-2.0 */
/* The root's `ctl` node: what is logged, while the mount is there. See root_ctl.h. */
#include "root_ctl.h"

#include <ctype.h>
#include <errno.h>

#include "fs/session/fs.h"
#include "fs/session/complaint.h"
#include "fs/session/quota.h"
#include "vm/base/log.h"

static void refuse(struct fs *fs, const char *text, size_t len)
{
	struct problem p;

	problem_set(&p, PROBLEM_UNKNOWN_VERB, "Write error, warning, info or debug.",
		    "\"%s\" is no level of the log", problem_quote_bytes(text, len).text);
	complaint_tell(fs, quota_whose(fs, NULL), &p);
}

static int root_ctl_write(struct handle *h, const void *data, size_t size, uint64_t offset)
{
	const char *text = data;
	enum log_level level;

	(void)offset;
	while (size && isspace((unsigned char)text[size - 1]))
		size--;
	while (size && isspace((unsigned char)*text)) {
		text++;
		size--;
	}
	if (log_level_parse(text, size, &level) < 0) {
		refuse(h->fs, text, size);
		return -EINVAL;
	}
	vm_log_level(h->fs->vm, level);
	log_info("log level: %s", log_level_str(level));
	return 0;
}

static int root_ctl_truncate(struct handle *h, uint64_t size)
{
	(void)h;
	(void)size;
	return 0;
}

const struct handle_ops root_ctl_ops = {
	.write = root_ctl_write,
	.truncate = root_ctl_truncate,
};
