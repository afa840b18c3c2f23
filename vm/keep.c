/* SPDX-License-Identifier: Apache-2.0 */
/* What is saved is kept on a disk: the key that it is sealed with is found, and the vault opened. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "vm.h"
#include "vm/base/problem.h"
#include "vm/checkpoint/host_key.h"
#include "vm/checkpoint/seal.h"
#include "vm/checkpoint/vault_disk.h"
#include "vm/sandbox/internal.h"
#include "vm/order/order.h"
#include "vm/spawn/program.h"

/* ---- a key that a program tells ---- */

static void on_over(struct program *p)
{
	bool *over = p->data;

	*over = true;
}

static const char fix[] = "Try key_command in a shell: its output has to be 64 hexadecimal digits.";

static int explain(const struct program *p, struct problem *why)
{
	if (p->failed)
		problem_set(why, PROBLEM_NOT_RESTORED, "", "key_command could not be started: %s",
			    strerror(-p->failed));
	else if (p->late)
		problem_set(why, PROBLEM_NOT_RESTORED, fix, "key_command did not end in %u ms",
			    p->limit_ms);
	else if (WIFSIGNALED(p->status))
		problem_set(why, PROBLEM_NOT_RESTORED, fix, "key_command was killed by signal %d",
			    WTERMSIG(p->status));
	else if (p->status)
		problem_set(why, PROBLEM_NOT_RESTORED, fix, "key_command failed: exit status %d",
			    WEXITSTATUS(p->status));
	else
		problem_set(why, PROBLEM_NOT_RESTORED, fix, "what key_command printed is no key");
	return -ENOKEY;
}

/* Only before the loop runs: nothing else is to be done there yet. */
static int ask_command(struct vm *vm, struct seal_key **ret_key, struct problem *why)
{
	struct order order = {.program = ORDER_KEY};
	bool over = false;
	struct program p = {.limit_ms = vm->key_limit_ms, .over = on_over, .data = &over};
	int r = vm->ctx.spawner
			? program_start(&p, vm->ctx.loop, vm->ctx.spawner, &order, sizeof(order))
			: -EPIPE;

	if (r < 0) {
		p.failed = r;
		return explain(&p, why);
	}
	while (!over)
		uv_run(vm->ctx.loop, UV_RUN_ONCE);
	r = p.failed || p.late || p.status ? -EINVAL : host_key_parse(p.output, p.len, ret_key);
	seal_clear(p.output, sizeof(p.output));
	return r < 0 ? explain(&p, why) : 0;
}

/* ---- the vault ---- */

/* The snapshot that clones have now may be the base of what was saved before. */
static int on_base(void *data, const char *sum)
{
	const struct vm *vm = data;
	const struct template *t;

	TAILQ_FOREACH(t, &vm->pool.templates, link)
		if (t->snapshot.ram >= 0 && strcmp(t->snapshot.sum, sum) == 0)
			return t->snapshot.ram;
	return -1;
}

int vm_keep(struct vm *vm, int state_dir, struct problem *ret_why)
{
	const struct vault_ops ops = {.base = on_base, .data = vm};
	struct seal_key *key;
	int r;

	if (vm->key_command)
		r = ask_command(vm, &key, ret_why);
	else
		r = host_key_load(state_dir, !vault_disk_is_used(state_dir), &key, ret_why);
	if (r < 0)
		return r;
	r = vault_open(&vm->ctx, state_dir, key, &ops, &vm->vault, ret_why);
	if (r < 0)
		seal_key_free(key);
	return r;
}

struct vault *vm_vault(const struct vm *vm)
{
	return vm->vault;
}
