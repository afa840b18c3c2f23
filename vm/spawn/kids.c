/* SPDX-License-Identifier: Apache-2.0 */
/* The spawner's children. See kids.h. */
#include "kids.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "vm/base/util.h"

int kids_reserve(struct kids *k)
{
	const size_t cap = k->cap ? k->cap * 2 : 16;
	struct kid *item = k->n < k->cap ? k->item : reallocarray(k->item, cap, sizeof(*item));

	if (!item)
		return -ENOMEM;
	if (k->n == k->cap)
		k->cap = cap;
	k->item = item;
	return 0;
}

void kids_add(struct kids *k, const struct kid *kid)
{
	k->item[k->n++] = *kid;
	k->nbirths++;
	k->nasking += birth_asks(kid->birth) ? 1 : 0;
}

struct kid *kids_find(const struct kids *k, pid_t pid)
{
	for (size_t i = 0; i < k->n; i++) {
		if (k->item[i].pid == pid)
			return &k->item[i];
	}
	return NULL;
}

struct kid *kids_of(const struct kids *k, uint32_t id)
{
	for (size_t i = 0; i < k->n; i++) {
		if (k->item[i].id == id)
			return &k->item[i];
	}
	return NULL;
}

void kids_born(struct kids *k, struct kid *kid)
{
	if (!kid->birth)
		return;
	k->nbirths--;
	k->nasking -= birth_asks(kid->birth) ? 1 : 0;
	birth_free(kid->birth);
	kid->birth = NULL;
}

void kids_remove(struct kids *k, struct kid *kid)
{
	jail_release(&kid->cell);
	kids_born(k, kid);
	*kid = k->item[--k->n];
}

void kids_inherit(struct kids *k)
{
	for (size_t i = 0; i < k->n; i++) {
		if (!k->item[i].claimed)
			kill(k->item[i].pid, SIGKILL);
		k->item[i].claimed = false;
	}
}

static bool is_kin(const struct kin *kin, pid_t pid)
{
	for (size_t i = 0; i < KIN_HOLDERS; i++) {
		if (pid == kin->holder[i])
			return true;
	}
	return pid == kin->heir;
}

size_t kids_kill(const struct kids *k, const struct kin *kin, bool all)
{
	_cleanup_free_ char *line = NULL;
	_cleanup_file_ FILE *f = NULL;
	char path[64], *pos, *end;
	size_t size = 0, n = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	f = fopen(path, "re");
	if (f && getline(&line, &size, f) > 0) {
		for (pos = line;; pos = end) {
			const pid_t pid = (pid_t)strtol(pos, &end, 10);

			if (end == pos)
				break;
			if (pid == kin->daemon)
				continue;
			if (!all && (is_kin(kin, pid) || kids_find(k, pid)))
				continue;
			kill(pid, SIGKILL);
			n++;
		}
	}
	for (size_t i = 0; all && i < k->n; i++)
		kill(k->item[i].pid, SIGKILL);
	return all ? MAX(n, k->n) : n;
}
