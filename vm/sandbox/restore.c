/* SPDX-License-Identifier: Apache-2.0 */
/* Beginning from what was saved. See restore.h. */
#include "restore.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "internal.h"
#include "network.h"
#include "vm/base/buf.h"
#include "vm/base/log.h"
#include "vm/image/image.h"

/*
 * Theory of operation
 * -------------------
 * Memory is loaded when there is a place for it, and given up when the machine has it. If it was on a disk, it is not known
 * who has run it there: QEMU, the kernel, the image and the packages have to be described as they were then, to the letter
 * (backend_ops.describe). Whatever does not fit, or is damaged, ends the sandbox with not-restored; fs/ then asks for one that
 * has the files alone. What may go well another time ends it with another code, and fs/ keeps all that was saved.
 *
 * Files are loaded when the guest is up that they are put into.
 *
 * When it is ready, or ends, it lets go of all that: what only it has would stay on the disk for as long as it is there, and
 * behind the end of the mount until the next one.
 */

bool restore_has_memory(const struct sandbox *s)
{
	return s->from && saved_has_memory(s->from);
}

/* ---- does it fit? ---- */

/* Is it the file that machines would have now? */
static bool is_current(const struct image *image, int disk)
{
	struct stat a, b;

	return fstat(disk, &a) == 0 && fstat(image->rootfs, &b) == 0 && a.st_ino == b.st_ino &&
	       a.st_dev == b.st_dev;
}

int restore_describe(const struct sandbox *s, const struct layer *layer, int disk, struct buf *out)
{
	const struct backend_spec spec = {
		.name = "",
		.image = s->spec.image,
		.memory_mb = s->spec.memory_mb,
		.cpus = s->spec.cpus,
		.network = s->spec.network,
		.root = s->spec.root,
		.mode = MACHINE_RECORD,
		.ram = -1,
		.state = -1,
		.layer = layer,
	};
	struct image image;
	const char *why;
	int r;

	if (!s->ops->describe)
		return -EOPNOTSUPP;
	if (disk >= 0) {
		r = images_open(s->vm->backends.images, s->spec.image, &image, &why);
		if (r == 0 && !is_current(&image, disk))
			r = buf_printf(out, "image replaced while it ran\n");
		if (r < 0)
			return r;
	}
	r = s->ops->describe(&s->vm->backends, &spec, out, &why);
	return r < 0 ? r : buf_append(out, "", 1);
}

static enum restore_step unfit(struct sandbox *s, const char *fix, const char *cause)
{
	sandbox_failf(s, PROBLEM_NOT_RESTORED, fix, "%s", cause);
	return RESTORE_ENDS;
}

/* It comes from a disk: gives it the image's, if that is what it was. */
static enum restore_step settle(struct sandbox *s)
{
	struct buf now = {.limit = POINT_MACHINE_MAX};
	int r = restore_describe(s, s->layer, -1, &now);
	char word[32] = "", cause[128];
	struct image image;
	const char *why;

	if (r == 0)
		point_differs(s->restore.point, now.data, word);
	buf_clear(&now);
	if (r == -EAGAIN)
		return RESTORE_ASKS;
	if (r == 0 && *word) {
		if (point_undescribed(s->restore.point))
			snprintf(cause, sizeof(cause),
				 "it could not be found out what machine its memory is of when it "
				 "was saved");
		else
			snprintf(cause, sizeof(cause),
				 "its memory is of another machine: %s has changed", word);
		return unfit(s, "", cause);
	}
	if (r == 0)
		r = images_open(s->vm->backends.images, s->spec.image, &image, &why);
	if (r == 0)
		r = point_settle(s->restore.point, image.rootfs, s->layer);
	/* That may be known later: nothing is given up for it. */
	if (r < 0)
		sandbox_failf(s, PROBLEM_NO_RESOURCES, "Try it again.",
			      "it is not known what its memory is of: %s", strerror(-r));
	return r < 0 ? RESTORE_ENDS : RESTORE_READY;
}

static bool has_shape(const struct sandbox *s, bool from_disk)
{
	const struct point_fit *f = &s->restore.point->fit;

	return s->ops->point && f->memory_mb == s->spec.memory_mb && f->cpus == s->spec.cpus &&
	       f->network == s->spec.network && f->root == s->spec.root &&
	       (from_disk || f->layer == s->layer);
}

