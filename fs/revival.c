/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon that goes on where another one has died. See revival.h. */
#include "revival.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/config/daemon.h"
#include "fs/keep/keeper.h"
#include "fs/session/fs.h"
#include "succession.h"
#include "vm/base/estate.h"
#include "vm/base/io.h"
#include "vm/base/lent.h"
#include "vm/base/log.h"
#include "vm/base/memory.h"
#include "vm/base/util.h"
#include "vm/spawn/heir_wire.h"
#include "vm/spawn/spawner.h"

void revival_init(struct revival *rv, const char *word)
{
	const size_t len = strcspn(word, ":");

	*rv = (struct revival){0};
	rv->last = strncmp(word, HEIR_OPTION_LAST, len) == 0 && len == strlen(HEIR_OPTION_LAST);
	rv->revives = rv->last || (strncmp(word, HEIR_OPTION_REVIVE, len) == 0 &&
				   len == strlen(HEIR_OPTION_REVIVE));
	if (rv->revives && word[len])
		rv->signum = atoi(word + len + 1);
	rv->began = log_now();
}

int revival_open(struct revival *rv, struct spawner *sp, char *ret_why, size_t why_size)
{
	int r = bequest_prepare(&rv->bequest, true);

	if (r == 0)
		r = bequest_open(&rv->bequest, HEIR_FD_ESTATE, sp);
	if (r < 0)
		snprintf(ret_why, why_size, "what the daemon has left can't be read: %s",
			 strerror(-r));
	else
		fcntl(HEIR_FD_DAEMON, F_SETFD, FD_CLOEXEC);
	return r;
}

struct blackbox *revival_box(struct estate *e)
{
	return estate_region(e, ESTATE_REGION_BLACKBOX, sizeof(struct blackbox));
}

/* ---- the configuration ---- */

/* Return: 0 or -errno. */
static int fill(int fd, const struct conf *c)
{
	struct buf fields = {0};
	int r = conf_put(c, &fields);

	if (r == 0)
		r = fileio_write(fd, fields.data, fields.len);
	buf_clear(&fields);
	return r;
}

int revival_seal(const struct conf *c)
{
	_cleanup_close_ int fd = memory_new("xsbxfs-conf");
	int r = fd;

	if (r >= 0)
		r = fill(fd, c);
	if (r == 0)
		r = memory_seal(fd);
	return r < 0 ? r : steal_fd(&fd);
}

int revival_configure(struct conf *c, int argc, char *const argv[], char *ret_why, size_t why_size)
{
	_cleanup_close_ int fd = HEIR_FD_CONF;
	struct stat st = {0};
	size_t size;
	void *text;
	int r;

	snprintf(ret_why, why_size, "there is no configuration of the daemon before");
	if (!memory_is_sealed(fd) || fstat(fd, &st) < 0 || st.st_size == 0)
		return -EBADMSG;
	size = (size_t)st.st_size;
	text = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (text == MAP_FAILED)
		return -errno;
	r = conf_load_again(c, argc, argv, record_reader(text, size), ret_why, why_size);
	munmap(text, size);
	return r;
}

/* ---- all else ---- */

static int load(struct bequest *b, struct turn *t)
{
	const int r = lent_inherit(HEIR_FD_DAEMON, bequest_take, b);

	if (r < 0) {
		problem_set(&b->why, PROBLEM_FAILED, "",
			    "the descriptors of the daemon did not arrive: %s", strerror(-r));
		return r;
	}
	b->s->fs->inherited.died = true;
	return bequest_read(b, t);
}

int revival_load(struct revival *rv, struct succession *s, struct turn *t, char *ret_why,
		 size_t why_size)
{
	struct bequest *b = &rv->bequest;
	struct blackbox *box = revival_box(b->estate);
	int r;

	/* Who kills it may find it at anything. */
	if (box && blackbox_revive(box, rv->signum != SIGKILL))
		log_warn("two daemons have died of the same, which is not done a third time");
	s->revives = true;
	if (s->keeper)
		keeper_wait(s->keeper);
	b->s = s;
	r = load(b, t);
	bequest_fini(b); /* what no record names is dropped by the first commit */
	if (r < 0) {
		snprintf(ret_why, why_size, "%s", b->why.cause);
		return r;
	}
	r = spawner_copied(s->spawner, estate_fd(b->estate));
	if (r == 0)
		r = spawner_ready(s->spawner);
	if (r < 0)
		snprintf(ret_why, why_size, "the spawner: %s", strerror(-r));
	return r;
}

void revival_tell(const struct revival *rv, const struct succession *s)
{
	const char *name = rv->signum > 0 ? sigabbrev_np(rv->signum) : NULL;
	char words[128];

	snprintf(words, sizeof(words), "the daemon died%s%s, %s", name ? " of SIG" : "",
		 name ? name : "",
		 rv->last ? "which was too often: the mount ends" : "another one goes on");
	log_warn("%s: %zu records, after %llu us", words, rv->bequest.n,
		 (unsigned long long)(log_now() - rv->began) / 1000);
	events_add(&s->fs->events, NULL, "daemon", words);
}
