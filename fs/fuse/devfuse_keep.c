/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to the kernel as records: how it was agreed upon, and what one of its requests is. See devfuse.h. */
#include <errno.h>
#include <linux/fuse.h>
#include <string.h>

#include "fs/handover/handover.h"
#include "vm/base/estate.h"
#include "vm/base/util.h"
#include "devfuse_internal.h"

/*
 * The kernel asks once how it is to be talked to (FUSE_INIT), and libfuse has to hear that question
 * before anything else. So an heir has it asked again, and the answer goes nowhere. It has to be
 * the same answer, though. So the question offers only what was taken the first time: a newer
 * program does not get what an older one did not want.
 */

/* Never reuse. */
enum devfuse_tag {
	TAG_INIT = 1,
	TAG_INIT_REPLY,
	TAG_REQUEST, /* not used any more: each has its record, HANDOVER_REQUEST */
	TAG_DEVICE,
};

/* Its question, and the answer, without their headers. */
static struct fuse_init_in *asked(const struct buf *b)
{
	return (void *)(b->data + sizeof(struct fuse_in_header));
}

static const struct fuse_init_out *answered(const struct buf *b)
{
	return (const void *)(b->data + sizeof(struct fuse_out_header));
}

int devfuse_put_agreement(const struct devfuse *d, struct buf *out)
{
	record_bytes(out, TAG_INIT, d->init.data, d->init.len);
	record_bytes(out, TAG_INIT_REPLY, d->init_reply.data, d->init_reply.len);
	record_str(out, TAG_DEVICE, d->watch.fd >= 0 ? d->watch.device : NULL);
	return out->failed ? -ENOMEM : 0;
}

int devfuse_find_request(const struct devfuse *d, struct record_reader fields,
			 struct record_field *ret_f, bool *ret_held)
{
	struct record_field f;
	uint64_t place = 0, len = 0;
	int r;

	*ret_f = (struct record_field){0};
	while ((r = record_field(&fields, &f)) > 0) {
		if (f.tag == REQUEST_BYTES)
			*ret_f = f;
		else if (f.tag == REQUEST_PLACE)
			r = record_get(&f, 0, INT64_MAX, &place);
		else if (f.tag == REQUEST_LEN)
			r = record_get(&f, 1, d->unanswered.size, &len);
		if (r < 0)
			return r;
	}
	*ret_held = len > 0;
	if (len && !d->unanswered.sheets)
		return -EBADMSG;
	if (len)
		*ret_f = (struct record_field){
			.is_bytes = true,
			.data = sheets_find(d->unanswered.sheets, place, len),
			.len = len,
		};
	return r == 0 && ret_f->data && devfuse_is_request(ret_f, d->unanswered.size) ? 0
										      : -EBADMSG;
}

bool devfuse_is_request(const struct record_field *f, size_t max)
{
	struct fuse_in_header in;

	if (!f->is_bytes || f->len < sizeof(in) || f->len > max)
		return false;
	memcpy(&in, f->data, sizeof(in));
	return in.len == f->len && in.unique;
}

static int get_device(struct devfuse *d, const struct record_field *f)
{
	char device[MOUNT_DEVICE_MAX];
	const int r = record_get_str(f, device, sizeof(device));

	if (r == 0 && device[0])
		mountwatch_is(&d->watch, device);
	return r;
}

static int get_field(struct devfuse *d, const struct record_field *f, struct buf *ret_reply)
{
	switch ((enum devfuse_tag)f->tag) {
	case TAG_INIT:
		if (!devfuse_is_request(f, d->unanswered.size) || d->init.len ||
		    f->len < sizeof(struct fuse_in_header) + sizeof(struct fuse_init_in))
			return -EBADMSG;
		return buf_append(&d->init, f->data, f->len);
	case TAG_INIT_REPLY:
		if (f->len < sizeof(struct fuse_out_header) + sizeof(struct fuse_init_out))
			return -EBADMSG;
		buf_clear(ret_reply);
		return buf_append(ret_reply, f->data, f->len);
	case TAG_DEVICE: return get_device(d, f);
	case TAG_REQUEST:
	default: return 0;
	}
}

/* Has libfuse hear the first request. @reply: what was answered then. */
static int agree(struct devfuse *d, const struct buf *reply)
{
	const struct fuse_init_out *then = answered(reply);
	struct buf offer = {0};
	int r = buf_append(&offer, d->init.data, d->init.len);

	if (r < 0)
		return r;
	asked(&offer)->flags &= then->flags;
	asked(&offer)->flags2 &= then->flags2;
	d->deaf = true;
	fuse_session_process_buf(d->se, &(struct fuse_buf){.mem = offer.data, .size = offer.len});
	d->deaf = false;
	buf_clear(&offer);
	if (d->init_reply.len != reply->len ||
	    memcmp(answered(&d->init_reply), then, sizeof(*then)) != 0)
		return -EOPNOTSUPP;
	return 0;
}

int devfuse_get_agreement(struct devfuse *d, struct record_reader fields)
{
	struct record_field f;
	struct buf reply = {0};
	int r;

	while ((r = record_field(&fields, &f)) > 0) {
		r = get_field(d, &f, &reply);
		if (r < 0)
			break;
	}
	if (r == 0)
		r = d->init.len && reply.len ? agree(d, &reply) : -EBADMSG;
	buf_clear(&reply);
	return r;
}
