/* SPDX-License-Identifier: Apache-2.0 */
/* The owner that the host sees for files of a sandbox. See owner.h. */
#include "owner.h"

#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vm/base/util.h"
#include "fs.h"
#include "session.h"

/* A user who owns no files, by convention; and another one, for sessions of that user. */
#define NOBODY	     65534u
#define NOBODY_ELSES 65533u

/* Are both mapped here? In a user namespace they may not be, and then nobody could write. */
static bool is_mapped(const char *map)
{
	_cleanup_file_ FILE *f = fopen(map, "re");
	unsigned long long inside, outside, n;
	bool found = false;

	while (f && !found && fscanf(f, "%llu %llu %llu", &inside, &outside, &n) == 3)
		found = inside <= NOBODY_ELSES && NOBODY - inside < n;
	return found;
}

/* Are we root with all the capabilities needed? In a container, root may lack some. */
static bool is_refused_nothing(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2] = {0};
	const uint32_t need = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH | 1u << CAP_FOWNER;

	return getuid() == 0 && syscall(SYS_capget, &h, d) == 0 && (d[0].effective & need) == need;
}

enum owner_shown owner_choose(bool shared)
{
	if (!is_mapped("/proc/self/uid_map") || !is_mapped("/proc/self/gid_map"))
		return OWNER_SESSION;
	if (is_refused_nothing())
		return OWNER_NOBODY_FOR_ROOT;
	return shared ? OWNER_SESSION : OWNER_NOBODY_BY_STAT;
}

bool owner_is_checked(enum owner_shown shown)
{
	return shown != OWNER_NOBODY_BY_STAT;
}

static uint32_t not_of(uint32_t id)
{
	return id == NOBODY ? NOBODY_ELSES : NOBODY;
}

void owner_show(const struct session *s, bool asked, struct stat *st)
{
	bool nobody = false;

	switch (s->fs->shown) {
	case OWNER_NOBODY_FOR_ROOT: nobody = s->uid == 0; break;
	case OWNER_NOBODY_BY_STAT:
		nobody = asked && S_ISDIR(st->st_mode);
		st->st_mode &= ~(mode_t)S_ISVTX;
		break;
	case OWNER_SESSION: break;
	}
	st->st_uid = nobody ? not_of(s->uid) : s->uid;
	st->st_gid = nobody ? not_of(s->gid) : s->gid;
}

bool owner_is_kept(const struct session *s, uid_t uid, gid_t gid)
{
	const bool nobody = s->fs->shown != OWNER_SESSION;

	return (uid == UINT32_MAX || uid == s->uid || (nobody && uid == not_of(s->uid))) &&
	       (gid == UINT32_MAX || gid == s->gid || (nobody && gid == not_of(s->gid)));
}

const char *owner_words(enum owner_shown shown)
{
	static const char *const words[] = {
		[OWNER_SESSION] =
			"files are shown as their session owner's, and git DOES trust them; the "
			"kernel, which checks permissions here, leaves no choice",
		[OWNER_NOBODY_FOR_ROOT] =
			"files of root's sessions are shown as nobody's: git does not trust them; "
			"those of other users are shown as theirs, and their git DOES",
		[OWNER_NOBODY_BY_STAT] =
			"directories in files/ are shown as nobody's: git does not trust them",
	};

	return words[shown];
}
