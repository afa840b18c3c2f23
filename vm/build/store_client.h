/* SPDX-License-Identifier: Apache-2.0 */
/* The shared store: what other hosts have made is fetched, and what is made here is offered. */
#ifndef XSBX_VM_BUILD_STORE_CLIENT_H
#define XSBX_VM_BUILD_STORE_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "store_status.h"
#include "vm/base/config.h"
#include "vm/base/context.h"
#include "vm/base/lines.h"
#include "vm/spawn/program.h"
#include "vm/store/kind.h"

/* What is known when it is over; @why is "" or one sentence. */
typedef void (*store_fn)(void *data, const char *key, enum store_end end, const char *why);

/* Something that is to be fetched or offered. */
struct store_job {
	TAILQ_ENTRY(store_job) link;
	enum store_kind kind;
	char key[STORE_KEY_MAX + 1];
	uint64_t tsc_khz, limit;
	bool anew;     /* what the store has of it is damaged */
	store_fn done; /* of what is fetched */
	void *data;
};

TAILQ_HEAD(store_job_list, store_job);

/* Programs run one after the other in a lane. */
struct store_lane {
	struct store_client *store;
	bool get; /* else put */
	struct store_job_list jobs;
	struct store_job *current; /* the first of `jobs`, while its program runs */
	struct program program;
	struct lines lines;
};

/*
 * - `done` of a job is called exactly once, from the loop or from store_client_cut().
 * - While `now` is before `again_at` nothing is asked for: the store did not answer.
 */
struct store_client {
	struct context *ctx; /* NULL: it was never begun */
	char *program, *url; /* `url` is NULL if there is no store */
	bool read, write;
	struct store_lane get, put;
	unsigned failures; /* in a row */
	uint64_t again_at; /* ms of the loop's clock */
	struct vm_store_status st;
};

/* Return: 0 or -ENOMEM. */
int store_client_init(struct store_client *f, struct context *ctx, const struct vm_store *cfg);
void store_client_fini(struct store_client *f);

/**
 * store_client_get() - Have something fetched in the background, into its place in the cache
 * @f: Client
 * @kind: What
 * @key: Name
 * @tsc_khz: What it has to fit, or 0
 * @limit: Most bytes it may take, or 0
 * @done: Called when it is there, or it is known that it won't be
 * @data: Its first argument
 *
 * Return: false if it can't be had: there is no store, or it is left alone for now.
 */
bool store_client_get(struct store_client *f, enum store_kind kind, const char *key,
		      uint64_t tsc_khz, uint64_t limit, store_fn done, void *data);

/* Has something offered, if that is wanted. @anew: although the store seems to have it. */
void store_client_put(struct store_client *f, enum store_kind kind, const char *key,
		      uint64_t tsc_khz, bool anew);

void store_client_status(const struct store_client *f, struct vm_store_status *ret_status);

/* At the end: kills the programs. */
void store_client_cut(struct store_client *f);

#endif
