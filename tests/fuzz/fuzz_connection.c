/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes what an heir finds of the kernel's requests and answers in shared memory: it refuses it, or goes on behind it. */
/* modules: fs/fuse/inbox.c fs/fuse/outbox.c vm/base/sheets.c vm/base/log.c vm/base/log_line.c vm/base/systemd.c */
#include <assert.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/fuse/inbox.h"
#include "fs/fuse/outbox.h"
#include "vm/base/util.h"

#define REQUEST_MAX 512u
#define OUTBOX_SIZE 1024u
#define NSHEETS	    3u
#define SHEET_ROOM  (2 * (INBOX_MARGIN + REQUEST_MAX))

/* In front of the bytes that lie in memory. */
struct given {
	uint16_t handled, turn, len, held; /* a bit for each sheet that records name */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of its own size, so that what is read past it is found. */
static void *memory(size_t size, const uint8_t *data, size_t len)
{
	char *mem = calloc(1, size);

	assert(mem);
	memcpy(mem, data, MIN(len, size));
	return mem;
}

static void hold(const struct given *g, struct sheets *sheets, char *mem)
{
	sheets_init(sheets, mem + INBOX_HEAD, SHEET_ROOM, NSHEETS);
	for (unsigned i = 0; i < NSHEETS; i++)
		if (g->held >> i & 1)
			sheets_hold(sheets, mem + INBOX_HEAD + i * SHEET_ROOM);
}

static void receive(const struct given *g, void *mem)
{
	struct sheets sheets;
	const struct fuse_in_header h = {.len = sizeof(h), .unique = 2};
	struct inbox in, heir;
	static volatile char seen;
	uint64_t last;
	size_t n = 0;
	char *request;

	hold(g, &sheets, mem);
	if (inbox_load(&in, mem, &sheets, REQUEST_MAX, g->handled) < 0)
		return;
	while ((request = inbox_next(&in, &n)))
		for (size_t i = 0; i < n; i++)
			seen = request[i];
	(void)seen;
	if (!inbox_has_room(&in)) {
		inbox_settle(&in);
		inbox_reset(&in);
	}
	last = in.last;
	memcpy(inbox_begin(&in), &h, sizeof(h));
	inbox_received(&in, sizeof(h));
	/* One that dies now leaves this one. */
	hold(g, &sheets, mem);
	assert(inbox_load(&heir, mem, &sheets, REQUEST_MAX, last) == 0);
	assert(inbox_next(&heir, &n) && n == sizeof(h));
	assert(!inbox_next(&heir, &n));
}

static void answer(const struct given *g, void *mem)
{
	static int nowhere = -1;
	struct fuse_out_header h = {.len = sizeof(h), .unique = 2};
	const struct iovec iov = {&h, sizeof(h)};
	struct outbox o;

	if (nowhere < 0)
		nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (outbox_load(&o, mem, OUTBOX_SIZE, g->turn, g->len) < 0)
		return;
	assert(outbox_add(&o, &iov, 1) == 0);
	outbox_say(&o, nowhere);
	assert(o.queued == 0);
	outbox_fini(&o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct given g;
	void *mem;

	if (size < sizeof(g))
		return 0;
	memcpy(&g, data, sizeof(g));
	mem = memory(INBOX_HEAD + NSHEETS * SHEET_ROOM, data + sizeof(g), size - sizeof(g));
	receive(&g, mem);
	free(mem);
	mem = memory(OUTBOX_SIZE, data + sizeof(g), size - sizeof(g));
	answer(&g, mem);
	free(mem);
	return 0;
}
