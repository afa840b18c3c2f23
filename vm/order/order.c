/* SPDX-License-Identifier: Apache-2.0 */
/* Parses orders, and checks them against the policy. */
#include "order.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "vm/base/util.h"

#define NO_ID UINT32_MAX /* to the kernel: leave it as it is */

/* What of an order counts, by program; the rest of the union is not looked at. */
static const size_t part_size[] = {
	[ORDER_QEMU_VERSION] = 0,
	[ORDER_KVM_TRIAL] = 0,
	[ORDER_MACHINE] = sizeof(struct order_machine),
	[ORDER_SANDBOX] = sizeof(struct order_sandbox),
	[ORDER_FILTER] = sizeof(struct order_filter),
	[ORDER_DIALER] = 0,
	[ORDER_STORE] = sizeof(struct order_store),
	[ORDER_IMAGE] = sizeof(struct order_image),
	[ORDER_PACKAGES] = sizeof(struct order_packages),
	[ORDER_KEY] = 0,
	[ORDER_CHANGES] = sizeof(struct order_changes),
	[ORDER_POINT] = sizeof(struct order_point),
	[ORDER_LOCAL] = sizeof(struct order_local),
	[ORDER_TRACE] = 0,
	[ORDER_SECRET] = sizeof(struct order_secret),
};
static_assert(ARRAY_SIZE(part_size) == ORDER_NPROGRAMS, "a size for each program");

void order_copy(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%.*s", (int)size - 1, from);
}

/* Does it end within its field, and is it such a name? */
static bool name(const char field[ORDER_NAME])
{
	return memchr(field, '\0', ORDER_NAME) && plain_name_ok(field);
}

static bool name_or_none(const char field[ORDER_NAME])
{
	return field[0] == '\0' || name(field);
}

static bool hash(const char field[DIGEST_HEX])
{
	return memchr(field, '\0', DIGEST_HEX) && strlen(field) == DIGEST_HEX - 1 &&
	       strspn(field, "0123456789abcdef") == DIGEST_HEX - 1;
}

static bool hash_or_none(const char field[DIGEST_HEX])
{
	return field[0] == '\0' || hash(field);
}

static bool version(const char field[ORDER_VERSION])
{
	return memchr(field, '\0', ORDER_VERSION) && strspn(field, "0123456789.") == strlen(field);
}

static int machine(const struct order_machine *m, const struct order_limits *most)
{
	if (!name(m->name) || !version(m->version) || m->mode > MACHINE_CLONE ||
	    (m->flags & ~ORDER_MACHINE_ALL))
		return -EBADMSG;
	if (m->memory_mb < 1 || m->memory_mb > most->memory_mb || m->cpus < 1 ||
	    m->cpus > most->cpus || ((m->flags & ORDER_KVM) && !most->kvm))
		return -EPERM;
	return 0;
}

/* One in which packages are installed has a size of its own. */
static bool size_ok(const struct order_sandbox *s, const struct order_limits *most)
{
	return s->view == ORDER_VIEW_INSTALL || s->view == ORDER_VIEW_PACK ||
	       (s->memory_mb >= 1 && s->memory_mb <= most->memory_mb && s->cpus >= 1 &&
		s->cpus <= most->cpus && s->processes <= most->processes);
}

static int sandbox(const struct order_sandbox *s, const struct order_limits *most)
{
	const bool installs = s->view == ORDER_VIEW_INSTALL || s->view == ORDER_VIEW_PACK;

	if (!name(s->name) || !hash_or_none(s->layer) || !name_or_none(s->image) ||
	    (s->flags & ~ORDER_NETWORK) || s->language >= ORDER_NLANGUAGES)
		return -EBADMSG;
	if (installs ? !hash(s->key) : s->key[0] != '\0')
		return -EBADMSG;
	if (s->view >= ORDER_VIEW_FIRST + most->nviews || !size_ok(s, most) || s->owner == NO_ID ||
	    s->group == NO_ID)
		return -EPERM;
	/* What is packed comes from nowhere. */
	return s->view == ORDER_VIEW_PACK && (s->flags & ORDER_NETWORK) ? -EPERM : 0;
}

static int store(const struct order_store *s)
{
	if (!hash(s->key) || s->get > 1 || s->anew > 1)
		return -EBADMSG;
	return s->kind < ORDER_NMADE ? 0 : -EPERM;
}

