/* SPDX-License-Identifier: Apache-2.0 */
/* Last words of the spawner's children, until the daemon has acknowledged them. */
#ifndef XSBX_VM_SPAWN_FINAL_H
#define XSBX_VM_SPAWN_FINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

/* Zeroed at first. In the order of their ends. */
struct finals {
	struct final {
		struct spawn_note note; /* that it has ended, or never began */
		bool said;
	} * item;
	size_t n, cap;
};

/* Keeps a note. Return: 0 or -ENOMEM. */
int final_add(struct finals *f, const struct spawn_note *note);

/* Return: the first that was not said yet, or NULL. */
struct final *final_unsaid(struct finals *f);

/* None was said yet: there is another daemon. */
void final_unsay(struct finals *f);

/* Is there one of this id? */
bool final_has(const struct finals *f, uint32_t id);

/* Drops that of this id, if there is one. */
void final_forget(struct finals *f, uint32_t id);

#endif