/* It was wired, for a network or for ports, and is to have neither by now. Its memory goes on with the card, which leads nowhere
 * then, as with ports alone: no name is allowed. Return: 0 or -errno. */
static int keep_card(struct sandbox *s, const struct network_ops *ops)
{
	if (!s->restore.point->fit.network || s->spec.network)
		return 0;
	*(char *)s->spec.allow = '\0'; /* its own copy; so are those of the policy */
	*(char *)s->spec.policy.first = *(char *)s->spec.policy.rules =
		*(char *)s->spec.policy.secrets = '\0';
	s->spec.policy.ask = s->spec.policy.learn = false;
	s->spec.trusted_names = false;
	s->spec.network = true;
	return network_new(s, ops);
}

/* Would its agent go on with the interpreter that it has? */
static bool suits_interpreter(const struct sandbox *s)
{
	const struct point_fit *f = &s->restore.point->fit;
	char sum[DIGEST_HEX];

	return !*f->interpreter ||
	       (guest_interpreter_sum(&s->spec, sum) == 0 && strcmp(sum, f->interpreter) == 0);
}

static enum restore_step check(struct sandbox *s, const struct network_ops *ops)
{
	const struct point *p = s->restore.point;
	const bool from_disk = p->disk < 0 && p->machine;

	if (keep_card(s, ops) < 0) {
		sandbox_no_memory(s);
		return RESTORE_ENDS;
	}
	if (!has_shape(s, from_disk))
		return unfit(s,
			     "Leave memory_mb, cpus, network, packages and backend as they were.",
			     "what was saved is of another kind of sandbox");
	if (!suits_interpreter(s))
		return unfit(s, "Leave env, processes, open_files and file_size_mb as they were.",
			     "what was saved has an interpreter with other variables or limits");
	return from_disk ? settle(s) : RESTORE_READY;
}

enum restore_step restore_memory(struct sandbox *s, const struct network_ops *ops)
{
	if (!restore_has_memory(s))
		return RESTORE_READY;
	if (!s->restore.point && !saved_is_loaded(s->from)) {
		log_trace(&s->label, "sandbox", "waits for what was saved to be read");
		saved_load(s->from, &s->wait);
		return RESTORE_LOADS;
	}
	if (!s->restore.point)
		s->restore.point = point_ref(saved_point(s->from));
	return check(s, ops);
}

/* ---- files ---- */

void restore_is_late(struct sandbox *s)
{
	sandbox_failf(s, PROBLEM_NO_RESOURCES, "Look at the disk of the state directory.",
		      "what was saved could not be read in time");
}

static void on_late(uv_timer_t *timer)
{
	struct sandbox *s = timer->data;

	if (s->needs == NEEDS_SAVED)
		restore_is_late(s);
}

/* Return: whether they are being loaded. */
static bool load_files(struct sandbox *s)
{
	if (!s->restore.pack && !saved_pack(s->from)) {
		s->needs = NEEDS_SAVED;
		uv_timer_start(&s->deadline, on_late, s->vm->guests.boot_s * 1000ull, 0);
		saved_load_files(s->from, &s->wait);
		return true;
	}
	if (!s->restore.pack)
		s->restore.pack = pack_ref(saved_pack(s->from));
	return false;
}

bool restore_files(struct sandbox *s)
{
	int r;

	if (!s->from || s->restore.filled || restore_has_memory(s) ||
	    (saved_is_loaded(s->from) && !saved_pack(s->from)))
		return false;
	if (s->needs == NEEDS_SAVED || load_files(s))
		return true;
	s->restore.filled = true;
	r = guest_unpack(s->guest, s->restore.pack);
	if (r < 0)
		restore_on_unpacked(s, r, "");
	return true;
}

void restore_on_unpacked(struct sandbox *s, int err, const char *path)
{
	if (s->state != SANDBOX_STARTING)
		return;
	restore_drop(&s->restore);
	if (err < 0) {
		sandbox_failf(s, PROBLEM_NOT_RESTORED, "",
			      "its files could not be put back: %s%s%s", path, *path ? ": " : "",
			      strerror(-err));
		return;
	}
	network_start(s);
	sandbox_set_state(s, SANDBOX_READY);
}
