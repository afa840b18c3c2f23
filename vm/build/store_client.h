/* SPDX-License-Identifier: Apache-2.0 */
/* The shared store: fetches objects that other hosts have made, and offers those made here. */
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

/* Called at the end of a job; @why is "" or one sentence. */
typedef void (*store_fn)(void *data, const char *key, enum store_end end, const char *why);

/* An object to be fetched or offered. */
struct store_job {
	TAILQ_ENTRY(store_job) link;
	enum store_kind kind;
	char key[STORE_KEY_MAX + 1];
	uint64_t tsc_khz, limit;
	bool anew;     /* the copy in the store is damaged */
	store_fn done; /* only for fetching */
	void *data;
};

TAILQ_HEAD(store_job_list, store_job);

/* A queue whose jobs run one after the other. */
struct store_lane {
	struct store_client *store;
	bool get; /* it fetches; else it puts */
	struct store_job_list jobs;
	struct store_job *current; /* the first of `jobs`, while its program runs */
	struct program program;
	struct lines lines;
};

/*
 * - `done` of a job is called exactly once, from the loop or from store_client_cut().
 * - Until `again_at` nothing is requested, because the store did not answer.
 */
struct store_client {
	struct context *ctx; /* NULL: not initialized */
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
 * store_client_get() - Fetch an object into the cache, in the background
 * @f: Client
 * @kind: Kind of the object
 * @key: Its key
 * @tsc_khz: Frequency that it has to match, or 0
 * @limit: Largest size in bytes, or 0
 * @done: Called when it was fetched, or has failed
 * @data: Its first argument
 *
 * Return: false if there is no store, or it is not being used for now.
 */
bool store_client_get(struct store_client *f, enum store_kind kind, const char *key,
		      uint64_t tsc_khz, uint64_t limit, store_fn done, void *data);

/* Offers an object, if configured. @anew: even if the store has it. */
void store_client_put(struct store_client *f, enum store_kind kind, const char *key,
		      uint64_t tsc_khz, bool anew);

void store_client_status(const struct store_client *f, struct vm_store_status *ret_status);

/* Shutdown: kills the programs. */
void store_client_cut(struct store_client *f);

#endif
