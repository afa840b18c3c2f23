/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of vm/ know of the machinery and that fs/ does not. */
#ifndef XSBX_VM_VM_INTERNAL_H
#define XSBX_VM_VM_INTERNAL_H

#include <stdbool.h>
#include <sys/queue.h>
#include <uv.h>

#include "vm/base/context.h"
#include "vm/host/admission.h"
#include "vm/backend/backend.h"
#include "vm/guest/channel.h"
#include "vm/image/digest_cache.h"
#include "vm/build/store_client.h"
#include "vm/host/host.h"
#include "vm/image/image.h"
#include "vm/build/image_job.h"
#include "vm/build/package_job.h"
#include "vm/jail/jail.h"
#include "vm/backend/probe.h"
#include "vm/guest/internal.h"
#include "vm/backend/prefork.h"
#include "vm/host/tsc.h"
#include "vm.h"

struct hub;
struct policy;
struct spawner;

/*
 * - `sandboxes` has each sandbox until its `closed` callback returned and its handles are closed.
 * - No machine is admitted before `probe` has come to a result.
 */
struct vm {
	struct context ctx;
	const struct vm_events *events;
	void *data;

	const void *ca; /* certificates for networked guests; the caller's */
	size_t ca_len;
	char *agent;
	unsigned admission_s, boot_s;

	const struct backend_ops *backend; /* of machines */
	struct backends backends;
	struct imager imager;
	struct fetcher fetcher;
	struct layers layers;
	struct installer installer;
	struct admission admission;
	struct slots slots;
	struct host host;
	struct host_reading reading;
	uint64_t read_at; /* ms of the loop's clock */
	uint64_t refused; /* sandboxes that never had a place */
	uv_timer_t
		recheck; /* while somebody waits for what nothing here tells of, see sandbox/schedule.c */
	struct channel_scratch scratch;
	uint64_t started, failed;
	struct hub *hub; /* of the networks, from the first one on */
	struct vm_host_ports host_ports;
	bool net_seen; /* `net_report` is of the last one's helper */
	struct jail_report net_report;
	uint64_t starts[START_NKINDS];

	struct template_list templates;
	unsigned ntemplates;
	uint64_t snapshot_bytes; /* most on the disk */
	uv_timer_t background;	 /* see pool.c */

	TAILQ_HEAD(work_tasks, work_task) work; /* see sandbox/workdir.c */

	struct sandbox_list sandboxes;
	unsigned nparts; /* handles of its own */
	void (*closed)(void *data);
	void *closed_data;
};

/* As vm_new(), with another backend than the usual one. */
int vm_new_with(const struct backend_ops *backend, uv_loop_t *loop, struct spawner *spawner,
		const struct vm_config *cfg, const struct vm_events *events, void *data,
		struct vm **ret_vm);

/* What a kind of sandbox runs in. For tests the usual one may be another. */
const struct backend_ops *vm_backend_ops(const struct vm *vm, enum vm_backend backend);

/* At the end of the machinery: nobody waits for lists any more. */
void work_cut(struct vm *vm);

/* ---- sandbox/schedule.c ---- */

/* Looks at the host, and sets the limits by that and by the configuration. Return: 0 or -errno. */
int admit_init(struct vm *vm, const struct vm_config *cfg);
void admit_free(struct vm *vm);

/* Lets in who can have a place or processors now. */
void admit_all(struct vm *vm);

/* Brings up to date what the admission knows of the host. */
void admit_look(struct vm *vm);

/* Why @s waits for a place, and what to do about it. */
void admit_explain(const struct sandbox *s, char *ret_why, size_t size, const char **ret_fix);

/* ---- what vm.c calls in guest/guest.c ---- */

/* Callbacks for sandboxes that nobody listens to. */
void sandbox_unheard_console(void *data, const void *bytes, size_t len);
void sandbox_unheard_output(void *data, uint32_t run, enum vm_stream stream, const void *bytes,
			    size_t len);
void sandbox_unheard_exit(void *data, uint32_t run, const struct vm_result *result);

/**
 * sandbox_background() - Start a sandbox nobody has asked for
 * @t: Its template
 * @kind: SANDBOX_POOL or SANDBOX_BUILD
 * @events: Callbacks, whose data is the sandbox
 *
 * Return: NULL if there is no place for it now, or no memory.
 */
struct sandbox *sandbox_background(struct template *t, enum sandbox_kind kind,
				   const struct sandbox_events *events);

/* ---- variables ---- */

/* Return: 0, -E2BIG, -ENOMEM; @ret_env is to be freed in any case. */
int sandbox_env_copy(const struct sandbox_env *env, size_t n, struct sandbox_env **ret_env,
		     size_t *ret_n);
void sandbox_env_free(struct sandbox_env *env, size_t n);

/* Has all it needs to start but a place. */
void sandbox_begin(struct sandbox *s);

/* The sandbox of a ticket has a place. */
void sandbox_admitted(struct ticket *t);

/* Ends a sandbox because of @problem, or, if it is a clone that has not come up, has it boot instead.
 * The first end counts. */
void sandbox_fail(struct sandbox *s, const struct problem *problem);

/* The same for what no machine is to blame for, and another one would not have either. */
void sandbox_give_up(struct sandbox *s, const struct problem *problem);

/* ---- what guest/guest.c calls in vm.c ---- */

/* The sandbox is gone altogether. */
void vm_forget(struct vm *vm, struct sandbox *s);

#endif