static int changes(const struct order_changes *c, const struct order_limits *most)
{
	if (c->commit > 1)
		return -EBADMSG;
	return c->view >= ORDER_VIEW_FIRST && c->view < ORDER_VIEW_FIRST + most->nviews &&
			       c->owner != NO_ID && c->group != NO_ID
		       ? 0
		       : -EPERM;
}

static int point(const struct order_point *p, const struct order_limits *most)
{
	if (p->whole > 1 || p->address % 4096)
		return -EBADMSG;
	return p->memory_mb >= 1 && p->memory_mb <= most->memory_mb ? 0 : -EPERM;
}

static int local(const struct order_local *l, const struct order_limits *most)
{
	if (!most->local)
		return -EPERM;
	return hash_or_none(l->layer) && memchr(l->place, '\0', sizeof(l->place)) &&
			       plain_name_ok(l->place)
		       ? 0
		       : -EBADMSG;
}

static int secret(const struct order_secret *s)
{
	/* Names of secrets are plain names. */
	if (!memchr(s->name, '\0', sizeof(s->name)) || !plain_name_ok(s->name))
		return -EBADMSG;
	return s->owner != NO_ID && s->group != NO_ID ? 0 : -EPERM;
}

static int check(const struct order *o, const struct order_limits *most)
{
	switch ((enum order_program)o->program) {
	case ORDER_QEMU_VERSION:
	case ORDER_KVM_TRIAL:
	case ORDER_KEY:
	case ORDER_TRACE:
	case ORDER_DIALER: return 0;
	case ORDER_MACHINE: return machine(&o->machine, most);
	case ORDER_SANDBOX: return sandbox(&o->sandbox, most);
	case ORDER_FILTER: return o->filter.stream > 1 ? -EBADMSG : 0;
	case ORDER_STORE: return store(&o->store);
	case ORDER_IMAGE: return name(o->image.image) && o->image.unpack <= 1 ? 0 : -EBADMSG;
	case ORDER_PACKAGES:
		return name_or_none(o->packages.image) && o->packages.language < ORDER_NLANGUAGES
			       ? 0
			       : -EBADMSG;
	case ORDER_CHANGES: return changes(&o->changes, most);
	case ORDER_POINT: return point(&o->point, most);
	case ORDER_LOCAL: return local(&o->local, most);
	case ORDER_SECRET: return secret(&o->secret);
	case ORDER_NPROGRAMS: break;
	}
	return -EPERM;
}

static size_t machine_fds(const struct order_machine *m)
{
	return 7 + !!(m->flags & ORDER_PACKED) + (m->mode == MACHINE_COLD ? 0 : 2) +
	       !!(m->flags & ORDER_NETWORK);
}

size_t order_fds(const struct order *o)
{
	switch ((enum order_program)o->program) {
	case ORDER_QEMU_VERSION:
	case ORDER_KVM_TRIAL:
	case ORDER_DIALER:
	case ORDER_STORE:
	case ORDER_IMAGE:
	case ORDER_KEY:
	case ORDER_PACKAGES: return 1;
	case ORDER_MACHINE: return machine_fds(&o->machine);
	case ORDER_SANDBOX: return o->sandbox.flags & ORDER_NETWORK ? 3 : 2;
	case ORDER_TRACE:
	case ORDER_LOCAL: return 2;
	case ORDER_FILTER:
	case ORDER_SECRET:
	case ORDER_CHANGES: return 3;
	case ORDER_POINT: return o->point.whole ? 4 : 3;
	case ORDER_NPROGRAMS: break;
	}
	return 0;
}

int order_parse(const void *bytes, size_t len, size_t nfds, const struct order_limits *most,
		struct order *ret_order)
{
	struct order o = {.program = ORDER_NPROGRAMS};
	int r;

	if (len != sizeof(o))
		return -EBADMSG;
	memcpy(&o.program, bytes, sizeof(o.program));
	if (o.program >= ORDER_NPROGRAMS)
		return -EPERM;
	memcpy(&o.machine, (const char *)bytes + offsetof(struct order, machine),
	       part_size[o.program]);
	r = check(&o, most);
	if (r == 0 && order_fds(&o) != nfds)
		r = nfds < order_fds(&o) ? -EMFILE : -EBADMSG;
	if (r == 0)
		*ret_order = o;
	return r;
}
