/* SPDX-License-Identifier: Apache-2.0 */
/* A backend whose agent is played by the test: for what is above backends. */
#ifndef XSBX_FAKE_AGENT_H
#define XSBX_FAKE_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "vm/vm_internal.h"

/* A frame that the host sent. */
struct fake_frame {
	struct proto_header h;
	uint8_t *payload;
	STAILQ_ENTRY(fake_frame) link;
};

/* The far end of the sandbox that was started last. */
struct fake_agent {
	uv_loop_t *loop;
	int fd;	     /* -1: none */
	int old[16]; /* of sandboxes before the last: they stay connected, and say nothing */
	unsigned nold;
	uint8_t *in;
	size_t in_len;
	STAILQ_HEAD(fake_frames, fake_frame) frames; /* not taken yet */
	struct backend *backend;
	unsigned started, destroyed;
	unsigned destroying; /* were told to go, also those that are gone */
	int start_error;     /* the next start fails with it */
};

extern struct fake_agent fake_agent;
extern const struct backend_ops backend_fake;

void fake_agent_init(uv_loop_t *loop);
void fake_agent_fini(void);

/* Turns the loop until @done(@data), or until it takes so long that it must hang. Return: whether
 * it was so. */
bool fake_spin(bool (*done)(void *data), void *data);

/* Turns the loop until nothing happens for a moment. */
void fake_settle(void);

/* The next frame of this type, other types are skipped; NULL if none comes. Free with fake_free(). */
struct fake_frame *fake_expect(enum proto_type type);
void fake_free(struct fake_frame *f);

/* Whether a frame of the type is there, without waiting. */
bool fake_got(enum proto_type type);

void fake_send(enum proto_type type, uint8_t flags, uint32_t id, const void *payload, size_t len);
void fake_send_raw(const void *bytes, size_t len);
void fake_hang_up(void);

/* The agent's port was opened; the machine has ended. */
void fake_up(void);
void fake_down(const char *code, const char *cause);

/* Answers HELLO and SETUP as an agent does. */
void fake_boot(void);

#endif
