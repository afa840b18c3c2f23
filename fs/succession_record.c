/* SPDX-License-Identifier: Apache-2.0 */
/* What the process has, and not the mount, as a record. See succession.h. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "fs/handover/handover.h"
#include "fs/keep/keeper.h"
#include "fs/session/fs.h"
#include "succession.h"
#include "vm/base/estate.h"
#include "vm/base/lent.h"
#include "vm/base/util.h"
#include "vm/spawn/spawner.h"
#include "vm/vm.h"

/* Never reuse. */
enum process_tag {
	TAG_TIE = 1,
	TAG_STDERR,
	TAG_PERMITTED,
	TAG_STATE_LOCK, /* of what is kept */
	TAG_ENDING,	/* the exit status, and one */
	TAG_HOST,	/* of vm_host_put() */
};

/* ---- writing ---- */

/* Not for a program of another version, or another configuration, which may think otherwise of it. */
static void put_host(const struct succession *s, struct buf *out)
{
	struct buf fields = {0};

	vm_host_put(s->fs->vm, &fields);
	out->failed |= fields.failed;
	record_bytes(out, TAG_HOST, fields.data, fields.len);
	buf_clear(&fields);
}

static void put(const struct succession *s, struct buf *out, struct fdbag *fds)
{
	record_u64(out, TAG_TIE, fdbag_put(fds, spawner_tie_fd(s->spawner)));
	/* In the background it is whoever's who waits for the start, and perhaps for the end of what is said there. */
	if (s->fs->conf->foreground)
		record_u64(out, TAG_STDERR, fdbag_put(fds, STDERR_FILENO));
	record_str(out, TAG_PERMITTED, s->permitted);
	record_u64(out, TAG_STATE_LOCK, s->keeper ? fdbag_put(fds, keeper_lock(s->keeper)) : 0);
	if (s->ending)
		record_u64(out, TAG_ENDING, s->status + 1u);
	if (vm_host_is_known(s->fs->vm))
		put_host(s, out);
}

int succession_put_process(const struct succession *s, struct estate *e, struct fdbag *fds)
{
	struct buf fields = {0};
	int r;

	put(s, &fields, fds);
	r = fields.failed;
	if (r == 0)
		r = estate_put(e, HANDOVER_PROCESS, 0, 0, fields.data, fields.len);
	buf_clear(&fields);
	return r;
}

/* ---- reading ---- */

/* The spawner goes by the configuration of the first daemon, for ever. */
static int check_permitted(const struct succession *s, const struct record_field *f,
			   struct problem *why)
{
	char sum[DIGEST_HEX];
	int r = record_get_str(f, sum, sizeof(sum));

	if (r < 0 || s->revives || strcmp(sum, s->permitted) == 0)
		return r;
	problem_set(why, PROBLEM_FAILED, "",
		    "the configuration permits sandboxes other things of this host than it did "
		    "when the mount was made (paths, limits, programs, secrets, the upstream "
		    "proxy, or the place of xsbxfs itself); unmount for that");
	return -EPERM;
}

static int get_descriptor(struct succession *s, const struct record_field *f, struct fdbag *fds)
{
	uint32_t n = 0;
	int r = record_get_u32(f, UINT32_MAX, &n), fd = r < 0 ? -1 : fdbag_take(fds, n);

	if (f->tag == TAG_TIE)
		spawner_tie(s->spawner, steal_fd(&fd));
	else if (fd >= 0 && dup2(fd, STDERR_FILENO) < 0)
		r = -errno;
	lent_close(&fd);
	return r;
}

/* It has to be the same directory, or none for both. */
static int get_lock(struct succession *s, const struct record_field *f, struct fdbag *fds,
		    struct problem *why)
{
	uint32_t n = 0;
	int r = record_get_u32(f, UINT32_MAX, &n), fd = r < 0 ? -1 : fdbag_take(fds, n);

	if (r < 0)
		return r;
	if (fd < 0 && !s->keeper)
		return 0;
	r = fd >= 0 && s->keeper ? keeper_inherit(s->keeper, fd) : -EBADMSG;
	if (!s->keeper)
		lent_close(&fd);
	if (r < 0)
		problem_set(why, PROBLEM_FAILED, "",
			    "the mount keeps its sessions elsewhere than the configuration says "
			    "now (keep, state_dir); unmount for that");
	return r;
}

static int get_ending(struct succession *s, const struct record_field *f)
{
	uint64_t status = 0;
	int r = record_get(f, 1, UINT8_MAX + 1u, &status);

	if (r < 0)
		return r;
	s->ending = true;
	s->status = (uint8_t)(status - 1);
	return 0;
}

static int get_process(struct succession *s, struct record_reader fields, struct fdbag *fds,
		       struct problem *why)
{
	struct record_field f;
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		if (f.tag == TAG_TIE || f.tag == TAG_STDERR)
			r = get_descriptor(s, &f, fds);
		else if (f.tag == TAG_PERMITTED)
			r = check_permitted(s, &f, why);
		else if (f.tag == TAG_STATE_LOCK)
			r = get_lock(s, &f, fds, why);
		else if (f.tag == TAG_ENDING)
			r = get_ending(s, &f);
		else if (f.tag == TAG_HOST && s->revives)
			r = f.is_bytes ? vm_host_get(s->fs->vm, record_inside(&f)) : -EBADMSG;
		if (r < 0)
			return r;
	}
	return r;
}

int succession_get(struct succession *s, const struct record *rec, struct fdbag *fds,
		   struct problem *why)
{
	spawner_alive(s->spawner);
	return rec->kind == HANDOVER_PROCESS ? get_process(s, rec->fields, fds, why)
					     : handover_get(s->fs, rec, fds, why);
}
