/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox that is ready for file requests; the test plays its agent. */
#ifndef XSBX_GUESTFILE_BED_H
#define XSBX_GUESTFILE_BED_H

#include "fake_agent.h"

#define MIB (1u << 20)

/* The answer to one request. */
struct answer {
	bool there;
	int err;
	struct vm_file_reply reply;
	char *data;
	char names[256];
};

extern uv_loop_t loop;
extern struct vm *vm;
extern struct sandbox *s;
extern bool ready, closed, vm_gone, in_call;
extern struct vm_problem problem;

/* For each test. */
bool is_true(void *data);
int guestfile_bed_setup(void **state);
int guestfile_bed_teardown(void **state);
int ask(const struct vm_file *req, struct answer *a);
void until(struct answer *a);
void forget(struct answer *a);
void answer(uint32_t id, uint32_t err, const void *data, size_t len);
struct proto_in payload(const struct fake_frame *f);

#endif
